"""The server for tests: what each of its commands does to a client."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import grpc

import fanoutd
import fanoutd.sync
from fanoutd import Reason, decode
from fanoutd.testing import Server

_PROGRAM = os.environ.get("FANOUTTEST", "")


@unittest.skipUnless(_PROGRAM, "FANOUTTEST does not name a program")
class CommandTest(unittest.TestCase):
    """What clients see of each command."""

    def setUp(self) -> None:
        self.server = Server("config", "other")
        self.addCleanup(self.server.close)
        self.config = self._client().resource("config")

    def _client(self) -> fanoutd.sync.Client:
        client = fanoutd.sync.Client(self.server.address)
        self.addCleanup(client.close)
        return client

    def _update(self, updates: Iterator[fanoutd.Update], wanted: Callable[[fanoutd.Update], bool]) -> fanoutd.Update:
        while not wanted(update := next(updates)):
            pass
        return update

    def _follow(self, failures: Callable[[], None]) -> list[str]:
        """Watch, cause failures, write, and return what the watch gets between its first state and the write."""
        interrupted = threading.Event()
        self.config.put("a", "1")
        watch = self.config.watch(on_interruption=lambda error: interrupted.set())
        self.addCleanup(watch.close)
        self._update(watch, lambda u: u.complete)

        def write() -> None:
            interrupted.wait()
            # The first request of another client needs no second attempt.
            self._client().resource("config").put("b", "1")

        failures()  # all connections are cut when it returns, so not that of the writer
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        seen: list[str] = []
        while "b" not in seen:
            update = next(watch)
            seen += ["replace"] if update.replace else []
            seen += [e.key for e in update.events]
        writer.join()
        return seen

    def test_cut_connections(self) -> None:
        self.assertEqual(self._follow(self.server.cut_connections), ["b"])

    def test_expire_positions(self) -> None:
        self.assertEqual(self._follow(self.server.expire_positions), ["replace", "a", "b"])

    def test_new_epoch(self) -> None:
        self.assertEqual(self._follow(self.server.new_epoch), ["replace", "a", "b"])

    def test_expired_positions_end_a_watch_of_every_event(self) -> None:
        self.config.put("a", "1")
        watch = self.config.watch(every_event=True)
        self._update(watch, lambda u: u.complete)
        self.server.expire_positions()
        with self.assertRaises(fanoutd.Error) as caught:
            self._update(watch, lambda u: False)
        self.assertEqual(caught.exception.reason, Reason.POSITION_EXPIRED)

    def test_stop_and_start(self) -> None:
        self.config.put("a", "1")
        self.server.stop()
        with self.assertRaises(fanoutd.Error) as caught:
            self._client().resource("config").put("a", "2", timeout=0.5)
        self.assertIn(caught.exception.code, (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))
        self.server.stop()  # it is stopped already
        self.server.start()
        self.assertEqual(self._client().resource("config").get("a").value, "1")

    def test_refuse_and_accept(self) -> None:
        watch = self.config.watch()
        next(watch)
        self.server.refuse(grpc.StatusCode.PERMISSION_DENIED, Reason.PERMISSION_DENIED)
        with self.assertRaises(fanoutd.Error) as caught:
            self._update(watch, lambda u: False)
        self.assertEqual(caught.exception.reason, Reason.PERMISSION_DENIED)
        with self.assertRaises(fanoutd.Error) as caught:
            self._client().resource("config").put("a", "1")
        self.assertEqual(caught.exception.reason, Reason.PERMISSION_DENIED)
        self.server.accept()
        self._client().resource("config").put("a", "1")

    def test_stop_etcd_and_start_etcd(self) -> None:
        with self.config.informer(decode.as_text, bookmark_interval=0.1) as copy:
            copy.wait_for_sync(timeout=300)
            self.server.stop_etcd()
            with self.assertRaises(fanoutd.Error) as caught:
                self.config.put("a", "1")
            self.assertEqual(caught.exception.reason, Reason.STORE_UNAVAILABLE)
            self.server.start_etcd()
            self.config.put("a", "1")
            while "a" not in copy:
                copy.changed(copy.position)

    def test_resources(self) -> None:
        client = self._client()
        client.resource("other").put("a", "1")
        with self.assertRaises(fanoutd.NotFoundError):
            client.resource("config").get("a")
        with self.assertRaises(fanoutd.Error) as caught:
            client.resource("third").get("a")
        self.assertEqual(caught.exception.reason, Reason.UNKNOWN_RESOURCE)

    def test_impossible_refusal(self) -> None:
        with self.assertRaisesRegex(ValueError, "refuse with OK"):
            self.server.refuse(grpc.StatusCode.OK, "")

    def test_closed(self) -> None:
        self.server.close()
        self.server.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            self.server.start()


# A program that starts a server, prints the process id of the server, and waits.
_WAITING = """\
import sys
from fanoutd.testing import Server
server = Server()
print(server._process.pid, flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(_PROGRAM, "FANOUTTEST does not name a program")
class ProcessTest(unittest.TestCase):
    """How the program is found, and that it ends."""

    def test_found_on_the_path(self) -> None:
        program = Path(_PROGRAM).resolve()
        with mock.patch.dict(os.environ, FANOUTTEST="", PATH=str(program.parent)), Server() as server:
            self.assertRegex(server.address, r"^127\.0\.0\.1:\d+$")

    def test_named_by_the_argument(self) -> None:
        with mock.patch.dict(os.environ, FANOUTTEST="/no/such"), Server(program=str(Path(_PROGRAM).resolve())):
            pass

    def test_missing(self) -> None:
        for program, variable, named in ("/no/a", "", "/no/a"), (None, "/no/b", "/no/b"), (None, "", "fanouttest"):
            with mock.patch.dict(os.environ, FANOUTTEST=variable, PATH="/no"):
                with self.assertRaisesRegex(FileNotFoundError, f"there is no program '{named}'.*FANOUTTEST"):
                    Server(program=program)

    def test_not_the_program(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "has ended"):
            Server(program="true")

    def test_it_ends_with_a_killed_test(self) -> None:
        test = subprocess.Popen(
            [sys.executable, "-c", _WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert test.stdin is not None and test.stdout is not None
        ends = os.pidfd_open(int(test.stdout.readline()))
        self.addCleanup(os.close, ends)
        test.send_signal(signal.SIGKILL)
        test.wait()
        test.stdin.close()
        test.stdout.close()
        # The descriptor becomes readable when the process ends.
        self.assertEqual(select.select([ends], [], [], 300)[0], [ends])


class ImportTest(unittest.TestCase):
    """Programs that do not use it do not load it."""

    def test_the_client_does_not_import_it(self) -> None:
        code = "import fanoutd, fanoutd.sync, sys; print('fanoutd.testing' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout, "False\n")


if __name__ == "__main__":
    unittest.main()
