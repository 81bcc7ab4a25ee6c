"""What keeps a watch."""

from __future__ import annotations

import asyncio
import functools
import time
import weakref
from collections import deque
from collections.abc import Callable

import grpc

from fanoutd.assembly import Assembler
from fanoutd.callbacks import call_back, refuse_coroutine_function
from fanoutd.core import Core
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

__all__ = ["Watcher"]

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


class Watcher:
    """Opens one stream of a watch after the other, and iterates over the updates that their messages make."""

    def __init__(
        self,
        core: Core,
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
        self._core = core
        self._log = core.log
        self._observer = core.observer
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
        self._next_report = 0.0
        self._delays = Delays()
        self._opened = 0.0
        self._limit = 0.0
        self._as_of: float | None = None
        self._proven = self._refused = self._too_slow = False
        self._closed = False
        self._end: BaseException | None = None
        self._waiting = False
        self.position = after
        """Where the watch resumes after the last update that the caller has got."""
        # What the caller gets before the messages of the stream, with the position where the watch then resumes.
        self._ahead: deque[tuple[Update, Position]] = deque()
        self._ahead_size = 0
        self._keeping_up: asyncio.Task[None] | None = None
        self._answered = self._resuming = False
        self._sleeping: asyncio.Future[None] | None = None
        self.kept = False
        """Whether the end of a loop leaves the watch at the server."""
        self._idle = False  # nothing iterates
        self._loops = 0
        core.watches.add(self)

    def __aiter__(self) -> Watcher:
        return self

    def __del__(self) -> None:
        if not self._closed and self._stream is not None and not self._core.closed:
            self._core.later(_close_stream, self._stream, self._reports)

    def close(self) -> None:
        """End the watch. An iteration that waits stops."""
        self._closed = True
        self.interrupt()
        self._core.watches.discard(self)

    def begin_loop(self) -> int:
        """Note that a loop over the watch begins, and return its number."""
        self._loops += 1
        return self._loops

    def loop_ended(self, number: int) -> None:
        """End the watch at the server if no other loop over it began. Any thread may call it."""
        self._core.later(self._end_loop, number)

    def _end_loop(self, number: int) -> None:
        if number != self._loops or self.kept or self._waiting or self._closed:
            return
        self._idle = True
        self._drop_stream(ClosedError("nothing iterates over the watch"))
        if self._keeping_up is not None:
            self._keeping_up.cancel()
        self._ahead.clear()
        self._ahead_size = 0
        self._assembler.resume_at(self.position)

    def interrupt(self) -> None:
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

    def wake_reports(self) -> None:
        """Report the progress, which may have changed."""
        if self._reports is not None:
            self._reports.wake()

    async def __anext__(self) -> Update:
        if self._waiting:
            raise RuntimeError("another task iterates over this watch")
        if self._handed.revision > 0:
            self._taken.position, self._handed = self._handed, Position()
            self.wake_reports()
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
                waiting, self.position = self._ahead.popleft()
                return waiting
            self._ahead_size = 0
            if self._keeping_up is not None:
                await asyncio.wait([self._keeping_up])
                continue
            update = await self._step()
            self.position = self._assembler.at
            if update is not None:
                return update

    async def _step(self) -> Update | None:
        """Open a stream if there is none, and handle its next message or its end."""
        if self._end is not None:
            raise self._end
        if self._closed:
            raise StopAsyncIteration
        self._core.check_open()
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
            if delay > 0 and not self._closed and not self._core.closed:
                await self._sleep(delay)
            return None
        except ClosedError:
            return None  # the watch or the client was closed
        return update

    def _lost(self) -> None:
        """Connect again while the caller is busy, so that a gate sees the watch, and what the caller applies."""
        over = self._closed or self._idle or self._core.closed or self._end is not None
        if self._may_be_busy and not over and not self._waiting and self._keeping_up is None:
            self._keeping_up = self._core.tasks.start(self._keep_up())

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
        if isinstance(stream, OwnStream):
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
        self._stream = self._core.streams.open(request, self._too_slow, self._metadata)
        self._opened_streams += 1
        self._stream.inbox.on_end = functools.partial(_lost, weakref.ref(self), self._opened_streams)
        if self._request.reports:
            self._reports = StreamReports(self._progress, self._stream.report, self._next_report)

    def _drop_stream(self, why: BaseException) -> None:
        stream, self._stream = self._stream, None
        reports, self._reports = self._reports, None
        if reports is not None:
            self._next_report = reports.next_report
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
            replace = update is not None and update.replace
            self._reports.received(self._assembler.at, replace=replace, synced=synced)
        if update is not None:
            update.as_of = None if self._assembler.catching_up else self._as_of
        if content.kind == _RESPONSE.KIND_BOOKMARK and self._may_move():
            self._too_slow = False  # the watch has caught up
            self._drop_stream(TooSlowError("the watch moves to a shared stream"))
        return update

    def _may_move(self) -> bool:
        stream = self._stream
        return self._too_slow and isinstance(stream, OwnStream) and self._core.streams.has_subscribe

    def _forget_options(self) -> None:
        """Drop the options of the first start: their revisions may belong to another epoch."""
        self._from_now = False
        if self._consistency is not None and not self._consistency.HasField("any"):
            self._consistency = None

    def fresh_for(self) -> float:
        """Return how long a state counts as current after a server has confirmed it."""
        return _fresh_for(self._max_silence / 3)

    def _silence_after(self, m: fanout_pb2.WatchResponse) -> float:
        """Return how long the server may be silent after a message. Its age counts as silence."""
        left: float = self.fresh_for() - (m.age.seconds + m.age.nanos / 1e9)
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
            self._core.watches.discard(self)
            self._observer.watch_ended(WatchEnded(self._request.resource, code, reason))
            raise why
        if isinstance(why, Error) and self._stream is not None:
            self._stream.interrupted(why)
        self._delays.ended(self._assembler.outcome, self._lasted())
        if delay is None:
            delay = self._delays.after(self._assembler.outcome, why)
        if code == grpc.StatusCode.UNAUTHENTICATED.name and self._proven:
            delay += _RENEWAL
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
            again = self._core.servers.renewable and not self._refused
            self._refused = True
            return not again
        # An error without a reason comes from a proxy. If the watch has worked before, it is likely to pass.
        return e.code in _FINAL and (e.reason is not None or not self._proven)


def _code_and_reason(why: BaseException) -> tuple[str, str]:
    if isinstance(why, Error):
        return why.code.name, why.reason or ""
    return grpc.StatusCode.UNAVAILABLE.name, ""


def _close_stream(stream: SharedWatch | OwnStream, reports: StreamReports | None) -> None:
    if reports is not None:
        reports.close()
    stream.close()


def _lost(this: weakref.ref[Watcher], opened: int) -> None:
    """Note that a stream of a watch has ended. The watch must not be reachable from its stream."""
    watch = this()
    if watch is not None and watch._opened_streams == opened:
        watch._lost()
