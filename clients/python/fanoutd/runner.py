"""Runs the coroutines of a client without asyncio."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import Context
from typing import Any, TypeVar

from fanoutd.callbacks import in_callback, refuse_awaitable
from fanoutd.errors import ClosedError
from fanoutd.loop_thread import LoopThread
from fanoutd.process import Process

__all__ = ["Runner"]

R = TypeVar("R")

# How long calls that were interrupted, or whose client is closed, have to return.
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

    @property
    def is_this_process(self) -> bool:
        """Whether the process was not forked since."""
        return self._process.is_this

    @property
    def is_in_loop(self) -> bool:
        """Whether the caller runs in the event loop, which must not wait for itself."""
        return self._thread.is_current

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine, and return its result."""
        return self._run(coroutine, Future.result)

    def run_calling(
        self, start: Callable[[Callable[..., Awaitable[Any]]], Coroutine[Any, Any, R]], function: Callable[..., Any]
    ) -> R:
        """Run a coroutine that calls a function, which this thread calls."""
        calls: queue.SimpleQueue[tuple[tuple[Any, ...], Future[Any]] | None] = queue.SimpleQueue()

        async def relay(*args: Any) -> Any:
            result: Future[Any] = Future()
            calls.put((args, result))
            return await asyncio.wrap_future(result)

        def serve(future: Future[R]) -> R:
            future.add_done_callback(lambda _: calls.put(None))
            while (call := calls.get()) is not None:
                args, result = call
                if result.set_running_or_notify_cancel():
                    value = function(*args)  # what it raises ends the coroutine
                    refuse_awaitable(value)
                    result.set_result(value)
            return future.result()

        return self._run(start(relay), serve)

    def _run(self, coroutine: Coroutine[Any, Any, R], wait: Callable[[Future[R]], R]) -> R:
        ended = threading.Event()
        future: Future[R] | None = None
        try:
            self._process.check()
            if self.is_in_loop:
                raise RuntimeError("this function must not be called by a callback of the client")
            with self._lock:
                if self._ending is not None:
                    raise ClosedError("the client is closed")
                future = self._thread.submit(self._call(coroutine, ended))
            return wait(future)
        except CancelledError:
            raise ClosedError("the client is closed") from None
        except BaseException:
            if future is None:
                coroutine.close()
            elif future.cancel():  # the caller was interrupted
                ended.wait(_LAST_CALLS)  # the next call may need what this one uses
            raise

    async def _call(self, coroutine: Coroutine[Any, Any, R], ended: threading.Event) -> R:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await coroutine
        finally:
            self._calls.discard(task)
            ended.set()

    def close(self, end: Callable[[], Awaitable[None]] | None) -> None:
        """End the client, if there is one, and all calls. A callback cannot wait for that."""
        if not self._process.is_this:
            return  # the thread is one of the parent
        with self._lock:
            if self._ending is None:
                # The end is not part of the callback that asks for it.
                self._ending = Context().run(lambda: self._thread.submit(self._end(end)))
                self._ending.add_done_callback(self._ended)
        if self.is_in_loop or in_callback():
            return
        self._ending.result()
        self._thread.join()

    async def _end(self, end: Callable[[], Awaitable[None]] | None) -> None:
        self._process.leave()
        if end is not None:
            await end()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST_CALLS)  # they get their errors
            for task in self._calls:
                task.cancel()

    def _ended(self, _: Future[None]) -> None:
        self._thread.leave()
