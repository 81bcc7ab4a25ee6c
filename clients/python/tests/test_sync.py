"""The client without asyncio, with a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import traceback
import unittest
from collections.abc import Callable

import fanoutd
import fanoutd.sync
from fanoutd import decode
from tests.server import PROGRAM, Server, ServerTest, free_address

_TIMEOUT = 300.0


class CloseTest(ServerTest):
    """Closing the client ends its threads, whatever else was not closed."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with fanoutd.sync.Client(cls.server.address) as client:
            client.resource("config").put("a", "1")

    def setUp(self) -> None:
        self.threads = set(threading.enumerate())
        self.client = fanoutd.sync.Client(self.server.address)
        self.addCleanup(self.client.close)
        self.config = self.client.resource("config")

    def _informer(self) -> fanoutd.sync.Informer[str]:
        informer = self.config.informer(decode.as_text)
        informer.start()
        informer.wait_for_sync(timeout=_TIMEOUT)
        return informer

    def _left(self) -> set[threading.Thread]:
        return {t for t in set(threading.enumerate()) - self.threads if t.name.startswith("fanoutd")}

    def test_the_client_ends_the_threads_of_handlers(self) -> None:
        called = threading.Event()
        self._informer().add_handler(lambda change: called.set())
        kept = self._informer()
        handler = kept.add_handler(lambda change: called.set())
        self.assertTrue(called.wait(_TIMEOUT))
        self.client.close()
        self.assertEqual(self._left(), set())
        handler.remove()
        kept.close()

    def test_the_client_waits_for_calls_of_handlers(self) -> None:
        called, go, returned = threading.Event(), threading.Event(), threading.Event()

        def handle(change: fanoutd.Change[str]) -> None:
            called.set()
            go.wait(_TIMEOUT)
            returned.set()

        self._informer().add_handler(handle)
        self.assertTrue(called.wait(_TIMEOUT))
        closing = threading.Thread(target=self.client.close)
        closing.start()
        with self.assertRaises(fanoutd.ClosedError):
            while True:
                self.config.count()
        self.assertFalse(returned.is_set())
        go.set()
        closing.join(_TIMEOUT)
        self.assertTrue(returned.is_set())
        self.assertEqual(self._left(), set())

    def test_a_handler_can_close_the_client(self) -> None:
        go, closed = threading.Event(), threading.Event()
        errors: list[Exception] = []

        def handle(change: fanoutd.Change[str]) -> None:
            go.wait(_TIMEOUT)
            try:
                informer.close()
                self.client.close()
            except Exception as error:
                errors.append(error)
            closed.set()

        informer = self._informer()
        for _ in range(2):
            informer.add_handler(handle)
        go.set()
        self.assertTrue(closed.wait(_TIMEOUT))
        self.assertEqual(errors, [])
        for thread in self._left():
            thread.join(_TIMEOUT)
            self.assertFalse(thread.is_alive())

    def test_calls_of_other_threads_end(self) -> None:
        began = threading.Barrier(9)
        errors: list[BaseException] = []

        def read() -> None:
            began.wait(_TIMEOUT)
            try:
                while True:
                    self.config.count()
            except BaseException as error:
                errors.append(error)

        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        began.wait(_TIMEOUT)
        self.client.close()
        for reader in readers:
            reader.join(_TIMEOUT)
            self.assertFalse(reader.is_alive())
        self.assertEqual({type(e) for e in errors}, {fanoutd.ClosedError})

    def test_a_callback_of_the_client_can_close_it(self) -> None:
        closed = threading.Event()

        def close(o: fanoutd.Object) -> str:
            self.client.close()
            closed.set()
            return ""

        informer = self.config.informer(close)
        informer.start()
        self.assertTrue(closed.wait(_TIMEOUT))
        self.client.close()
        self.assertEqual(self._left(), set())
        with self.assertRaises(fanoutd.ClosedError):
            self.config.get("a")

    def test_clients_of_all_threads_share_a_loop(self) -> None:
        """With several event loops, gRPC prints BlockingIOError."""

        def read() -> None:
            with fanoutd.sync.Client(self.server.address) as client:
                for _ in range(20):
                    client.resource("config").count()

        with self.assertNoLogs("asyncio"):
            readers = [threading.Thread(target=read) for _ in range(4)]
            for reader in readers:
                reader.start()
            while any(reader.is_alive() for reader in readers):
                self.assertLessEqual(len(self._left()), 1)
                self.config.count()
            for reader in readers:
                reader.join()
        self.config.count()  # the thread stays for this client
        self.client.close()
        self.assertEqual([t for t in threading.enumerate() if t.name == "fanoutd"], [])

    def test_a_callback_that_ends_the_program_does_not_end_the_loop(self) -> None:
        called = threading.Event()

        def exit() -> None:
            called.set()
            raise SystemExit(1)

        with self.assertLogs("fanoutd", "ERROR"):
            self.client._client._core.later(exit)
            self.assertTrue(called.wait(_TIMEOUT))
            self.config.count()


