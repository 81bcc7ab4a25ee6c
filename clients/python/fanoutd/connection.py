"""The connections of a client to its servers."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import grpc

from fanoutd.backoff import Backoff
from fanoutd.credentials import credentials_of, is_local
from fanoutd.errors import ClosedError, Error
from fanoutd.settings import Settings
from fanoutd.tasks import Tasks
from fanoutd.v1 import admin_pb2_grpc, fanout_pb2_grpc, store_pb2_grpc
from fanoutd.version import VERSION

__all__ = ["Connection", "Servers"]

# How long a server has for a connection: TCP, TLS, and the first frame of HTTP/2.
_CONNECT_TIMEOUT = 5.0

# If a server is not connected after this time, the client tries the next one, too.
_HEAD_START = 1.0

# The limits of the delays after which a client tries again if it can reach no server.
_FIRST_PAUSE, _LAST_PAUSE = 0.2, 5.0

_OPTIONS: dict[str, Any] = {
    # A connection that is replaced must not be shared with its successor.
    "grpc.use_local_subchannel_pool": 1,
    # A connection that breaks before the request on it is connected again by gRPC, within this time.
    "grpc.min_reconnect_backoff_ms": round(1000 * _CONNECT_TIMEOUT),
    # The window of a stream stays small, so a watch that is not read soon makes the server wait.
    "grpc.http2.bdp_probe": 0,
    "grpc.http2.lookahead_bytes": 256 << 10,
    "grpc.max_receive_message_length": 64 << 20,
    # Find dead connections while a request waits for an answer, and before the next request needs them. Servers
    # allow a ping every 10 seconds, also without requests.
    "grpc.keepalive_time_ms": 15_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
    # The client retries itself.
    "grpc.enable_retries": 0,
}

_READY = grpc.ChannelConnectivity.READY
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE

# No other server would take the position or the credentials either.
_SAME_ELSEWHERE = (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.UNAUTHENTICATED)

# The error of a connection is only in the error of a request. This one would do no harm.
_HARMLESS = "/grpc.health.v1.Health/Check"


class Connection:
    """A connection to one server. It is closed when it was retired and no stream uses it any more."""

    def __init__(self, number: int, server: str, channel: grpc.aio.Channel, servers: Servers) -> None:
        self.server = server
        self.channel = channel
        self.reads: Any = fanout_pb2_grpc.FanoutServiceStub(channel)  # type: ignore[no-untyped-call]
        self.writes: Any = store_pb2_grpc.StoreServiceStub(channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)  # type: ignore[no-untyped-call]
        self._number = number
        self._servers = servers
        self._users = 0
        self._retired = False

    def __enter__(self) -> Connection:
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        self._servers.close_if_unused(self)


class Servers:
    """The servers of a client, and at most one connection to each that is not retired."""

    def __init__(self, settings: Settings, tasks: Tasks) -> None:
        """The tasks open and close connections."""
        self._addresses = list(settings.addresses)
        self._tls, self._token, self._log = settings.tls, settings.token, settings.log
        if not self._addresses:
            raise ValueError("there is no address")
        for address in self._addresses:
            _check(address)
            if self._token is not None and self._tls is None and not is_local(address):
                raise ValueError(f"a token is not sent in plaintext to another machine: use TLS for {address}")
        agent = f"fanoutd-python/{VERSION}"
        self._options: dict[str, Any] = {**_OPTIONS, "grpc.primary_user_agent": agent, **dict(settings.options)}
        if self._tls is not None:
            credentials_of(self._tls)  # a mistake in the names of files shows at once
            if self._tls.server_name:
                self._options["grpc.ssl_target_name_override"] = self._tls.server_name
        self._interceptors = list(settings.interceptors)
        self._turn = random.randrange(len(self._addresses))
        self._connections: dict[int, Connection] = {}
        self._closing: set[grpc.aio.Channel] = set()
        self._tasks = tasks
        self._connecting: asyncio.Task[None] | None = None
        self._pauses = Backoff(_FIRST_PAUSE, _LAST_PAUSE)
        self.refusing = False
        """The client is closed."""
        self.pause_until = 0.0
        """No server could be reached, so the client tries again at this time of the event loop."""
        self.failure = ""
        """Why no server could be reached."""

    @property
    def renewable(self) -> bool:
        """Whether the next request may have other credentials than the last one."""
        return self._token is not None and self._token.renewable or self._certificate_renewable

    @property
    def _certificate_renewable(self) -> bool:
        """Whether the next connection may have another certificate than the last one."""
        return self._tls is not None and self._tls.cert_file is not None

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a request."""
        return () if self._token is None else await self._token.metadata()

    async def connect(self) -> Connection:
        """Return a connection that is ready. Raise an error if no server can be reached.

        All callers wait for the same attempt, which does not end with one of them.
        """
        while True:
            if self.refusing:
                raise ClosedError("the client is closed")
            found = self._connections.get(self._turn)
            if found is not None:
                if found.channel.get_state() is _READY:
                    return found
                self.retire(found)  # it has broken
            connecting = self._connecting
            if connecting is None:
                connecting = self._connecting = self._tasks.start(self._connect())
            await asyncio.wait([connecting])
            if self.failure and not self.refusing:
                raise Error(grpc.StatusCode.UNAVAILABLE, self.failure)

    def note(self, connection: Connection, error: Error) -> None:
        """Note the error of a request."""
        if error.code is grpc.StatusCode.UNAVAILABLE:
            self.failed(connection, replace=error.reason is None)
        elif error.code is grpc.StatusCode.UNAUTHENTICATED and self._certificate_renewable:
            self.retire(connection)

    def watch_failed(self, connection: Connection, error: Error) -> bool:
        """Note why a watch was interrupted. Return whether its next stream goes to another server."""
        if len(self._addresses) == 1 or error.code in _SAME_ELSEWHERE:
            return False
        self.failed(connection, replace=False)
        return True

    async def _connect(self) -> None:
        """Connect to the server whose turn it is, or to the next one that can be reached."""
        try:
            await asyncio.sleep(max(0.0, self.pause_until - asyncio.get_running_loop().time()))
            self.failure = "; ".join(await self._race())
            if self.failure:
                self.pause_until = asyncio.get_running_loop().time() + self._pauses.next()
            else:
                self.pause_until = 0.0
                self._pauses.reset()
        finally:
            self._connecting = None

    async def _race(self) -> list[str]:
        """Try each server. The first connection wins. If all have failed, return why."""
        n = len(self._addresses)
        waiting = [(self._turn + i) % n for i in range(n)]
        failures: list[str] = []
        tries: dict[asyncio.Task[Connection | str], int] = {}
        try:
            while waiting or tries:
                if waiting:
                    number = waiting.pop(0)
                    tries[asyncio.create_task(self._try(number))] = number
                done, _ = await asyncio.wait(
                    tries, timeout=_HEAD_START if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    number, result = tries.pop(task), task.result()
                    if isinstance(result, Connection):
                        self._turn = number
                        self._connections[number] = result
                        return []
                    failures.append(result)
            return failures
        finally:
            for task in tries:
                task.cancel()
            for other in await asyncio.gather(*tries, return_exceptions=True):
                if isinstance(other, Connection) and self._connections.get(other._number) is not other:
                    self._close_later(other.channel)  # it was the second one

    async def _try(self, number: int) -> Connection | str:
        """Connect to a server. Return the connection, or why there is none."""
        known = self._connections.get(number)
        if known is not None:
            if known.channel.get_state() is _READY:
                return known
            self.retire(known)
        address = self._addresses[number]
        try:
            channel = self._open(address)
        except Exception as error:  # a file or an option
            return f"{address}: {error}"
        why = f"no connection within {_CONNECT_TIMEOUT:g} s"
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                why = await self._connected(channel)
        except TimeoutError:
            pass
        except Exception as error:  # another server may still be reached
            self._log.exception("cannot connect to %s", address)
            why = repr(error)
        except BaseException:
            self._close_later(channel)
            raise
        if not why:
            return Connection(number, address, channel, self)
        self._close_later(channel)
        return f"{address}: {why}"

    async def _connected(self, channel: grpc.aio.Channel) -> str:
        """Wait until a new channel is connected, or return why that has failed."""
        while (state := channel.get_state(try_to_connect=True)) is not _READY:
            if state is not _FAILED:
                await _change_of(channel, state)
                continue
            if self._interceptors:
                return "cannot connect"  # they would see the request
            try:
                await channel.unary_unary(_HARMLESS)(b"", timeout=_CONNECT_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return str(error.details())
        return ""

    def _open(self, address: str) -> grpc.aio.Channel:
        options = self._options
        if is_local(address) or self._token is not None and self._tls is None:
            options = {"grpc.enable_http_proxy": 0, **options}
        if self._tls is None:
            return grpc.aio.insecure_channel(address, list(options.items()), interceptors=self._interceptors)
        credentials = credentials_of(self._tls)
        return grpc.aio.secure_channel(address, credentials, list(options.items()), interceptors=self._interceptors)

    def retire(self, connection: Connection) -> None:
        """Make later requests use another connection than this one."""
        if not connection._retired:
            connection._retired = True
            if self._connections.get(connection._number) is connection:
                del self._connections[connection._number]
            self.close_if_unused(connection)

    def failed(self, connection: Connection, replace: bool = True) -> None:
        """Make later requests use the next server, and perhaps another connection to this one.

        Requests that fail together move the turn once.
        """
        if self._turn == connection._number:
            self._turn = (self._turn + 1) % len(self._addresses)
        if replace:
            self.retire(connection)

    def close_if_unused(self, connection: Connection) -> None:
        """Close a connection that was retired, unless something still uses it."""
        if connection._retired and connection._users == 0:
            self._close_later(connection.channel)

    def _close_later(self, channel: grpc.aio.Channel) -> None:
        self._closing.add(channel)
        self._tasks.start(self._close(channel))

    async def _close(self, channel: grpc.aio.Channel) -> None:
        await channel.close()
        self._closing.discard(channel)

    def refuse(self) -> None:
        """Let nothing connect any more."""
        self.refusing = True

    async def close(self) -> None:
        """Close all connections. Nothing may use them any more."""
        channels = [c.channel for c in self._connections.values()]
        self._connections.clear()
        for channel in [*channels, *self._closing]:
            await channel.close()
        self._closing.clear()


async def _change_of(channel: grpc.aio.Channel, state: grpc.ChannelConnectivity) -> None:
    """Wait until a channel has another state. If this is cancelled, close the channel.

    gRPC then still needs the event loop for a moment.
    """
    change = asyncio.ensure_future(channel.wait_for_state_change(state))
    try:
        await asyncio.shield(change)
    except asyncio.CancelledError:
        await channel.close()
        await asyncio.gather(change, return_exceptions=True)
        raise


def _check(address: str) -> None:
    """Raise ValueError unless an address is one of gRPC, with a port."""
    if re.match(r"https?:", address, re.IGNORECASE):
        raise ValueError(f"{address!r} is an HTTP URL (want host:port)")
    if address.startswith(("unix:", "unix-abstract:")):
        return
    host = re.sub(r"^(ipv4|ipv6|dns):", "", address.rsplit("/", 1)[-1])
    if not re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+):\d+", host):
        raise ValueError(f"{address!r} has no port (want host:port)")
