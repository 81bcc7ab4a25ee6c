"""Watches that informers share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from fanoutd.core import Core
from fanoutd.objects import Event, EventType, Object, Position, Update
from fanoutd.reports import Progress
from fanoutd.requests import Metadata
from fanoutd.v1 import fanout_pb2
from fanoutd.watcher import Watcher

__all__ = ["InformerWatch", "InformerWatches", "Member", "lower", "lowest", "state_of"]


class Member(Protocol):
    """An informer that takes part in a watch."""

    def receive(self, update: Update) -> None:
        """Apply an update. It must not wait."""

    def interrupted(self, at: float, why: BaseException | None) -> None:
        """Note that the watch has lost its server; without a reason, before the member has joined."""

    def end(self, why: BaseException) -> None:
        """Note that the watch has ended."""

    def progress(self) -> Progress:
        """Return how far the member has applied the watch."""

    def state(self) -> tuple[Update | None, Update | None]:
        """Return updates that lead another member to the same state: a state, and a part of the next one."""


class InformerWatch:
    """A watch on the server for all informers of a client that want the same.

    It keeps nothing itself: an informer that joins copies the state of another one. All of them have the same
    state, because they apply each update at once.
    """

    def __init__(
        self,
        core: Core,
        request: fanout_pb2.WatchRequest,
        bookmark_interval: float,
        metadata: Metadata,
        forget: Callable[[], None],
    ) -> None:
        """``forget`` is called when nothing may join any more."""
        self._forget = forget
        self._members: list[Member] = []
        self._joining: list[Member] = []
        self._applying = False
        self._lost: float | None = None
        self._watcher = Watcher(
            core, request, bookmark_interval=bookmark_interval, metadata=metadata,
            progress=self._progress, on_interruption=self._interrupted,
        )  # fmt: skip
        self._task = core.tasks.start(self._run())

    def join(self, m: Member) -> None:
        """Take part in the watch. The caller must leave it."""
        if self._applying:
            self._joining.append(m)  # the others are between two states
        else:
            self._admit(m)

    def _admit(self, m: Member) -> None:
        if self._lost is not None:
            m.interrupted(self._lost, None)
        updates = self._members[0].state() if self._members else ()
        self._members.append(m)
        for update in updates:
            if update is not None:
                m.receive(update)

    def leave(self, m: Member) -> None:
        """End the part of a member. The last one ends the watch."""
        self._members = [other for other in self._members if other is not m]
        self._joining = [other for other in self._joining if other is not m]
        if self._members or self._joining:
            self._watcher.wake_reports()  # the others may have applied more
            return
        self._forget()
        self._watcher.close()
        self._task.cancel()

    async def left(self) -> None:
        """Wait for the end of the watch if its last member has left."""
        if not self._members and not self._joining:
            await asyncio.wait([self._task])

    def wake_reports(self) -> None:
        """Report the progress, which may have changed."""
        self._watcher.wake_reports()

    def fresh_for(self) -> float:
        """Return how long a state counts as current after a server has confirmed it."""
        return self._watcher.fresh_for()

    async def _run(self) -> None:
        try:
            async for update in self._watcher:
                self._pass_on(update)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._forget()
            for m in self._members + self._joining:
                m.end(error)

    def _pass_on(self, update: Update) -> None:
        self._applying = True
        for m in list(self._members):
            try:
                m.receive(update)
            except Exception as error:
                m.end(error)
        self._applying = False
        joining, self._joining = self._joining, []
        for m in joining:
            self._admit(m)

    def _interrupted(self, why: BaseException) -> None:
        self._lost = time.monotonic()
        for m in list(self._members):
            m.interrupted(self._lost, why)

    def _progress(self) -> Progress:
        return lowest(m.progress() for m in self._members)


class InformerWatches:
    """The watches that the informers of a client share."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._shared: dict[bytes, InformerWatch] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def join(
        self, request: fanout_pb2.WatchRequest, bookmark_interval: float, metadata: Metadata, m: Member
    ) -> tuple[InformerWatch, bool]:
        """Take part in a watch, and return whether others did before. The caller must leave it.

        A request with a position or metadata is not shared.
        """
        if request.HasField("after") or metadata:
            own = InformerWatch(self._core, request, bookmark_interval, metadata, lambda: None)
            own.join(m)
            return own, False
        identity = request.SerializeToString(deterministic=True) + repr(bookmark_interval).encode()
        shared = self._shared.get(identity)
        joined = shared is not None
        if shared is None:

            def forget() -> None:
                if self._shared.get(identity) is made:
                    del self._shared[identity]

            shared = made = InformerWatch(self._core, request, bookmark_interval, metadata, forget)
            self._shared[identity] = shared
        shared.join(m)
        return shared, joined


def state_of(objects: Iterable[Object], position: Position, as_of: float | None, complete: bool) -> Update:
    """Return an update that replaces everything by a state, or by a part of one."""
    events = [Event(EventType.ADDED, o, o.mod_revision) for o in objects]
    return Update(position, events, replace=True, complete=complete, synced=complete, as_of=as_of)


def lower(p: Position, q: Position) -> Position:
    """Return the lower one of two positions. Revision 0 is the lowest; so are those of several epochs."""
    if p.epoch != q.epoch:
        return Position()
    return min(p, q)


def lowest(all_progress: Iterable[Progress]) -> Progress:
    """Return how far all have applied a watch."""
    result: Progress | None = None
    for p in all_progress:
        attempted = p.attempted if p.error else p.applied
        if result is None:
            result = Progress(p.applied, attempted, p.error, p.failed)
        else:
            result = Progress(
                lower(result.applied, p.applied), lower(result.attempted, attempted), result.error or p.error,
                result.failed | p.failed,
            )  # fmt: skip
    if result is None:
        return Progress(Position())
    return result if result.error else Progress(result.applied)
