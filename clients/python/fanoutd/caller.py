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
        """Ask the running call to end."""

    def end(self) -> None:
        """Note that no further call follows the running one."""

    async def ended(self) -> None:
        """Wait for the end of what made the calls. No call is running."""


class TaskCaller(Generic[T]):
    """Calls a function in the event loop.

    An awaitable has a task of its own, so that a cancellation of the call differs from one of the program.
    """

    def __init__(self, function: HandlerFunction[T]) -> None:
        self._function = function
        self._task: asyncio.Task[BaseException | None] | None = None

    async def call(self, change: Change[T]) -> BaseException | None:
        """Call the function, and return what it has raised."""
        this = asyncio.current_task()
        assert this is not None
        cancelled = this.cancelling()
        result: Awaitable[None] | None = None
        error: BaseException | None = None
        try:
            result = self._function(change)
        except BaseException as raised:
            if is_interrupt(raised):
                raise
            error = raised
        if this.cancelling() > cancelled:
            error = await _uncancel(this)
        if error is not None or result is None or not inspect.isawaitable(result):
            return error
        task = self._task = asyncio.get_running_loop().create_task(_outcome(result))
        try:
            # A cancellation of this task, for example by the end of the event loop, is none of the call.
            await asyncio.wait([task])
            return asyncio.CancelledError() if task.cancelled() else task.result()
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._task = None
            if inspect.iscoroutine(result):
                result.close()  # the task may have been cancelled before it began

    def cancel(self) -> None:
        """Cancel the running call."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Do nothing."""

    async def ended(self) -> None:
        """Return at once."""


async def _outcome(result: Awaitable[None]) -> BaseException | None:
    try:
        await result
    except GeneratorExit:
        raise  # the event loop was closed
    except BaseException as error:
        if is_interrupt(error):
            raise
        return error
    return None


async def _uncancel(task: asyncio.Task[object]) -> BaseException:
    """Undo that a function has cancelled the task that calls it, and return that as its error."""
    task.uncancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as error:
        return error
    return asyncio.CancelledError()
