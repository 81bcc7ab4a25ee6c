"""Informers that want the same share a watch."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

import fanoutd
from fanoutd import EventType, Put, decode
from fanoutd.v1 import admin_pb2
from tests.server import ClientTest

_TIMEOUT = 300.0


class SharedWatchTest(ClientTest):
    async def _watches(self, prefix: str) -> int:
        connection = await self.client.connection()
        with connection:
            response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
        return sum(w.request.scope.prefix == prefix for w in response.watchers)

    async def _until_watches(self, prefix: str, n: int) -> None:
        while await self._watches(prefix) != n:
            await asyncio.sleep(0.01)

    async def _until(self, informer: fanoutd.Informer[Any], key: str, value: object) -> None:
        while informer.get(key) != value:
            await informer.changed(informer.position)

    async def test_equal_informers_have_one_watch(self) -> None:
        await self.config.put("one/a", "1")
        seen: list[tuple[EventType, str]] = []
        async with asyncio.timeout(_TIMEOUT), self.config.informer(decode.as_text, prefix="one") as first:
            await first.wait_for_sync()
            second = self.config.informer(decode.as_text, prefix="one")
            second.add_handler(lambda c: seen.append((c.type, c.key)))
            async with second, self.config.informer(decode.as_text, prefix="one", latest=True):
                revision = await self.config.put("one/b", "2")
                await second.wait_for_sync()
                await self._until(second, "one/b", "2")
                await self._until(first, "one/b", "2")
                await self._until_watches("one", 2)  # the third one is another watch
                self.assertEqual(second["one/a"], "1")
                self.assertIs(first.item("one/b").object, second.item("one/b").object)
                await first.close()
                await self.config.transact(Put("one/a", "3"), Put("one/c", "3"))
                await self._until(second, "one/c", "3")
                self.assertEqual(second["one/a"], "3")
                self.assertNotIn("one/c", first)
                self.assertGreater(second.position.revision, revision)
            await self._until_watches("one", 0)
            self.assertEqual(len(self.client._informer_watches), 0)
            self.assertEqual({key for what, key in seen if what is EventType.ADDED}, {"one/a", "one/b", "one/c"})

    async def test_one_that_joins_is_as_fresh_as_one_that_begins(self) -> None:
        """Without a short watch of its own, only the next bookmark would prove that its state is current."""
        async with asyncio.timeout(_TIMEOUT), self.config.informer(
            decode.as_text, prefix="fresh", bookmark_interval=3600
        ) as first:
            await first.wait_for_sync()
            for n in range(5):
                await self.config.put("other", str(n))
                async with self.config.informer(decode.as_text, prefix="fresh", bookmark_interval=3600) as joined:
                    await joined.wait_for_sync()
                    self.assertFalse(joined.stale)

    async def test_one_that_joins_gets_invalid_objects(self) -> None:
        await self.config.put("invalid/a", "{")
        async with asyncio.timeout(_TIMEOUT), self.config.informer(decode.as_json, prefix="invalid") as first:
            await first.wait_for_sync()
            async with self.config.informer(decode.as_text, prefix="invalid") as second:
                await second.wait_for_sync()
                self.assertEqual(second["invalid/a"], "{")
            self.assertNotIn("invalid/a", first)

    async def test_reports_are_those_of_the_slowest(self) -> None:
        async def applied() -> int:
            connection = await self.client.connection()
            with connection:
                response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
            return max(int(w.applied.revision) for w in response.watchers if w.request.scope.prefix == "slow")

        gate = asyncio.Event()

        async def wait(_: fanoutd.Change[str]) -> None:
            await gate.wait()

        async with asyncio.timeout(_TIMEOUT), self.config.informer(decode.as_text, prefix="slow") as first:
            await first.wait_for_sync()
            slow = self.config.informer(decode.as_text, prefix="slow")
            async with slow:
                await slow.wait_for_sync()
                slow.add_handler(wait)
                revision = await self.config.put("slow/a", "1")
                await self._until(first, "slow/a", "1")
                progress = [w._progress() for w in self.client._informer_watches._shared.values()]
                self.assertEqual([p.applied.revision >= revision for p in progress], [False])
                gate.set()
                while await applied() < revision:
                    await asyncio.sleep(0.01)

    async def test_a_version_that_a_handler_refuses_after_one_that_cannot_be_decoded(self) -> None:
        """What could not be decoded is not applied before a newer version is accepted."""

        def refuse(change: fanoutd.Change[object]) -> None:
            if change.new is not None and change.new.value == "refused":
                raise ValueError("refused")

        async with asyncio.timeout(_TIMEOUT), self.config.informer(decode.as_json, prefix="bad") as informer:
            informer.add_handler(refuse)
            good = await self.config.put("bad/a", "1")
            await self._until(informer, "bad/a", 1)
            with self.assertLogs("fanoutd", "WARNING"):
                await self.config.put("bad/a", "{")
                await self.config.put("bad/a", '"refused"')
                while True:
                    (progress,) = [w._progress() for w in self.client._informer_watches._shared.values()]
                    if progress.error is not None and "refused" in progress.error:
                        break
                    await asyncio.sleep(0)
            self.assertEqual(progress.applied.revision, good)
            accepted = await self.config.put("bad/a", "2")
            await self._until(informer, "bad/a", 2)
            while informer._copy.progress().applied.revision < accepted:
                await asyncio.sleep(0)


if __name__ == "__main__":
    unittest.main()
