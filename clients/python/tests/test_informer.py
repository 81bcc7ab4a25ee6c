"""Informers with a real server: the mapping, waiting, closing, and functions of the user that do anything."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import os
import sys
import tempfile
import unittest
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import fanoutd
from fanoutd import Change, Put, decode
from fanoutd.v1 import admin_pb2
from tests.server import ClientTest, Server, free_address

_TIMEOUT = 300.0


def _limited(test: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Make a test fail that does not end."""

    @functools.wraps(test)
    async def run(self: Any) -> None:
        async with asyncio.timeout(_TIMEOUT):
            await test(self)

    return run


class _Odd(BaseException):
    """An exception that is no Exception."""


async def _cancel_inner() -> None:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner


async def _cancel_self() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


async def _exit() -> None:
    sys.exit(1)


async def _odd() -> None:
    raise _Odd()


def _cancel_caller() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _stop_iteration() -> None:
    next(iter(()))


def _cancelled() -> None:
    raise asyncio.CancelledError()


_FAILURES: list[Callable[[], Any]] = [
    _cancel_inner, _cancel_self, _exit, _odd, _cancel_caller, _stop_iteration, _cancelled, lambda: sys.exit(1),
]  # fmt: skip


class InformerTest(ClientTest):
    """Each test has its own prefix."""

    async def _until(self, informer: fanoutd.Informer[Any], key: str, value: object) -> None:
        while informer.get(key) != value:
            await informer.changed(informer.position)

    async def _until_ready(self, config: fanoutd.Resource) -> None:
        async with config.watch() as watch:
            await anext(watch)

    # The mapping.

    @_limited
    async def test_an_informer_is_a_mapping(self) -> None:
        await self.config.transact(Put("map/a", "1"), Put("map/b", "2"))
        want = {"map/a": "1", "map/b": "2"}
        async with self.config.informer(decode.as_text, prefix="map") as shop:
            await shop.wait_for_sync(_TIMEOUT)
            self.assertIsInstance(shop, collections.abc.Mapping)
            self.assertEqual(sorted(shop), ["map/a", "map/b"])
            self.assertEqual(dict(shop.items()), want)
            self.assertEqual(dict(shop), want)
            self.assertEqual({**shop}, want)
            self.assertEqual(shop, want)
            self.assertEqual(sorted(shop.keys()), ["map/a", "map/b"])
            self.assertEqual(sorted(shop.values()), ["1", "2"])
            self.assertEqual((len(shop), "map/a" in shop, "map/c" in shop), (2, True, False))
            self.assertEqual((shop.get("map/a"), shop.get("map/c"), shop.get("map/c", "3")), ("1", None, "3"))
            with self.assertRaises(KeyError):
                shop["map/c"]
            self.assertEqual(shop.item("map/a").object.key, "map/a")
            before = shop.snapshot()
            await self.config.put("map/a", "3")
            await self._until(shop, "map/a", "3")
            self.assertEqual({key: item.value for key, item in before.items.items()}, want)
            self.assertTrue(shop.position.is_after(before.position))

    # Functions of the user.

    @_limited
    async def test_a_failed_call_of_a_handler_is_repeated(self) -> None:
        for n, failure in enumerate(_FAILURES):
            with self.subTest(n), mock.patch("fanoutd.handler_loop._FIRST_RETRY", 0.001):
                key, go = f"call/{n}", asyncio.Event()
                calls: list[str] = []

                def handle(change: Change[str]) -> Any:
                    calls.append(change.key)
                    return failure() if len(calls) == 1 else go.wait()

                async with self.config.informer(decode.as_text, key=key) as informer:
                    informer.add_handler(handle)
                    with self.assertLogs("fanoutd", "WARNING"):
                        revision = await self.config.put(key, "1")
                        while len(calls) < 2:
                            await asyncio.sleep(0)
                    self.assertLess(informer._copy.progress().applied.revision, revision)
                    go.set()
                    while informer._copy.progress().applied.revision < revision:
                        await asyncio.sleep(0)
                    await informer.wait_for_sync(_TIMEOUT)

    @_limited
    async def test_the_server_knows_a_failed_call(self) -> None:
        async def handle(_: Change[str]) -> None:
            await _cancel_inner()

        async with self.config.informer(decode.as_text, prefix="gate") as informer:
            await informer.wait_for_sync(_TIMEOUT)
            informer.add_handler(handle)
            with self.assertLogs("fanoutd", "WARNING"):
                revision = await self.config.put("gate/a", "1")
                while not (failed := await self._failed("gate")):
                    await asyncio.sleep(0.01)
            [watch] = failed
            self.assertEqual(list(watch.failed_keys), ["gate/a"])
            self.assertLess(watch.applied.revision, revision)

    async def _failed(self, prefix: str) -> list[Any]:
        with await self.client.connection() as connection:
            response = await connection.admin.ListWatchers(admin_pb2.ListWatchersRequest(resource="config"))
        return [w for w in response.watchers if w.request.scope.prefix == prefix and w.HasField("error")]

    @_limited
    async def test_a_decoder_that_fails_costs_no_other_object(self) -> None:
        async def later() -> str:
            return "never"

        failures: list[Callable[[], Any]] = [
            lambda: sys.exit(1), _cancelled, _stop_iteration, lambda: (_ for _ in ()).throw(_Odd()), later,
        ]  # fmt: skip
        for n, failure in enumerate(failures):
            with self.subTest(n):
                prefix, told = f"decoder{n}", list[str]()

                def decoder(o: fanoutd.Object) -> Any:
                    return failure() if o.value == "bad" else decode.as_text(o)

                def on_error(o: fanoutd.Object | None, error: Exception) -> None:
                    assert o is not None
                    told.append(o.key)
                    self.assertEqual(informer[f"{prefix}/c"], "3")  # the copy has changed before
                    sys.exit(1)

                informer = self.config.informer(decoder, prefix=prefix, on_error=on_error)
                async with informer, self.config.informer(decode.as_text, prefix=prefix) as other:
                    await informer.wait_for_sync(_TIMEOUT)
                    await other.wait_for_sync(_TIMEOUT)
                    with self.assertLogs("fanoutd", "WARNING"):
                        await self.config.transact(
                            Put(f"{prefix}/a", "1"), Put(f"{prefix}/b", "bad"), Put(f"{prefix}/c", "3")
                        )
                        await self._until(informer, f"{prefix}/c", "3")
                        await self._until(other, f"{prefix}/b", "bad")
                        await self.config.put(f"{prefix}/b", "2")
                        await self._until(informer, f"{prefix}/b", "2")
                    self.assertEqual(informer, {f"{prefix}/a": "1", f"{prefix}/b": "2", f"{prefix}/c": "3"})
                    self.assertEqual(told, [f"{prefix}/b"])

    @_limited
    async def test_callbacks_that_fail_end_nothing(self) -> None:
        server = await asyncio.to_thread(Server)
        self.addCleanup(server.close)
        called = asyncio.Event()

        def fail(*_: object) -> None:
            called.set()
            raise _Odd()

        folder = server.folder / "missing"
        (server.folder / "damaged").write_text("not a state")
        async with fanoutd.Client(server.address) as client:
            config = client.resource("config")
            await self._until_ready(config)
            await config.put("a", "0")
            with self.assertLogs("fanoutd", "ERROR"):
                damaged = config.informer(decode.as_text, state_file=str(server.folder / "damaged"), on_error=fail)
                async with damaged:
                    self.assertTrue(called.is_set())
                    await damaged.wait_for_sync(_TIMEOUT)
                called.clear()
                unsaved = config.informer(
                    decode.as_text, state_file=str(folder / "state"), on_error=fail, on_interruption=fail
                )
                async with unsaved:
                    await unsaved.wait_for_sync(_TIMEOUT)
                    await called.wait()  # the folder is missing
                    folder.mkdir()
                    called.clear()
                    await asyncio.to_thread(server.stop)
                    await called.wait()  # an interruption
                    await asyncio.to_thread(server.start)
                    await self._until_ready(config)
                    await config.put("a", "1")
                    await self._until(unsaved, "a", "1")
            self.assertTrue((folder / "state").exists())

    @_limited
    async def test_a_coroutine_function_is_refused_where_it_would_not_run(self) -> None:
        async def function(*_: object) -> None:
            pass

        coroutine: Any = function
        with self.assertRaises(TypeError):
            self.config.informer(coroutine)
        with self.assertRaises(TypeError):
            self.config.informer(decode.as_text, on_error=coroutine)
        with self.assertRaises(TypeError):
            self.config.informer(decode.as_text, on_interruption=coroutine)
        no_function: Any = "handle"
        with self.assertRaises(TypeError):
            self.config.informer(decode.as_text).add_handler(no_function)

    # Closing.

    @_limited
    async def test_handlers_may_close_everything(self) -> None:
        await self.config.put("close/a", "1")
        for what in ("informer", "child", "client"):
            with self.subTest(what):
                client = fanoutd.Client(self.server.address)
                informer = client.resource("config").informer(decode.as_text, prefix="close")
                returned = asyncio.Event()

                async def handle(_: Change[str]) -> None:
                    try:
                        if what == "informer":
                            await informer.close()
                        elif what == "child":
                            await asyncio.create_task(informer.close())
                        else:
                            await client.close()
                    finally:
                        returned.set()  # the other handler may be first, and this one cancelled

                async def another(_: Change[str]) -> None:
                    await informer.close()

                informer.add_handler(handle)
                informer.add_handler(another)
                informer.start()
                await returned.wait()
                await asyncio.gather(informer.close(), informer.close(), client.close(), client.close())
                await informer.close()

    @_limited
    async def test_a_task_that_a_handler_has_started_waits_for_handlers(self) -> None:
        await self.config.put("task/a", "1")
        informer = self.config.informer(decode.as_text, prefix="task")
        go, called = asyncio.Event(), asyncio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def close() -> None:
            await go.wait()
            await informer.close(timeout=0.05)

        async def handle(_: Change[str]) -> None:
            tasks.append(asyncio.create_task(close()))

        async def stay(_: Change[str]) -> None:
            called.set()
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError:
                    pass

        ended = asyncio.Event()
        informer.add_handler(handle)
        informer.add_handler(stay)
        informer.start()
        await informer.wait_for_state()
        await called.wait()
        try:
            with self.assertLogs("fanoutd", "WARNING"):
                go.set()
                await tasks[0]
        finally:
            ended.set()

    @_limited
    async def test_the_client_waits_for_a_handler_that_has_closed_its_informer(self) -> None:
        await self.config.put("closer/a", "1")
        closed, go, returned = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(_: Change[str]) -> None:
            await informer.close()
            closed.set()
            await go.wait()
            returned.set()

        informer = self.config.informer(decode.as_text, prefix="closer")
        informer.add_handler(handle)
        informer.start()
        await closed.wait()
        self.assertEqual(self.client.informers, [informer])
        closing = asyncio.create_task(self.client.close())
        await asyncio.wait([closing], timeout=0.05)
        go.set()
        await closing
        self.assertTrue(returned.is_set())
        self.assertEqual(self.client.informers, [])

    @_limited
    async def test_on_error_may_close(self) -> None:
        await self.config.put("closing/a", "{")
        tasks: list[asyncio.Task[None]] = []

        def on_error(*_: object) -> None:
            tasks.append(asyncio.create_task(informer.close()))

        informer = self.config.informer(decode.as_json, prefix="closing", on_error=on_error)
        async with informer:
            with self.assertLogs("fanoutd", "WARNING"):
                await informer.wait_closed()
            await tasks[0]

    @_limited
    async def test_a_handler_is_cancelled_and_then_left_alone(self) -> None:
        await self.config.put("stuck/a", "1")
        called, cancelled, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(_: Change[str]) -> None:
            called.set()
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    cancelled.set()

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "state"
            informer = self.config.informer(decode.as_text, prefix="stuck", state_file=str(file))
            informer.add_handler(handle)
            informer.start()
            await called.wait()
            try:
                with self.assertLogs("fanoutd", "WARNING"):
                    await informer.close(timeout=0.1)
                await cancelled.wait()
                while not file.exists():  # the handler does not delay the last save
                    await asyncio.sleep(0.01)
            finally:
                go.set()
            await informer.close()

    @_limited
    async def test_calls_after_close_fail(self) -> None:
        informer = self.config.informer(decode.as_text, prefix="after")
        never = self.config.informer(decode.as_text, prefix="after")
        await self.config.put("after/a", "1")
        async with informer:
            handler = informer.add_handler(lambda _: None)
            await informer.wait_for_sync(_TIMEOUT)
        await never.close()
        for i in (informer, never):
            calls = [i.wait_for_sync(), i.wait_for_state(), i.changed(fanoutd.Position())]
            for waiting in calls:
                with self.assertRaises(fanoutd.ClosedError):
                    await waiting
            with self.assertRaises(fanoutd.ClosedError):
                i.add_handler(lambda _: None)
            with self.assertRaises(fanoutd.ClosedError):
                i.start()
            await i.wait_closed()
        with self.assertRaises(fanoutd.ClosedError):
            await handler.synced()
        self.assertEqual((informer["after/a"], informer.stale), ("1", True))

    # Waiting.

    @_limited
    async def test_waiting_needs_a_start_and_takes_a_timeout(self) -> None:
        informer = self.config.informer(decode.as_text, prefix="wait")
        handler = informer.add_handler(lambda _: None)
        calls = [informer.wait_for_sync(), informer.wait_for_state(), handler.synced(), informer.wait_closed()]
        for waiting in calls:
            with self.assertRaisesRegex(RuntimeError, "not started"):
                await waiting
        async with fanoutd.Client(free_address()) as client:
            informer = client.resource("config").informer(decode.as_text)
            handler = informer.add_handler(lambda _: None)
            async with informer:
                for wait in (informer.wait_for_sync, informer.wait_for_state, handler.synced):
                    with self.assertRaises(TimeoutError):
                        await wait(0.01)

    @_limited
    async def test_late_handlers_are_waited_for(self) -> None:
        await self.config.transact(*(Put(f"late/{n}", "1") for n in range(5)))
        go = asyncio.Event()
        handled: set[str] = set()

        async def handle(change: Change[str]) -> None:
            await go.wait()
            handled.add(change.key)

        async with self.config.informer(decode.as_text, prefix="late") as informer:
            await informer.wait_for_sync(_TIMEOUT)
            handler = informer.add_handler(handle)
            for wait in (informer.wait_for_sync, handler.synced):
                with self.assertRaises(TimeoutError):
                    await wait(0.01)
            go.set()
            await handler.synced(_TIMEOUT)
            self.assertEqual(handled, set(informer))
            go.clear()
            removed = informer.add_handler(handle)
            waiting = asyncio.gather(removed.synced(_TIMEOUT), return_exceptions=True)
            await asyncio.sleep(0)
            removed.remove()
            [error] = await waiting
            self.assertIsInstance(error, fanoutd.ClosedError)
            await informer.wait_for_sync(_TIMEOUT)

    @_limited
    async def test_only_a_regular_file_has_the_state(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            for path in (folder, f"{folder}/fifo", "/dev/null"):
                informer = self.config.informer(decode.as_text, state_file=path)
                with self.assertRaisesRegex(ValueError, "not a regular file"):
                    informer.start()


if __name__ == "__main__":
    unittest.main()
