"""The process that a client belongs to."""

from __future__ import annotations

import os
import weakref

__all__ = ["Process"]

_HELP = "close all clients before, or start the child with the method spawn or forkserver of multiprocessing"


class Process:
    """The process of a client. gRPC does not work after a fork: calls in the child would wait for ever."""

    def __init__(self) -> None:
        if _broken:
            raise RuntimeError(f"the process was forked from one that had a client of fanoutd: {_HELP}")
        self.is_this = True
        """Whether the process was not forked since."""
        _all.add(self)

    def check(self) -> None:
        """Raise RuntimeError in a child."""
        if not self.is_this:
            raise RuntimeError(f"the client belongs to the process from which this one was forked: {_HELP}")

    def leave(self) -> bool:
        """Note that the client has closed its connections. Return whether there is no other one."""
        _all.discard(self)
        return not _all


_all: weakref.WeakSet[Process] = weakref.WeakSet()
_broken = False


def _forked() -> None:
    """Note, in the child, that gRPC does not work if its parent has used it."""
    global _broken
    for process in _all:
        _broken, process.is_this = True, False
    _all.clear()


os.register_at_fork(after_in_child=_forked)
