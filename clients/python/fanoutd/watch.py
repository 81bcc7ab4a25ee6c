"""A watch that lasts."""

from __future__ import annotations

import asyncio
import functools
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc

from fanoutd.assembly import Assembler
from fanoutd.callbacks import call_back, refuse_coroutine_function
from fanoutd.delays import Delays
from fanoutd.errors import ClosedError, Error, Reason
from fanoutd.inbox import Message, SilenceError, StreamEnd
from fanoutd.objects import Position, Update, position_to
from fanoutd.observer import WatchEnded, WatchInterrupted, WatchOpened, WatchReceived
from fanoutd.own_stream import OwnStream
from fanoutd.reports import Progress, StreamReports
from fanoutd.requests import Metadata
from fanoutd.shared_stream import NoSubscribeError, SharedWatch
from fanoutd.stream import LostError, TooSlowError
from fanoutd.v1 import fanout_pb2

if TYPE_CHECKING:
    from fanoutd.client import Client

__all__ = ["Watch"]

# The least time for the first message of a stream: the server may have to read from etcd.
_FIRST_RESPONSE = 5.0

# Added to the age of a message, for its way and because servers state no age of less than a second.
_TRANSIT = 1.0


def _fresh_for(bookmark_interval: float) -> float:
    """Return how long a state counts as current: three intervals.

    A server confirms it once per interval, so a state may be as old as two of them, and _TRANSIT is counted for each
    message. That takes longer than three short intervals.
    """
    return max(3 * bookmark_interval, 2 * (bookmark_interval + _TRANSIT))


# The time for a source of credentials to get new ones after the old ones stopped working.
_RENEWAL = 5.0

# The bytes that wait for a busy caller after its stream was lost.
_MAX_AHEAD = 4 << 20

_RESPONSE = fanout_pb2.WatchResponse
_AGED = (_RESPONSE.KIND_SYNCED, _RESPONSE.KIND_LIVE, _RESPONSE.KIND_BOOKMARK)
_CATCH_UPS: dict[int, str] = {
    _RESPONSE.CATCH_UP_RESET: "reset",
    _RESPONSE.CATCH_UP_DELTA: "delta",
    _RESPONSE.CATCH_UP_REPLAY: "replay",
}
_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
)


class _Taken:
    """What the caller of a watch has taken. The watch must not be reachable from its stream, see __del__."""

    def __init__(self) -> None:
        self.position = Position()

    def progress(self) -> Progress:
        return Progress(self.position)


