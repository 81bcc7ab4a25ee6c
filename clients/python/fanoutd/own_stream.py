"""A watch on a stream of its own, with the method Watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc

from fanoutd.backoff import Backoff
from fanoutd.connection import Connection, Servers
from fanoutd.delays import MAX_RETRY_AFTER, Outcome
from fanoutd.errors import Error, Reason, error_of_call
from fanoutd.inbox import Inbox, Message, SilenceError, StreamEnd
from fanoutd.objects import position_to
from fanoutd.reports import INTERVAL, Progress
from fanoutd.requests import Metadata
from fanoutd.stream import Arrivals, size_of
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.v1.status import status_pb2

__all__ = ["OwnStream"]

# A report is waited for at most this many seconds.
_REPORT_TIMEOUT = 10.0


# When so many bytes wait, the stream is not read any more, so the server waits.
_MOST_AHEAD = 256 << 10


class OwnStream:
    """Carries one watch. It reads ahead of the caller, so it notices its end while the caller is busy."""

    shared = False

    def __init__(self, servers: Servers, tasks: Tasks, request: fanout_pb2.WatchRequest, metadata: Metadata) -> None:
        self.inbox = Inbox()
        self._servers, self._tasks = servers, tasks
        self._request_metadata = tuple(metadata)
        self._connection: Connection | None = None
        self._outcome = Outcome()
        self._taken = asyncio.Event()
        self._id: str | None = None
        self._pauses = Backoff(1.0, 60.0)
        self._reporting: asyncio.Task[None] | None = None
        self._task = tasks.start(self._run(request))

    @property
    def server(self) -> str:
        """Implement Stream."""
        return self._connection.server if self._connection is not None else ""

    def taken(self) -> None:
        """Note that the inbox has more room."""
        self._taken.set()

    async def _run(self, request: fanout_pb2.WatchRequest) -> None:
        try:
            with await self._servers.connect() as self._connection:
                await self._watch(self._connection, request)
        except Error as error:
            self.inbox.end(error)  # no server can be reached, or there is no token
        except Exception as error:  # of an interceptor
            self.inbox.end(Error(grpc.StatusCode.UNKNOWN, f"the request has failed: {error!r}"))

    async def _watch(self, connection: Connection, request: fanout_pb2.WatchRequest) -> None:
        metadata = await self._metadata()
        call = connection.reads.Watch(request, metadata=metadata)
        self.inbox.begin()
        try:
            await self._read(call)
        except grpc.aio.AioRpcError as error:
            self._fail(connection, error_of_call(error))
        except Error as error:
            self._fail(connection, error)
        finally:
            call.cancel()
            if self._outcome.at_once:
                self._servers.failed(connection)

    async def _metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return (*self._request_metadata, *await self._servers.metadata())

    async def _read(self, call: Any) -> None:
        for name, value in await call.initial_metadata():
            if name == "fanout-watch":
                self._id = value
        arrivals = Arrivals()
        while True:
            called = time.monotonic()
            m = await call.read()
            if m is grpc.aio.EOF:
                if await call.code() != grpc.StatusCode.OK:
                    raise Error(await call.code(), await call.details())
                self.inbox.end(StreamEnd())
                return
            if self._outcome.draining:
                continue  # see Stream
            self._outcome.note(m)
            self.inbox.put(Message(m, arrivals.received(called, time.monotonic()), size_of(m)))
            while self.inbox.size >= _MOST_AHEAD:
                self._taken.clear()
                await self._taken.wait()

    def _fail(self, connection: Connection, error: Error) -> None:
        if error.reason is None or error.reason == Reason.DRAINING:
            self._servers.failed(connection)
        else:
            self._servers.note(connection, error)
        self.inbox.end(error)

    def silent(self, error: SilenceError) -> None:
        """Implement Stream."""
        if self._connection is not None:
            self._servers.failed(self._connection)
        self.close()

    def interrupted(self, error: Error) -> None:
        """Implement Stream."""
        if self._connection is not None:
            self._servers.watch_failed(self._connection, error)

    def close(self) -> None:
        """Implement Stream."""
        self._task.cancel()
        if self._reporting is not None:
            self._reporting.cancel()

    def report(self, p: Progress, done: Callable[[float | None], None]) -> None:
        """Implement Stream."""
        if self._id is None:
            done(None)
            return
        request = fanout_pb2.ReportRequest(watch=self._id)
        fill(request, p)
        self._reporting = self._tasks.start(self._send_report(request, done))

    async def _send_report(self, request: fanout_pb2.ReportRequest, done: Callable[[float | None], None]) -> None:
        assert self._connection is not None  # the watch has an id
        with self._connection as connection:
            try:
                await connection.reads.Report(request, metadata=await self._metadata(), timeout=_REPORT_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                    done(None)  # the server does not know reports, or another one has answered
                elif error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                    done(0.0)  # it would be refused again
                else:
                    done(self._pause_after(error_of_call(error)))
                return
            except Error as error:
                done(self._pause_after(error))
                return
        self._pauses.reset()
        done(0.0)

    def _pause_after(self, error: Error) -> float:
        """Return how long to wait, besides the interval of reports, after one has failed."""
        least = min(error.retry_after, MAX_RETRY_AFTER) - INTERVAL
        return max(least, 0.001) + self._pauses.next()


def fill(request: fanout_pb2.ReportRequest | fanout_pb2.SubscribeRequest.Report, p: Progress) -> None:
    """Put a progress into a request."""
    if p.applied.revision > 0:
        request.applied.CopyFrom(position_to(p.applied))
    if p.error is not None:
        request.error.CopyFrom(status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=p.error))
        request.attempted.CopyFrom(position_to(p.attempted))  # revision 0: nothing; absent would mean everything
        request.failed_keys.extend(p.failed_keys())
