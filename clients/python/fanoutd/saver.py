"""Saves the state of an informer from time to time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fanoutd.objects import Object, Position
from fanoutd.state_file import StateFile

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

    def changed(self, objects: bool) -> None:
        """Note that the position, and perhaps the objects, have changed."""
        self._position_changed = True
        if objects and not self._objects_changed:
            self._objects_changed = True
            self._wake.set()

    async def run(self) -> None:
        """Save until the task is cancelled, and then once more."""
        with ThreadPoolExecutor(1, "fanoutd-state") as thread:
            try:
                due = time.monotonic()
                while True:
                    try:
                        async with asyncio.timeout(_POSITION_INTERVAL):
                            await self._wake.wait()
                    except TimeoutError:
                        pass
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    if self._position_changed:
                        await self._save(thread)
                    due = time.monotonic() + _INTERVAL
            finally:
                if self._position_changed:
                    self._finish(thread)

    async def _save(self, thread: ThreadPoolExecutor) -> None:
        position, objects = self._take()
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._file.write, position, objects)
        except OSError as error:
            self._failed(error)

    def _finish(self, thread: ThreadPoolExecutor) -> None:
        position, objects = self._take()
        try:
            thread.submit(self._file.write, position, objects).result()
        except OSError as error:
            self._failed(error)

    def _take(self) -> tuple[Position, list[Object]]:
        self._objects_changed = self._position_changed = False
        self._wake.clear()
        return self._state()
