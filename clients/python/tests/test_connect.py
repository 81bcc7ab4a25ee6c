"""Connections: servers that are silent or cannot be reached, turns, and proxies."""

from __future__ import annotations

import asyncio
import os
import unittest
from unittest import mock

import grpc

import fanoutd
import fanoutd.sync
from fanoutd.connection import Servers
from tests.scripted import Failure, Scripted, address_of, silent
from tests.server import free_address

_TIMEOUT = 300.0

_UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE)


@mock.patch("random.randrange", return_value=0)  # the first server has the first turn
class ConnectTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.good = await Scripted().start()
        self.addAsyncCleanup(self.good.stop)
        dead = silent()
        self.addCleanup(dead.close)
        self.dead = address_of(dead)

    async def test_a_silent_server_is_left(self, _: mock.Mock) -> None:
        for n in 1, 2, 3, 8:
            async with fanoutd.Client(f"{self.dead},{self.good.address}") as client:
                config = client.resource("config")
                values = await asyncio.gather(*(config.get("a", timeout=_TIMEOUT) for _ in range(n)))
                self.assertEqual([o.value for o in values], ["1"] * n)

    async def test_a_silent_server_is_left_for_a_short_timeout(self, _: mock.Mock) -> None:
        with mock.patch("fanoutd.connection._HEAD_START", 0.01):
            async with fanoutd.Client(f"{self.dead},{self.dead},{self.dead},{self.good.address}") as client:
                await client.resource("config").get("a", timeout=60)

    async def test_a_write_is_sent_once_to_a_server_that_answers(self, _: mock.Mock) -> None:
        servers = f"{self.dead},{free_address()},{self.good.address}"
        async with fanoutd.Client(servers) as client:
            self.assertEqual(await client.resource("config").put("a", "1", timeout=_TIMEOUT), 2)
        self.assertEqual(self.good.calls["Put"], 1)

    async def test_a_watch_leaves_a_silent_server(self, _: mock.Mock) -> None:
        interruptions: list[BaseException] = []
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(f"{self.dead},{self.good.address}") as client:
            await anext(client.resource("config").watch(on_interruption=interruptions.append))
        self.assertEqual(interruptions, [])

    async def test_an_unanswered_tls_handshake(self, _: mock.Mock) -> None:
        with mock.patch("fanoutd.connection._CONNECT_TIMEOUT", 0.3):
            async with fanoutd.Client([self.dead, self.dead], tls=fanoutd.TLS()) as client:
                with self.assertRaises(fanoutd.Error) as failed:
                    await client.resource("config").put("a", "1", timeout=_TIMEOUT)
                self.assertEqual(failed.exception.code, grpc.StatusCode.UNAVAILABLE)
                pauses = mock.patch("fanoutd.requests._PAUSES", (2 * _TIMEOUT,))
                with pauses, self.assertRaises(fanoutd.Error) as failed:
                    await client.resource("config").get("a", timeout=_TIMEOUT)
                self.assertEqual(failed.exception.code, grpc.StatusCode.DEADLINE_EXCEEDED)
                self.assertIn(self.dead, failed.exception.message)

    async def test_the_error_says_why_no_server_can_be_reached(self, _: mock.Mock) -> None:
        one, two = free_address(), free_address()
        async with fanoutd.Client([one, two]) as client:
            with self.assertRaises(fanoutd.Error) as failed:
                await client.resource("config").get("a", timeout=_TIMEOUT)
            self.assertEqual(failed.exception.code, grpc.StatusCode.UNAVAILABLE)
            self.assertIn(f"{one}: ", failed.exception.message)
            self.assertIn("refused", failed.exception.message)

    async def test_an_exception_that_nothing_expects_is_a_failed_attempt(self, _: mock.Mock) -> None:
        connected = Servers._connected

        async def fail(servers: Servers, channel: grpc.aio.Channel) -> str:
            tried.append(channel)
            if len(tried) == 1:
                raise ZeroDivisionError("odd")
            return await connected(servers, channel)

        for servers in [self.good.address], [self.good.address, self.good.address]:
            tried: list[grpc.aio.Channel] = []
            with mock.patch.object(Servers, "_connected", fail), self.assertLogs("fanoutd", "ERROR") as logs:
                async with fanoutd.Client(servers) as client:
                    config = client.resource("config")
                    if len(servers) == 1:
                        with self.assertRaises(fanoutd.Error) as failed:
                            await config.put("a", "1", timeout=_TIMEOUT)
                        self.assertEqual(failed.exception.code, grpc.StatusCode.UNAVAILABLE)
                        self.assertIn("ZeroDivisionError('odd')", failed.exception.message)
                        self.assertEqual(len(tried), 1)
                    await config.put("a", "1", timeout=_TIMEOUT)
            self.assertEqual((len(tried), len(logs.records)), (2, 1))

    async def test_requests_that_fail_together_move_the_turn_once(self, _: mock.Mock) -> None:
        bad = await Scripted().start()
        self.addAsyncCleanup(bad.stop)
        both = asyncio.Barrier(2)
        bad.fail = lambda method, n: _UNAVAILABLE

        async def get() -> str | bytes | None:
            return (await client.resource("config").get("a")).value

        async with fanoutd.Client([bad.address, self.good.address]) as client:
            bad.before = both.wait
            self.assertEqual(await asyncio.gather(get(), get()), ["1", "1"])
        self.assertEqual(bad.calls["Get"], 2)

    async def test_servers_on_this_machine_need_no_proxy(self, _: mock.Mock) -> None:
        nowhere = f"http://{free_address()}"
        with mock.patch.dict(os.environ, {"http_proxy": nowhere, "https_proxy": nowhere}):
            async with fanoutd.Client(self.good.address) as client:
                await client.resource("config").get("a", timeout=_TIMEOUT)

    async def test_addresses(self, _: mock.Mock) -> None:
        for address in "::1", "localhost:", "dns:///host", "HTTP://host:1":
            with self.assertRaises(ValueError, msg=address):
                fanoutd.Client(address)
        with self.assertRaises(ValueError):
            fanoutd.Client("dns:///192.0.2.1:1", token="secret", insecure=True)
        for address in "dns:///localhost:1", "ipv4:127.0.0.1:1", "LOCALHOST:1":
            await fanoutd.Client(address, token="secret").close()

    async def test_a_file_that_is_missing_shows_at_once(self, _: mock.Mock) -> None:
        with self.assertRaises(OSError):
            fanoutd.Client("host:1", tls=fanoutd.TLS(ca_file="/nowhere"))


if __name__ == "__main__":
    unittest.main()
