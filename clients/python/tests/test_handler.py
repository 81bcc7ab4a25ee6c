"""Handlers of informers."""

from __future__ import annotations

import asyncio
import unittest
from unittest import mock

import fanoutd.handler_loop
from fanoutd.caller import TaskCaller
from fanoutd.handler_loop import HandlerLoop
from fanoutd.item import Change, Item
from fanoutd.objects import Object, Position
from fanoutd.own_stream import fill
from fanoutd.reports import Progress
from fanoutd.v1 import fanout_pb2


def item(text: str) -> Item[str]:
    """Return an item with a value."""
    return Item(text, Object("k", text))


class HandlerTest(unittest.IsolatedAsyncioTestCase):
    """Each test has one handler, whose calls it answers."""

    async def asyncSetUp(self) -> None:
        self.items: dict[str, Item[str]] = {}
        self.rejections: list[tuple[str, str]] = []
        self.delays: list[float] = []
        self.calls: asyncio.Queue[tuple[str | None, str | None]] = asyncio.Queue()
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.handler = HandlerLoop(TaskCaller(self.handle), self.items, lambda: None, self.rejected)
        self.task = asyncio.create_task(self.handler.run())

    async def asyncTearDown(self) -> None:
        self.handler.remove()
        await asyncio.gather(self.task, return_exceptions=True)

    async def handle(self, change: Change[str]) -> None:
        await self.calls.put((change.old.value if change.old else None, change.new.value if change.new else None))
        answer = await self.answers.get()
        if answer is not None:
            raise answer

    def rejected(self, key: str, error: str, delay: float) -> None:
        """Note a rejection."""
        self.rejections.append((key, error))
        self.delays.append(delay)

    def put(self, text: str | None, revision: int) -> None:
        """Change the object with the key k."""
        old = self.items.pop("k", None)
        if text is not None:
            self.items["k"] = item(text)
        self.handler.changed("k", old, Position("e", revision - 1))

    async def test_changes_are_merged_while_the_handler_is_busy(self) -> None:
        self.put("1", 1)
        self.assertEqual(await self.calls.get(), (None, "1"))
        self.put("2", 2)
        self.put("3", 3)
        self.assertEqual(self.handler.progress(Position("e", 3)).applied, Position("e", 0))
        self.answers.put_nowait(None)
        self.assertEqual(await self.calls.get(), ("1", "3"))
        self.assertEqual(self.handler.progress(Position("e", 3)).applied, Position("e", 1))
        self.answers.put_nowait(None)

    async def test_a_newer_version_of_a_rejected_object_is_offered_at_once(self) -> None:
        self.put("1", 1)
        await self.calls.get()
        self.answers.put_nowait(None)
        self.put("bad", 2)
        self.assertEqual(await self.calls.get(), ("1", "bad"))
        self.answers.put_nowait(ValueError("no"))
        while not self.handler._failed:
            await asyncio.sleep(0)
        self.assertEqual(self.rejections, [("k", "no")])
        p = self.handler.progress(Position("e", 2))
        self.assertEqual((p.applied, p.attempted, p.error), (Position("e", 1), Position("e", 2), "k: no"))
        self.assertEqual(p.failed_keys(), ["k"])
        self.put("good", 3)
        self.assertEqual(await self.calls.get(), ("1", "good"))
        p = self.handler.progress(Position("e", 3))
        self.assertEqual((p.applied, p.attempted, p.failed_keys()), (Position("e", 1), Position("e", 2), ["k"]))
        self.answers.put_nowait(None)
        while self.handler.progress(Position("e", 3)) != Progress(Position("e", 3)):
            await asyncio.sleep(0)

    async def test_an_object_that_is_offered_again_stays_attempted(self) -> None:
        with mock.patch.object(fanoutd.handler_loop, "_FIRST_RETRY", 0.001):
            self.put("1", 1)
            await self.calls.get()
            self.answers.put_nowait(ValueError("no"))
            await self.calls.get()  # the second attempt
            p = self.handler.progress(Position("e", 1))
            self.assertEqual((p.attempted, p.failed_keys()), (Position("e", 1), ["k"]))
            self.answers.put_nowait(None)

    def test_too_many_failed_keys_are_not_named(self) -> None:
        for keys, length, named in ((32, 3, True), (33, 3, False), (32, 128, True), (32, 129, False)):
            failed = frozenset(str(n).rjust(length, "k") for n in range(keys))
            p = Progress(Position("e", 1), Position("e", 2), "no", failed)
            self.assertEqual(p.failed_keys(), sorted(failed) if named else [])

    async def test_a_rejected_object_that_is_gone_needs_no_call(self) -> None:
        self.put("bad", 1)
        await self.calls.get()
        self.put(None, 2)
        self.answers.put_nowait(ValueError("no"))
        while self.handler.progress(Position("e", 2)).applied != Position("e", 2):
            await asyncio.sleep(0)
        self.assertTrue(self.calls.empty())

    async def test_a_rejected_object_is_offered_again(self) -> None:
        with mock.patch.object(fanoutd.handler_loop, "_FIRST_RETRY", 0.001):
            self.put("1", 1)
            for _ in range(3):
                self.assertEqual(await self.calls.get(), (None, "1"))
                self.answers.put_nowait(ValueError("no"))
            self.assertEqual(await self.calls.get(), (None, "1"))
            self.answers.put_nowait(None)

    async def test_the_delays_begin_again_when_the_object_changes(self) -> None:
        with mock.patch.object(fanoutd.handler_loop, "_FIRST_RETRY", 0.001):
            self.put("1", 1)
            for _ in range(3):
                await self.calls.get()
                self.answers.put_nowait(ValueError("no"))
            await self.calls.get()
            self.put("2", 2)  # during a call that fails
            self.answers.put_nowait(ValueError("no"))
            self.assertEqual(await self.calls.get(), (None, "2"))
            self.answers.put_nowait(ValueError("no"))
            while not self.handler._failed:
                await asyncio.sleep(0)
            self.put("3", 3)  # between two calls
            self.assertEqual(await self.calls.get(), (None, "3"))
            self.answers.put_nowait(ValueError("no"))
            await self.calls.get()
        self.assertGreater(self.delays[2], 0.003)
        self.assertLessEqual(max(self.delays[3:]), 0.001)
        self.answers.put_nowait(None)

    async def test_a_removed_handler_gets_no_calls(self) -> None:
        self.put("1", 1)
        await self.calls.get()
        self.handler.remove()
        self.put("2", 2)
        await asyncio.gather(self.task, return_exceptions=True)
        self.assertTrue(self.calls.empty())

    async def test_a_cancelled_call_delays_no_other_object(self) -> None:
        calls: list[str] = []

        async def cancel(change: Change[str]) -> None:
            calls.append(change.key)
            task = asyncio.current_task()
            assert task is not None
            if change.key in ("b", "c"):
                task.cancel()
            if change.key == "c":
                await asyncio.sleep(0)

        loop = HandlerLoop(TaskCaller(cancel), self.items, lambda: None, self.rejected)
        for key in "abcd":
            self.items[key] = item(key)
            loop.changed(key, None, Position("e", 1))
        loop.begin_settling()
        task = asyncio.create_task(loop.run())
        while not loop.settled:
            await asyncio.sleep(0)
        self.assertEqual(calls, ["a", "b", "c", "d"])
        self.assertEqual(self.rejections, [("b", "CancelledError"), ("c", "CancelledError")])
        loop.remove()
        await task

    def test_a_report_with_an_error_says_what_was_attempted(self) -> None:
        for p, attempted in [
            (Progress(Position("e", 1)), None),
            (Progress(Position(), Position(), "no"), 0),
            (Progress(Position("e", 1), Position("e", 2), "no"), 2),
        ]:
            request = fanout_pb2.ReportRequest()
            fill(request, p)
            self.assertEqual(request.attempted.revision if request.HasField("attempted") else None, attempted)


class EndOfLoopTest(unittest.TestCase):
    def test_the_end_of_the_event_loop_ends_a_busy_handler(self) -> None:
        """The program forgets to close the informer. Its handler can clean up, and rejects nothing."""
        ends: list[str] = []

        async def run() -> None:
            called = asyncio.Event()

            async def handle(_: Change[str]) -> None:
                called.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    await asyncio.sleep(0)
                    ends.append("cleaned up")
                    raise

            loop = HandlerLoop(TaskCaller(handle), {"k": item("1")}, lambda: None, lambda *_: ends.append("rejected"))
            loop.changed("k", None, Position("e", 1))
            self.task = asyncio.create_task(loop.run())
            await called.wait()

        asyncio.run(run())
        self.assertEqual(ends, ["cleaned up"])
        self.assertTrue(self.task.cancelled())


if __name__ == "__main__":
    unittest.main()
