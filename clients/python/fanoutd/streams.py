"""Chooses the streams of watches."""

from __future__ import annotations

import logging
import time

from fanoutd.connection import Servers
from fanoutd.delays import Delays
from fanoutd.own_stream import OwnStream
from fanoutd.requests import Metadata
from fanoutd.shared_stream import SharedStream, SharedWatch
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2

__all__ = ["Streams"]

# After this time, Subscribe is tried again.
_TRY_AGAIN = 300.0


class Streams:
    """Carries all watches of a client on one Subscribe stream, as long as the server has that method."""

    def __init__(
        self, servers: Servers, tasks: Tasks, subscriber: fanout_pb2.Subscriber, log: logging.Logger
    ) -> None:
        self._log = log
        self._servers, self._tasks, self._subscriber = servers, tasks, subscriber
        self._shared: SharedStream | None = None
        self._without_until = 0.0
        self._delays = Delays()

    def open(
        self, request: fanout_pb2.WatchRequest, alone: bool, metadata: Metadata
    ) -> SharedWatch | OwnStream:
        """Open a watch: on a stream of its own if it must be alone, or has metadata."""
        if alone or metadata or not self.has_subscribe:
            request.subscriber.CopyFrom(self._subscriber)
            return OwnStream(self._servers, self._tasks, request, metadata)
        if self._shared is None or self._shared.closing:
            self._shared = SharedStream(self, self._servers, self._tasks, self._subscriber, self._delays)
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
