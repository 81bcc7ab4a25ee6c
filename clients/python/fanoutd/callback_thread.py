"""A thread for the callbacks of an informer."""

from __future__ import annotations

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
            if len(self._waiting) > _MOST:
                self._waiting.popleft()
                self._dropped += 1
                if self._dropped == 1:
                    self._log.warning("%s does not keep up: the oldest of %d calls that wait are dropped", name, _MOST)
            if self._running:
                return
            self._running = True
        self._worker.call(self._call_all)

    def _call_all(self) -> None:
        while True:
            with self._lock:
                dropped, self._dropped = self._dropped, 0
                call = self._waiting.popleft() if self._waiting else None
                self._running = call is not None
            if dropped:
                self._log.warning("%d calls of callbacks were dropped", dropped)
            if call is None:
                return
            call()
            del call  # it keeps its arguments

    def _call(self, name: str, function: Callable[..., object], *args: object) -> None:
        callback = _Callback()
        calling.set(callback)
        call_back(self._log, name, function, *args)
        callback.active = False

    def end(self) -> None:
        """End the thread after the calls that wait."""
        self._worker.end()


class _Callback:
    """A function that the thread calls."""

    active = True
