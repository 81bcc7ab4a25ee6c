"""Informers without asyncio, with a real server."""

from __future__ import annotations

import collections.abc
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import fanoutd
import fanoutd.sync
from fanoutd import Change, Put, decode
from tests.server import ServerTest

_TIMEOUT = 300.0


class _Odd(BaseException):
    """An exception that is no Exception."""


def _raise(error: BaseException) -> None:
    raise error


# Its handler is busy when it ends, and never returns.
_BUSY_PROGRAM = """\
import logging, sys, threading
logging.basicConfig(level=logging.INFO)
sys.path.insert(0, sys.argv[2])
import fanoutd.sync

client = fanoutd.sync.Client(sys.argv[1])
informer = client.resource("config").informer(fanoutd.decode.as_text, prefix="busy", state_file=sys.argv[3])
called = threading.Event()

def handle(change):
    called.set()
    threading.Event().wait()

informer.add_handler(handle)
informer.start()
called.wait()
print("end")
"""


class SyncInformerTest(ServerTest):
    """Each test has its own prefix."""

    def setUp(self) -> None:
        self.client = fanoutd.sync.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.config = self.client.resource("config")

    def _wait(self, event: threading.Event) -> None:
        self.assertTrue(event.wait(_TIMEOUT))

    def test_an_informer_is_a_mapping(self) -> None:
        self.config.transact(Put("map/a", "1"), Put("map/b", "2"))
        want = {"map/a": "1", "map/b": "2"}
        with self.config.informer(decode.as_text, prefix="map") as shop:
            shop.wait_for_sync(_TIMEOUT)
            self.assertIsInstance(shop, collections.abc.Mapping)
            self.assertEqual(sorted(shop), ["map/a", "map/b"])
            self.assertEqual(dict(shop.items()), want)
            self.assertEqual(dict(shop), want)
            self.assertEqual(shop, want)
            self.assertEqual(sorted(shop.keys()), ["map/a", "map/b"])
            self.assertEqual(sorted(shop.values()), ["1", "2"])
            self.assertEqual((len(shop), "map/a" in shop, shop.get("map/c", "3")), (2, True, "3"))
            self.assertEqual(shop.item("map/a").object.key, "map/a")
            position, items = shop.snapshot()
            self.assertEqual((position, {key: item.value for key, item in items.items()}), (shop.position, want))
        shop.wait_closed()
        self.assertEqual(dict(shop), want)

    def test_an_iteration_sees_one_state(self) -> None:
        """The reader never sees a part of a transaction."""
        keys = [f"one/{n}" for n in range(20)]
        self.config.transact(*(Put(key, "0") for key in keys))
        seen: list[set[str]] = []
        ended = threading.Event()
        with self.config.informer(decode.as_text, prefix="one") as shop:
            shop.wait_for_sync(_TIMEOUT)

            def read() -> None:
                while "50" not in (values := set(shop.values())):
                    seen.append(values)
                    seen.append({item.value for item in shop.snapshot().items.values()})
                ended.set()

            threading.Thread(target=read, daemon=True).start()
            for n in range(1, 51):
                self.config.transact(*(Put(key, str(n)) for key in keys))
            self._wait(ended)
        self.assertEqual({len(values) for values in seen} - {1}, set())

    def test_a_failed_call_of_a_handler_is_repeated(self) -> None:
        failures: list[Callable[[], object]] = [
            sys.exit, lambda: _raise(KeyboardInterrupt()), lambda: _raise(_Odd()), lambda: next(iter(())),
            lambda: _raise(GeneratorExit()),
        ]  # fmt: skip
        for n, failure in enumerate(failures):
            with self.subTest(n), mock.patch("fanoutd.handler_loop._FIRST_RETRY", 0.001):
                calls: list[str] = []
                again, go = threading.Event(), threading.Event()

                def handle(change: Change[str]) -> None:
                    calls.append(change.key)
                    if len(calls) == 1:
                        failure()
                    again.set()
                    go.wait(_TIMEOUT)

                with self.config.informer(decode.as_text, key=f"call/{n}") as informer:
                    informer.add_handler(handle)
                    with self.assertLogs("fanoutd", "WARNING"):
                        revision = self.config.put(f"call/{n}", "1")
                        self._wait(again)
                    self.assertLess(informer._copy.progress().applied.revision, revision)
                    go.set()
                    informer.wait_for_sync(_TIMEOUT)
                    self.assertEqual(self.config.count(key=f"call/{n}"), 1)

    def test_a_coroutine_function_is_no_handler(self) -> None:
        async def handle(_: Change[str]) -> None:
            pass

        coroutine: Any = handle
        self.config.put("coroutine/a", "1")
        with self.config.informer(decode.as_text, prefix="coroutine") as informer:
            with self.assertRaises(TypeError):
                informer.add_handler(coroutine)
            with self.assertLogs("fanoutd", "WARNING") as logs:
                informer.add_handler(mock.Mock(side_effect=lambda change: handle(change))).synced(_TIMEOUT)
            self.assertIn("awaitable", logs.output[0])

    def test_late_handlers_are_waited_for(self) -> None:
        self.config.put("late/a", "1")
        go = threading.Event()
        with self.config.informer(decode.as_text, prefix="late") as informer:
            informer.wait_for_sync(_TIMEOUT)
            handler = informer.add_handler(lambda _: self._wait(go))
            for wait in (informer.wait_for_sync, handler.synced):
                with self.assertRaises(TimeoutError):
                    wait(0.01)
            go.set()
            handler.synced(_TIMEOUT)
            handler.remove()
            with self.assertRaises(fanoutd.ClosedError):
                handler.synced(_TIMEOUT)

    def test_closing_is_a_signal_for_handlers(self) -> None:
        self.config.put("signal/a", "1")
        for what in ("informer", "client"):
            with self.subTest(what), fanoutd.sync.Client(self.server.address) as client:
                called, seen = threading.Event(), threading.Event()
                informer = client.resource("config").informer(decode.as_text, prefix="signal")

                def handle(_: Change[str]) -> None:
                    called.set()
                    if informer.closing.wait(_TIMEOUT):
                        seen.set()

                informer.add_handler(handle)
                informer.start()
                self._wait(called)
                if what == "informer":
                    informer.close(_TIMEOUT)
                else:
                    client.close()
                self.assertTrue(seen.is_set())

    def test_a_handler_that_never_returns_is_left_alone(self) -> None:
        self.config.put("stuck/a", "1")
        called, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def handle(_: Change[str]) -> None:
            called.set()
            go.wait()

        informer = self.config.informer(decode.as_text, prefix="stuck")
        informer.add_handler(handle)
        informer.start()
        self._wait(called)
        with self.assertLogs("fanoutd", "WARNING"):
            informer.close(timeout=0.05)
        informer.close()
        self.client.close()

    def test_callbacks_may_close_everything(self) -> None:
        self.config.put("closing/a", "{")
        for what in ("informer", "client"):
            with self.subTest(what), fanoutd.sync.Client(self.server.address) as client:
                closed = threading.Event()

                def on_error(*_: object) -> None:
                    informer.close(_TIMEOUT)
                    if what == "client":
                        client.close()
                    closed.set()

                informer = client.resource("config").informer(decode.as_json, prefix="closing", on_error=on_error)
                with self.assertLogs("fanoutd", "WARNING"):
                    informer.start()
                    self._wait(closed)
                informer.close(_TIMEOUT)

    def test_a_decoder_may_close_the_informer(self) -> None:
        self.config.put("decoder/a", "1")

        def decoder(_: fanoutd.Object) -> str:
            informer.close(_TIMEOUT)
            return ""

        informer = self.config.informer(decoder, prefix="decoder")
        informer.start()
        informer.wait_closed()
        informer.close(_TIMEOUT)

    def test_callbacks_that_block_or_exit_end_nothing(self) -> None:
        def restart() -> None:
            self.server.stop()
            self.server.start()
            self.server.until_ready()

        for name, cause in {
            "on_error": lambda: self.config.put("block/a", "{"),
            "on_interruption": restart,
        }.items():
            with self.subTest(name):
                go, called = threading.Event(), threading.Event()
                self.addCleanup(go.set)

                def block(*_: object) -> None:
                    called.set()
                    go.wait()
                    sys.exit(1)

                callback: dict[str, Any] = {name: block}
                with self.config.informer(decode.as_json, prefix="block", **callback) as informer:
                    informer.wait_for_sync(_TIMEOUT)
                    with self.assertLogs("fanoutd"):
                        cause()
                        self._wait(called)
                        self.config.put("block/b", f'"{name}"')
                        while informer.get("block/b") != name:
                            informer.changed(informer.position)
                        go.set()

    def test_the_newest_calls_wait_for_a_callback_that_blocks(self) -> None:
        go, called, ended = threading.Event(), threading.Event(), threading.Event()
        self.addCleanup(go.set)
        seen: list[str] = []

        def block(o: fanoutd.Object | None, _: Exception) -> None:
            assert o is not None
            called.set()
            go.wait()
            seen.append(o.key)
            if o.key == "many/9":
                ended.set()

        with mock.patch("fanoutd.callback_thread._MOST", 3), self.assertLogs("fanoutd", "WARNING") as logs:
            with self.config.informer(decode.as_json, prefix="many", on_error=block) as informer:
                informer.wait_for_sync(_TIMEOUT)
                self.config.put("many/0", "{")
                self._wait(called)
                for n in range(1, 10):
                    self.config.put(f"many/{n}", "{")
                self.config.put("many/good", "1")
                while informer.get("many/good") != 1:
                    informer.changed(informer.position)
                go.set()
                self._wait(ended)
        self.assertEqual(seen, ["many/0", "many/7", "many/8", "many/9"])
        dropped = [r.getMessage() for r in logs.records if "dropped" in r.getMessage()]
        self.assertEqual(
            dropped,
            [
                "on_error does not keep up: the oldest of 3 calls that wait are dropped",
                "6 calls of callbacks were dropped",
            ],
        )

    def test_a_busy_handler_at_exit_rejects_nothing(self) -> None:
        self.config.put("busy/a", "1")
        root = str(Path(fanoutd.__file__).parents[1])
        ended = subprocess.run(
            [sys.executable, "-c", _BUSY_PROGRAM, self.server.address, root, str(self.server.folder / "busy")],
            capture_output=True, text=True, timeout=_TIMEOUT,
        )  # fmt: skip
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "end\n", ""))


if __name__ == "__main__":
    unittest.main()
