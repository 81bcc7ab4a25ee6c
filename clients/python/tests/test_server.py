"""The client with a real server."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import unittest
from pathlib import Path

import fanoutd
import fanoutd.sync
from fanoutd import Check, Delete, EventType, Put, Reason, Value, decode
from fanoutd.v1 import admin_pb2
from tests import tasks
from tests.server import PROGRAM, Server, ServerTest

_TIMEOUT = 300.0


class RequestsAndWatchesTest(ServerTest, unittest.IsolatedAsyncioTestCase):
    """Each test has its own prefix."""

    async def asyncSetUp(self) -> None:
        self.client = fanoutd.Client(self.server.address, instance="test", labels={"app": "test"})
        self.config = self.client.resource("config")

    async def asyncTearDown(self) -> None:
        await self.client.close()

    async def test_reads_and_writes(self) -> None:
        config = self.config
        with self.assertRaises(fanoutd.NotFoundError) as missing:
            await config.get("rw/a")
        self.assertEqual(missing.exception.reason, fanoutd.Reason.KEY_NOT_FOUND)
        revision = await config.put("rw/a", "1", if_revision=0)
        with self.assertRaises(fanoutd.PreconditionFailedError) as failed:
            await config.put("rw/a", "2", if_revision=0)
        self.assertEqual(failed.exception.metadata["mod_revision"], str(revision))
        o = await config.get("rw/a", min_revision=revision)
        self.assertEqual((o.value, o.mod_revision, o.version), ("1", revision, 1))
        await config.put("rw/b", b"\xff", ttl=1000)
        o = await config.get("rw/b")
        self.assertEqual(o.value, b"\xff")
        assert o.ttl is not None and 990 <= o.ttl <= 1000
        t = await config.transact(Put("rw/c", Value.json({"x": 1})), Delete("rw/b"), Check("rw/a", revision))
        self.assertEqual(t.deleted, [False, True, False])
        listed = [o.key async for o in config.list(prefix="rw", page_size=1)]
        self.assertEqual(listed, ["rw/a", "rw/c"])
        self.assertEqual(await config.count(prefix="rw"), 2)
        self.assertEqual((await config.get("rw/a", at_revision=revision)).value, "1")
        self.assertTrue(await config.delete("rw/a"))
        self.assertFalse(await config.delete("rw/a"))

    async def test_invalid_requests_name_their_fields(self) -> None:
        with self.assertRaises(fanoutd.Error) as failed:
            await self.config.put("/no", "1")
        self.assertEqual(failed.exception.reason, fanoutd.Reason.INVALID_REQUEST)
        self.assertEqual(failed.exception.violations[0].field, "put.key")

    async def test_updates_do_not_lose_others(self) -> None:
        def add(old: fanoutd.Object | None) -> str:
            return str(int((old.value if old else 0) or 0) + 1)

        await asyncio.gather(*(self.config.update("update/n", add) for _ in range(5)))
        self.assertEqual((await self.config.get("update/n")).value, "5")

    async def test_a_watch_sees_each_transaction_whole(self) -> None:
        async with asyncio.timeout(_TIMEOUT), self.config.watch(prefix="watch") as watch:
            async for update in watch:
                if update.synced:
                    break
            t = await self.config.transact(Put("watch/a", "1"), Put("watch/b", "2"))
            async for update in watch:
                if update.events:
                    break
            self.assertEqual([(e.type, e.key) for e in update.events],
                             [(EventType.ADDED, "watch/a"), (EventType.ADDED, "watch/b")])  # fmt: skip
            self.assertEqual(update.position.revision, t.revision)

    async def test_an_abandoned_watch_ends_at_the_server(self) -> None:
        async def watches() -> int:
            connection = await self.client.connection()
            with connection:
                response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
            return sum(w.request.scope.prefix == "abandoned" for w in response.watchers)

        async with asyncio.timeout(_TIMEOUT):
            async with self.config.watch(prefix="another") as other:
                await anext(other)
                async for update in self.config.watch(prefix="abandoned"):
                    self.assertEqual(await watches(), 1)
                    break
                while await watches() > 0:
                    await asyncio.sleep(0.01)

    async def test_what_a_slow_caller_does_not_take_waits_at_the_server(self) -> None:
        value, most = "x" * (512 << 10), (4 << 20) + (1 << 20)  # the largest buffer, and one message
        last = 0
        async with (
            asyncio.timeout(_TIMEOUT),
            self.config.watch(prefix="large") as slow,
            self.config.watch(prefix="large") as quick,
        ):
            for watch in (slow, quick):
                async for update in watch:
                    if update.synced:
                        break
            for n in range(40):
                last = await self.config.put(f"large/{n % 20}", f"{n} {value}")
                async for update in quick:  # it goes on
                    if update.events:
                        break
                assert slow._watcher._stream is not None
                self.assertLessEqual(slow._watcher._stream.inbox.size, most)
            copy: dict[str, str] = {}
            async for update in slow:
                for e in update.events:
                    copy[e.key] = str(e.object.value).split(" ")[0]
                if update.position.revision >= last:
                    break
            self.assertEqual(copy, {f"large/{n % 20}": str(n) for n in range(20, 40)})

    async def test_an_informer_outlives_a_restart_of_the_server(self) -> None:
        server = Server()
        try:
            await self._outlive(server)
        finally:
            server.close()

    async def _outlive(self, server: Server) -> None:
        seen: list[tuple[str, EventType]] = []

        async def handle(change: fanoutd.Change[object]) -> None:
            seen.append((change.key, change.type))

        file = str(server.folder / "state")
        async with asyncio.timeout(2 * _TIMEOUT), fanoutd.Client(server.address) as client:
            config = client.resource("config")
            async with config.informer(decode.as_json, prefix="i", state_file=file) as informer:
                informer.add_handler(handle)
                await informer.wait_for_sync()
                await config.put("i/a", "[1]")
                while "i/a" not in informer:
                    await informer.changed(informer.position)
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await self._put(config, "i/a", "[2]")
                while informer["i/a"] != [2]:
                    await informer.changed(informer.position)
                await config.put("i/bad", "{")
                while not informer.invalid:
                    await informer.changed(informer.position)
                self.assertNotIn("i/bad", informer)
                # An item keeps its value, and the handlers are not called.
                await config.put("i/a", "{")
                while informer.item("i/a").invalid is None:
                    await informer.changed(informer.position)
                self.assertEqual(informer["i/a"], [2])
                await config.put("i/last", "[3]")
                while ("i/last", EventType.ADDED) not in seen:
                    await asyncio.sleep(0.01)
            self.assertEqual(seen, [("i/a", EventType.ADDED), ("i/a", EventType.MODIFIED), ("i/last", EventType.ADDED)])
            await config.delete("i/bad")
            # Another informer begins with the file, and gets only what has changed.
            again = config.informer(decode.as_json, prefix="i", state_file=file)
            async with again:
                await again.wait_for_state()
                self.assertEqual(again["i/a"], [2])
                await again.wait_for_sync()
                self.assertFalse(again.stale)

    async def _put(self, config: fanoutd.Resource, key: str, value: str) -> None:
        while True:
            try:
                await config.put(key, value)
                return
            except fanoutd.Error:
                await asyncio.sleep(0.1)

    async def test_close_ends_everything(self) -> None:
        await self.client.close()
        before = asyncio.all_tasks()
        client = fanoutd.Client(self.server.address)
        config = client.resource("config")
        watch = config.watch()
        await anext(watch)
        waiting = asyncio.create_task(config.watch(key="nothing").__anext__())
        informer = config.informer(decode.as_text)
        informer.add_handler(lambda change: None)
        informer.start()
        await informer.wait_for_sync()
        await client.close()
        await asyncio.wait([waiting])
        await tasks.only(before)
        with self.assertRaises(fanoutd.ClosedError):
            await config.get("x")
        with self.assertRaises(fanoutd.ClosedError):
            while True:
                await anext(watch)

    async def test_close_ends_requests(self) -> None:
        client = fanoutd.Client(self.server.address)
        config = client.resource("config")
        answers = 0

        async def read() -> None:
            nonlocal answers
            while True:
                await config.count()
                answers += 1

        readers = [asyncio.create_task(read()) for _ in range(10)]
        while answers < 10:
            await asyncio.sleep(0.001)
        await client.close()
        ended = await asyncio.gather(*readers, return_exceptions=True)
        self.assertEqual({type(e) for e in ended}, {fanoutd.ClosedError})

    def test_without_asyncio(self) -> None:
        threads = set(threading.enumerate())
        with fanoutd.sync.Client(self.server.address) as client:
            config = client.resource("config")
            config.put("sync/a", '{"n": 1}')
            self.assertEqual(config.get("sync/a").json(), {"n": 1})
            self.assertEqual([o.key for o in config.list(prefix="sync")], ["sync/a"])
            for update in config.watch(prefix="sync"):
                if update.synced:
                    break
            handled = threading.Event()
            with config.informer(decode.as_json, prefix="sync") as informer:
                informer.add_handler(lambda change: handled.set() if change.new else None)
                informer.wait_for_sync(timeout=_TIMEOUT)
                self.assertTrue(handled.is_set())
                self.assertEqual(informer["sync/a"], {"n": 1})
            with self.assertRaises(fanoutd.NotFoundError):
                config.get("sync/none")
        self.assertEqual({t for t in set(threading.enumerate()) - threads if t.name.startswith("fanoutd")}, set())


@unittest.skipUnless(PROGRAM, "FANOUTD does not name a program")
class OpaqueTest(unittest.TestCase):
    """Values of another program."""

    def test_only_overwrite_opaque_replaces_them(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file, rules = Path(folder.name) / "config", Path(folder.name) / "rules"
        file.write_text("resources: [{name: config, codec: raw}]")
        server = Server("--config", str(file))
        self.addCleanup(server.close)
        server.until_ready()
        with fanoutd.sync.Client(server.address) as client:
            for key in "put", "transact":
                client.resource("config").put(key, "foreign")
        server.stop()
        rules.write_text("checks: [{keys: [put], rules: [{rule: oldSelf == null || self != oldSelf, message: the same}]}]")
        file.write_text(f"resources: [{{name: config, codec: json, validation-file: {rules}}}]")
        server.start()
        server.until_ready()
        with fanoutd.sync.Client(server.address) as client:
            config = client.resource("config")
            self.assertTrue(config.get("put").opaque)
            with self.assertRaisesRegex(fanoutd.Error, "set overwrite_opaque") as refused:
                config.put("put", "1")
            self.assertEqual(refused.exception.reason, Reason.OPAQUE_VALUE)
            with self.assertRaisesRegex(fanoutd.Error, "set overwrite_opaque"):
                config.transact(Put("transact", "1"))
            with self.assertRaisesRegex(fanoutd.Error, "set overwrite_opaque"):
                config.validate("put", "1")
            config.validate("put", "1", overwrite_opaque=True)
            self.assertTrue(config.get("put").opaque)
            config.put("put", "1", overwrite_opaque=True)
            config.transact(Put("transact", "1", overwrite_opaque=True))
            for key in "put", "transact":
                o = config.get(key)
                self.assertEqual((o.value, o.opaque), ("1", False))


if __name__ == "__main__":
    unittest.main()
