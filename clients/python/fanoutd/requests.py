"""The requests of a client, and what is sent again."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any

import grpc

from fanoutd.connection import Connection, Servers
from fanoutd.errors import ClosedError, Error, Reason, error_of_call
from fanoutd.observer import Fenced, RequestEnded

__all__ = ["Metadata", "Requests"]

Metadata = Sequence[tuple[str, str | bytes]]
"""Metadata of a request, as gRPC sends it."""

# For all attempts of a request.
_TIMEOUT = 30.0

# The pauses between the attempts of a read.
_PAUSES = (0.2, 0.6, 1.8)


class Requests:
    """Sends requests, and sends them again if that does no harm."""

    def __init__(self, servers: Servers, observer: Fenced) -> None:
        self._servers = servers
        self._observer = observer

    async def send(
        self,
        service: str,
        method: str,
        request: Any,
        *,
        timeout: float | None,
        metadata: Metadata = (),
        read: bool = False,
    ) -> Any:
        """Send a request, and return the response."""
        call = _Call(self._servers, service, method, request, _TIMEOUT if timeout is None else timeout, metadata, read)
        code = grpc.StatusCode.CANCELLED.name
        try:
            response = await call.run()
            code = grpc.StatusCode.OK.name
            return response
        except Error as error:
            code = error.code.name
            raise
        finally:
            seconds = asyncio.get_running_loop().time() - call.began
            self._observer.request(RequestEnded(method, request.resource, code, seconds, call.sent))


class _Call:
    """A request with all its attempts."""

    def __init__(
        self, servers: Servers, service: str, method: str, request: Any, timeout: float, metadata: Metadata, read: bool
    ) -> None:
        self._servers = servers
        self._service, self._method, self._request = service, method, request
        self._metadata = tuple(metadata)
        self._pauses = list(_PAUSES) if read else []
        self._renewed = not servers.renewable
        self._failure: Error | None = None
        self.began = asyncio.get_running_loop().time()
        self._due = self.began + timeout
        self.sent = 0

    async def run(self) -> Any:
        """Return the response."""
        while True:
            deadline = asyncio.timeout_at(self._due if self._due < math.inf else None)
            try:
                async with deadline:
                    return await self._attempt()
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise self._deadline_exceeded() from None
            except Error as error:
                if error.code is grpc.StatusCode.DEADLINE_EXCEEDED and error.reason is None and self._failure is not None:
                    raise self._deadline_exceeded() from None
                pause = self._pause(error)
                if pause is None:
                    raise
            if asyncio.get_running_loop().time() + pause >= self._due:
                raise self._deadline_exceeded()
            await asyncio.sleep(pause)

    def _pause(self, error: Error) -> float | None:
        """Return the pause before the next attempt. None: there is none."""
        self._failure = error
        match error.code:
            case grpc.StatusCode.UNAUTHENTICATED if not self._renewed:
                self._renewed = True
                return 0.0
            case grpc.StatusCode.UNAVAILABLE if error.reason != Reason.REVISION_NOT_REACHED:
                pass
            case grpc.StatusCode.RESOURCE_EXHAUSTED if error.retry_after > 0:
                pass
            case _:
                return None
        return max(error.retry_after, random.uniform(0.8, 1.2) * self._pauses.pop(0)) if self._pauses else None

    async def _attempt(self) -> Any:
        if self._servers.pause_until >= self._due:
            self._failure = Error(grpc.StatusCode.UNAVAILABLE, self._servers.failure)
            raise self._deadline_exceeded()
        with await self._servers.connect() as connection:
            metadata = (*self._metadata, *await self._servers.metadata())
            try:
                return await self._send(connection, metadata)
            except grpc.aio.AioRpcError as failure:
                error = error_of_call(failure)
            except (asyncio.CancelledError, grpc.aio.UsageError):
                task = asyncio.current_task()
                if self._servers.refusing and not (task and task.cancelling()):
                    raise ClosedError("the client is closed") from None
                raise
            self._servers.note(connection, error)
            raise error

    async def _send(self, connection: Connection, metadata: Metadata) -> Any:
        self.sent += 1
        left = self._due - asyncio.get_running_loop().time()
        send = getattr(getattr(connection, self._service), self._method)
        return await send(self._request, metadata=metadata, timeout=left if left < math.inf else None)

    def _deadline_exceeded(self) -> Error:
        message = "the time is up"
        if self._failure is not None:
            message += f"; the last attempt failed: {self._failure.message}"
        return Error(grpc.StatusCode.DEADLINE_EXCEEDED, message)
