"""The thread that calls the callbacks of an informer."""

from __future__ import annotations

import asyncio
import logging
import threading
import unittest
from unittest import mock

from fanoutd.callback_thread import CallbackThread

_TIMEOUT = 300.0


class _Handler(logging.Handler):
    """Collects messages, and may do more."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class _Broken(_Handler):
    """Raises."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        raise RuntimeError("the handler of the log")


class CallbackThreadTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.log = logging.Logger("test")

    async def _wait(self, event: threading.Event) -> None:
        self.assertTrue(await asyncio.to_thread(event.wait, _TIMEOUT))

    async def _idle(self, thread: CallbackThread) -> None:
        """Wait until the thread has nothing to do, and has logged all."""
        await thread._worker.call(lambda: None)

    async def test_a_log_that_raises_does_not_end_the_calls(self) -> None:
        handler = _Broken()
        self.log.addHandler(handler)
        thread = CallbackThread(self.log)
        self.addCleanup(thread.end)
        for _ in range(2):
            called, go, last = threading.Event(), threading.Event(), threading.Event()

            def fail() -> None:
                called.set()
                go.wait(_TIMEOUT)
                raise ValueError("the callback")

            thread.call("first", fail)
            await self._wait(called)
            with mock.patch("fanoutd.callback_thread._MOST", 1):
                thread.call("second", fail)
                with self.assertRaises(RuntimeError):
                    thread.call("third", last.set)  # the second one is dropped
            go.set()
            await self._wait(last)
            await self._idle(thread)
        failed = "first has failed: the callback"
        dropping = "third does not keep up: the oldest of 1 calls that wait are dropped"
        dropped = "1 calls of callbacks were dropped"
        self.assertEqual(handler.messages, 2 * [dropping, failed, dropped])

    async def test_a_log_may_wait_for_the_thread(self) -> None:
        go, busy, ended = threading.Event(), threading.Event(), threading.Event()

        class Waiting(_Handler):
            def emit(self, record: logging.LogRecord) -> None:
                super().emit(record)
                go.set()
                if not ended.wait(10):
                    self.messages.append("the thread waits for the log")

        handler = Waiting()
        self.log.addHandler(handler)
        thread = CallbackThread(self.log)
        self.addCleanup(thread.end)

        def block() -> None:
            busy.set()
            go.wait(_TIMEOUT)

        with mock.patch("fanoutd.callback_thread._MOST", 1):
            thread.call("first", block)
            await self._wait(busy)
            thread.call("second", block)
            thread.call("third", ended.set)
        self.assertTrue(ended.is_set())
        await self._idle(thread)
        self.assertEqual(len([m for m in handler.messages if "thread" in m]), 0)

    async def test_a_callback_that_stays_slow_is_told_of_twice(self) -> None:
        handler = _Handler()
        self.log.addHandler(handler)
        thread = CallbackThread(self.log)
        self.addCleanup(thread.end)
        busy, go = threading.Semaphore(0), threading.Semaphore(0)

        def slow() -> None:
            busy.release()
            go.acquire(timeout=_TIMEOUT)

        with mock.patch("fanoutd.callback_thread._MOST", 2):
            thread.call("slow", slow)
            for _ in range(10):
                await asyncio.to_thread(busy.acquire, timeout=_TIMEOUT)
                for _ in range(3):
                    thread.call("slow", slow)
                go.release()
            go.release(3)
            await self._idle(thread)
        self.assertEqual(
            handler.messages,
            ["slow does not keep up: the oldest of 2 calls that wait are dropped", "19 calls of callbacks were dropped"],
        )


if __name__ == "__main__":
    unittest.main()
