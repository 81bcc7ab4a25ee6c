"""The messages that wait for the reader of one watch."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fanoutd.v1 import fanout_pb2

__all__ = ["Inbox", "Message", "SilenceError", "StreamEnd"]


@dataclass(slots=True)
class Message:
    """A message of a watch."""

    content: fanout_pb2.WatchResponse
    arrived: float
    """A time of time.monotonic(), not later than the arrival."""
    size: int


class StreamEnd(Exception):
    """The server has ended the watch with status OK."""


class SilenceError(Exception):
    """Nothing has arrived for too long."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"no message for {limit:g} seconds")
        self.limit = limit


# A timer that fires so much too late shows that the event loop was blocked. Messages may wait then.
_BLOCKED = 0.25


class Inbox:
    """A queue with an end. Its owner decides how much waits in it."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._end: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.size = 0
        """The bytes that wait."""
        self.began: float | None = None
        """When the server was asked for messages. Before that, it is not silent."""
        self.on_end: Callable[[], None] | None = None
        """Is called at the end. Messages may still wait."""

    def __len__(self) -> int:
        return len(self._messages)

    def begin(self) -> None:
        """Note that the server was asked for messages."""
        self.began = time.monotonic()
        self._wake()

    def put(self, m: Message) -> None:
        """Add a message."""
        self._messages.append(m)
        self.size += m.size
        self._wake()

    def end(self, why: BaseException) -> None:
        """Set the error that follows the messages. The first one counts."""
        if self._end is None:
            self._end = why
            self._wake()
            if self.on_end is not None:
                self.on_end()

    @property
    def ended(self) -> bool:
        """Whether no further messages follow."""
        return self._end is not None

    def clear(self) -> None:
        """Drop all messages."""
        self._messages.clear()
        self.size = 0

    def take(self) -> Message | None:
        """Return the first message, or None if there is none. Raise the error after the last one."""
        if self._messages:
            m = self._messages.popleft()
            self.size -= m.size
            return m
        if self._end is not None:
            raise self._end
        return None

    async def get(self, limit: float) -> Message:
        """Wait for the first message, at most this many seconds, and return it."""
        while (m := self.take()) is None:
            await self._wait(limit)
        return m

    async def _wait(self, limit: float) -> None:
        began = self.began
        due = time.monotonic() + limit
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(None if began is None else limit):
                await self._waiter
        except TimeoutError:
            if self._messages or self._end is not None or time.monotonic() - due > _BLOCKED:
                return
            raise SilenceError(limit) from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
