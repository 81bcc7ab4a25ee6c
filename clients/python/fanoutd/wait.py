"""Waits until watches, over all servers, have applied a revision."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from fanoutd.core import Core
from fanoutd.errors import ClosedError
from fanoutd.recent_peak import RecentPeak
from fanoutd.selection import scope
from fanoutd.v1 import admin_pb2
from fanoutd.wait_server import Answer, Follower, each_address
from fanoutd.wait_status import NotReachedError, PendingWatch, RefusedError, WaitServer, WaitStatus, order, pending_watch

__all__ = ["SETTLE", "Options", "statuses", "wait_request"]

SETTLE = 35.0
"""Watches notice a silent server after 30 s, and a lost connection at once."""

# An unchanged status is passed to progress again after so many seconds.
_BEAT = 1.0

# A share may be a little too large, because most decimal fractions are not exact.
_INEXACT = 1e-6


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ``Resource.wait``, which describes them."""

    quorum: float
    tolerate: int
    min_watches: int
    allow_missing_servers: bool
    settle: float
    timeout: float | None

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:  # also NaN
            raise ValueError(f"quorum {self.quorum}, want more than 0 and at most 1")
        for name in "tolerate", "min_watches", "settle":
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} {getattr(self, name)}, want at least 0")


def wait_request(
    resource: str,
    revision: int,
    *,
    prefix: str | None,
    key: str | None,
    subscribers: str,
    instance: str,
    require_all: bool,
) -> admin_pb2.WatchAppliedRequest:
    """Return the request to each server."""
    if revision < 1:
        raise ValueError(f"revision {revision}, want at least 1")
    return admin_pb2.WatchAppliedRequest(
        resource=resource, scope=scope(prefix, key), revision=revision, require_all=require_all,
        subscriber_selector=subscribers, instance=instance,
    )  # fmt: skip


async def statuses(
    core: Core, request: admin_pb2.WatchAppliedRequest, options: Options
) -> AsyncGenerator[WaitStatus, None]:
    """Yield each status until the wait is over. The last one has ``ended`` set, and means success."""
    core.check_open()
    due = math.inf if options.timeout is None else time.monotonic() + options.timeout
    answers: asyncio.Queue[Answer] = asyncio.Queue()
    cores: list[Core] = []
    following = []
    closing = core.tasks.start(_report_end(core, answers))
    try:
        for one in await _each_server(core, options.timeout):
            cores.append(Core(core.settings.of(*one)))  # one by one: if it fails, those before it are closed
        gate = _Gate(request.revision, [c.settings.addresses[0] for c in cores], options)
        following = [core.tasks.start(Follower(i, c, request, answers).run()) for i, c in enumerate(cores)]
        while True:
            try:
                async with asyncio.timeout(min(due - time.monotonic(), gate.falls_in(), _BEAT)):
                    answer = await answers.get()
            except TimeoutError:
                if time.monotonic() >= due:
                    raise NotReachedError(gate.status()) from None
            else:
                if answer.final and answer.error is not None:
                    raise answer.error
                gate.receive(answer)
            status = gate.status()
            refused, reached = status.failed > options.tolerate, gate.is_reached(status)
            status = dataclasses.replace(status, ended=refused or reached)
            yield status
            if refused:
                raise RefusedError(status)
            if reached:
                return
    finally:
        for task in (closing, *following):
            task.cancel()
        await asyncio.gather(closing, *following, return_exceptions=True)
        for c in cores:
            await c.close()


async def _report_end(core: Core, answers: asyncio.Queue[Answer]) -> None:
    """Make the wait end when the client, which cancels its tasks, is closed."""
    try:
        await asyncio.Event().wait()
    finally:
        if core.closed:
            answers.put_nowait(Answer(-1, error=ClosedError("the client is closed"), final=True))


async def _each_server(core: Core, timeout: float | None) -> list[tuple[str, str | None]]:
    """Return the address of each server, and the name that its certificate must have, without duplicates."""
    found = await asyncio.gather(*(each_address(a, timeout) for a in core.settings.addresses))
    return list(dict.fromkeys(one for several in found for one in several))


class _Gate:
    """Evaluates the answers of the servers."""

    def __init__(self, revision: int, addresses: Sequence[str], options: Options) -> None:
        self._revision, self._options = revision, options
        self._servers = [WaitServer(a) for a in addresses]
        self._latest: dict[int, tuple[float, admin_pb2.WatchAppliedResponse]] = {}
        self._peak = RecentPeak(options.settle)

    def receive(self, answer: Answer) -> None:
        """Store an answer."""
        server, response = self._servers[answer.server], answer.response
        if response is None:
            self._servers[answer.server] = dataclasses.replace(server, answering=False, error=answer.error)
            return
        self._servers[answer.server] = WaitServer(
            server.address, True, True, None, response.watches, response.applied, response.failed, response.not_reporting
        )
        self._latest[answer.server] = time.monotonic(), response

    def status(self) -> WaitStatus:
        """Add up the answers."""
        now = time.monotonic()
        counted = [s for s in self._servers if s.answering]
        watches, failed = sum(s.watches for s in counted), sum(s.failed for s in counted)
        self._peak.set(now, watches)
        recent = self._peak.max(now)
        return WaitStatus(
            revision=self._revision,
            newest=max((r.position.revision for _, r in self._latest.values()), default=0),
            watches=watches,
            recent_watches=recent,
            applied=sum(s.applied for s in counted),
            required=self._required(max(recent, self._options.min_watches), failed),
            failed=failed,
            pending=sorted(self._pending(now), key=order),
            not_reporting=sum(s.not_reporting for s in counted),
            uncounted=sorted(self._uncounted(), key=order),
            servers=tuple(self._servers),
        )

    def _pending(self, now: float) -> list[PendingWatch]:
        found = []
        for i, (at, response) in self._latest.items():
            server = self._servers[i]
            for n, w in enumerate(response.pending if server.answering else ()):
                # Those that have failed come first. A server is silent while nothing changes.
                p = pending_watch(server.address, w, n < server.failed)
                found.append(dataclasses.replace(p, applied_lag=p.applied_lag + now - at) if p.applied_lag > 0 else p)
        return found

    def _uncounted(self) -> list[PendingWatch]:
        return [
            pending_watch(self._servers[i].address, w, False)
            for i, (_, response) in self._latest.items() if self._servers[i].answering
            for w in response.not_reporting_watchers
        ]  # fmt: skip

    def _required(self, watches: int, failed: int) -> int:
        """Return how many watches must have applied the revision.

        If there are any, one at least must have, even if all others have failed.
        """
        if watches == 0:
            return 0
        counted = watches - min(failed, self._options.tolerate, watches)
        return max(1, math.ceil(self._options.quorum * counted - _INEXACT))

    def is_reached(self, status: WaitStatus) -> bool:
        """Return whether the wait has succeeded."""
        for s in self._servers:
            if not s.answered and (not self._options.allow_missing_servers or s.error is None):
                return False
        answering = any(s.answering for s in self._servers)
        return answering and status.watches >= self._options.min_watches and status.applied >= status.required

    def falls_in(self) -> float:
        """Return the seconds until the number of recent watches becomes smaller."""
        at = self._peak.falls()
        return math.inf if at is None else at - time.monotonic()
