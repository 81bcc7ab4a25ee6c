"""Messages, history and validation with a real server."""

from __future__ import annotations

import datetime
import tempfile
import unittest
from pathlib import Path

import fanoutd
import fanoutd.sync
from fanoutd import Delete, HistoryEntry, HistoryKind, Put, Reason, Value, Violation
from fanoutd.history import entry_from
from fanoutd.v1 import fanout_pb2
from tests.server import PROGRAM, ClientTest, Server
from tests.test_credentials import line

_SECOND = datetime.timedelta(seconds=1)

_CONFIG = """
token-file: {folder}/tokens
policy-file: {folder}/policy
resources:
- {{name: config, history: {{}}, validation-file: {folder}/rules}}
- {{name: forgetful}}
"""

_POLICY = """
rules:
- {subjects: [ada], resources: ["*"], verbs: ["*"]}
- {subjects: [bob], resources: ["*"], verbs: [get, put]}
- {subjects: [bob], resources: [config], prefixes: [team], verbs: [history]}
"""

_RULES = """
checks:
- keys: [flags/*]
  schema:
    properties: {percent: {type: integer, maximum: 100}}
  rules:
  - {rule: "self != null", message: flags stay, deletes: true}
"""


class KindsTest(unittest.TestCase):
    """The kinds of the protocol."""

    def test_only_other_kinds_are_unknown(self) -> None:
        for name, number in fanout_pb2.HistoryEntry.Kind.items():
            kind = entry_from(fanout_pb2.HistoryEntry(kind=number, key="a")).kind
            want = name.removeprefix("KIND_").replace("UNSPECIFIED", "UNKNOWN")
            self.assertEqual(kind.name, want)
        newer = entry_from(fanout_pb2.HistoryEntry(kind=99, key="a"))  # type: ignore[arg-type]
        self.assertEqual((newer.kind, newer.time, newer.object), (HistoryKind.UNKNOWN, None, None))


class HistoryTest(ClientTest):
    """Each test has its own prefix."""

    async def _lines(self, key: str) -> list[tuple[HistoryKind, str]]:
        return [(e.kind, e.message) async for e in self.config.history(key=key)]

    async def test_each_write_has_its_message(self) -> None:
        config = self.config
        first = await config.put("h/a", "1", message="put")
        await config.update("h/a", lambda old: "2", message="update")
        t = await config.transact(Put("h/a", "3"), Put("h/b", "4"), message="both")
        await config.delete("h/a", message="delete")
        self.assertEqual(
            await self._lines("h/a"),
            [(HistoryKind.DELETE, "delete"), (HistoryKind.PUT, "both"), (HistoryKind.PUT, "update"),
             (HistoryKind.PUT, "put")],
        )  # fmt: skip
        entries = [e async for e in config.history(prefix="h", page_size=1, values=True)]
        self.assertEqual([e.key for e in entries], ["h/a", "h/a", "h/b", "h/a", "h/a"])
        self.assertEqual([e.object.value if e.object else None for e in entries], [None, "3", "4", "2", "1"])
        both, last = entries[1], entries[4]
        self.assertEqual((both.revision, both.transaction_writes), (t.revision, 2))
        self.assertEqual((last.revision, last.replaced_revision, last.transaction_writes), (first, 0, 1))
        self.assertEqual((last.author, last.has_ttl), ("", False))
        self.assertEqual([e.revision async for e in config.history(key="h/a", up_to=first)], [first])

    async def test_a_time_means_a_revision(self) -> None:
        revision = await self.config.put("time/a", "1")
        [entry] = [e async for e in self.config.history(key="time/a")]
        time = entry.time
        assert time is not None
        self.assertEqual(time.utcoffset(), datetime.timedelta())
        zone = datetime.timezone(datetime.timedelta(hours=2))
        self.assertEqual(await self.config.revision_at(time.astimezone(zone), key="time/a"), revision)
        self.assertEqual(await self.config.revision_at(time - 3600 * _SECOND), 0)
        self.assertEqual([e.key async for e in self.config.history(key="time/a", at=time)], ["time/a"])
        self.assertEqual([e async for e in self.config.history(at=time - 3600 * _SECOND)], [])
        with self.assertRaisesRegex(ValueError, "time zone"):
            await self.config.revision_at(datetime.datetime(2026, 11, 27))
        with self.assertRaises(ValueError):
            await anext(self.config.history(up_to=1, at=time))
        with self.assertRaisesRegex(ValueError, "page_size"):
            await anext(self.config.history(page_size=-1))

    async def test_get_returns_the_last_change(self) -> None:
        await self.config.put("last/a", "1", message="why")
        change = (await self.config.get("last/a", last_change=True)).last_change
        assert change is not None
        [entry] = [e async for e in self.config.history(key="last/a")]
        self.assertEqual(change, (entry.author, entry.time, "why"))
        self.assertIsNone((await self.config.get("last/a")).last_change)

    async def test_a_message_has_a_limit(self) -> None:
        with self.assertRaises(fanoutd.Error) as refused:
            await self.config.put("limit/a", "1", message="x" * 1025)
        self.assertEqual(refused.exception.reason, Reason.INVALID_REQUEST)
        self.assertEqual([v.field for v in refused.exception.violations], ["message"])

    def test_without_asyncio(self) -> None:
        with fanoutd.sync.Client(self.server.address) as client:
            config = client.resource("config")
            revision = config.put("sync/a", "1", message="put")
            config.update("sync/a", lambda old: "2", message="update")
            config.transact(Delete("sync/a"), message="delete")
            history: list[HistoryEntry] = list(config.history(key="sync/a", page_size=1))
            self.assertEqual([e.message for e in history], ["delete", "update", "put"])
            assert history[0].time is not None
            self.assertGreater(config.revision_at(history[0].time), revision)


