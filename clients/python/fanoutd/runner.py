"""Runs the coroutines of a client without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

from fanoutd.errors import ClosedError
from fanoutd.loop_thread import LoopThread
from fanoutd.process import Process

if TYPE_CHECKING:
    from fanoutd.client import Client

__all__ = ["Runner"]

R = TypeVar("R")

# How long the calls of a client that is closed have to return.
_LAST_CALLS = 1.0


class Runner:
    """The part of one client in the event loop."""

    def __init__(self) -> None:
        self._process = Process()
        try:
            self._thread = LoopThread.enter()
        except BaseException:
            self._process.leave()
            raise
        self._lock = threading.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._ending: Future[None] | None = None

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine, and return its result."""
        try:
            self._process.check()
            if self._thread.is_current:
                raise RuntimeError("this function must not be called by a callback of the client")
            with self._lock:
                if self._ending is not None:
                    raise ClosedError("the client is closed")
                future = self._thread.submit(self._call(coroutine))
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("the client is closed") from None
        except BaseException:
            future.cancel()  # the caller was interrupted
            raise

    async def _call(self, coroutine: Coroutine[Any, Any, R]) -> R:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await coroutine
        finally:
            self._calls.discard(task)

    def close(self, client: Client | None) -> bool:
        """End the client, and all calls. Return whether they have ended: a callback cannot wait for that."""
        if not self._process.is_this:
            return False  # the thread is one of the parent
        with self._lock:
            if self._ending is None:
                self._ending = self._thread.submit(self._end(client))
                self._ending.add_done_callback(self._ended)
        if self._thread.is_current:
            return False
        self._ending.result()
        self._thread.join()
        return True

    async def _end(self, client: Client | None) -> None:
        self._process.leave()
        if client is not None:
            await client.close()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST_CALLS)  # they get their errors
            for task in self._calls:
                task.cancel()

    def _ended(self, _: Future[None]) -> None:
        self._thread.leave()
