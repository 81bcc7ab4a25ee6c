"""A watch that lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from types import TracebackType
from typing import Any

from fanoutd.objects import Position, Update
from fanoutd.watcher import Watcher

__all__ = ["Watch"]


class Watch:
    """An asynchronous iterator over the updates of a watch. ``Resource.watch`` returns it.

    It connects again whenever that is needed and resumes at its position, so it lasts as long as the program.
    The iteration raises :class:`Error` if no retry can help, and :class:`ClosedError` when the client is closed.

    While the caller handles an update, it takes no further ones, and the server waits. When the caller asks for
    the next update, the client reports the last one as applied.

    The server ends the watch with the loop over it, for example at ``break``. Another loop over it continues at its
    position. In ``async with``, the server keeps it until the end of the block. ``close`` ends it for good.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __aiter__(self) -> AsyncIterator[Update]:
        return _Loop(self._watcher)

    def __anext__(self) -> Coroutine[Any, Any, Update]:
        return self._watcher.__anext__()

    async def __aenter__(self) -> Watch:
        self._watcher.kept = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def position(self) -> Position:
        """Where the watch resumes after the last update. Revision 0: it has no complete state."""
        return self._watcher.position

    def close(self) -> None:
        """End the watch. An iteration that waits stops."""
        self._watcher.close()


class _Loop(AsyncIterator[Update]):
    """A loop over a watch. It ends with the last reference to it, which the loop has."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self._number = watcher, watcher.begin_loop()

    def __anext__(self) -> Coroutine[Any, Any, Update]:
        return self._watcher.__anext__()  # with no frame that an exception would keep

    def __del__(self) -> None:
        self._watcher.loop_ended(self._number)