# Uses gRPC alone, and forks.
_FORKING = """\
import asyncio, os, grpc

async def use():
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        try:
            await channel.unary_unary("/a/b")(b"")
        except grpc.RpcError:
            pass
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)

asyncio.run(use())
"""


def _can_fork() -> bool:
    """Return whether a program that uses gRPC can fork. With some builds it waits for ever, and says so again and again."""
    with subprocess.Popen([sys.executable, "-c", _FORKING], stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        waits = any("Waiting for thread pool to idle before forking" in line for line in program.stderr)
        program.kill()
    return not waits


class ForkTest(unittest.TestCase):
    """gRPC does not work after a fork, so the clients say so."""

    @classmethod
    def setUpClass(cls) -> None:
        if not _can_fork():
            raise unittest.SkipTest("os.fork waits for ever after a use of this gRPC: grpc/grpc#31885")

    def _in_child(self, function: Callable[[], None]) -> None:
        """Call a function in a child, which has no time to hang."""
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                function()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def _refused(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "fork"):
            self.config.get("a")
        with self.assertRaisesRegex(RuntimeError, "fork"):
            next(iter(self.watch))
        with self.assertRaisesRegex(RuntimeError, "fork"):
            self.config.informer(decode.as_text)
        with self.assertRaisesRegex(RuntimeError, "fork"):
            fanoutd.sync.Client("127.0.0.1:1")
        self.watch.close()
        self.client.close()

    def test_without_asyncio(self) -> None:
        dead = free_address()
        with fanoutd.sync.Client(dead) as self.client:
            self.config = self.client.resource("config")
            with self.assertRaises(fanoutd.Error):
                self.config.put("a", "1")
            self.watch = self.config.watch()
            self._in_child(self._refused)
            with self.assertRaises(fanoutd.Error):
                self.config.put("a", "1")
        # All clients are closed, so a child may have one.
        self._in_child(lambda: fanoutd.sync.Client(dead).close())

    def test_with_asyncio(self) -> None:
        async def refused(client: fanoutd.Client) -> None:
            config = client.resource("config")
            with self.assertRaisesRegex(RuntimeError, "fork"):
                await config.get("a")
            with self.assertRaisesRegex(RuntimeError, "fork"):
                config.watch()
            with self.assertRaisesRegex(RuntimeError, "fork"):
                fanoutd.Client("127.0.0.1:1")
            await client.close()

        async def use() -> None:
            async with fanoutd.Client(free_address()) as client:
                with self.assertRaises(fanoutd.Error):
                    await client.resource("config").put("a", "1")
                self._in_child(lambda: asyncio.new_event_loop().run_until_complete(refused(client)))

        asyncio.run(use())


if __name__ == "__main__":
    unittest.main()
