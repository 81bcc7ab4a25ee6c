"""A watch whose caller is busy while the server restarts."""

from __future__ import annotations

import asyncio
import unittest

import fanoutd
from fanoutd.v1 import admin_pb2
from tests.server import PROGRAM, Server

_TIMEOUT = 120.0


@unittest.skipUnless(PROGRAM, "FANOUTD is not set")
class BusyTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = await asyncio.to_thread(Server)
        self.client = fanoutd.Client(self.server.address)

    async def asyncTearDown(self) -> None:
        await self.client.close()
        self.server.close()

    async def _applied(self) -> list[int]:
        """Return the revisions that the watches have applied."""
        connection = await self.client.connection()
        with connection:
            try:
                response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
            except Exception:
                return []  # the server is not ready
        return [int(w.applied.revision) for w in response.watchers]

    async def _until_applied(self, revision: int) -> None:
        while await self._applied() != [revision]:
            await asyncio.sleep(0.01)

    async def test_a_busy_caller_reports_to_the_next_server(self) -> None:
        config = self.client.resource("config")
        async with asyncio.timeout(_TIMEOUT):
            while True:
                try:
                    revisions = [await config.put("a", "1")]
                    break
                except fanoutd.Error:
                    await asyncio.sleep(0.01)
            async with config.watch() as watch:
                async for update in watch:
                    if update.complete:
                        break
                revisions += [await config.put("a", "2"), await config.put("a", "3")]
                assert watch._watcher._stream is not None
                while len(watch._watcher._stream.inbox) < 2:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(self.server.stop)
                await asyncio.to_thread(self.server.start)
                # The caller still has the first update, and takes the second one.
                while not await self._applied():
                    await asyncio.sleep(0.01)
                self.assertEqual(watch.position.revision, revisions[0])  # what waits is not lost if the program ends now
                taken = [(await anext(watch)).position.revision for _ in range(2)]
                self.assertEqual(taken, revisions[1:])
                await self._until_applied(revisions[1])


if __name__ == "__main__":
    unittest.main()
