"""What requests send again, how long they last, and what goes with them."""

from __future__ import annotations

import asyncio
import math
import unittest
from typing import Any
from unittest import mock

import grpc

import fanoutd
from fanoutd import Reason
from fanoutd.observer import RequestEnded
from tests.scripted import Failure, Scripted

_TIMEOUT = 300.0

_CODE = grpc.StatusCode


class RequestsTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = await Scripted().start()
        self.addAsyncCleanup(self.server.stop)
        self.enterContext(mock.patch("fanoutd.requests._PAUSES", (0.0, 0.0, 0.0)))

    async def _sent(self, method: str, failure: Failure, **options: Any) -> int:
        """Return how often a request is sent that always fails."""
        self.server.calls.clear()
        self.server.fail = lambda method, n: failure
        async with fanoutd.Client(self.server.address, **options) as client:
            config = client.resource("config")
            with self.assertRaises(fanoutd.Error) as failed:
                await (config.get("a", timeout=_TIMEOUT) if method == "Get" else config.put("a", "1", timeout=_TIMEOUT))
            self.assertEqual(failed.exception.code, failure.code)
        return self.server.calls[method]

    async def test_what_is_sent_again(self) -> None:
        for method, failure, sent in (
            ("Get", Failure(_CODE.UNAVAILABLE), 4),
            ("Get", Failure(_CODE.UNAVAILABLE, Reason.NOT_READY), 4),
            ("Get", Failure(_CODE.UNAVAILABLE, Reason.REVISION_NOT_REACHED), 1),
            ("Get", Failure(_CODE.RESOURCE_EXHAUSTED, Reason.RATE_LIMITED, 0.001), 4),
            ("Get", Failure(_CODE.RESOURCE_EXHAUSTED, Reason.REQUEST_TOO_LARGE), 1),
            ("Get", Failure(_CODE.INTERNAL), 1),
            ("Put", Failure(_CODE.UNAVAILABLE), 1),
            ("Put", Failure(_CODE.RESOURCE_EXHAUSTED, Reason.RATE_LIMITED, 0.001), 1),
        ):
            with self.subTest(method, code=failure.code, reason=failure.reason):
                self.assertEqual(await self._sent(method, failure), sent)

    async def test_credentials_are_renewed_once(self) -> None:
        refused = Failure(_CODE.UNAUTHENTICATED, Reason.UNAUTHENTICATED)
        tokens: list[tuple[dict[str, Any], int]] = [({}, 1), ({"token": "fixed"}, 1), ({"token": lambda: "new"}, 2)]
        for options, sent in tokens:
            for method in "Get", "Put":
                with self.subTest(method, options=options):
                    self.assertEqual(await self._sent(method, refused, **options), sent)

    async def test_a_timeout_is_for_all_attempts(self) -> None:
        self.server.fail = lambda method, n: Failure(_CODE.UNAVAILABLE, Reason.NOT_READY, 3600)
        async with fanoutd.Client(self.server.address) as client:
            with self.assertRaises(fanoutd.Error) as failed:
                await client.resource("config").get("a", timeout=_TIMEOUT)
        self.assertEqual(failed.exception.code, _CODE.DEADLINE_EXCEEDED)
        self.assertIn("scripted", failed.exception.message)
        self.assertEqual(self.server.calls["Get"], 1)

    async def test_a_request_has_a_timeout_by_default(self) -> None:
        async def never() -> str:
            await asyncio.Event().wait()
            return ""

        with mock.patch("fanoutd.requests._TIMEOUT", 0.05):
            async with fanoutd.Client(self.server.address, token=never) as client:
                for request in client.resource("config").get("a"), client.resource("config").put("a", "1"):
                    with self.assertRaises(fanoutd.Error) as failed:
                        await request
                    self.assertEqual(failed.exception.code, _CODE.DEADLINE_EXCEEDED)

    async def test_no_timeout(self) -> None:
        async with fanoutd.Client(self.server.address) as client:
            await client.resource("config").get("a", timeout=math.inf)

    async def test_metadata_interceptors_and_options(self) -> None:
        seen: list[bytes] = []

        class Interceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
            async def intercept_unary_unary(self, go: Any, details: Any, request: Any) -> Any:
                seen.append(details.method)
                return await go(details, request)

        async with fanoutd.Client(
            self.server.address, interceptors=[Interceptor()], options=[("grpc.primary_user_agent", "mine")]
        ) as client:
            config = client.resource("config")
            await config.get("a", metadata=[("tenant", "one")])
            await config.put("a", "1", metadata=[("tenant", "two")])
        self.assertEqual([m["tenant"] for m in self.server.metadata], ["one", "two"])
        self.assertEqual({str(m["user-agent"]).split()[0] for m in self.server.metadata}, {"mine"})
        self.assertEqual([b"Get" in m or b"Put" in m for m in seen], [True, True])

    async def test_the_observer_gets_requests(self) -> None:
        ended: list[RequestEnded] = []

        class Mine(fanoutd.Observer):
            def request(self, event: RequestEnded) -> None:
                ended.append(event)
                raise ValueError("this observer always fails")

        self.server.fail = lambda method, n: Failure(_CODE.UNAVAILABLE, Reason.NOT_READY) if n < 3 else None
        with self.assertLogs("fanoutd", "ERROR"):
            async with fanoutd.Client(self.server.address, observer=Mine()) as client:
                await client.resource("config").get("a")
                with self.assertRaises(fanoutd.Error):
                    await client.resource("config").put("a", "1")
        self.assertEqual(
            [(e.method, e.resource, e.code, e.attempts) for e in ended],
            [("Get", "config", "OK", 3), ("Put", "config", "UNAVAILABLE", 1)],
        )


if __name__ == "__main__":
    unittest.main()
