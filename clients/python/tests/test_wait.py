"""Waiting until watches have applied a revision, with real servers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import signal
import socket
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import grpc

import fanoutd
import fanoutd.sync
from fanoutd import Reason, WaitServer, WaitStatus, decode
from fanoutd.core import Core
from fanoutd.recent_peak import RecentPeak
from fanoutd.settings import Settings
from fanoutd.testing import Server
from fanoutd.v1 import admin_pb2
from fanoutd.wait import Options, _Gate
from fanoutd.wait_server import Answer, each_address
from tests import tasks

_PROGRAM = os.environ.get("FANOUTTEST", "")
_TIMEOUT = 300.0


def _number(o: fanoutd.Object) -> int:
    assert isinstance(o.value, str)
    return int(o.value)


@unittest.skipUnless(_PROGRAM, "FANOUTTEST does not name a program")
class WaitTest(unittest.IsolatedAsyncioTestCase):
    """Waits of a client without a thread of its own."""

    def setUp(self) -> None:
        self.ends = contextlib.AsyncExitStack()
        self.addAsyncCleanup(self.ends.aclose)

    def _server(self) -> Server:
        return self.ends.enter_context(Server())

    async def _client(self, *servers: Server, **settings: Any) -> fanoutd.Client:
        client = fanoutd.Client([s.address for s in servers], **settings)
        return await self.ends.enter_async_context(client)

    async def _subscriber(self, server: Server, instance: str, prefix: str | None = None, **labels: str) -> fanoutd.Informer[int]:
        client = await self._client(server, instance=instance, labels=labels)
        informer = client.resource("config").informer(_number, prefix=prefix)
        await self.ends.enter_async_context(informer)
        await informer.wait_for_sync()
        return informer

    async def _not_reached(
        self, config: fanoutd.Resource, revision: int, known: Callable[[WaitStatus], bool], **options: Any
    ) -> fanoutd.NotReachedError:
        """Wait in vain for so long that the status is known, which takes a while on a busy machine."""
        for timeout in 0.5, 5.0, 50.0, _TIMEOUT:
            with self.assertRaises(fanoutd.NotReachedError) as caught:
                await config.wait(revision, timeout=timeout, **options)
            if known(caught.exception.status):
                break
        return caught.exception

    async def test_reached(self) -> None:
        server = self._server()
        await self._subscriber(server, "one")
        await self._subscriber(server, "two")
        config = (await self._client(server)).resource("config")
        seen: list[WaitStatus] = []
        revision = await config.put("a", "1")
        status = await config.wait(revision, min_watches=2, timeout=_TIMEOUT, progress=seen.append)
        self.assertEqual(str(status), f"2 of 2 watches have applied revision {revision}")
        self.assertEqual((status, status.ended, status.missing), (seen[-1], True, []))
        self.assertFalse(any(s.ended for s in seen[:-1]))

    async def test_a_coroutine_function_gets_the_progress(self) -> None:
        server = self._server()
        await self._subscriber(server, "one")
        config = (await self._client(server)).resource("config")
        seen = []

        async def progress(status: WaitStatus) -> None:
            await asyncio.sleep(0)
            seen.append(status)

        status = await config.wait(await config.put("a", "1"), timeout=_TIMEOUT, progress=progress)
        self.assertEqual(seen[-1], status)

    async def test_refused(self) -> None:
        server = self._server()
        await self._subscriber(server, "good", prefix="b")
        await self._subscriber(server, "bad", team="x")
        config = (await self._client(server)).resource("config")
        revision = await config.put("a", "many")
        with self.assertRaisesRegex(fanoutd.RefusedError, f"1 watch cannot apply revision {revision}: bad: .*many") as caught:
            await config.wait(revision, timeout=_TIMEOUT)
        [failure] = caught.exception.failures
        self.assertEqual((failure.name, dict(failure.labels), failure.failed_keys), ("bad", {"team": "x"}, ("a",)))
        self.assertEqual((failure.server, failure.failed), (server.address, True))
        self.assertIsInstance(failure.error, fanoutd.Error)
        self.assertGreater(failure.error_time or failure.since, failure.since)
        # It is tolerated, it is in another scope, or a selector leaves it out.
        await config.wait(revision, tolerate=1, timeout=_TIMEOUT)
        await config.wait(revision, prefix="b", timeout=_TIMEOUT)
        await config.wait(revision, instance="good", timeout=_TIMEOUT)
        with self.assertRaises(fanoutd.RefusedError):
            await config.wait(revision, subscribers="team=x", timeout=_TIMEOUT)

    async def test_not_reached(self) -> None:
        server = self._server()
        config = (await self._client(server)).resource("config")
        revision = await config.put("a", "1")
        watch = config.watch(key="a")
        self.addCleanup(watch.close)
        await anext(watch)  # the caller does not say that it has applied it
        error = await self._not_reached(config, revision + 1, lambda s: s.watches == 1)
        self.assertRegex(str(error), "0 of 1 watch has applied.*want 1;.*; not applied by .*: the timeout is over")
        self.assertIn("does not exist yet", str(error))
        self.assertEqual(error.status.newest, revision)
        self.assertIsInstance(error, TimeoutError)

    async def test_half_of_them(self) -> None:
        server = self._server()
        await self._subscriber(server, "quick")
        config = (await self._client(server)).resource("config")
        go = asyncio.Event()
        self.addCleanup(go.set)
        slow = await self._subscriber(server, "slow")
        called = asyncio.Event()

        async def handle(change: fanoutd.Change[int]) -> None:
            called.set()
            await go.wait()

        slow.add_handler(handle)
        revision = await config.put("a", "1")
        await called.wait()
        status = await config.wait(revision, quorum=0.5, min_watches=2, timeout=_TIMEOUT)
        self.assertEqual((status.applied, status.required, [p.name for p in status.pending]), (1, 1, ["slow"]))
        waiting = asyncio.create_task(config.wait(revision, min_watches=2, timeout=_TIMEOUT))
        go.set()
        self.assertEqual((await waiting).applied, 2)

    async def test_no_watches(self) -> None:
        config = (await self._client(self._server())).resource("config")
        revision = await config.put("a", "1")
        error = await self._not_reached(config, revision, lambda s: s.servers[0].answering)
        self.assertIn("0 of 0 watches", str(error))
        self.assertEqual((await config.wait(revision, min_watches=0, timeout=_TIMEOUT)).watches, 0)

    async def test_watches_that_do_not_report(self) -> None:
        server = self._server()
        config = (await self._client(server)).resource("config")
        revision = await config.put("a", "1")
        watch = config.watch(reports=False)
        self.addCleanup(watch.close)
        await anext(watch)
        status = await config.wait(revision, min_watches=0, timeout=_TIMEOUT)
        self.assertEqual((status.watches, status.not_reporting, len(status.uncounted)), (0, 1, 1))
        self.assertIn("1 does not report", str(status))
        error = await self._not_reached(config, revision, lambda s: s.watches > 0, require_all=True)
        self.assertIn("0 of 1 watch ", str(error))

    async def test_several_servers(self) -> None:
        servers = [self._server(), self._server()]
        for n, server in enumerate(servers):
            await self._subscriber(server, f"{n}")
        # Both have an etcd of their own, whose revisions are the same.
        revisions = {await (await self._client(s)).resource("config").put("a", "1") for s in servers}
        [revision] = revisions
        config = (await self._client(*servers)).resource("config")
        status = await config.wait(revision, min_watches=2, timeout=_TIMEOUT)
        self.assertEqual([(s.address, s.applied) for s in status.servers], [(s.address, 1) for s in servers])

    async def test_a_server_is_missing(self) -> None:
        good, missing = self._server(), self._server()
        await self._subscriber(good, "one")
        revision = await (await self._client(good)).resource("config").put("a", "1")
        missing.stop()
        config = (await self._client(good, missing)).resource("config")
        error = await self._not_reached(config, revision, lambda s: s.servers[0].answering)
        self.assertIn(f"no answer from {missing.address}", str(error))
        self.assertEqual([s.address for s in error.status.missing], [missing.address])
        status = await config.wait(revision, allow_missing_servers=True, timeout=_TIMEOUT)
        self.assertIsInstance(status.missing[0].error, fanoutd.Error)
        # It comes back while the wait goes on.
        waiting = asyncio.create_task(config.wait(revision, timeout=_TIMEOUT))
        missing.start()
        self.assertEqual((await waiting).missing, [])

    async def test_a_watch_that_has_ended_still_counts(self) -> None:
        server = self._server()
        one = await self._subscriber(server, "one")
        other = await self._subscriber(server, "other")
        config = (await self._client(server)).resource("config")
        at = await config.put("a", "1")
        for settle, required in (1e6, 2), (0.0, 1):
            # One of two watches ends, and the other one has applied the revision.
            closed = asyncio.Event()
            left = asyncio.Event()

            async def close_one(status: WaitStatus) -> None:
                if status.watches == 2 and not closed.is_set():
                    await one.close()
                    closed.set()
                elif status.watches == status.applied == 1:
                    self.assertEqual(status.required, required)
                    left.set()

            waiting = asyncio.create_task(config.wait(at + 1, timeout=_TIMEOUT, progress=close_one, settle=settle))
            await closed.wait()
            at = await config.put("a", "2")
            await asyncio.wait_for(left.wait(), _TIMEOUT)
            self.assertEqual(other["a"], 2)
            if required == 2:
                self.assertFalse(waiting.done())
                one = await self._subscriber(server, "one")  # it was on its way
            await waiting

    async def test_the_error_of_a_server_is_final(self) -> None:
        server = self._server()
        client = await self._client(server)
        with self.assertRaises(fanoutd.Error) as caught:
            await client.resource("nothing").wait(1)
        self.assertEqual(caught.exception.reason, Reason.UNKNOWN_RESOURCE)
        with self.assertRaises(fanoutd.Error) as caught:
            await client.resource("config").wait(1, subscribers="!!")
        self.assertEqual(caught.exception.reason, Reason.INVALID_REQUEST)
        server.refuse(grpc.StatusCode.PERMISSION_DENIED, Reason.PERMISSION_DENIED)
        with self.assertRaises(fanoutd.Error) as caught:
            await client.resource("config").wait(1)
        self.assertEqual(caught.exception.reason, Reason.PERMISSION_DENIED)

    async def test_other_errors_are_retried(self) -> None:
        server = self._server()
        await self._subscriber(server, "one")
        config = (await self._client(server)).resource("config")
        revision = await config.put("a", "1")
        server.refuse(grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY)

        def accept(status: WaitStatus) -> None:
            if isinstance(status.servers[0].error, fanoutd.Error):
                self.assertEqual(status.servers[0].error.reason, Reason.NOT_READY)
                server.accept()

        self.assertTrue((await config.wait(revision, timeout=_TIMEOUT, progress=accept)).ended)

    async def test_a_silent_server(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent, mock.patch("fanoutd.wait_server._FIRST_ANSWER", 0.2):
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            server = self._server()
            async with fanoutd.Client([server.address, address]) as client:
                await self._subscriber(server, "one")
                config = (await self._client(server)).resource("config")
                revision = await config.put("a", "1")
                status = await client.resource("config").wait(revision, allow_missing_servers=True, timeout=_TIMEOUT)
        self.assertEqual([s.address for s in status.missing], [address])
        self.assertIn("no answer for", str(status.missing[0].error))

    async def test_what_the_progress_raises_ends_the_wait(self) -> None:
        config = (await self._client(self._server())).resource("config")

        def fail(status: WaitStatus) -> None:
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            await config.wait(1, progress=fail)

    async def test_closing_the_client_ends_the_wait(self) -> None:
        client = await self._client(self._server())
        began = asyncio.Event()
        waiting = asyncio.create_task(client.resource("config").wait(1, progress=lambda status: began.set()))
        await began.wait()
        await client.close()
        with self.assertRaises(fanoutd.ClosedError):
            await waiting
        with self.assertRaises(fanoutd.ClosedError):
            await client.resource("config").wait(1)

    async def test_a_cancelled_wait_leaves_nothing(self) -> None:
        client = await self._client(self._server())
        before = asyncio.all_tasks()
        began = asyncio.Event()
        waiting = asyncio.create_task(client.resource("config").wait(1, progress=lambda status: began.set()))
        await began.wait()
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        await tasks.only(before)

    async def test_the_clients_of_other_servers_are_closed_if_one_cannot_be_made(self) -> None:
        client = await self._client(self._server(), self._server())
        made: list[Core] = []

        def make(settings: Settings) -> Core:
            if made:
                raise OSError("a file is missing")
            made.append(Core(settings))
            return made[0]

        with mock.patch("fanoutd.wait.Core", make), self.assertRaisesRegex(OSError, "missing"):
            await client.resource("config").wait(1)
        self.assertTrue(made[0].closed)

    async def test_invalid_options(self) -> None:
        config = (await self._client(self._server())).resource("config")
        wrong: list[dict[str, Any]] = [
            {"quorum": 0}, {"quorum": 1.1}, {"quorum": float("nan")}, {"tolerate": -1}, {"min_watches": -1},
            {"settle": -1.0}, {"prefix": "a", "key": "b"},
        ]  # fmt: skip
        for options in wrong:
            with self.assertRaises(ValueError, msg=options):
                await config.wait(1, **options)
        with self.assertRaises(ValueError):
            await config.wait(0)


@unittest.skipUnless(_PROGRAM, "FANOUTTEST does not name a program")
class SyncTest(unittest.TestCase):
    """Waits without asyncio."""

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = fanoutd.sync.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.config = self.client.resource("config")

    def test_reached(self) -> None:
        with self.config.informer(decode.as_text) as informer:
            informer.wait_for_sync(timeout=_TIMEOUT)
            threads = []

            def progress(status: WaitStatus) -> None:
                threads.append(threading.current_thread())
                self.config.count()  # it may call the client

            status = self.config.wait(self.config.put("a", "1"), timeout=_TIMEOUT, progress=progress)
        self.assertTrue(status.ended)
        self.assertEqual(set(threads), {threading.current_thread()})

    def test_not_reached(self) -> None:
        with self.assertRaises(fanoutd.NotReachedError):
            self.config.wait(1, timeout=0.1)

    def test_exit_in_the_progress(self) -> None:
        def leave(status: WaitStatus) -> None:
            raise SystemExit(3)

        with self.assertRaises(SystemExit):
            self.config.wait(1, progress=leave)
        self.assertEqual(self.config.count(), 0)

    def test_closing_the_client_ends_the_wait(self) -> None:
        errors: list[BaseException] = []
        began = threading.Event()

        def wait() -> None:
            try:
                self.config.wait(1, progress=lambda status: began.set())
            except BaseException as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        self.assertTrue(began.wait(_TIMEOUT))
        self.client.close()
        waiting.join(_TIMEOUT)
        self.assertEqual([type(e) for e in errors], [fanoutd.ClosedError])

    def test_an_interrupt_ends_the_wait(self) -> None:
        """The interrupt comes while the wait of this thread runs in the thread of the client."""
        # A shell starts its background jobs with this signal ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        main, interrupts = threading.get_ident(), 1

        def token() -> str:
            nonlocal interrupts
            if interrupts > 0:
                interrupts -= 1
                signal.pthread_kill(main, signal.SIGINT)
            return "token"

        with fanoutd.sync.Client(self.server.address, token=token) as client:
            config = client.resource("config")
            with self.assertRaises(KeyboardInterrupt):
                config.wait(1)
            watch = config.watch()
            interrupts = 1
            with self.assertRaises(KeyboardInterrupt):
                next(watch)
            next(watch)  # no other call of the watch runs any more

    def test_a_coroutine_function_is_refused(self) -> None:
        async def progress(status: WaitStatus) -> None:
            pass

        with self.assertRaises(TypeError):
            self.config.wait(1, progress=progress)


class GateTest(unittest.TestCase):
    """The rules, which are those of the client for Go."""

    def test_required(self) -> None:
        for quorum, tolerate, watches, failed, required in [
            (1, 0, 0, 0, 0), (1, 0, 5, 0, 5), (1, 0, 5, 2, 5), (1, 1, 5, 2, 4), (1, 9, 5, 5, 1), (0.99, 0, 100, 0, 99),
            (0.99, 0, 101, 0, 100), (0.07, 0, 100, 0, 7), (0.5, 2, 10, 2, 4), (0.001, 0, 5, 0, 1),
            (0.9999999, 0, 1_000_000, 0, 1_000_000),
        ]:  # fmt: skip
            gate = _Gate(1, [], Options(quorum, tolerate, 1, False, 35.0, None))
            self.assertEqual(gate._required(watches, failed), required, (quorum, tolerate, watches, failed))

    def test_recent_peak(self) -> None:
        peak = RecentPeak(10.0)
        for second, n, most, falls in [
            (0, 5, 5, None), (1, 9, 9, None), (2, 7, 9, 12), (3, 4, 9, 12), (4, 6, 9, 12), (12, None, 7, 13),
            (13, None, 6, None), (50, None, 6, None), (51, 2, 6, 61), (52, 6, 6, None), (53, 3, 6, 63), (54, 8, 8, None),
        ]:  # fmt: skip
            if n is not None:
                peak.set(second, n)
            self.assertEqual((peak.max(second), peak.falls()), (most, falls), second)

    def test_a_server_that_answers_no_more_does_not_count(self) -> None:
        gate = _Gate(7, ["a", "b"], Options(1.0, 0, 1, False, 35.0, None))
        for server in 0, 1:
            gate.receive(Answer(server, admin_pb2.WatchAppliedResponse(watches=2, applied=2)))
        self.assertTrue(gate.is_reached(gate.status()))
        gate.receive(Answer(1, error=OSError("gone")))
        status = gate.status()
        self.assertEqual((status.watches, status.recent_watches, status.applied, status.required), (2, 4, 2, 4))
        self.assertEqual(status.servers[1], WaitServer("b", True, False, status.servers[1].error, 2, 2))
        self.assertFalse(gate.is_reached(status))
        self.assertLessEqual(gate.falls_in(), 35.0)
        gate.receive(Answer(0, error=OSError("gone")))
        self.assertFalse(gate.is_reached(gate.status()))  # never while no server answers

    def test_the_pending_watches_are_in_order(self) -> None:
        def watch(name: str, since: int, error: str = "") -> admin_pb2.WatcherStatus:
            w = admin_pb2.WatcherStatus(id=name)
            w.since.FromSeconds(since)
            if error:
                w.error.message = error
            return w

        gate = _Gate(7, ["a", "b"], Options(1.0, 0, 1, False, 35.0, None))
        gate.receive(Answer(0, admin_pb2.WatchAppliedResponse(
            watches=4, failed=1, pending=[watch("failed", 5, "e"), watch("earlier", 3, "e"), watch("old", 1), watch("new", 4)]
        )))  # fmt: skip
        gate.receive(Answer(1, admin_pb2.WatchAppliedResponse(watches=1, pending=[watch("older", 0)])))
        status = gate.status()
        self.assertEqual([w.name for w in status.pending], ["failed", "earlier", "older", "old", "new"])
        self.assertEqual([w.failed for w in status.pending], [True, False, False, False, False])
        self.assertEqual(status.pending[2].since, datetime.datetime.fromtimestamp(0, datetime.UTC))
        self.assertEqual(
            status.detail(),
            "0 of 5 watches have applied revision 7, 1 failed, want 5; not applied by failed, earlier, older and 2 more",
        )


class EachAddressTest(unittest.IsolatedAsyncioTestCase):
    """Each address of a DNS name is a server."""

    async def _each(self, address: str, *found: str) -> list[tuple[str, str | None]]:
        async def lookup(*_: object, **__: object) -> list[Any]:
            return [(10 if ":" in ip else 2, 1, 6, "", (ip, 7420)) for ip in found]

        with mock.patch.object(asyncio.get_running_loop(), "getaddrinfo", lookup):
            return await each_address(address, None)

    async def test_a_name_with_several_addresses(self) -> None:
        want = [("10.0.0.1:7420", "f.example.com"), ("10.0.0.2:7420", "f.example.com")]
        for address in "f.example.com:7420", "dns:///f.example.com:7420":
            self.assertEqual(await self._each(address, "10.0.0.2", "fd00::1", "10.0.0.1"), want)
        six = await self._each("f.example.com:7420", "fd00::1", "10.0.0.1", "fd00::2")
        self.assertEqual(six, [("[fd00::1]:7420", "f.example.com"), ("[fd00::2]:7420", "f.example.com")])

    async def test_one_server(self) -> None:
        for address in "f.example.com:7420", "unknown.example.com:7420":
            self.assertEqual(await self._each(address, *["10.0.0.1"][: address[0] == "f"]), [(address, None)])
        for address in "localhost:1", "10.0.0.9:1", "[::1]:1", "[fd00::1]:1", "unix:/run/f.sock", "unix:///run/f.sock":
            self.assertEqual(await self._each(address, "10.0.0.1", "10.0.0.2"), [(address, None)])

    async def test_the_certificate_has_the_name(self) -> None:
        tls = fanoutd.TLS(ca_file=None)
        async with fanoutd.Client("f.example.com:7420", tls=tls, token="secret", instance="me") as client:
            one = client._core.settings.of("10.0.0.1:7420", "f.example.com")
            self.assertEqual(one.tls, fanoutd.TLS(server_name="f.example.com"))
            assert one.token is not None
            self.assertEqual(await one.token.metadata(), (("authorization", "Bearer secret"),))
            self.assertEqual((one.addresses, one.subscriber.instance), (["10.0.0.1:7420"], "me"))
        async with fanoutd.Client("f.example.com:7420", insecure=True) as client:
            self.assertIsNone(client._core.settings.of("10.0.0.1:7420", "f.example.com").tls)


if __name__ == "__main__":
    unittest.main()
