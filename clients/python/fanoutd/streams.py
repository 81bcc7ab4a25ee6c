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
from fanoutd.shared_stream import SharedStream, SharedWatch
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2

__all__ = ["HURRIED", "RESUME_AFTER", "STEADY_AFTER", "Streams"]

_log = logging.getLogger("fanoutd")

# After this time, Subscribe is tried again.
_TRY_AGAIN = 600.0

# How long a stream must last to reset the delays: a server that accepts watches and loses them at once is no
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

    def __init__(self, servers: Servers, tasks: Tasks, subscriber: fanout_pb2.Subscriber) -> None:
        self.servers = servers
        self.tasks = tasks
        self.subscriber = subscriber
        self._shared: SharedStream | None = None
        self._without_until = 0.0
        self._backoff = Backoff(0.5, 5.0)
        self._hurried = 0

    def open(self, request: fanout_pb2.WatchRequest, alone: bool) -> SharedWatch | OwnStream:
        """Open a watch: on a stream of its own if it must be alone."""
        if alone or not self.has_subscribe:
            request.subscriber.CopyFrom(self.subscriber)
            return OwnStream(self, self.servers.connect(), request)
        if self._shared is None or self._shared.closing:
            self._shared = SharedStream(self, self.servers.connect())
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
            _log.info("the server %s Subscribe: each watch uses a stream of its own", "may lack" if perhaps else "lacks")
        self._without_until = time.monotonic() + (60.0 if perhaps else _TRY_AGAIN)

    def subscribe_works(self) -> None:
        """Note that the server has Subscribe."""
        self._without_until = 0.0

    def stream_failed(self, why: BaseException, lasted: float, at_once: bool) -> float:
        """Return how long the watches of a stream that has failed must wait, all together."""
        if lasted >= STEADY_AFTER:
            self._backoff.reset()
        if lasted >= RESUME_AFTER:
            self._hurried = 0
        elif at_once:
            self._hurried += 1
        if at_once and self._hurried <= HURRIED:
            return 0.0
        least = min(why.retry_after, MAX_RETRY_AFTER) if isinstance(why, Error) else 0.0
        if isinstance(why, Error) and why.reason == Reason.DRAINING and not at_once:
            return random.uniform(0, max(least, 1.0)) + (0.0 if lasted >= STEADY_AFTER else self._backoff.next())
        if isinstance(why, StreamEnd) and lasted >= STEADY_AFTER:
            return random.uniform(0, 0.2)
        return least + self._backoff.next()
