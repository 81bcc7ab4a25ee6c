"""What a wait knows, and the errors that end it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fanoutd.errors import Error, error_of_status
from fanoutd.objects import Position, position_from
from fanoutd.v1 import admin_pb2

__all__ = ["NotReachedError", "PendingWatch", "RefusedError", "WaitServer", "WaitStatus"]

# Errors name so many watches.
_FEW = 3


@dataclass(frozen=True, slots=True)
class PendingWatch:
    """A watch that has not applied a revision."""

    server: str
    """The address of its server."""
    id: str
    """Identifies the watch among those of all servers."""
    instance: str
    """The name of its program."""
    labels: Mapping[str, str]
    """The labels of its program."""
    identity: str
    """The authenticated identity of its client."""
    peer: str
    """The address of its client."""
    user_agent: str
    """The user agent of its client."""
    since: datetime.datetime
    """When it began."""
    applied: Position
    """The position that it has reported as applied. Its revision is 0 if it has never reported one."""
    applied_lag: float
    """How many seconds the oldest event after ``applied`` has waited."""
    error: Error | None
    """The last error that it has reported."""
    error_time: datetime.datetime | None
    """When it has reported the error."""
    failed: bool
    """It has attempted the revision, so the error counts. Otherwise the revision may be what corrects it."""
    failed_keys: tuple[str, ...]
    """The keys of the objects that it cannot apply, if it has named them."""

    @property
    def name(self) -> str:
        """The instance; else the identity and address of the client; else the id."""
        return self.instance or f"{self.identity} {self.peer}".strip() or self.id


@dataclass(frozen=True, slots=True)
class WaitServer:
    """What a wait knows of one server."""

    address: str
    """Its address: for one of several servers behind a name, the IP address and port."""
    answered: bool = False
    """It has answered at least once."""
    answering: bool = False
    """It can be reached, and the numbers are current. Otherwise they are its last ones, and do not count."""
    error: Exception | None = None
    """Why it does not answer. None before the first attempt has failed."""
    watches: int = 0
    """The number of its affected watches."""
    applied: int = 0
    """How many of them have applied the revision."""
    failed: int = 0
    """How many of them have failed."""
    not_reporting: int = 0
    """How many watches do not count because they do not report."""


@dataclass(frozen=True, slots=True)
class WaitStatus:
    """What a wait knows at one moment. ``str`` returns the numbers in one line."""

    revision: int
    """The revision that the watches must apply."""
    newest: int
    """The newest revision that a server is known to have; 0: unknown. A later one may not exist yet."""
    watches: int
    """The number of affected watches of the servers that answer."""
    recent_watches: int
    """The largest value of ``watches`` within the last ``settle`` seconds."""
    applied: int
    """How many watches have applied the revision."""
    required: int
    """How many must have applied it."""
    failed: int
    """How many have attempted the revision, have not applied it, and have reported an error."""
    pending: Sequence[PendingWatch]
    """Those that have not applied it: first those that failed, then others with an error, then the oldest.

    Each server names at most 100.
    """
    not_reporting: int
    """How many watches do not count because they do not report."""
    uncounted: Sequence[PendingWatch]
    """The oldest of these. Each server names at most 20."""
    servers: Sequence[WaitServer]
    """All servers."""
    ended: bool = False
    """The wait ends with this status: the quorum is reached, or too many watches have failed."""

    @property
    def missing(self) -> list[WaitServer]:
        """The servers that do not answer."""
        return [s for s in self.servers if not s.answering]

    def __str__(self) -> str:
        if self.watches == 1:
            text = f"{self.applied} of 1 watch has applied revision {self.revision}"
        else:
            text = f"{self.applied} of {self.watches} watches have applied revision {self.revision}"
        if self.failed > 0:
            text += f", {self.failed} failed"
        if self.required > self.applied:
            text += f", want {self.required}"
        if self.recent_watches > self.watches:
            text += f", {self.recent_watches - self.watches} ended recently"
        if self.not_reporting > 0:
            text += f", {self.not_reporting} {'does' if self.not_reporting == 1 else 'do'} not report"
        for server in self.missing:
            text += f", no answer from {server.address}"
        if 0 < self.newest < self.revision:
            text += f"; revision {self.revision} does not exist yet, or no server has received it: the newest is {self.newest}"
        return text

    def detail(self) -> str:
        """Return the numbers, and the first watches that have not applied the revision."""
        text = str(self)
        if self.watches > self.applied:
            names = [w.name for w in self.pending]
            text += f"; not applied by {_first_few(names, self.watches - self.applied, ', ')}"
        return text


class RefusedError(Exception):
    """More watches have failed than a wait tolerates."""

    def __init__(self, status: WaitStatus) -> None:
        self.status = status
        """The last status."""
        self.failures = [w for w in status.pending if w.failed]
        """The watches that have failed. Each server names at most 100; ``status.failed`` counts all."""
        reports = [f"{w.name}: {w.error.message or w.error.code.name}" for w in self.failures if w.error is not None]
        noun = "watch" if status.failed == 1 else "watches"
        few = _first_few(reports, status.failed, "; ")
        super().__init__(f"{status.failed} {noun} cannot apply revision {status.revision}: {few}")


class NotReachedError(TimeoutError):
    """The timeout of a wait is over before its quorum is reached."""

    def __init__(self, status: WaitStatus) -> None:
        self.status = status
        """The last status."""
        super().__init__(f"{status.detail()}: the timeout is over")


def _first_few(texts: Sequence[str], count: int, separator: str) -> str:
    text = separator.join(texts[:_FEW])
    more = count - len(texts[:_FEW])
    return f"{text} and {more} more" if more > 0 else text


def pending_watch(server: str, w: admin_pb2.WatcherStatus, may_have_failed: bool) -> PendingWatch:
    """Return a watch that a server has named."""
    error = error_of_status(w.error) if w.HasField("error") else None
    return PendingWatch(
        server=server, id=w.id, instance=w.subscriber.instance, labels=dict(w.subscriber.labels), identity=w.identity,
        peer=w.peer, user_agent=w.user_agent, since=w.since.ToDatetime(datetime.UTC), applied=position_from(w.applied),
        applied_lag=w.applied_lag.ToNanoseconds() / 1e9, error=error,
        error_time=None if error is None else w.error_time.ToDatetime(datetime.UTC),
        failed=may_have_failed and error is not None, failed_keys=tuple(w.failed_keys),
    )  # fmt: skip


def order(w: PendingWatch) -> tuple[int, datetime.datetime]:
    """Return the sort key of a watch. The servers use the same order."""
    return (0 if w.failed else 1 if w.error is not None else 2, w.since)
