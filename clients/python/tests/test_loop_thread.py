"""The thread that the clients without asyncio share."""

from __future__ import annotations

import asyncio
import threading
import unittest
from unittest import mock

from fanoutd.loop_thread import LoopThread

_TIMEOUT = 300.0


class LoopThreadTest(unittest.TestCase):
    def test_the_next_thread_waits_for_a_callback_that_asks_for_it(self) -> None:
        """What is left in a thread that ends may ask for another one while the next user waits for the end."""
        thread = LoopThread.enter()
        started, waiting = threading.Event(), threading.Event()
        refused: list[RuntimeError] = []
        entered: list[LoopThread] = []

        async def left() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                waiting.wait(_TIMEOUT)
                try:
                    LoopThread.enter()
                except RuntimeError as error:
                    refused.append(error)

        join = thread._thread.join

        def wait() -> None:
            waiting.set()
            join()

        thread.submit(left())
        self.assertTrue(started.wait(_TIMEOUT))
        with mock.patch.object(thread._thread, "join", wait), mock.patch("fanoutd.loop_thread._END_OF_TASKS", 0.01):
            thread.leave()
            enter = threading.Thread(target=lambda: entered.append(LoopThread.enter()), daemon=True)
            enter.start()
            enter.join(_TIMEOUT)
        self.assertEqual(len(refused), 1)
        (other,) = entered
        self.assertIsNot(other, thread)
        other.leave()
        other.join()


if __name__ == "__main__":
    unittest.main()
