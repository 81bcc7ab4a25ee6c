"""A loop over a watch, and what is left of it at the server."""

from __future__ import annotations

import asyncio
import unittest

import fanoutd
import fanoutd.sync
from fanoutd.v1 import admin_pb2
from tests.server import ClientTest, ServerTest

_TIMEOUT = 300.0


async def _watches(client: fanoutd.Client, prefix: str) -> int:
    with await client.connection() as connection:
        response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
    return sum(w.request.scope.prefix == prefix for w in response.watchers)


class WatchLoopTest(ClientTest):
    """Each test has its own prefix."""

    async def _watches(self, prefix: str) -> int:
        return await _watches(self.client, prefix)

    async def _until_watches(self, prefix: str, n: int) -> None:
        async with asyncio.timeout(_TIMEOUT):
            while await self._watches(prefix) != n:
                await asyncio.sleep(0)

    async def test_break_ends_watches_that_the_program_still_has(self) -> None:
        watches = [self.config.watch(prefix="kept") for _ in range(300)]
        async with self.config.watch(prefix="other") as other:  # keeps the shared stream open
            await anext(other)
            for watch in watches:
                async for update in watch:
                    if update.synced:
                        break
            await self._until_watches("kept", 0)

    async def test_other_ends_of_a_loop(self) -> None:
        watch = self.config.watch(prefix="ends")

        async def returns() -> None:
            async for _ in watch:
                return

        async def fails() -> None:
            async for _ in watch:
                raise ValueError

        async def waits() -> None:
            async for _ in watch:
                pass

        async with self.config.watch(prefix="other") as other:
            await anext(other)
            await returns()
            await self._until_watches("ends", 0)
            with self.assertRaises(ValueError):
                await fails()
            await self._until_watches("ends", 0)
            waiting = asyncio.create_task(waits())
            await self._until_watches("ends", 1)
            waiting.cancel()
            await asyncio.wait([waiting])
            await self._until_watches("ends", 0)

    async def test_another_loop_continues_at_the_position(self) -> None:
        watch = self.config.watch(prefix="again")
        keys: list[str] = []
        for n in range(5):
            await self.config.put(f"again/{n}", "1")
            async for update in watch:
                keys += [e.key for e in update.events]
                if f"again/{n}" in keys and update.complete:
                    break
            if n % 2:
                await self._until_watches("again", 0)
        self.assertEqual(keys, [f"again/{n}" for n in range(5)])

    async def test_a_block_keeps_the_watch(self) -> None:
        async with self.config.watch(prefix="block") as watch:
            async for _ in watch:
                break
            stream = watch._watcher._stream
            await self.config.put("block/a", "1")
            async for update in watch:
                if update.events:
                    break
            self.assertIs(watch._watcher._stream, stream)
            self.assertEqual(await self._watches("block"), 1)
        await self._until_watches("block", 0)


class BlockingLoopTest(ServerTest):
    def test_break_ends_watches_that_the_program_still_has(self) -> None:
        client = fanoutd.sync.Client(self.server.address)
        self.addCleanup(client.close)

        async def until_watches(n: int) -> None:
            async with asyncio.timeout(_TIMEOUT):
                while await _watches(client._client, "kept") != n:
                    await asyncio.sleep(0)

        config = client.resource("config")
        with config.watch(prefix="other") as other:
            next(other)
            watches = [config.watch(prefix="kept") for _ in range(300)]
            for watch in watches:
                for update in watch:
                    if update.synced:
                        break
            client._runner.run(until_watches(0))
            config.put("kept/a", "1")
            for update in watches[0]:
                if update.events:
                    break
            self.assertFalse(update.replace)
            watch.close()
            self.assertEqual(list(watch), [])


if __name__ == "__main__":
    unittest.main()
