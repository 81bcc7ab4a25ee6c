"""A local copy of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TypeVar

from fanoutd.caller import HandlerFunction, TaskCaller
from fanoutd.errors import ClosedError
from fanoutd.handler import Handler
from fanoutd.item import Item, Snapshot
from fanoutd.local_copy import LocalCopy
from fanoutd.objects import Position

__all__ = ["Informer"]

T = TypeVar("T")


class Informer(Mapping[str, T]):
    """Keeps a decoded copy of objects, and calls handlers when it changes. ``Resource.informer`` returns it.

    ::

        async with config.informer(decode.as_json, prefix="shop") as shop:
            await shop.wait_for_sync()
            print(shop["shop/limits"])

    It is a mapping from keys to decoded values. It is always the state at one position: the changes of a
    transaction appear together, and code that does not ``await`` sees one state. While a new state arrives after
    a long interruption, the old one stays. Take a ``snapshot`` to keep a state, or to read it in another thread.
    """

    def __init__(self, copy: LocalCopy[T]) -> None:
        self._copy = copy

    async def __aenter__(self) -> Informer[T]:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Reading.

    def __getitem__(self, key: str) -> T:
        return self._copy.items[key].value

    def __contains__(self, key: object) -> bool:
        return key in self._copy.items

    def __iter__(self) -> Iterator[str]:
        return iter(self._copy.items)

    def __len__(self) -> int:
        return len(self._copy.items)

    def item(self, key: str) -> Item[T]:
        """Return the value of an object together with the object. Raise KeyError if there is none."""
        return self._copy.items[key]

    def snapshot(self) -> Snapshot[T]:
        """Return the position, and all items by key as they are there. Any thread may call it."""
        return self._copy.snapshot()

    @property
    def position(self) -> Position:
        """The position of the copy. Revision 0: there is no copy yet."""
        return self._copy.position

    @property
    def stale(self) -> bool:
        """Whether the copy may be out of date, because the client or the servers have lost their connection."""
        return self._copy.stale

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self._copy.resource

    @property
    def invalid(self) -> int:
        """The number of objects whose latest version cannot be decoded."""
        return self._copy.invalid

    @property
    def queue(self) -> int:
        """The number of changes that wait for handlers, with those that handlers have rejected."""
        return self._copy.queue

    # Waiting.

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until the copy has every write that was acknowledged before the start.

        Each handler was then called for all of it, successfully or not, also one that was added late. Raise
        TimeoutError after so many seconds, the error of the informer if it has ended or ends first, and
        RuntimeError if it was not started.
        """
        async with asyncio.timeout(timeout):
            await self._copy.wait_for_sync()

    async def wait_for_state(self, timeout: float | None = None) -> None:
        """Wait until there is a copy, perhaps a stale one from the state file; fail as ``wait_for_sync`` does."""
        async with asyncio.timeout(timeout):
            await self._copy.wait_for_state()

    async def changed(self, after: Position) -> Position:
        """Wait until the copy has another position than this one, and return that."""
        await self._copy.wait(lambda: self._copy.position != after)
        return self._copy.position

    async def wait_closed(self) -> None:
        """Wait until the informer ends, and raise its error unless it was closed."""
        try:
            await self._copy.wait(lambda: False)
        except ClosedError:
            pass

    # Handlers.

    def add_handler(self, function: HandlerFunction[T]) -> Handler[T]:
        """Call a function for each change, at first for each item that there is.

        If the function raises an exception, the change counts as not made. It is offered again, after a second
        and then less often, or as soon as the object changes again. Other objects go on.

        For each key, a handler sees ADDED, then any number of MODIFIED, then DELETED, and so on. Changes that
        happen while it is busy are merged by key.
        """
        if not callable(function):
            raise TypeError(f"a handler is a function, not {type(function).__name__}")
        return Handler(self._copy.add_handler(TaskCaller(function)), self._copy.wait)

    # Running.

    def start(self) -> None:
        """Begin to follow the objects. ``async with`` calls it.

        Raise ValueError if the path of the state file is not a regular file.
        """
        self._copy.start(self)

    async def close(self, timeout: float = 10.0) -> None:
        """End the informer, and save its state. The copy stays as it is.

        It may be called anywhere and more than once. Handlers that are coroutines are cancelled. The call waits
        for handlers that still run, at most so many seconds in all; a handler that closes its informer or another
        one does not wait for handlers.
        """
        await self._copy.close(timeout)
