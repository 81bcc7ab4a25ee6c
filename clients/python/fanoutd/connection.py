"""The connections of a client to its servers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import grpc

from fanoutd.credentials import TLS, Token, is_local
from fanoutd.tasks import Tasks
from fanoutd.v1 import admin_pb2_grpc, fanout_pb2_grpc, store_pb2_grpc

__all__ = ["Connection", "Servers"]

_OPTIONS: list[tuple[str, Any]] = [
    # A connection that is replaced must not be shared with its successor.
    ("grpc.use_local_subchannel_pool", 1),
    # The window of a stream stays small, so a watch that is not read soon makes the server wait.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 256 << 10),
    ("grpc.max_receive_message_length", 64 << 20),
    # Find dead connections while a request waits for an answer, and before the next request needs them. Servers
    # allow a ping every 10 seconds, also without requests.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The client retries itself.
    ("grpc.enable_retries", 0),
]


class Connection:
    """A connection to one server. It is closed when it was retired and no stream uses it any more."""

    def __init__(self, server: str, channel: grpc.aio.Channel, servers: Servers) -> None:
        self.server = server
        self.channel = channel
        self.reads: Any = fanout_pb2_grpc.FanoutServiceStub(channel)  # type: ignore[no-untyped-call]
        self.writes: Any = store_pb2_grpc.StoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)  # type: ignore[no-untyped-call]
        self._servers = servers
        self._users = 0
        self._retired = False

    def __enter__(self) -> Connection:
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Make later requests use another connection."""
        if not self._retired:
            self._retired = True
            self._servers.forget(self)
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and self._users == 0:
            self._servers.close_later(self)


class Servers:
    """The servers of a client, and at most one connection to each that is not retired."""

    def __init__(
        self, addresses: Sequence[str], tls: TLS | None, token: Token | None, user_agent: str, tasks: Tasks
    ) -> None:
        """The tasks close connections that were replaced."""
        if not addresses:
            raise ValueError("there is no address")
        for address in addresses:
            if address.startswith(("http:", "https:")):
                raise ValueError(f"{address!r} is an HTTP URL (want host:port)")
            if "://" not in address and not address.startswith("unix:") and ":" not in address:
                raise ValueError(f"{address!r} has no port (want host:port)")
            if token is not None and tls is None and not is_local(address):
                raise ValueError(f"a token is not sent in plaintext to another machine: use TLS for {address}")
        self._addresses = list(addresses)
        self._tls = tls
        self._token = token
        self._options = [*_OPTIONS, ("grpc.primary_user_agent", user_agent)]
        if token is not None and tls is None:
            self._options.append(("grpc.enable_http_proxy", 0))
        if tls is not None and tls.server_name:
            self._options.append(("grpc.ssl_target_name_override", tls.server_name))
        self._next = random.randrange(len(self._addresses))
        self._connections: dict[str, Connection] = {}
        self._closing: set[grpc.aio.Channel] = set()
        self._tasks = tasks

    @property
    def renewable(self) -> bool:
        """Whether the next request may have other credentials than the last one."""
        return self._token is not None or self._tls is not None and self._tls.cert_file is not None

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a request."""
        return () if self._token is None else await self._token.metadata()

    def connect(self, avoid: str | None = None) -> Connection:
        """Return a connection: to another server than the one to avoid, if there are several."""
        address = self._addresses[self._next % len(self._addresses)]
        if address == avoid:
            self._next += 1
            address = self._addresses[self._next % len(self._addresses)]
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection(address, self._open(address), self)
        return found

    def turn(self) -> None:
        """Make the next request use the next server."""
        self._next += 1

    def _open(self, address: str) -> grpc.aio.Channel:
        if self._tls is None:
            return grpc.aio.insecure_channel(address, self._options)
        return grpc.aio.secure_channel(address, self._tls.credentials(), self._options)

    def forget(self, connection: Connection) -> None:
        """Let the next request to the server open another connection."""
        if self._connections.get(connection.server) is connection:
            del self._connections[connection.server]

    def close_later(self, connection: Connection) -> None:
        """Close a connection that nothing uses."""
        self._closing.add(connection.channel)
        self._tasks.start(self._close(connection.channel))

    async def _close(self, channel: grpc.aio.Channel) -> None:
        await channel.close()
        self._closing.discard(channel)

    async def close(self) -> None:
        """Close all connections. Nothing may use them any more."""
        channels = [c.channel for c in self._connections.values()]
        self._connections.clear()
        for channel in [*channels, *self._closing]:
            await channel.close()
        self._closing.clear()
