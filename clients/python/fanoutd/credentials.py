"""TLS and tokens."""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from fanoutd.errors import Error

__all__ = ["TLS", "TokenSource"]

TokenSource = Callable[[], "str | Awaitable[str]"]
"""Returns the token for a request. It may be a coroutine function."""


@dataclass(frozen=True)
class TLS:
    """How connections are encrypted. The files are read again for each connection."""

    ca_file: str | None = None
    """The certificates of the authorities to trust. Default: those of gRPC."""
    cert_file: str | None = None
    """The client certificate, followed by intermediate certificates."""
    key_file: str | None = None
    """The private key of the client certificate."""
    server_name: str | None = None
    """The name that the certificate of the server must have. Default: the host of the address."""


def credentials_of(tls: TLS) -> grpc.ChannelCredentials:
    """Read the files."""

    def read(path: str | None) -> bytes | None:
        return Path(path).read_bytes() if path else None

    return grpc.ssl_channel_credentials(read(tls.ca_file), read(tls.key_file), read(tls.cert_file))


def is_local(address: str) -> bool:
    """Return whether an address is on this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rsplit("/", 1)[-1].rpartition(":")[0].lower()
    host = host.removeprefix("dns:").removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Token:
    """Adds a token to requests."""

    def __init__(self, source: TokenSource, renewable: bool = True) -> None:
        self._source = source
        self.renewable = renewable

    @staticmethod
    def fixed(token: str) -> Token:
        """Return a token that never changes."""
        return Token(lambda: token, renewable=False)

    @staticmethod
    def of_file(path: str) -> Token:
        """Return the token that a file has at the time of each request."""

        def read() -> str:
            token = Path(path).read_text(encoding="utf-8").strip()
            if not token:
                raise ValueError(f"{path} is empty")
            return token

        return Token(read)

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a request."""
        try:
            token = self._source()
            if inspect.isawaitable(token):
                token = await token
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # The source may work again soon, so this is not UNAUTHENTICATED.
            raise Error(grpc.StatusCode.UNAVAILABLE, f"cannot get a token: {error}") from error
        return (("authorization", f"Bearer {token}"),)
