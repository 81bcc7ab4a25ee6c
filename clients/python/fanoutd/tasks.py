"""The tasks of a client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["Tasks"]

# A callback of the user may run in a task, and may never end.
_CLOSE_TIMEOUT = 10.0


class Tasks:
    """A set of tasks that ends with its owner."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._all: set[asyncio.Task[Any]] = set()

    def __contains__(self, task: object) -> bool:
        return task in self._all

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._all.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._all.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a task has failed", exc_info=error)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their ends, but not for that of the caller, and not for ever."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _CLOSE_TIMEOUT
        while others := self._all - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=max(0.0, due - loop.time()))
            if loop.time() >= due:
                self._log.warning("%d tasks do not end", len(others))
                return
            await asyncio.sleep(0)
