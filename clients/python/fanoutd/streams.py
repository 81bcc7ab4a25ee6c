"""Chooses the streams of watches."""

from __future__ import annotations

import logging
import random
import time

from fanoutd.backoff import Backoff
from fanoutd.connection import Servers
from fanoutd.errors import Error, Reason
from fanoutd.inbox import StreamEnd
from fanoutd.own_stream import OwnStream
from fanoutd.requests import Metadata
from fanoutd.shared_stream import SharedStream, SharedWatch
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2

__all__ = ["FIRST_DELAY", "HURRIED", "LAST_DELAY", "RESUME_AFTER", "STEADY_AFTER", "Streams", "delay_after"]

# After this time, Subscribe is tried again.
_TRY_AGAIN = 300.0

# The limits of the delays between streams that fail, and of the delay after one that ended at its time limit.
FIRST_DELAY, LAST_DELAY = 0.2, 5.0
TIME_LIMIT_DELAY = 0.2

# How long a stream must last, once it was synced, to reset the delays: a server that accepts watches and loses them at once is no
# better than one that cannot be reached.
STEADY_AFTER = 5.0

# A client resumes at once if the server allows it. After streams that were shorter than RESUME_AFTER, it does
# so at most HURRIED times in a row.
RESUME_AFTER = 1.0
HURRIED = 3

# The longest delay that a server can ask for.
MAX_RETRY_AFTER = 60.0


class Streams:
    """Carries all watches of a client on one Subscribe stream, as long as the server has that method."""

    def __init__(
        self, servers: Servers, tasks: Tasks, subscriber: fanout_pb2.Subscriber, log: logging.Logger
    ) -> None:
        self._log = log
        self.servers = servers
        self.tasks = tasks
        self.subscriber = subscriber
        self._shared: SharedStream | None = None
        self._without_until = 0.0
        self._backoff = Backoff(FIRST_DELAY, LAST_DELAY)
        self._hurried = 0

    def open(
        self, request: fanout_pb2.WatchRequest, alone: bool, metadata: Metadata
    ) -> SharedWatch | OwnStream:
        """Open a watch: on a stream of its own if it must be alone, or has metadata."""
        if alone or metadata or not self.has_subscribe:
            request.subscriber.CopyFrom(self.subscriber)
            return OwnStream(self, request, metadata)
        if self._shared is None or self._shared.closing:
            self._shared = SharedStream(self)
        return self._shared.add(request)

    @property
    def has_subscribe(self) -> bool:
        """Whether the server has Subscribe, as far as the client knows."""
        return time.monotonic() >= self._without_until

    def forget(self, stream: SharedStream) -> None:
        """Let further watches use another stream."""
        if self._shared is stream:
            self._shared = None

    def subscribe_missing(self, perhaps: bool) -> None:
        """Make watches use Watch for a while."""
        if self.has_subscribe:
            what = "may lack" if perhaps else "lacks"
            self._log.info("the server %s Subscribe: each watch uses a stream of its own", what)
        self._without_until = time.monotonic() + _TRY_AGAIN

    def subscribe_works(self) -> None:
        """Note that the server has Subscribe."""
        self._without_until = 0.0

    def stream_failed(self, why: BaseException, lasted: float, synced: bool, at_once: bool) -> float:
        """Return how long the watches of a stream that has failed must wait, all together."""
        if synced and lasted >= STEADY_AFTER:
            self._backoff.reset()
        if lasted >= RESUME_AFTER:
            self._hurried = 0
        elif at_once:
            self._hurried += 1
        if at_once and self._hurried <= HURRIED:
            return 0.0
        return delay_after(why, synced, at_once, self._backoff)


def delay_after(why: BaseException, synced: bool, at_once: bool, backoff: Backoff) -> float:
    """Return how long to wait after a stream that has failed, and may not be resumed at once."""
    least = min(why.retry_after, MAX_RETRY_AFTER) if isinstance(why, Error) else 0.0
    if synced and not at_once:
        if isinstance(why, StreamEnd):
            return random.uniform(0, TIME_LIMIT_DELAY)
        if isinstance(why, Error) and why.reason == Reason.DRAINING:
            # The clients of a stopping server must not all reach the others at once.
            return random.uniform(0, max(least, 1.0))
    return least + backoff.next()
