"""The event loop of the clients without asyncio."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

R = TypeVar("R")

# How long the tasks of gRPC have to end.
_END_OF_TASKS = 1.0

_log = logging.getLogger("fanoutd")


class LoopThread:
    """An event loop in a thread. All clients of the process share it: gRPC works badly in several event loops.

    It ends with its last user.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._users = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="fanoutd", daemon=True)
        self._thread.start()

    @staticmethod
    def enter() -> LoopThread:
        """Return the thread of this process, as one more user of it."""
        global _shared
        while True:
            with _lock:
                if _shared is None:
                    _shared = LoopThread()
                shared = _shared
                if not shared._ending:
                    shared._users += 1
                    return shared
            # Without the lock: what is left in the thread may need it.
            if shared.is_current:
                raise RuntimeError("a callback of the last client cannot make another one")
            shared._thread.join()
            with _lock:
                if _shared is shared:
                    _shared = None

    def leave(self) -> None:
        """Note that a user has ended."""
        with _lock:
            self._users -= 1
            if self._users == 0:
                self._ending = True
                self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self) -> None:
        """Wait for the end of the thread, if it has no user any more."""
        if self._ending and not self.is_current:
            self._thread.join()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in the event loop, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Start a coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self) -> None:
        while not self._ending:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                _log.error("a callback has called for the end of the program: %r", error)
        self._loop.run_until_complete(self._end_tasks())
        self._loop.close()

    async def _end_tasks(self) -> None:
        """End what is left of calls of gRPC."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=_END_OF_TASKS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


_lock = threading.Lock()
_shared: LoopThread | None = None


def _forked() -> None:
    """Note, in the child, that there is no thread."""
    global _lock, _shared
    _lock, _shared = threading.Lock(), None


os.register_at_fork(after_in_child=_forked)
