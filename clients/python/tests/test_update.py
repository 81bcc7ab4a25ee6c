"""Values, and updates of objects, with a real server."""

from __future__ import annotations

import asyncio
import sys
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import grpc

import fanoutd
import fanoutd.sync
from fanoutd import Put, Value
from tests.server import ClientTest

_TIMEOUT = 300.0


class UpdateTest(ClientTest):
    """Each test has an object of its own."""

    async def test_an_update_keeps_what_it_does_not_set(self) -> None:
        cases: list[tuple[Callable[[Any], str | bytes | Value], str, dict[str, str]]] = [
            (lambda old: "2", "application/yaml", {"a": "b"}),
            (lambda old: b"2", "application/yaml", {"a": "b"}),
            (lambda old: Value("2"), "application/yaml", {"a": "b"}),
            (lambda old: Value.json(2), "application/json", {"a": "b"}),
            (lambda old: Value("2", labels={}), "application/yaml", {}),
            (lambda old: Value("2", "text/x", {"c": "d"}), "text/x", {"c": "d"}),
        ]
        for change, content_type, labels in cases:
            with self.subTest(content_type=content_type, labels=labels):
                await self.config.put("keep", Value("1", "application/yaml", {"a": "b"}), ttl=1000)
                await self.config.update("keep", change)
                o = await self.config.get("keep")
                self.assertEqual((o.content_type, o.labels, o.has_ttl), (content_type, labels, True))

    async def test_an_update_sets_a_time_to_live(self) -> None:
        await self.config.update("ttl", lambda old: "1", ttl=1000)
        self.assertTrue((await self.config.get("ttl")).has_ttl)

    async def test_the_timeout_is_for_all_attempts(self) -> None:
        async def change(old: fanoutd.Object | None) -> str:
            await self.config.put("contended", "another")
            return "1"

        with self.assertRaises(fanoutd.Error) as late:
            async with asyncio.timeout(_TIMEOUT):
                await self.config.update("contended", change, timeout=0.5)
        self.assertEqual(late.exception.code, grpc.StatusCode.DEADLINE_EXCEEDED)

    async def test_the_timeout_is_also_for_the_function(self) -> None:
        async def change(old: fanoutd.Object | None) -> str:
            await asyncio.Event().wait()
            return "1"

        with self.assertRaises(fanoutd.Error) as late:
            async with asyncio.timeout(_TIMEOUT):
                await self.config.update("never", change, timeout=0.2)
        self.assertEqual(late.exception.code, grpc.StatusCode.DEADLINE_EXCEEDED)

    async def test_what_is_not_a_value_is_refused_before_it_is_sent(self) -> None:
        no_values: list[Any] = [None, 1, 1.5, True, ["1"], {"a": 1}, object(), Value(None), Value(1)]  # type: ignore[arg-type]
        for value in no_values:
            with self.subTest(value=value):
                with self.assertRaisesRegex(TypeError, "a value is a str or bytes"):
                    await self.config.put("none", value)
                with self.assertRaisesRegex(TypeError, "a value is a str or bytes"):
                    await self.config.transact(Put("none", "1"), Put("none2", value))
                if value is not None:  # leaves the object as it is
                    with self.assertRaisesRegex(TypeError, "a value is a str or bytes"):
                        await self.config.update("none", mock.Mock(return_value=value))
        not_an_operation: Any = ("none", "1")
        with self.assertRaisesRegex(TypeError, "an operation is"):
            await self.config.transact(Put("none", "1"), not_an_operation)
        self.assertEqual(await self.config.count(prefix="none"), 0)

    def test_without_asyncio_the_function_may_do_anything(self) -> None:
        with fanoutd.sync.Client(self.server.address) as client:
            config = client.resource("config")
            config.put("sync", Value("1", labels={"a": "b"}))
            config.update("sync", lambda old: str(config.count(key="sync") + 1))
            with self.assertRaises(SystemExit):
                config.update("sync", lambda old: sys.exit(1))
            o = config.get("sync")
            self.assertEqual((o.value, o.labels), ("2", {"a": "b"}))

            async def change(old: fanoutd.Object | None) -> str:
                return "3"

            function: Any = change
            with self.assertRaises(TypeError):
                config.update("sync", function)


if __name__ == "__main__":
    unittest.main()