@unittest.skipUnless(PROGRAM, "FANOUTD does not name a program")
class RulesTest(unittest.IsolatedAsyncioTestCase):
    """A server with rights, rules, and a resource without history."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name)
        (path / "tokens").write_text(line("ada", "a") + line("bob", "b"))
        (path / "policy").write_text(_POLICY)
        (path / "rules").write_text(_RULES)
        (path / "config").write_text(_CONFIG.format(folder=folder.name))
        cls.server = Server("--config", str(path / "config"))
        cls.addClassCleanup(cls.server.close)
        with fanoutd.sync.Client(cls.server.address, token="a") as client, client.resource("config").watch() as watch:
            next(watch)

    async def asyncSetUp(self) -> None:
        self.client = fanoutd.Client(self.server.address, token="a")
        self.config = self.client.resource("config")

    async def asyncTearDown(self) -> None:
        await self.client.close()

    async def test_a_refusal_names_the_faults(self) -> None:
        config = self.config
        good, bad = Value.json({"percent": 5}), Value.json({"percent": 5000})
        fault = "must be at most 100, is 5000"
        await config.validate("flags/a", good)
        await config.validate("elsewhere", bad)
        for refused in (
            config.validate("flags/a", bad),
            config.put("flags/a", bad),
            config.update("flags/a", lambda old: bad),
        ):
            with self.assertRaises(fanoutd.Error) as failed:
                await refused
            self.assertEqual(failed.exception.reason, Reason.VALUE_REFUSED)
            self.assertEqual(failed.exception.violations, (Violation("put.value/percent", fault),))
        with self.assertRaises(fanoutd.Error) as failed:
            await config.transact(Put("flags/b", good), Put("flags/a", bad))
        self.assertEqual(failed.exception.violations, (Violation("operations[1].put.value/percent", fault),))
        self.assertEqual(await config.count(prefix="flags"), 0)

    async def test_skip_validation(self) -> None:
        config = self.config
        bad = Value.json({"percent": 5000})
        await config.put("flags/skip-a", bad, skip_validation=True)
        await config.update("flags/skip-b", lambda old: bad, skip_validation=True)
        await config.transact(Put("flags/skip-c", bad), skip_validation=True)
        with self.assertRaisesRegex(fanoutd.Error, "flags stay"):
            await config.delete("flags/skip-a")
        self.assertTrue(await config.delete("flags/skip-a", skip_validation=True))
        await config.transact(Delete("flags/skip-b"), Delete("flags/skip-c"), skip_validation=True)
        async with fanoutd.Client(self.server.address, token="b") as client:
            with self.assertRaises(fanoutd.Error) as denied:
                await client.resource("config").put("flags/skip-a", bad, skip_validation=True)
            self.assertEqual(denied.exception.reason, Reason.PERMISSION_DENIED)

    async def test_the_history_needs_its_right(self) -> None:
        await self.config.put("team/a", "1", message="why")
        await self.config.put("other", "1")
        async with fanoutd.Client(self.server.address, token="b") as client:
            config = client.resource("config")
            [entry] = [e async for e in config.history(prefix="team")]
            self.assertEqual((entry.author, entry.message), ("ada", "why"))
            assert entry.time is not None
            self.assertGreater(await config.revision_at(entry.time, prefix="team"), 0)
            change = (await config.get("team/a", last_change=True)).last_change
            assert change is not None
            self.assertEqual(change.author, "ada")
            for denied in (
                anext(config.history(key="other")),
                config.revision_at(entry.time),
                config.get("other", last_change=True),
            ):
                with self.assertRaises(fanoutd.Error) as failed:
                    await denied
                self.assertEqual(failed.exception.reason, Reason.PERMISSION_DENIED)

    async def test_a_resource_without_history(self) -> None:
        forgetful = self.client.resource("forgetful")
        await forgetful.put("a", "1", message="why")
        self.assertIsNone((await forgetful.get("a", last_change=True)).last_change)
        for failing in anext(forgetful.history()), forgetful.revision_at(datetime.datetime.now(datetime.timezone.utc)):
            with self.assertRaises(fanoutd.Error) as failed:
                await failing
            self.assertEqual(failed.exception.reason, Reason.NO_HISTORY)


if __name__ == "__main__":
    unittest.main()
