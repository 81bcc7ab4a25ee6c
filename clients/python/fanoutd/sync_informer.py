"""Informers without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import TracebackType
from typing import Any, TypeVar

import fanoutd
from fanoutd.callbacks import refuse_awaitable, refuse_coroutine_function
from fanoutd.item import Change, Item, Snapshot
from fanoutd.local_copy import LocalCopy
from fanoutd.objects import Position
from fanoutd.runner import Runner
from fanoutd.worker import Worker

__all__ = ["Handler", "Informer"]

T = TypeVar("T")


class Informer(Mapping[str, T]):
    """Keeps a decoded copy of objects; see fanoutd.Informer.

    Each function reads a state at one position, also while the copy changes: an iteration is over the copy as it
    was at its beginning.
    """

    def __init__(self, runner: Runner, informer: fanoutd.Informer[T], copy: LocalCopy[T]) -> None:
        self._runner, self._informer, self._copy = runner, informer, copy

    def __enter__(self) -> Informer[T]:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Reading.

    def __getitem__(self, key: str) -> T:
        return self._informer[key]

    def __contains__(self, key: object) -> bool:
        return key in self._informer

    def __iter__(self) -> Iterator[str]:
        return iter(_values(self.snapshot()))

    def __len__(self) -> int:
        return len(self._informer)

    def keys(self) -> KeysView[str]:
        """Return the keys of the present state."""
        return _values(self.snapshot()).keys()

    def values(self) -> ValuesView[T]:
        """Return the values of the present state."""
        return _values(self.snapshot()).values()

    def items(self) -> ItemsView[str, T]:
        """Return the keys and the values of the present state."""
        return _values(self.snapshot()).items()

    def item(self, key: str) -> Item[T]:
        """Return the value of an object together with the object. Raise KeyError if there is none."""
        return self._informer.item(key)

    def snapshot(self) -> Snapshot[T]:
        """Return the position, and all items by key as they are there."""
        return self._informer.snapshot()

    @property
    def position(self) -> Position:
        """The position of the copy."""
        return self._informer.position

    @property
    def stale(self) -> bool:
        """Whether the copy may be out of date."""
        return self._informer.stale

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self._informer.resource

    @property
    def invalid(self) -> int:
        """The number of objects whose latest version cannot be decoded."""
        return self._informer.invalid

    @property
    def queue(self) -> int:
        """The number of changes that wait for handlers, with those that handlers have rejected."""
        return self._informer.queue

    @property
    def closing(self) -> threading.Event:
        """Set when the informer is closed. A handler that waits for something should also wait for this."""
        return self._copy.closing

    # Waiting.

    def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until the copy is current and the handlers were called for it; see fanoutd.Informer.wait_for_sync."""
        self._runner.run(self._informer.wait_for_sync(timeout))

    def wait_for_state(self, timeout: float | None = None) -> None:
        """Wait until there is a copy, perhaps a stale one; see fanoutd.Informer.wait_for_state."""
        self._runner.run(self._informer.wait_for_state(timeout))

    def changed(self, after: Position) -> Position:
        """Wait until the copy has another position than this one, and return that."""
        return self._runner.run(self._informer.changed(after))

    def wait_closed(self) -> None:
        """Wait until the informer ends, and raise its error unless it was closed."""
        try:
            self._runner.run(self._informer.wait_closed())
        except fanoutd.ClosedError:
            pass

    # Handlers.

    def add_handler(self, function: Callable[[Change[T]], None]) -> Handler:
        """Call a function for each change, in a thread of its own; see fanoutd.Informer.add_handler.

        The function may use the client, wait, and close everything.
        """
        refuse_coroutine_function("a handler of fanoutd.sync", function)
        if not callable(function):
            raise TypeError(f"a handler is a function, not {type(function).__name__}")

        async def add() -> fanoutd.Handler[T]:
            return fanoutd.Handler(self._copy.add_handler(_ThreadCaller(function)), self._copy.wait)

        return Handler(self._runner, self._runner.run(add()))

    # Running.

    def start(self) -> None:
        """Begin to follow the objects. ``with`` calls it."""

        async def start() -> None:
            self._informer.start()

        self._runner.run(start())

    def close(self, timeout: float = 10.0) -> None:
        """End the informer; see fanoutd.Informer.close.

        ``closing`` is set, and the calls of the handlers return first, but after so many seconds, ``close`` does
        not wait for them any more. In a handler or another callback it does not wait for handlers.
        """
        if not self._runner.is_this_process:
            return
        if self._runner.is_in_loop:  # a decoder is running
            self._copy.begin_closing()
            return
        try:
            self._runner.run(self._informer.close(timeout))
        except fanoutd.ClosedError:
            pass  # it has ended with the client


class Handler:
    """A handler that was added to an informer. It has a thread of its own."""

    def __init__(self, runner: Runner, handler: fanoutd.Handler[Any]) -> None:
        self._runner, self._handler = runner, handler

    def remove(self) -> None:
        """Remove the handler. It gets no further calls."""
        if self._runner.is_in_loop:
            self._handler.remove()
            return

        async def remove() -> None:
            self._handler.remove()

        try:
            self._runner.run(remove())
        except fanoutd.ClosedError:
            pass  # it has ended with the client

    def synced(self, timeout: float | None = None) -> None:
        """Wait until the copy is current and the handler was called for it; see fanoutd.Handler.synced."""
        self._runner.run(self._handler.synced(timeout))


class _ThreadCaller:
    """Calls the function of a handler in a thread. Nothing can end a call but the function."""

    def __init__(self, function: Callable[[Change[Any]], None]) -> None:
        self._function = function
        self._worker = Worker("fanoutd-handler")

    async def call(self, change: Change[Any]) -> BaseException | None:
        """Call the function, and return what it has raised."""
        _, error = await self._worker.call(self._call, change)
        return error

    def _call(self, change: Change[Any]) -> None:
        refuse_awaitable(self._function(change))

    def cancel(self) -> None:
        """Do nothing: ``Informer.closing`` is the signal."""

    def end(self) -> None:
        """End the thread after the running call."""
        self._worker.end()

    async def ended(self) -> None:
        """Wait for the end of the thread."""
        await self._worker.ended()


def _values(snapshot: Snapshot[T]) -> dict[str, T]:
    return {key: item.value for key, item in snapshot.items.items()}
