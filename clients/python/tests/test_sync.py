"""The client without asyncio, with a real server."""

from __future__ import annotations

import threading
import unittest

import fanoutd
import fanoutd.sync
from fanoutd import decode
from tests.server import PROGRAM, Server

_TIMEOUT = 300.0


@unittest.skipUnless(PROGRAM, "FANOUTD does not name a program")
class CloseTest(unittest.TestCase):
    """Closing the client ends its threads, whatever else was not closed."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        # The server listens before it is ready.
        with fanoutd.sync.Client(cls.server.address) as client, client.resource("config").watch() as watch:
            next(watch)
            client.resource("config").put("a", "1")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

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
        closed = threading.Event()
        errors: list[Exception] = []

        def handle(change: fanoutd.Change[str]) -> None:
            try:
                informer.close()
                self.client.close()
            except Exception as error:
                errors.append(error)
            closed.set()

        informer = self.config.informer(decode.as_text)
        for _ in range(2):
            informer.add_handler(handle)
        informer.start()
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

    def test_a_callback_of_the_client_cannot_close_it(self) -> None:
        errors: list[Exception] = []

        def close(o: fanoutd.Object) -> str:
            try:
                self.client.close()
            except RuntimeError as error:
                errors.append(error)
            return ""

        with self.config.informer(close) as informer:
            informer.wait_for_sync(timeout=_TIMEOUT)
        self.assertGreater(len(errors), 0)
        self.client.close()
        self.assertEqual(self._left(), set())


if __name__ == "__main__":
    unittest.main()
