"""How the function of a handler is called."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from fanoutd.callbacks import is_interrupt
from fanoutd.item import Change

__all__ = ["Caller", "HandlerFunction", "TaskCaller"]

T = TypeVar("T")

HandlerFunction = Callable[[Change[T]], "None | Awaitable[None]"]
"""Handles a change. It may be a coroutine function. An exception rejects the change."""


class Caller(Protocol[T]):
    """Calls the function of a handler."""

    async def call(self, change: Change[T]) -> BaseException | None:
        """Call the function, and return what it has raised."""

    def cancel(self) -> None:
        """Ask the running call to end. This may cancel the task that has made the call."""

    def end(self) -> None:
        """Note that no further call follows the running one."""

    async def ended(self) -> None:
        """Wait for the end of what made the calls. No call is running."""


class TaskCaller(Generic[T]):
    """Calls a function in the task that asks for it."""

    def __init__(self, function: HandlerFunction[T]) -> None:
        self._function = function
        self._task: asyncio.Task[object] | None = None

    async def call(self, change: Change[T]) -> BaseException | None:
        """Call the function, and return what it has raised.

        Raise CancelledError if the task was cancelled meanwhile, also if the function has ignored that.
        """
        task = self._task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        try:
            result = self._function(change)
            if result is not None and inspect.isawaitable(result):
                await result
        except BaseException as raised:
            if is_interrupt(raised) or isinstance(raised, GeneratorExit):
                raise  # the second one: the event loop was closed
            error = raised
        finally:
            self._task = None
        if task.cancelling():
            raise asyncio.CancelledError
        return error

    def cancel(self) -> None:
        """Cancel the running call."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Do nothing."""

    async def ended(self) -> None:
        """Return at once."""
