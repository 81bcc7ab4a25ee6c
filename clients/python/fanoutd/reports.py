"""Reports to the server about how far a watch was applied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from fanoutd.objects import Position

__all__ = ["INTERVAL", "Progress", "ReportSender", "StreamReports"]

# The least time between two reports of a watch.
INTERVAL = 1.0

# The least time between two looks at the progress, which takes a while if much is not applied.
_LOOK_INTERVAL = 0.1

# The largest message of an error that a server keeps.
_MAX_MESSAGE = 1024

# A report names at most so many failed keys, with so many bytes together.
_MAX_FAILED_KEYS = 32
_MAX_FAILED_KEY_BYTES = 4096


class Progress(NamedTuple):
    """How far a watch was applied."""

    applied: Position
    """Everything up to this position is applied. Revision 0: nothing is known to be."""
    attempted: Position = Position()
    """With an error: everything up to this position is applied or has failed."""
    error: str | None = None
    """Why what follows the applied position cannot be applied."""
    failed: frozenset[str] = frozenset()
    """With an error: the keys of the objects that have failed."""

    def failed_keys(self) -> list[str]:
        """Return the failed keys that a report names: none if they are too many."""
        if len(self.failed) > _MAX_FAILED_KEYS or sum(len(key.encode()) for key in self.failed) > _MAX_FAILED_KEY_BYTES:
            return []
        return sorted(self.failed)


class ReportSender(Protocol):
    """Sends a report. It calls done with the seconds to wait besides the interval, or None to stop."""

    def __call__(self, p: Progress, done: Callable[[float | None], None]) -> None: ...


class StreamReports:
    """The reports about one stream of a watch: always the latest progress, at most once a second."""

    def __init__(self, progress: Callable[[], Progress], send: ReportSender, not_before: float) -> None:
        """``not_before`` is the time of the event loop from which the first report may be sent."""
        self._progress, self._send = progress, send
        self._sent = Position()  # the position of the latest message of the server
        self._reported = Progress(Position())
        self._replacing = False  # the server is sending a new state, and ignores reports
        self._forgotten = False  # that state was complete after the beginning of the latest report
        self._sending = False
        self._closed = False
        self._next_look = not_before
        self.next_report = not_before
        """The time of the event loop from which the next report may be sent, also on another stream."""
        self._timer: asyncio.TimerHandle | None = None

    def received(self, at: Position, *, replace: bool, synced: bool) -> None:
        """Note the position after a message, and whether it begins a new state or ends a catch-up."""
        self._sent = at
        self._replacing = self._replacing or replace
        if synced and self._replacing:
            # The server has forgotten the report. It gets the next one when the new state is applied.
            self._replacing, self._forgotten = False, True
            self._reported = Progress(Position())
            return
        self.wake()

    def wake(self) -> None:
        """Report the progress if it has changed, as soon as that is allowed."""
        if self._closed or self._sending or self._timer is not None:
            return
        now = asyncio.get_running_loop().time()
        if now < self._next_look:
            self._timer = asyncio.get_running_loop().call_at(self._next_look, self._again)
            return
        self._next_look = now + _LOOK_INTERVAL
        p = self._progress()
        if p.error is not None:
            p = p._replace(error=_shortened(p.error))
        if not self._is_news(p):
            return
        self._sending, self._forgotten = True, False
        self.next_report = now + INTERVAL
        self._send(p, lambda pause: self._done(p, pause))

    def close(self) -> None:
        """End the reports."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _is_news(self, p: Progress) -> bool:
        sent, old = self._sent, self._reported
        if p.applied.revision > 0 and (p.applied.epoch != sent.epoch or p.applied.revision > sent.revision):
            return False  # it belongs to an earlier stream; this one is sending a new state
        if p.error is not None or old.error is not None:
            moved = p.applied != old.applied or p.attempted.is_after(old.attempted)
            return moved or p.error != old.error or p.failed != old.failed
        return p.applied.is_after(old.applied)

    def _done(self, p: Progress, pause: float | None) -> None:
        self._sending = False
        if pause is None or self._closed:
            self._closed = True
            return
        if pause == 0.0 and not self._forgotten:
            self._reported = p
        self._timer = asyncio.get_running_loop().call_later(INTERVAL + pause, self._again)

    def _again(self) -> None:
        self._timer = None
        self.wake()


def _shortened(text: str) -> str:
    return text.encode("utf-8", "replace")[:_MAX_MESSAGE].decode("utf-8", "ignore")
