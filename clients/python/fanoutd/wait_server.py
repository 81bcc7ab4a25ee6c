"""The servers of a wait. Each one knows only its own watches, so each one is asked."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import NamedTuple

import grpc

from fanoutd.backoff import Backoff
from fanoutd.core import Core
from fanoutd.credentials import is_local
from fanoutd.errors import Error, error_of_call
from fanoutd.v1 import admin_pb2

__all__ = ["Answer", "Follower", "each_address"]

# A server has so many seconds for its first answer, the connection included. Later, it is silent while nothing
# changes, and keepalive finds out whether it is still there.
_FIRST_ANSWER = 10.0
# A stream that lasted so long makes the delays short again.
_STEADY = 5.0
# The longest delay that a server can ask for.
_MOST_RETRY_AFTER = 60.0
# A name that DNS does not know by then is left to the connection.
_LOOKUP = 5.0

# No retry helps after these.
_FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.OUT_OF_RANGE,
}  # fmt: skip


class Answer(NamedTuple):
    """An answer of a server, or the error that has interrupted it."""

    server: int
    """The index of the server."""
    response: admin_pb2.WatchAppliedResponse | None = None
    error: Exception | None = None
    final: bool = False
    """No retry can help."""


class Follower:
    """Asks one server again and again, and passes its answers on."""

    def __init__(
        self, server: int, core: Core, request: admin_pb2.WatchAppliedRequest, answers: asyncio.Queue[Answer]
    ) -> None:
        self._server, self._core, self._request, self._answers = server, core, request, answers
        self._answered = False  # once, on any stream

    async def run(self) -> None:
        """Open one stream after another until an error is final."""
        pauses = Backoff(0.2, 5.0)
        while True:
            began = time.monotonic()
            answered, error = await self._stream()
            final = self._is_final(answered, error)
            self._answers.put_nowait(Answer(self._server, error=error, final=final))
            if final:
                return
            if answered and time.monotonic() - began >= _STEADY:
                pauses.reset()
            asked = error.retry_after if isinstance(error, Error) else 0.0
            await asyncio.sleep(pauses.next() + min(asked, _MOST_RETRY_AFTER))

    async def _stream(self) -> tuple[bool, Exception]:
        """Open one stream. Return whether it had an answer, and why it has ended."""
        answered = False
        call = None
        try:
            async with asyncio.timeout(_FIRST_ANSWER) as silence:
                with await self._core.servers.connect() as connection:
                    try:
                        metadata = await self._core.servers.metadata()
                        call = connection.admin.WatchApplied(self._request, metadata=metadata)
                        while (response := await call.read()) is not grpc.aio.EOF:
                            silence.reschedule(None)
                            answered = self._answered = True
                            self._answers.put_nowait(Answer(self._server, response))
                        code, details = await call.code(), await call.details()
                    finally:
                        self._core.servers.retire(connection)  # the next attempt has another connection and other credentials
                        if call is not None:
                            call.cancel()
        except TimeoutError:
            return answered, Error(grpc.StatusCode.UNAVAILABLE, f"no answer for {_FIRST_ANSWER:g} s")
        except grpc.aio.AioRpcError as error:
            return answered, error_of_call(error)
        except Exception as error:  # also from the files of certificates
            return answered, error
        if code == grpc.StatusCode.OK:
            return answered, Error(grpc.StatusCode.UNAVAILABLE, "the server has ended the stream")
        return answered, Error(code, details)

    def _is_final(self, answered: bool, error: Exception) -> bool:
        """Return whether another stream would end with the same error."""
        if not isinstance(error, Error):
            return True
        if error.code == grpc.StatusCode.UNAUTHENTICATED:
            return not answered  # otherwise the credentials have expired, and there may be new ones
        # An error without a reason comes from a proxy, or from a server that lacks the method.
        return error.code in _FINAL and (error.reason is not None or not self._answered)


async def each_address(address: str, timeout: float | None) -> list[tuple[str, str | None]]:
    """Return the addresses of the servers behind an address, each with the name that its certificate must have.

    A DNS name with several addresses stands for one server per address. If it has both IPv4 and IPv6 addresses,
    only those of one kind count, because they probably belong to the same machines.
    """
    host, _, port = address.removeprefix("dns:///").removeprefix("dns:").rpartition(":")
    if not host or ":" in host or "/" in host or is_local(address) or _is_ipv4(host):
        return [(address, None)]
    try:
        async with asyncio.timeout(_LOOKUP if timeout is None else min(timeout, _LOOKUP)):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        found = []  # connecting will report the error
    # DNS servers rotate the order.
    addresses = sorted({str(at[0]) for family, _, _, _, at in found if family == found[0][0]})
    if len(addresses) < 2:
        return [(address, None)]
    return [(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}", host) for ip in addresses]


def _is_ipv4(host: str) -> bool:
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True
