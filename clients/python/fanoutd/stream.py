"""What a watch needs of the stream that carries it."""

from __future__ import annotations

import time
from typing import Protocol

from fanoutd.errors import Error
from fanoutd.inbox import Inbox, SilenceError
from fanoutd.reports import ReportSender
from fanoutd.v1 import fanout_pb2

__all__ = ["Arrivals", "LostError", "Stream", "TooSlowError", "size_of"]


class LostError(Exception):
    """The stream that carries the watch has failed. The cause is its error."""

    def __init__(self, why: BaseException, delay: float) -> None:
        super().__init__(str(why))
        self.why = why
        self.delay = delay
        """The seconds to wait before the watches of the stream come back, all together."""


class TooSlowError(Exception):
    """The reader is too slow for a shared stream."""


class Stream(Protocol):
    """Carries one watch, alone or with others.

    It ignores messages after DRAINING, also as signs of life: what was held back is lost, so only the end counts.
    """

    inbox: Inbox
    shared: bool
    report: ReportSender

    @property
    def server(self) -> str:
        """The address of the server. Empty: there is no connection yet."""

    def silent(self, error: SilenceError) -> None:
        """Note that the server is dead."""

    def interrupted(self, error: Error) -> None:
        """Note why the watch has lost the stream, if it goes on with another one."""

    def close(self) -> None:
        """End the watch."""


def size_of(m: fanout_pb2.WatchResponse) -> int:
    """Return about how many bytes a message takes in memory."""
    return 200 + int(m.ByteSize()) + 300 * len(m.events)


# A total waiting time that shows that no message waited in a buffer of gRPC.
_EMPTY = 0.05


class Arrivals:
    """Estimates when messages arrived that may have waited in the buffers of gRPC."""

    def __init__(self) -> None:
        self._since = self._next = time.monotonic()
        self._waited = 0.0

    def received(self, called: float, returned: float) -> float:
        """Return a time after which a message arrived, which was read between the two times."""
        wait = returned - called
        self._waited += wait
        if wait >= _EMPTY:
            self._since = self._next = returned
            self._waited = 0.0
        elif self._waited >= _EMPTY:
            self._since, self._next, self._waited = self._next, returned, 0.0
        return self._since
