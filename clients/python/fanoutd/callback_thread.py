"""A thread for the callbacks of an informer."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable

from fanoutd.callbacks import call_back, calling
from fanoutd.worker import Worker

__all__ = ["CallbackThread"]

# So many calls wait while one does not return. They keep their arguments in memory: objects and exceptions.
_MOST = 1000


class CallbackThread:
    """Calls functions of the user, one after the other. If one does not return, the newest calls wait for it."""

    def __init__(self, log: logging.Logger) -> None:
        """Make the thread, which belongs to the running event loop."""
        self._log = log
        self._worker = Worker("fanoutd-callback")
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()  # guarded by the lock, as is what follows
        self._running = False
        self._dropped = 0

    def call(self, name: str, function: Callable[..., object], *args: object) -> None:
        """Call a function soon."""
        context = contextvars.copy_context()
        with self._lock:
            self._waiting.append(lambda: context.run(self._call, name, function, *args))
            full = len(self._waiting) > _MOST
            if full:
                self._waiting.popleft()
                self._dropped += 1
            first = full and self._dropped == 1
            idle, self._running = not self._running, True
        if idle:
            self._worker.call(self._call_all)
        if first:  # without the lock: the thread may hold one of the log while it waits for ours
            self._log.warning("%s does not keep up: the oldest of %d calls that wait are dropped", name, _MOST)

    def _call_all(self) -> None:
        while (call := self._next()) is not None:
            with contextlib.suppress(BaseException):  # of the log, whose handlers belong to the user
                call()
            del call  # it keeps its arguments

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running = False
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._log.warning("%d calls of callbacks were dropped", dropped)
        return None

    def _call(self, name: str, function: Callable[..., object], *args: object) -> None:
        callback = _Callback()
        calling.set(callback)
        try:
            call_back(self._log, name, function, *args)
        finally:
            callback.active = False

    def end(self) -> None:
        """End the thread after the calls that wait."""
        self._worker.end()


class _Callback:
    """A function that the thread calls."""

    active = True
