"""Delays between the streams of watches."""

from __future__ import annotations

import random

from fanoutd.backoff import Backoff
from fanoutd.errors import Error, Reason
from fanoutd.inbox import StreamEnd
from fanoutd.v1 import fanout_pb2

__all__ = ["MAX_RETRY_AFTER", "Delays", "Outcome"]

# The limits of the delays after streams that were short or have failed.
_FIRST, _LAST = 0.2, 5.0

# How long a stream that has worked must last to reset the delays: a server that accepts watches and loses them at
# once is no better than one that cannot be reached.
_STEADY_AFTER = 5.0

# A client resumes at once if the server allows it. After streams that were shorter than _RESUME_AFTER, it does
# so at most _MOST_HURRIED times in a row.
_RESUME_AFTER = 1.0
_MOST_HURRIED = 3

# The clients of a stopping server must not all reach the others at once.
_SPREAD = 1.0

# The longest delay that a server can ask for.
MAX_RETRY_AFTER = 60.0

_RESPONSE = fanout_pb2.WatchResponse


class Outcome:
    """What the messages of a stream mean for the next one."""

    def __init__(self) -> None:
        self.worked = False
        """Whether a catch-up has ended, or events or a bookmark came."""
        self.draining = False
        """Whether the server has announced the end."""
        self.at_once = False
        """Whether the server said that the client may resume at once."""

    def note(self, m: fanout_pb2.WatchResponse) -> None:
        """Note a message."""
        if m.kind == _RESPONSE.KIND_DRAINING:
            self.draining = True
            self.at_once = self.at_once or m.resume_at_once
        elif m.kind not in (_RESPONSE.KIND_CATCH_UP_BEGIN, _RESPONSE.KIND_CATCH_UP_PART):
            self.worked = True


class Delays:
    """Computes the delays between streams that follow each other."""

    def __init__(self) -> None:
        self._backoff = Backoff(_FIRST, _LAST)
        self._hurried = 0
        self._steady = False

    def ended(self, outcome: Outcome, lasted: float) -> None:
        """Note how a stream was, and how many seconds it has lasted from its request on."""
        self._steady = outcome.worked and lasted >= _STEADY_AFTER
        if self._steady:
            self._backoff.reset()
        if lasted >= _RESUME_AFTER:
            self._hurried = 0
        elif outcome.at_once:
            self._hurried += 1

    def after(self, outcome: Outcome, why: BaseException) -> float:
        """Return how long to wait after the stream that has ended."""
        least = min(why.retry_after, MAX_RETRY_AFTER) if isinstance(why, Error) else 0.0
        if outcome.at_once:
            return 0.0 if self._hurried <= _MOST_HURRIED else least + self._backoff.next()
        draining = outcome.draining or isinstance(why, Error) and why.reason == Reason.DRAINING
        if draining and outcome.worked and not isinstance(why, StreamEnd):
            return random.uniform(0, max(least, _SPREAD)) + (0.0 if self._steady else self._backoff.next())
        return least + self._backoff.next()
