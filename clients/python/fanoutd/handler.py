"""Handlers of an informer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from fanoutd.caller import HandlerFunction
from fanoutd.errors import ClosedError
from fanoutd.handler_loop import HandlerLoop

__all__ = ["Handler", "HandlerFunction"]

T = TypeVar("T")


class Handler(Generic[T]):
    """A handler that was added to an informer. ``Informer.add_handler`` returns it."""

    def __init__(self, loop: HandlerLoop[T], wait: Callable[[Callable[[], bool]], Awaitable[Any]]) -> None:
        self._loop, self._wait = loop, wait

    def remove(self) -> None:
        """Remove the handler. It gets no further calls. A coroutine that is running is cancelled."""
        self._loop.remove()

    async def synced(self, timeout: float | None = None) -> None:
        """Wait until the copy is current and the handler was called for it, successfully or not.

        Raise TimeoutError after so many seconds, the error of the informer if it ends, ClosedError if the
        handler was removed, and RuntimeError if the informer was not started.
        """
        async with asyncio.timeout(timeout):
            await self._wait(lambda: self._loop.settled)
        if self._loop.removed:
            raise ClosedError("the handler was removed")
