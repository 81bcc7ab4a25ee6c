"""The loop of one handler."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fanoutd.caller import Caller
from fanoutd.callbacks import calling, message_of
from fanoutd.item import Change, Item
from fanoutd.objects import Position
from fanoutd.reports import Progress

__all__ = ["HandlerLoop"]

T = TypeVar("T")

_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0

# A handler that does not wait lets other tasks run after this time.
_YIELD_AFTER = 0.01


@dataclass(slots=True, eq=False)
class _Pending(Generic[T]):
    """A change that the handler has not accepted."""

    old: Item[T] | None
    """What the handler has."""
    since: Position
    """The position before the change."""
    unattempted: Position | None
    """The position before the oldest part of it that was not offered. None: all of it was offered, and rejected."""
    attempts: int = 0
    error: str = ""


class HandlerLoop(Generic[T]):
    """Offers the changes to a handler that was added to an informer. It has a task, so it delays no other handler.

    At most one change of each object waits for it: from what the handler has to the latest version.
    """

    def __init__(
        self,
        caller: Caller[T],
        items: Mapping[str, Item[T]],
        progressed: Callable[[], None],
        rejected: Callable[[str, str, float], None],
    ) -> None:
        """``rejected`` gets a key, why its change was rejected, and the seconds until it is offered again."""
        self._caller = caller
        self._items = items
        self._progressed, self._rejected = progressed, rejected
        # In order of their latest changes. A dict would look for its first key at all places of removed ones.
        self._pending: OrderedDict[str, _Pending[T]] = OrderedDict()
        self._failed: dict[str, _Pending[T]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: tuple[str, _Pending[T]] | None = None
        self._backlog: set[str] | None = None
        self._wake = asyncio.Event()
        self.settled = False
        """Whether the handler was called for all of the first fresh state, or was removed."""
        self.removed = False
        """Whether the handler gets no further calls."""

    @property
    def active(self) -> bool:
        """Whether the function is running."""
        return self._running is not None

    def remove(self) -> None:
        """Make no further calls, and ask the one that is running to end, unless it is the one that removes."""
        if self.removed:
            return
        self.removed = self.settled = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._pending.clear()
        self._failed.clear()
        if calling.get() is not self:
            self._caller.cancel()
        self._caller.end()
        self._wake.set()
        self._progressed()

    def begin_settling(self) -> None:
        """Note that what waits now is the first fresh state."""
        if self._backlog is None:
            self._backlog = {*self._pending, *([self._running[0]] if self._running else [])}
            self._check_settled()

    def changed(self, key: str, old: Item[T] | None, since: Position) -> None:
        """Note that an item has changed."""
        if self.removed:
            return
        p = self._failed.pop(key, None)
        if p is not None:
            self._timers.pop(key).cancel()
        else:
            p = self._pending.pop(key, None) or _Pending(old, since, since)
        p.attempts = 0  # they were those of another version
        if p.unattempted is None:
            p.unattempted = since
        self._pending[key] = p
        self._wake.set()

    def progress(self, at: Position) -> Progress:
        """Return how far the handler has accepted the changes up to the present position."""
        if not self._pending and not self._failed and self._running is None:
            return Progress(at)
        waiting = [*self._failed.items(), *self._pending.items(), *([self._running] if self._running else [])]
        applied = _oldest((p.since for _, p in waiting), at)
        # An object that is offered again has failed until it is accepted.
        failed = {key: p.error for key, p in waiting if p.error}
        if not failed:
            return Progress(applied)
        attempted = _oldest((p.unattempted for _, p in waiting if p.unattempted is not None), at)
        first = next(iter(failed))
        return Progress(applied, attempted, f"{first}: {failed[first]}", frozenset(failed))

    @property
    def queue(self) -> int:
        """The number of changes that the handler has not accepted."""
        return len(self._pending) + len(self._failed) + (self._running is not None)

    async def run(self) -> None:
        """Call the function for each change, until the handler is removed.

        Another task makes the calls, because the function may cancel the task in which it runs. If it does, a new task
        goes on. If this task is cancelled, for example at the end of the event loop, the loop ends.
        """
        calling.set(self)
        while not self.removed:
            task = asyncio.create_task(self._call_for_each())
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                if not task.cancelling():
                    task.cancel()
                raise
            if self._running is not None:
                self._note_call(*self._running, asyncio.CancelledError() if task.cancelled() else task.exception())
            elif not task.cancelled():
                task.result()
        await self._caller.ended()

    async def _call_for_each(self) -> None:
        while not self.removed:
            self._wake.clear()
            yielded = time.monotonic()
            while self._pending and not self.removed:
                key, p = self._pending.popitem(last=False)
                new = self._items.get(key)
                error = None
                if p.old is not new:
                    self._running = key, p  # it stays if this task is cancelled: the change is not accepted
                    error = await self._caller.call(Change(key, p.old, new))
                self._note_call(key, p, error)
                if time.monotonic() - yielded > _YIELD_AFTER:
                    await asyncio.sleep(0)
                    yielded = time.monotonic()
            self._progressed()
            await self._wake.wait()

    def _note_call(self, key: str, p: _Pending[T], error: BaseException | None) -> None:
        if error is not None and not self.removed:
            self._reject(key, p, error)
        self._running = None
        if self._backlog is not None:
            self._backlog.discard(key)
            self._check_settled()

    def _check_settled(self) -> None:
        if not self._backlog and not self.settled:
            self.settled = True
            self._progressed()

    def _reject(self, key: str, p: _Pending[T], error: BaseException) -> None:
        newer = self._pending.get(key)
        if newer is not None:
            newer.old, newer.since = p.old, p.since  # the handler still has the older version
            return
        delay = min(_FIRST_RETRY * 2 ** min(p.attempts, 30), _LAST_RETRY) * random.uniform(0.8, 1.0)
        p.attempts += 1
        p.unattempted = None
        p.error = message_of(error)
        self._failed[key] = p
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._retry, key)
        self._rejected(key, p.error, delay)

    def _retry(self, key: str) -> None:
        del self._timers[key]
        self._pending[key] = self._failed.pop(key)
        self._wake.set()


def _oldest(before: Iterable[Position], at: Position) -> Position:
    """Return the oldest position, or the present one. Revision 0: it is of another epoch."""
    oldest = last = at
    for p in before:
        if p is last:
            continue  # the changes of one message follow each other
        last = p
        if p.epoch != at.epoch:
            return Position()
        if p.revision < oldest.revision:
            oldest = p
    return oldest