class Watch:
    """An asynchronous iterator over the updates of a watch. ``Resource.watch`` returns it.

    It connects again whenever that is needed and resumes at its position, so it lasts as long as the program.
    The iteration raises :class:`Error` if no retry can help, and :class:`ClosedError` when the client is closed.

    While the caller handles an update, it takes no further ones, and the server waits. When the caller asks for
    the next update, the client reports the last one as applied.

    The server ends the watch with the loop over it, for example at ``break``. Another loop over it continues at its
    position. In ``async with``, the server keeps it until the end of the block. ``close`` ends it for good.
    """

    def __init__(
        self,
        client: Client,
        request: fanout_pb2.WatchRequest,
        *,
        bookmark_interval: float,
        reports: bool = True,
        progress: Callable[[], Progress] | None = None,
        on_interruption: Callable[[BaseException], None] | None = None,
        metadata: Metadata = (),
    ) -> None:
        refuse_coroutine_function("on_interruption", on_interruption)
        request.bookmark_interval.FromMilliseconds(round(1000 * bookmark_interval))
        request.reports = reports
        self._client = client
        self._log = client._log
        self._observer = client._observer
        self._request = request
        self._metadata = metadata
        self._max_silence = 3 * bookmark_interval
        self._from_now = request.HasField("from_now")
        self._consistency = request.consistency if request.HasField("consistency") else None
        after = Position(request.after.epoch, request.after.revision) if request.HasField("after") else Position()
        self._assembler = Assembler(after)
        self._taken = _Taken()
        self._handed = Position()
        self._progress = progress or self._taken.progress
        self._may_be_busy = reports and progress is None
        self._opened_streams = 0
        self._on_interruption = on_interruption
        self._stream: SharedWatch | OwnStream | None = None
        self._reports: StreamReports | None = None
        self._delays = Delays()
        self._opened = 0.0
        self._limit = 0.0
        self._as_of: float | None = None
        self._proven = self._refused = self._too_slow = False
        self._closed = False
        self._end: BaseException | None = None
        self._waiting = False
        self._position = after  # of what the caller has got
        # What the caller gets before the messages of the stream, with the position where the watch then resumes.
        self._ahead: deque[tuple[Update, Position]] = deque()
        self._ahead_size = 0
        self._keeping_up: asyncio.Task[None] | None = None
        self._answered = self._resuming = False
        self._sleeping: asyncio.Future[None] | None = None
        self._kept = False  # by async with
        self._idle = False  # nothing iterates
        self._loops = 0
        client._watches.add(self)

    def __aiter__(self) -> AsyncIterator[Update]:
        self._loops += 1
        return _Loop(self, self._loops)

    async def __aenter__(self) -> Watch:
        self._kept = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self._stream is not None and not self._client.closed:
            self._client._later(_close_stream, self._stream, self._reports)

    @property
    def position(self) -> Position:
        """Where the watch resumes after the last update. Revision 0: it has no complete state."""
        return self._position

    def close(self) -> None:
        """End the watch. An iteration that waits stops."""
        self._closed = True
        self._interrupt()
        self._client._watches.discard(self)

    def _end_loop(self, number: int) -> None:
        """End the watch at the server, because the loop over it has ended, and no other one began."""
        if number != self._loops or self._kept or self._waiting or self._closed:
            return
        self._idle = True
        self._drop_stream(ClosedError("nothing iterates over the watch"))
        if self._keeping_up is not None:
            self._keeping_up.cancel()
        self._ahead.clear()
        self._ahead_size = 0
        self._assembler.resume_at(self._position)

    def _interrupt(self) -> None:
        """Wake the iteration, because the watch or the client was closed."""
        self._drop_stream(ClosedError("the watch is closed"))
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    async def _sleep(self, delay: float) -> None:
        self._sleeping = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(delay):
                await self._sleeping
        except TimeoutError:
            pass
        finally:
            self._sleeping = None

    def _wake_reports(self) -> None:
        """Report the progress, which may have changed."""
        if self._reports is not None:
            self._reports.wake()

    async def __anext__(self) -> Update:
        if self._waiting:
            raise RuntimeError("another task iterates over this watch")
        if self._handed.revision > 0:
            self._taken.position, self._handed = self._handed, Position()
            self._wake_reports()
        self._waiting, self._idle = True, False
        try:
            update = await self._next()
        finally:
            self._waiting = False
        if update.complete:
            self._handed = update.position
        if not self._is_at_server():
            self._lost()
        return update

    async def _next(self) -> Update:
        while True:
            if self._ahead and not self._closed:
                waiting, self._position = self._ahead.popleft()
                return waiting
            self._ahead_size = 0
            if self._keeping_up is not None:
                await asyncio.wait([self._keeping_up])
                continue
            update = await self._step()
            self._position = self._assembler.at
            if update is not None:
                return update

    async def _step(self) -> Update | None:
        """Open a stream if there is none, and handle its next message or its end."""
        if self._end is not None:
            raise self._end
        if self._closed:
            raise StopAsyncIteration
        self._client._check_open()
        if self._stream is None:
            self._open()
        stream = self._stream
        assert stream is not None
        try:
            update = self._receive(await self._message(stream))
        except (LostError, Error, StreamEnd, SilenceError, TooSlowError) as error:
            if self._closed:
                raise StopAsyncIteration from None
            delay = self._after(error)
            self._drop_stream(error)
            if delay > 0 and not self._closed and not self._client.closed:
                await self._sleep(delay)
            return None
        except ClosedError:
            return None  # the watch or the client was closed
        return update

    def _lost(self) -> None:
        """Connect again while the caller is busy, so that a gate sees the watch, and what the caller applies."""
        over = self._closed or self._idle or self._client.closed or self._end is not None
        if self._may_be_busy and not over and not self._waiting and self._keeping_up is None:
            self._keeping_up = self._client._tasks.start(self._keep_up())

    async def _keep_up(self) -> None:
        """Take what has come on the lost stream, and open the next one."""
        try:
            while not self._is_at_server():
                if self._ahead_size >= _MAX_AHEAD and self._stream is not None:
                    self._stream.inbox.clear()  # the next stream begins before these messages
                before = self._stream.inbox.size if self._stream is not None else 0
                update = await self._step()
                if update is not None:
                    self._ahead.append((update, self._assembler.at))
                if self._stream is not None:
                    self._ahead_size += max(before - self._stream.inbox.size, 0)
        except (Error, ClosedError, StopAsyncIteration):
            pass  # the caller gets it with the next step
        finally:
            self._keeping_up = None

    def _is_at_server(self) -> bool:
        return self._stream is not None and self._answered and not self._stream.inbox.ended

    async def _message(self, stream: SharedWatch | OwnStream) -> Message:
        m = stream.inbox.take()
        if m is None:
            try:
                m = await stream.inbox.get(self._limit)
            except SilenceError as error:
                stream.silent(error)
                raise
        if isinstance(stream, OwnStream) and not len(stream.inbox):
            stream.taken()
        return m

    def _open(self) -> None:
        """Open a stream at the position."""
        at = self._assembler.at
        request = fanout_pb2.WatchRequest()
        request.CopyFrom(self._request)
        request.ClearField("begin")
        request.ClearField("consistency")
        if at.revision > 0:
            request.after.CopyFrom(position_to(at))
        else:
            if self._from_now:
                request.from_now.SetInParent()
            if self._consistency is not None:
                request.consistency.CopyFrom(self._consistency)
        self._assembler.begin_stream()
        self._opened = time.monotonic()
        self._limit = max(self._max_silence, _FIRST_RESPONSE)
        self._answered, self._resuming = False, at.revision > 0
        self._stream = self._client._streams.open(request, self._too_slow, self._metadata)
        self._opened_streams += 1
        self._stream.inbox.on_end = functools.partial(_lost, weakref.ref(self), self._opened_streams)
        if self._request.reports:
            self._reports = StreamReports(self._progress, self._stream.report)

    def _drop_stream(self, why: BaseException) -> None:
        stream, self._stream = self._stream, None
        reports, self._reports = self._reports, None
        if stream is not None:
            stream.inbox.clear()
            stream.inbox.end(why)
            _close_stream(stream, reports)

    def _receive(self, m: Message) -> Update | None:
        content = m.content
        if not self._answered:
            self._answered = True
            assert self._stream is not None
            opened = WatchOpened(self._request.resource, self._stream.server, self._resuming, self._stream.shared)
            self._observer.watch_opened(opened)
        catch_up = self._assembler.catch_up if content.kind != _RESPONSE.KIND_CATCH_UP_BEGIN else content.catch_up
        self._limit = self._silence_after(content)
        self._note_age(m)
        if content.kind == _RESPONSE.KIND_CATCH_UP_BEGIN and content.catch_up == _RESPONSE.CATCH_UP_RESET:
            self._as_of = None  # the new state may come from a server that has lost etcd
        update = self._assembler.receive(content)
        if self._assembler.lost_position:
            self._forget_options()
        if self._assembler.outcome.worked:
            self._proven, self._refused = True, False
        synced = content.kind == _RESPONSE.KIND_SYNCED
        if content.events or synced:
            kind = _CATCH_UPS.get(catch_up, "")
            received = WatchReceived(self._request.resource, len(content.events), kind, synced)
            self._observer.watch_received(received)
        if self._reports is not None:
            self._reports.received(self._assembler.at, update is not None and update.replace)
        if update is not None:
            update.as_of = None if self._assembler.catching_up else self._as_of
        if content.kind == _RESPONSE.KIND_BOOKMARK and self._may_move():
            self._too_slow = False  # the watch has caught up
            self._drop_stream(TooSlowError("the watch moves to a shared stream"))
        return update

    def _may_move(self) -> bool:
        stream = self._stream
        return self._too_slow and isinstance(stream, OwnStream) and self._client._streams.has_subscribe

    def _forget_options(self) -> None:
        """Drop the options of the first start: their revisions may belong to another epoch."""
        self._from_now = False
        if self._consistency is not None and not self._consistency.HasField("any"):
            self._consistency = None

    def _fresh(self) -> float:
        """Return how long a state counts as current after a server has confirmed it."""
        return _fresh_for(self._max_silence / 3)

    def _silence_after(self, m: fanout_pb2.WatchResponse) -> float:
        """Return how long the server may be silent after a message. Its age counts as silence."""
        left: float = self._fresh() - (m.age.seconds + m.age.nanos / 1e9)
        if left > 0:
            return min(max(left, _FIRST_RESPONSE), self._max_silence)
        return self._max_silence

    def _note_age(self, m: Message) -> None:
        content = m.content
        if content.kind not in _AGED or content.partial:
            return
        confirmed = m.arrived - (content.age.seconds + content.age.nanos / 1e9)
        as_of = confirmed - _TRANSIT
        if content.kind == _RESPONSE.KIND_SYNCED and as_of < self._opened:
            # The server has asked etcd since the stream was requested, unless it states an age from before.
            linearizable = self._assembler.at.revision == 0 and self._consistency is None
            if linearizable or not content.HasField("age") or confirmed >= self._opened:
                as_of = self._opened
        if self._as_of is None or self._as_of < as_of:
            self._as_of = as_of

    def _after(self, error: Exception) -> float:
        """Handle the end of a stream. Return the delay before the next one, or raise a final error."""
        if isinstance(error, TooSlowError):
            self._too_slow = True
            return 0.0
        delay: float | None = None
        why: BaseException = error
        if isinstance(error, LostError):
            why, delay = error.why, error.delay
            if isinstance(why, NoSubscribeError):
                return 0.0  # the next stream uses Watch
        code, reason = _code_and_reason(why)
        if isinstance(why, Error) and self._is_final(why):
            self._end = why
            self._drop_stream(why)
            self._client._watches.discard(self)
            self._observer.watch_ended(WatchEnded(self._request.resource, code, reason))
            raise why
        self._delays.ended(self._assembler.outcome, self._lasted())
        if delay is None:
            delay = self._delays.after(self._assembler.outcome, why)
        if code == grpc.StatusCode.UNAUTHENTICATED.name and self._proven:
            delay = max(delay, _RENEWAL)
        if isinstance(why, StreamEnd):
            return delay  # a time limit is no interruption
        self._log.info(
            "watch interrupted: resource %s, revision %d: %s; retry in %.3f s",
            self._request.resource, self._assembler.at.revision, why, delay,
        )  # fmt: skip
        self._observer.watch_interrupted(WatchInterrupted(self._request.resource, code, reason, delay))
        if self._on_interruption is not None:
            call_back(self._log, "on_interruption", self._on_interruption, why)
        return delay

    def _lasted(self) -> float:
        """Return the seconds since the server was asked for the messages of the stream."""
        began = self._stream.inbox.began if self._stream is not None else None
        return 0.0 if began is None else time.monotonic() - began

    def _is_final(self, e: Error) -> bool:
        """Return whether another stream would end with the same error. Drop the position if it is lost."""
        if e.code == grpc.StatusCode.OUT_OF_RANGE:
            exact = self._consistency is not None and self._consistency.exact_revision > 0
            # If the server could not send its first state before etcd forgot it, the next attempt may be faster.
            slow = e.reason == Reason.POSITION_EXPIRED and not exact
            if self._request.every_event or self._assembler.at.revision == 0 and not slow:
                return True
            self._assembler.drop_position()
            self._forget_options()
            return False
        if e.code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return e.reason == Reason.REQUEST_TOO_LARGE
        if e.code == grpc.StatusCode.UNAUTHENTICATED:
            again = self._client._servers.renewable and not self._refused
            self._refused = True
            return not again
        # An error without a reason comes from a proxy. If the watch has worked before, it is likely to pass.
        return e.code in _FINAL and (e.reason is not None or not self._proven)


class _Loop(AsyncIterator[Update]):
    """A loop over a watch. It ends with the last reference to it, which the loop has."""

    def __init__(self, watch: Watch, number: int) -> None:
        self._watch, self._number = watch, number

    def __anext__(self) -> Coroutine[Any, Any, Update]:
        return self._watch.__anext__()  # with no frame that an exception would keep

    def __del__(self) -> None:
        self._watch._client._later(self._watch._end_loop, self._number)


def _code_and_reason(why: BaseException) -> tuple[str, str]:
    if isinstance(why, Error):
        return why.code.name, why.reason or ""
    return grpc.StatusCode.UNAVAILABLE.name, ""


def _close_stream(stream: SharedWatch | OwnStream, reports: StreamReports | None) -> None:
    if reports is not None:
        reports.close()
    stream.close()


def _lost(this: weakref.ref[Watch], opened: int) -> None:
    """Note that a stream of a watch has ended. The watch must not be reachable from its stream."""
    watch = this()
    if watch is not None and watch._opened_streams == opened:
        watch._lost()
