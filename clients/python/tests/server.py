"""A fanoutd with an embedded etcd, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import fanoutd.sync

# The program to test. `make test-python` builds it.
PROGRAM = os.environ.get("FANOUTD", "")

_START_TIMEOUT = 300.0


def free_address() -> str:
    """Return a free address of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return f"127.0.0.1:{s.getsockname()[1]}"


class Server:
    """A running server. It can be restarted at its address."""

    def __init__(self, *args: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.address = free_address()
        self._command = [
            PROGRAM, "--listen", self.address, "--admin-listen", "", "--data-dir", str(self.folder / "data"), *args,
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self._log = open(self.folder / "log", "ab")
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)
        due = time.monotonic() + _START_TIMEOUT
        while True:
            try:
                host, port = self.address.split(":")
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
            if self._process.poll() is not None or time.monotonic() > due:
                raise RuntimeError((self.folder / "log").read_text())

    def until_ready(self) -> None:
        """Wait until the server answers: it listens before it is ready."""
        with fanoutd.sync.Client(self.address) as client, client.resource("config").watch() as watch:
            next(watch)

    def stop(self) -> None:
        """Stop the server, which drains its watches."""
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def close(self) -> None:
        """Stop the server, and remove its data."""
        self.stop()
        self._folder.cleanup()


@unittest.skipUnless(PROGRAM, "FANOUTD does not name a program")
class ServerTest(unittest.TestCase):
    """Tests that share a server, which is ready."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.server.until_ready()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()


class ClientTest(ServerTest, unittest.IsolatedAsyncioTestCase):
    """Tests that share a server. Each has a client of its own."""

    async def asyncSetUp(self) -> None:
        self.client = fanoutd.Client(self.server.address)
        self.config = self.client.resource("config")

    async def asyncTearDown(self) -> None:
        await self.client.close()
