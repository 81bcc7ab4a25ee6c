"""When watches resume and end, with servers whose answers the tests choose."""

from __future__ import annotations

import asyncio
import os
import socket
import unittest
from typing import Any
from unittest import mock

import grpc

import fanoutd
from fanoutd import Reason
from fanoutd.delays import Delays, Outcome
from fanoutd.errors import Error
from fanoutd.inbox import Inbox, SilenceError, StreamEnd
from fanoutd.observer import HandlerFailed, WatchEnded, WatchInterrupted, WatchOpened, WatchReceived
from fanoutd.v1 import fanout_pb2
from tests.scripted import Failure, Scripted

_TIMEOUT = 300.0

_CODE = grpc.StatusCode
_RESPONSE = fanout_pb2.WatchResponse


class WatchRulesTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = await Scripted().start()
        self.addAsyncCleanup(self.server.stop)
        self.enterContext(mock.patch("fanoutd.delays._LAST", 0.001))
        self.enterContext(mock.patch("fanoutd.watcher._RENEWAL", 0.001))

    async def _end(self, failures: list[Failure | None], **options: Any) -> fanoutd.Error | None:
        """Return the error of a watch whose streams fail one after the other, or None if it goes on."""
        server = await Scripted().start()

        async def fail(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
            failure = failures[n - 1] if n <= len(failures) else None
            if failure is None:
                await context.write(server.message(_RESPONSE.KIND_LIVE, 2, "last"))
                await asyncio.Event().wait()
                return
            context.set_trailing_metadata((("grpc-status-details-bin", failure.status().SerializeToString()),))
            await context.abort(failure.code, "scripted")

        server.watch = fail
        client = options.pop("client", {})
        try:
            async with asyncio.timeout(_TIMEOUT), fanoutd.Client(server.address, **client) as c:
                async for update in c.resource("config").watch(**options):
                    if any(e.key == "last" for e in update.events):
                        return None
        except fanoutd.Error as error:
            return error
        finally:
            await server.stop()
        raise AssertionError("the watch has ended without an error")

    async def test_what_ends_a_watch(self) -> None:
        out_of_range = Failure(_CODE.OUT_OF_RANGE, "SOMETHING_NEW")
        refused = Failure(_CODE.UNAUTHENTICATED, Reason.UNAUTHENTICATED)
        cases: list[tuple[str, list[Failure | None], dict[str, Any], bool]] = [
            ("no permission", [Failure(_CODE.PERMISSION_DENIED, Reason.PERMISSION_DENIED)], {}, True),
            ("the error of a proxy", [Failure(_CODE.NOT_FOUND)], {}, False),
            ("too large", [Failure(_CODE.RESOURCE_EXHAUSTED, Reason.REQUEST_TOO_LARGE)], {}, True),
            ("too many", [Failure(_CODE.RESOURCE_EXHAUSTED, Reason.LIMIT_REACHED)], {}, False),
            ("an unknown reason", [out_of_range], {}, False),
            ("no reason", [Failure(_CODE.OUT_OF_RANGE)], {}, False),
            ("every event", [out_of_range], {"every_event": True}, True),
            ("a code that nobody expects", [Failure(_CODE.DATA_LOSS)], {}, False),
            ("a fixed token", [refused], {"client": {"token": "fixed"}}, True),
            ("a new token", [refused], {"client": {"token": lambda: "new"}}, False),
        ]
        for name, failures, options, ends in cases:
            with self.subTest(name):
                error = await self._end(failures, **options)
                self.assertEqual(error is not None, ends)

    async def test_a_watch_without_a_position_ends_if_it_is_out_of_range(self) -> None:
        self.server.fail = lambda method, n: Failure(_CODE.OUT_OF_RANGE) if method == "Watch" else None
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            with self.assertRaises(fanoutd.Error):
                await anext(client.resource("config").watch())

    async def test_a_first_state_that_takes_too_long(self) -> None:
        """The server could not send the first state before etcd has forgotten it: the next attempt may be faster."""
        slow = Failure(_CODE.OUT_OF_RANGE, Reason.POSITION_EXPIRED)
        cases: list[tuple[dict[str, Any], bool]] = [
            ({}, False), ({"min_revision": 1}, False), ({"latest": True}, False), ({"at_revision": 1}, True),
            ({"every_event": True}, True),
        ]  # fmt: skip
        for options, ends in cases:
            server = await Scripted().start()
            self.addAsyncCleanup(server.stop)

            async def expire(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
                if n <= 2:
                    await context.write(server.message(_RESPONSE.KIND_CATCH_UP_BEGIN, 0, "half"))
                    context.set_trailing_metadata((("grpc-status-details-bin", slow.status().SerializeToString()),))
                    await context.abort(slow.code, "scripted")

            server.begin = expire
            with self.subTest(**options):
                async with asyncio.timeout(_TIMEOUT), fanoutd.Client(server.address) as client:
                    watch = client.resource("config").watch(**options)
                    if ends:
                        with self.assertRaises(fanoutd.Error) as ended:
                            await _all(watch)
                        self.assertEqual(ended.exception.reason, Reason.POSITION_EXPIRED)
                        self.assertEqual(len(server.watches), 1)
                        continue
                    keys: set[str] = set()
                    async for update in watch:
                        keys = (set() if update.replace else keys) | {e.key for e in update.events}
                        if update.synced:
                            break
                    self.assertEqual(keys, {"a"})
                    self.assertEqual([w.HasField("after") for w in server.watches], [False] * 3)

    async def test_a_lost_position_forgets_the_options_of_the_first_start(self) -> None:
        self.server.fail = lambda method, n: Failure(_CODE.OUT_OF_RANGE) if (method, n) == ("Watch", 2) else None

        async def end(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
            if n > 1:
                await asyncio.Event().wait()

        self.server.watch = end
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            replaced = 0
            async for update in client.resource("config").watch(min_revision=1):
                replaced += update.replace
                if replaced == 2:
                    break
        first, second, third = self.server.watches
        self.assertTrue(first.HasField("consistency"))
        self.assertEqual(second.after.revision, 1)
        self.assertEqual((third.HasField("after"), third.HasField("consistency")), (False, False))

    async def test_a_time_limit_is_no_interruption(self) -> None:
        interruptions: list[BaseException] = []

        async def end(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
            if n > 2:
                await asyncio.Event().wait()

        self.server.watch = end
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            watch = client.resource("config").watch(on_interruption=interruptions.append)
            following = asyncio.create_task(_all(watch))
            self.assertEqual((await self.server.until_watches(3)).after.revision, 1)
            watch.close()
            await following
        self.assertEqual(interruptions, [])

    async def test_a_callback_that_fails_changes_nothing(self) -> None:
        def fail(why: BaseException) -> None:
            raise SystemExit(1)

        async def end(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
            if n == 1:
                await context.abort(_CODE.UNAVAILABLE, "scripted")
            await asyncio.Event().wait()

        self.server.watch = end
        with self.assertLogs("fanoutd", "ERROR"):
            async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
                watch = client.resource("config").watch(on_interruption=fail)
                following = asyncio.create_task(_all(watch))
                await self.server.until_watches(2)
                watch.close()
                await following

    async def test_an_interceptor_that_fails_is_an_interruption(self) -> None:
        failed = 0

        class Fails(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
            async def intercept_unary_stream(self, go: Any, details: Any, request: Any) -> Any:
                nonlocal failed
                failed += 1
                if failed < 3:
                    raise ValueError("this interceptor fails twice")
                return await go(details, request)

        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address, interceptors=[Fails()]) as client:
            self.assertEqual([e.key for e in (await anext(client.resource("config").watch())).events], ["a"])

    async def test_metadata_needs_a_stream_of_its_own(self) -> None:
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            config = client.resource("config")
            async with config.watch(metadata=[("tenant", "one")], json_values=True) as watch:
                await anext(watch)
            async with config.informer(fanoutd.decode.as_text, metadata=[("tenant", "two")]) as informer:
                await informer.wait_for_state()
        self.assertEqual(self.server.calls["Subscribe"], 0)
        self.assertEqual([m["tenant"] for m in self.server.metadata if "tenant" in m], ["one", "two"])
        self.assertTrue(self.server.watches[0].json_values)
        self.assertEqual(self.server.watches[0].subscriber.instance, f"{socket.gethostname()}/{os.getpid()}")

    async def test_without_an_answer_to_subscribe(self) -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        self.server.subscribe = never
        with mock.patch("fanoutd.shared_stream._HEADER_TIMEOUT", 0.1):
            async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
                await anext(client.resource("config").watch())
                self.assertEqual((self.server.calls["Subscribe"], self.server.calls["Watch"]), (0, 1))

    async def test_a_server_without_any_answer_may_have_subscribe(self) -> None:
        """The client tries Subscribe again, because it or the server may only be late."""
        streams, again = 0, asyncio.Event()

        async def never() -> None:
            await asyncio.Event().wait()

        async def subscribe() -> None:
            nonlocal streams
            streams += 1
            if streams == 2:
                again.set()
            await never()

        self.server.subscribe, self.server.before = subscribe, never
        module = "fanoutd.shared_stream"
        with mock.patch(f"{module}._HEADER_TIMEOUT", 0.1), mock.patch(f"{module}._OTHER_TIMEOUT", 0.1):
            async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
                update = asyncio.ensure_future(anext(client.resource("config").watch()))
                await again.wait()
                update.cancel()
        self.assertEqual(self.server.calls["Report"], 1)
        self.assertEqual(self.server.watches, [])

    async def test_subscribe_is_tried_again_after_five_minutes(self) -> None:
        clock = mock.Mock()
        self.enterContext(mock.patch("fanoutd.streams.time", clock))
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            for now, calls in [(1000.0, 1), (1000.0, 1), (1299.0, 1), (1300.0, 2)]:
                clock.monotonic.return_value = now
                await anext(client.resource("config").watch())
                self.assertEqual(self.server.calls["Subscribe"], calls)

    async def test_the_time_of_the_first_message_begins_with_the_request(self) -> None:
        """A server that takes long to connect is not silent."""
        inbox = Inbox()
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.01):
                await inbox.get(0.0)
        inbox.begin()
        with self.assertRaises(SilenceError):
            await inbox.get(0.0)

    async def test_the_observer_gets_watches(self) -> None:
        events: list[tuple[object, ...]] = []

        class Mine(fanoutd.Observer):
            def watch_opened(self, event: WatchOpened) -> None:
                events.append(("opened", event.resumed, event.shared))

            def watch_received(self, event: WatchReceived) -> None:
                events.append(("received", event.events, event.catch_up, event.synced))

            def watch_interrupted(self, event: WatchInterrupted) -> None:
                events.append(("interrupted", event.code, event.reason))

            def watch_ended(self, event: WatchEnded) -> None:
                events.append(("ended", event.code, event.reason))

        async def end(n: int, request: fanout_pb2.WatchRequest, context: Any) -> None:
            code = _CODE.UNAVAILABLE if n == 1 else _CODE.PERMISSION_DENIED
            failure = Failure(code, Reason.NOT_READY if n == 1 else Reason.PERMISSION_DENIED)
            context.set_trailing_metadata((("grpc-status-details-bin", failure.status().SerializeToString()),))
            await context.abort(code, "scripted")

        self.server.watch = end
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address, observer=Mine()) as client:
            with self.assertRaises(fanoutd.Error):
                await _all(client.resource("config").watch())
        self.assertEqual(
            events,
            [
                ("opened", False, False),
                ("received", 1, "reset", False),
                ("received", 0, "reset", True),
                ("interrupted", "UNAVAILABLE", "NOT_READY"),
                ("opened", True, False),
                ("received", 0, "", True),
                ("ended", "PERMISSION_DENIED", "PERMISSION_DENIED"),
            ],
        )


    async def test_the_observer_gets_handlers(self) -> None:
        failed: list[tuple[str, str, str]] = []

        class Mine(fanoutd.Observer):
            def handler_failed(self, event: HandlerFailed) -> None:
                failed.append((event.resource, event.key, event.error))

        def refuse(change: fanoutd.Change[str]) -> None:
            raise ValueError("refused")

        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address, observer=Mine()) as client:
            self.assertEqual(client.informers, [])
            async with client.resource("config").informer(fanoutd.decode.as_text) as informer:
                informer.add_handler(refuse)
                await informer.wait_for_sync()
                self.assertEqual(client.informers, [informer])
                self.assertEqual((informer.resource, informer.invalid, informer.queue), ("config", 0, 1))
        self.assertEqual(failed, [("config", "a", "refused")])

        def damaged(o: fanoutd.Object) -> str:
            raise ValueError("damaged")

        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address) as client:
            async with client.resource("config").informer(damaged) as undecoded:
                await undecoded.wait_for_sync()
                self.assertEqual((undecoded.invalid, undecoded.queue), (1, 0))


class DelayTest(unittest.TestCase):
    """The limits of delays, with the largest random numbers."""

    def setUp(self) -> None:
        self.enterContext(mock.patch("random.uniform", lambda low, high: high))

    def _delays(
        self, n: int, why: Exception, lasted: float = 0.0, worked: bool = True, at_once: bool | None = None
    ) -> list[float]:
        """Return the delays after so many streams. With at_once, they have announced their end."""
        outcome = Outcome()
        if worked:
            outcome.note(_RESPONSE(kind=_RESPONSE.KIND_SYNCED))
        if at_once is not None:
            outcome.note(_RESPONSE(kind=_RESPONSE.KIND_DRAINING, resume_at_once=at_once))
        found = []
        for _ in range(n):
            self.delays.ended(outcome, lasted)
            found.append(self.delays.after(outcome, why))
        return found

    def test_failures(self) -> None:
        self.delays = Delays()
        lost = Error(_CODE.UNAVAILABLE, "")
        self.assertEqual(self._delays(7, lost), [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
        self.assertEqual(self._delays(2, lost, lasted=9, worked=False), [5, 5])
        self.assertEqual(self._delays(1, lost, lasted=5), [0.2])
        self.assertEqual(self._delays(1, Error(_CODE.UNAVAILABLE, "", retry_after=3), worked=False), [3.4])
        self.assertEqual(self._delays(1, Error(_CODE.UNAVAILABLE, "", retry_after=900), worked=False), [60.8])

    def test_time_limits(self) -> None:
        for at_once in None, False:
            self.delays = Delays()
            self.assertEqual(self._delays(3, StreamEnd(), lasted=5, at_once=at_once), [0.2, 0.2, 0.2])
            self.assertEqual(self._delays(3, StreamEnd(), lasted=1, at_once=at_once), [0.4, 0.8, 1.6])
            self.assertEqual(self._delays(2, StreamEnd(), lasted=5, worked=False, at_once=at_once), [3.2, 5])
            self.assertEqual(self._delays(1, StreamEnd(), lasted=5, at_once=at_once), [0.2])

    def test_servers_that_drain(self) -> None:
        draining = Error(_CODE.UNAVAILABLE, "", reason=Reason.DRAINING)
        for why, at_once in [(draining, None), (draining, False), (Error(_CODE.UNAVAILABLE, ""), False)]:
            self.delays = Delays()
            self.assertEqual(self._delays(3, why, lasted=5, at_once=at_once), [1, 1, 1])
            self.assertEqual(self._delays(3, why, lasted=1, at_once=at_once), [1.2, 1.4, 1.8])
            self.assertEqual(self._delays(1, why, lasted=5, worked=False, at_once=at_once), [1.6])
        draining.retry_after = 7
        self.assertEqual(self._delays(1, draining, lasted=5), [7])

    def test_streams_that_may_be_resumed_at_once(self) -> None:
        self.delays = Delays()
        self.assertEqual(self._delays(5, StreamEnd(), lasted=0.5, at_once=True), [0, 0, 0, 0.2, 0.4])
        self.assertEqual(self._delays(1, StreamEnd(), lasted=1, at_once=True), [0])


async def _all(watch: fanoutd.Watch) -> None:
    async for _ in watch:
        pass


if __name__ == "__main__":
    unittest.main()
