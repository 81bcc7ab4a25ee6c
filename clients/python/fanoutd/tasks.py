"""The tasks of a client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["Tasks"]

_log = logging.getLogger("fanoutd")


class Tasks:
    """A set of tasks that ends with its owner."""

    def __init__(self) -> None:
        self._all: set[asyncio.Task[Any]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._all.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._all.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task has failed", exc_info=error)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        while self._all:
            all_tasks = list(self._all)
            for task in all_tasks:
                task.cancel()
            await asyncio.gather(*all_tasks, return_exceptions=True)
            await asyncio.sleep(0)
