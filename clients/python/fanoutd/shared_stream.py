"""Many watches on one stream, with the method Subscribe."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import grpc

from fanoutd.connection import Connection, Servers
from fanoutd.delays import Delays, Outcome
from fanoutd.errors import Error, Reason, error_of_call, error_of_status
from fanoutd.inbox import Inbox, Message, SilenceError, StreamEnd
from fanoutd.own_stream import fill
from fanoutd.reports import Progress
from fanoutd.stream import Arrivals, LostError, TooSlowError, size_of
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.v1.status import status_pb2

__all__ = ["SharedStream"]

# Bounds of the bytes that wait for the readers of watches. A watch may always have one message and _MIN_BUFFER.
# While all watches of the stream have less than _ALL_BUFFERS, it may have _MAX_BUFFER.
_MIN_BUFFER = 256 << 10
_MAX_BUFFER = 4 << 20
_ALL_BUFFERS = 16 << 20

# The header of the answer comes at once, unless a proxy holds it back until the end of the requests.
_HEADER_TIMEOUT = 5.0
_OTHER_TIMEOUT = 20.0
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class NoSubscribeError(Exception):
    """The server, or a proxy before it, lacks Subscribe."""


class SharedWatch:
    """A watch on a shared stream."""

    shared = True

    def __init__(self, stream: SharedStream, number: int) -> None:
        self.inbox = Inbox()
        self.number = number
        self.gone = False  # no further messages follow
        self.draining = False  # no message counts any more
        self._stream = stream

    @property
    def server(self) -> str:
        """Implement Stream."""
        return self._stream.server

    def silent(self, error: SilenceError) -> None:
        """Implement Stream."""
        self._stream.silent(error)
        self.close()

    def interrupted(self, error: Error) -> None:
        """Implement Stream."""
        self._stream.interrupted(error)

    def close(self) -> None:
        """Implement Stream."""
        self._stream.stop(self)
        self.inbox.clear()

    def report(self, p: Progress, done: Callable[[float | None], None]) -> None:
        """Implement Stream."""
        if self.gone:
            done(None)
            return
        self._stream.report(self, p)
        done(0.0)


class Owner(Protocol):
    """What makes a shared stream."""

    def forget(self, stream: SharedStream) -> None:
        """Note that the stream has ended."""

    def subscribe_missing(self, perhaps: bool) -> None:
        """Note that the server lacks Subscribe."""

    def subscribe_works(self) -> None:
        """Note that the server has Subscribe."""


class SharedStream:
    """A stream of Subscribe. It never waits for a watch, and ends with its last one."""

    def __init__(
        self, owner: Owner, servers: Servers, tasks: Tasks, subscriber: fanout_pb2.Subscriber, delays: Delays
    ) -> None:
        """The delays are those between all shared streams: the watches of one come back together."""
        self._connection: Connection | None = None
        self.closing = False
        """No further watch may join."""
        self._owner, self._servers, self._tasks = owner, servers, tasks
        self._subscriber, self._delays = subscriber, delays
        self._watches: dict[int, SharedWatch] = {}
        self._next = 0
        self._starts_and_stops: deque[fanout_pb2.SubscribeRequest] = deque()
        self._reports: dict[int, fanout_pb2.SubscribeRequest] = {}
        self._written = asyncio.Event()
        self._asked = self._header = False
        self._opened = self._received = time.monotonic()
        self._outcome = Outcome()
        self._silence: SilenceError | None = None
        self._task = tasks.start(self._run())

    @property
    def server(self) -> str:
        """The address of the server. Empty: there is no connection yet."""
        return self._connection.server if self._connection is not None else ""

    def add(self, request: fanout_pb2.WatchRequest) -> SharedWatch:
        """Start a watch."""
        w = SharedWatch(self, self._next)
        self._next += 1
        self._watches[w.number] = w
        start = fanout_pb2.SubscribeRequest()
        start.start.watch_id = w.number
        start.start.request.CopyFrom(request)
        start.start.request.ClearField("subscriber")  # that of the stream counts
        self._starts_and_stops.append(start)
        self._written.set()
        if self._asked:
            w.inbox.begin()
        return w

    def stop(self, w: SharedWatch) -> None:
        """Stop a watch, unless it has ended."""
        if w.gone:
            return
        stop = fanout_pb2.SubscribeRequest()
        stop.stop.watch_id = w.number
        self._starts_and_stops.append(stop)
        self._written.set()
        self._forget(w)

    def report(self, w: SharedWatch, p: Progress) -> None:
        """Send a report. It replaces one that was not written yet."""
        request = fanout_pb2.SubscribeRequest()
        request.report.watch_id = w.number
        fill(request.report, p)
        self._reports[w.number] = request
        self._written.set()

    def silent(self, error: SilenceError) -> None:
        """Note that the server sends a watch nothing. If it sends nothing at all, the stream fails."""
        self.closing = True
        if self._connection is not None:
            self._servers.failed(self._connection)
        if time.monotonic() - self._received >= error.limit and self._silence is None:
            self._silence = error
            self._task.cancel()

    def interrupted(self, error: Error) -> None:
        """Note why one of the watches was interrupted. If it goes to another server, no other joins this stream."""
        if self._connection is not None and self._servers.watch_failed(self._connection, error):
            self.closing = True

    def close(self) -> None:
        """End the stream."""
        self.closing = True
        self._task.cancel()

    def _forget(self, w: SharedWatch) -> None:
        w.gone = True
        self._watches.pop(w.number, None)
        self._reports.pop(w.number, None)
        if not self._watches:
            self.close()

    async def _run(self) -> None:
        why: BaseException | None = None
        try:
            metadata = await self._servers.metadata()
            with await self._servers.connect() as self._connection:
                await self._serve(self._connection, metadata)
            why = StreamEnd()
        except grpc.aio.AioRpcError as error:
            why = error_of_call(error)
        except (Error, NoSubscribeError) as error:
            why = error
        except asyncio.CancelledError:
            why = self._silence
            if why is None and self._watches:
                raise
        except Exception as error:  # of an interceptor
            why = Error(grpc.StatusCode.UNKNOWN, f"the request has failed: {error!r}")
        finally:
            self.closing = True
            self._fail(why)

    def _fail(self, why: BaseException | None) -> None:
        """End all watches."""
        self._owner.forget(self)
        watches, self._watches = list(self._watches.values()), {}
        self._starts_and_stops.clear()
        self._reports.clear()
        if not watches or why is None:
            return  # the last watch was stopped, or the client is closed
        if not self._header and self._lacks_subscribe(why):
            self._owner.subscribe_missing(isinstance(why, NoSubscribeError))
            lost = LostError(why, 0.0)
            lost.why = NoSubscribeError(str(why))
        else:
            self._blame(why)
            lasted = time.monotonic() - self._opened if self._header else 0.0
            self._delays.ended(self._outcome, lasted)
            lost = LostError(why, self._delays.after(self._outcome, why))
        for w in watches:
            w.gone = True
            w.inbox.end(lost)

    def _blame(self, why: BaseException) -> None:
        """Use another connection or server, if that may help."""
        if self._connection is None:
            return
        transport = not isinstance(why, (Error, StreamEnd)) or isinstance(why, Error) and (
            why.reason is None or why.reason == Reason.DRAINING
        )
        if transport or self._outcome.at_once:
            self._servers.failed(self._connection)
        elif isinstance(why, Error):
            self._servers.note(self._connection, why)

    @staticmethod
    def _lacks_subscribe(why: BaseException) -> bool:
        return isinstance(why, NoSubscribeError) or isinstance(why, Error) and why.code == grpc.StatusCode.UNIMPLEMENTED

    async def _serve(self, connection: Connection, metadata: tuple[tuple[str, str], ...]) -> None:
        call = connection.reads.Subscribe(metadata=metadata)
        writing = self._tasks.start(self._write(call))
        try:
            await self._await_header(call, connection, metadata)
            self._asked = True
            self._opened = self._received = time.monotonic()
            for w in self._watches.values():
                w.inbox.begin()
            arrivals = Arrivals()
            while True:
                called = time.monotonic()
                response = await call.read()
                self._received = time.monotonic()
                if response is grpc.aio.EOF:
                    if await call.code() != grpc.StatusCode.OK:
                        raise Error(await call.code(), await call.details())
                    return
                self._handle(response, arrivals.received(called, self._received))
        finally:
            writing.cancel()
            call.cancel()

    async def _await_header(self, call: Any, connection: Connection, metadata: tuple[tuple[str, str], ...]) -> None:
        """Wait for the answer to Subscribe.

        Time alone proves nothing, because this process or the server may be late. So after the timeout, another
        request goes the same way. Only if that is answered first, and the header does not come in as much time
        again, is something wrong with Subscribe.
        """
        header = asyncio.ensure_future(call.initial_metadata())
        try:
            await asyncio.wait({header}, timeout=_HEADER_TIMEOUT)
            if not header.done():
                began = time.monotonic()
                if not await self._answers_other(header, connection, metadata):
                    raise Error(grpc.StatusCode.UNAVAILABLE, "no answer to Subscribe and to other requests")
                await asyncio.wait({header}, timeout=time.monotonic() - began)
            if not header.done():
                raise NoSubscribeError(f"no answer to Subscribe for {_HEADER_TIMEOUT:g} seconds")
            header.result()
        finally:
            header.cancel()

    async def _answers_other(
        self, header: asyncio.Future[Any], connection: Connection, metadata: tuple[tuple[str, str], ...]
    ) -> bool:
        """Return whether the header has come, or another request was answered: a report for no watch."""
        call = connection.reads.Report(fanout_pb2.ReportRequest(), metadata=metadata, timeout=_OTHER_TIMEOUT)
        code = asyncio.ensure_future(call.code())
        try:
            await asyncio.wait({header, code}, return_when=asyncio.FIRST_COMPLETED)
            return header.done() or code.result() not in _NO_ANSWER
        finally:
            code.cancel()
            call.cancel()

    async def _write(self, call: Any) -> None:
        try:
            await call.write(fanout_pb2.SubscribeRequest(subscriber=self._subscriber))
            while True:
                await self._written.wait()
                self._written.clear()
                while self._starts_and_stops:
                    await call.write(self._starts_and_stops.popleft())
                while self._reports:
                    await call.write(self._reports.pop(next(iter(self._reports))))
                    if self._starts_and_stops:
                        self._written.set()
                        break
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader gets the error, too

    def _handle(self, response: fanout_pb2.SubscribeResponse, arrived: float) -> None:
        if not self._header:
            self._header = True
            self._owner.subscribe_works()
        for e in response.entries:
            content = e.WhichOneof("content")
            if content == "response":
                self._deliver(e, arrived)
            elif content == "refused":
                self._end(e.watch_ids, e.refused)
            elif content == "ended":
                self._end(e.watch_ids, e.ended)

    def _deliver(self, e: fanout_pb2.SubscribeResponse.Entry, arrived: float) -> None:
        m = Message(e.response, arrived, size_of(e.response))
        self._outcome.note(m.content)
        if self._outcome.at_once:
            self.closing = True
        for number in e.watch_ids:
            w = self._watches.get(number)
            if w is None or w.draining:
                continue
            w.draining = m.content.kind == fanout_pb2.WatchResponse.KIND_DRAINING
            if len(w.inbox) and self._is_too_much(w.inbox.size + m.size):
                w.inbox.end(TooSlowError("the caller is slow"))
                self.stop(w)
            else:
                w.inbox.put(m)

    def _is_too_much(self, size: int) -> bool:
        """Return whether a watch has too many bytes waiting."""
        if size <= _MIN_BUFFER:
            return False
        return size > _MAX_BUFFER or sum(w.inbox.size for w in self._watches.values()) >= _ALL_BUFFERS

    def _end(self, numbers: Any, status: status_pb2.Status) -> None:
        error = StreamEnd() if status.code == 0 else error_of_status(status)
        if isinstance(error, Error) and self._connection is not None:
            self._servers.note(self._connection, error)
        for number in numbers:
            w = self._watches.get(number)
            if w is None:
                continue
            w.inbox.end(error)
            self._forget(w)
        if self._outcome.at_once and self._connection is not None:
            self._servers.retire(self._connection)
