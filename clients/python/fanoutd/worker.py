"""A thread for functions that may take long."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Worker"]


class Worker:
    """A thread that calls functions, one after the other. It begins with the first of them.

    It is a daemon: a function that never returns does not keep the program from ending.
    """

    def __init__(self, name: str) -> None:
        """Make a worker of the running event loop."""
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending = False
        self._ended = asyncio.Event()

    def call(self, function: Callable[..., object], *args: object) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Call a function in the thread, and return a future of its result and of what it has raised.

        The future never fails: some exceptions would end the event loop, or cannot be set.
        """
        future: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        context = contextvars.copy_context()

        def call() -> None:
            result, error = None, None
            try:
                result = context.run(function, *args)
            except BaseException as raised:
                error = raised
            self._tell(_resolve, future, (result, error))

        self._calls.put(call)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return future

    def end(self) -> None:
        """End the thread after the calls that wait."""
        if not self._ending:
            self._ending = True
            self._calls.put(None)

    async def ended(self) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            await self._ended.wait()
            self._thread.join()  # it does nothing any more

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # it keeps its arguments
        self._tell(self._ended.set)

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # the event loop was closed


def _resolve(future: asyncio.Future[object], outcome: object) -> None:
    if not future.done():
        future.set_result(outcome)
