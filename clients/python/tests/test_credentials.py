"""TLS and tokens with a real server."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fanoutd
from tests.server import PROGRAM, Server

_TIMEOUT = 300.0

_POLICY = """
rules:
  - subjects: [one, two]
    resources: ["*"]
    verbs: ["*"]
"""


def line(name: str, token: str) -> str:
    """Return the line of a token file."""
    return f"{name} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


class AddressTest(unittest.IsolatedAsyncioTestCase):
    """A token does not leave the machine in plaintext."""

    async def test_plaintext_needs_a_local_server(self) -> None:
        with self.assertRaises(ValueError):
            fanoutd.Client("192.0.2.1:7420", token="secret", insecure=True)
        for address in ["127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/x", "unix:///x"]:
            await fanoutd.Client(address, token="secret").close()

    async def test_addresses_are_checked(self) -> None:
        for address in ["", "host", "http://host:1", []]:
            with self.assertRaises(ValueError):
                fanoutd.Client(address)


@unittest.skipUnless(PROGRAM, "FANOUTD does not name a program")
class CredentialsTest(unittest.IsolatedAsyncioTestCase):
    """The server shows a certificate and accepts two tokens, one after the other."""

    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", str(self.folder / "key"), "-out", str(self.folder / "cert"), "-days", "2", "-subj", "/CN=test",
             "-addext", "subjectAltName=DNS:fanoutd.example,IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
        (self.folder / "tokens").write_text(line("one", "first"))
        (self.folder / "policy").write_text(_POLICY)
        self.server = Server(
            "--tls-cert-file", str(self.folder / "cert"), "--tls-key-file", str(self.folder / "key"),
            "--token-file", str(self.folder / "tokens"), "--policy-file", str(self.folder / "policy"),
        )  # fmt: skip
        self.tls = fanoutd.TLS(ca_file=str(self.folder / "cert"), server_name="fanoutd.example")

    def tearDown(self) -> None:
        self.server.close()
        self._folder.cleanup()

    async def test_a_wait_asks_each_address_for_the_name(self) -> None:
        tls = fanoutd.TLS(ca_file=str(self.folder / "cert"))
        for name, reached in ("fanoutd.example", True), ("other.example", False):

            async def found(address: str, timeout: float | None, name: str = name) -> list[tuple[str, str]]:
                return [(self.server.address, name)]

            async with fanoutd.Client("fanoutd.example:1", tls=tls, token="first") as client:
                config = client.resource("config")
                with mock.patch("fanoutd.wait.each_address", found):
                    if reached:
                        status = await config.wait(1, min_watches=0, timeout=_TIMEOUT)
                        self.assertEqual([s.address for s in status.servers], [self.server.address])
                    else:
                        with self.assertRaises(fanoutd.NotReachedError):
                            await config.wait(1, min_watches=0, timeout=1)

    async def test_a_watch_survives_a_new_token(self) -> None:
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(self.server.address, tls=self.tls) as anonymous:
            with self.assertRaises(fanoutd.Error) as refused:
                await anonymous.resource("config").get("x")
            self.assertEqual(refused.exception.reason, fanoutd.Reason.UNAUTHENTICATED)
            with self.assertRaises(fanoutd.Error) as ended:
                await anext(anonymous.resource("config").watch())
            self.assertEqual(ended.exception.reason, fanoutd.Reason.UNAUTHENTICATED)

        mine = self.folder / "mine"
        mine.write_text("first\n")
        interrupted: list[BaseException] = []
        async with asyncio.timeout(_TIMEOUT), fanoutd.Client(
            self.server.address, tls=self.tls, token_file=str(mine)
        ) as client:
            config = client.resource("config")
            watch = config.watch(prefix="t", on_interruption=interrupted.append)
            async for update in watch:
                if update.synced:
                    break
            # The operator replaces the token.
            mine.write_text("second\n")
            (self.folder / "tokens").write_text(line("two", "second"))
            while True:
                try:
                    await config.put("t/a", "1")
                    break
                except fanoutd.Error as error:
                    self.assertEqual(error.reason, fanoutd.Reason.UNAUTHENTICATED)
            async for update in watch:
                if update.events:
                    break
            self.assertEqual([e.key for e in update.events], ["t/a"])


if __name__ == "__main__":
    unittest.main()
