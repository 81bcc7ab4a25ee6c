"""Saves the state of an informer from time to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fanoutd.objects import Object, Position
from fanoutd.state_file import StateFile
from fanoutd.worker import Worker

__all__ = ["Saver"]

# The least time between two writes, and between two writes if only the position is new.
_INTERVAL = 5.0
_POSITION_INTERVAL = 300.0


class Saver:
    """Writes a state file in a thread, so that the event loop does not wait for the disk."""

    def __init__(
        self,
        file: StateFile,
        state: Callable[[], tuple[Position, list[Object]]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._file, self._state, self._failed = file, state, failed
        self._objects_changed = self._position_changed = False
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def changed(self, objects: bool) -> None:
        """Note that the position, and perhaps the objects, have changed."""
        self._position_changed = True
        if objects and not self._objects_changed:
            self._objects_changed = True
            self._wake.set()

    def stop(self) -> None:
        """Save for the last time, and end."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Save from time to time, and at the end."""
        worker = Worker("fanoutd-state")
        try:
            due = time.monotonic()
            while not self._stopping.is_set():
                await _within(self._wake, _POSITION_INTERVAL)
                await _within(self._stopping, due - time.monotonic())
                await self._save(worker)
                due = time.monotonic() + _INTERVAL
        finally:
            await self._save(worker)
            worker.end()
            await worker.ended()

    async def _save(self, worker: Worker) -> None:
        if not self._position_changed:
            return
        position, objects = self._take()
        _, error = await worker.call(self._file.write, position, objects)
        if isinstance(error, Exception):
            self._failed(error)

    def _take(self) -> tuple[Position, list[Object]]:
        self._objects_changed = self._position_changed = False
        self._wake.clear()
        return self._state()


async def _within(event: asyncio.Event, limit: float) -> None:
    """Wait for an event, at most so many seconds."""
    if limit <= 0:
        return
    try:
        async with asyncio.timeout(limit):
            await event.wait()
    except TimeoutError:
        pass
