"""A local copy of objects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fanoutd.errors import ClosedError, Error
from fanoutd.handler import Handler, HandlerFunction
from fanoutd.informer_watch import InformerWatch, lower, lowest, state_of
from fanoutd.item import Change, Decoder, Item
from fanoutd.objects import EventType, Object, Position, Update, position_to
from fanoutd.reports import Progress
from fanoutd.requests import Metadata
from fanoutd.saver import Saver
from fanoutd.state_file import DamagedError, StateFile
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.watch import Watch

if TYPE_CHECKING:
    from fanoutd.client import Client

__all__ = ["Change", "Decoder", "Informer", "Item"]

T = TypeVar("T")

_log = logging.getLogger("fanoutd")


class Informer(Generic[T]):
    """Keeps a decoded copy of objects, and calls handlers when it changes. ``Resource.informer`` returns it.

    ::

        async with config.informer(decode.as_json, prefix="shop") as shop:
            await shop.wait_for_sync()
            print(shop["shop/limits"])

    The copy is always the state at one position: the changes of a transaction appear together, and code that
    does not ``await`` sees one state. While a new state arrives after a long interruption, the old one stays.
    """

    def __init__(
        self,
        client: Client,
        request: fanout_pb2.WatchRequest,
        decode: Decoder[T],
        *,
        metadata: Metadata = (),
        bookmark_interval: float,
        state_file: str | None = None,
        max_state_bytes: int = 1 << 30,
        on_interruption: Callable[[BaseException], None] | None = None,
        on_error: Callable[[Object | None, Exception], None] | None = None,
    ) -> None:
        self._client = client
        self._request = request
        self._metadata = metadata
        self._decode = decode
        self._bookmark_interval = bookmark_interval
        self._file = StateFile(state_file, request, max_state_bytes) if state_file is not None else None
        self._callback = on_interruption
        self._on_error = on_error
        self._items: dict[str, Item[T]] = {}
        self._view: Mapping[str, Item[T]] = MappingProxyType(self._items)
        self._invalid: dict[str, tuple[Object, str, Position]] = {}  # the newest versions, and why they are invalid
        self._incoming: dict[str, Object] | None = None  # the state that replaces the copy
        self._position = Position()
        self._handlers: list[Handler[T]] = []
        self._tasks = Tasks(client._log)
        self._watch: InformerWatch | None = None
        self._member = _Member(self)
        self._unconfirmed = False  # the watch began before the informer, so its state may be older
        self._confirmed: tuple[Position, float] | None = None  # from here on, the state is as fresh as at this time
        self._saver: Saver | None = None
        self._began = 0.0
        self._as_of: float | None = None
        self._lost: float | None = None
        self._fresh_for = 0.0
        self._started = False
        self._ended: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._has_state = self._has_fresh = False

    async def __aenter__(self) -> Informer[T]:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Reading.

    def __getitem__(self, key: str) -> T:
        return self._items[key].value

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str, default: T | None = None) -> T | None:
        """Return the value of an object, or the default if there is none."""
        item = self._items.get(key)
        return default if item is None else item.value

    @property
    def items(self) -> Mapping[str, Item[T]]:
        """The items by key. It always shows the present state: copy it to keep a state."""
        return self._view

    @property
    def position(self) -> Position:
        """The position of the copy. Revision 0: there is no copy yet."""
        return self._position

    @property
    def stale(self) -> bool:
        """Whether the copy may be out of date, because the client or the servers have lost their connection."""
        if self._ended is not None or self._as_of is None or self._lost is not None and self._as_of <= self._lost:
            return True
        return time.monotonic() - self._as_of > self._fresh_for

    # Waiting.

    async def wait_for_sync(self) -> None:
        """Wait until the copy has every write that was acknowledged before the start.

        The handlers were then called for all of it, successfully or not. Raise the error of the informer if it
        ends first.
        """
        await self._wait(lambda: self._has_fresh)
        for handler in list(self._handlers):
            await self._or_end(handler.settled)

    async def wait_for_state(self) -> None:
        """Wait until there is a copy, perhaps a stale one from the state file."""
        await self._wait(lambda: self._has_state)

    async def changed(self, after: Position) -> Position:
        """Wait until the copy has another position than this one, and return that."""
        await self._wait(lambda: self._position != after)
        return self._position

    async def _or_end(self, event: asyncio.Event) -> None:
        while not event.is_set():
            waiting = asyncio.ensure_future(event.wait())
            ended = asyncio.ensure_future(self._wait(lambda: False))
            try:
                await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
                if ended.done() and not event.is_set():
                    ended.result()
            finally:
                waiting.cancel()
                ended.cancel()

    async def _wait(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self._ended is not None:
                raise self._ended
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Handlers.

    def add_handler(self, function: HandlerFunction[T]) -> Handler[T]:
        """Call a function for each change, at first for each item that there is.

        If the function raises an exception, the change counts as not made. It is offered again, after a second
        and then less often, or as soon as the object changes again. Other objects go on.

        For each key, a handler sees ADDED, then any number of MODIFIED, then DELETED, and so on. Changes that
        happen while it is busy are merged by key.
        """
        handler = Handler(function, self._items, self._progressed)
        self._handlers.append(handler)
        for key in self._items:
            handler.changed(key, None, Position())
        if self._has_fresh:
            handler.begin_settling()
        if self._started and self._ended is None:
            handler.start(self._tasks.start(handler.run()))
        return handler

    def _progressed(self) -> None:
        self._handlers = [h for h in self._handlers if not h.removed]
        if self._watch is not None:
            self._watch.wake_reports()

    def _progress(self) -> Progress:
        """Return how far the informer and its handlers have applied the watch."""
        at = self._position
        own = Progress(at)
        for key, (_, why, since) in self._invalid.items():
            own = Progress(lower(own.applied, since), at, own.error or f"{key}: {why}")
        if self._invalid:
            own = own._replace(failed=frozenset(self._invalid))
        return lowest([own, *(handler.progress(at) for handler in self._handlers)])

    # Running.

    def start(self) -> None:
        """Begin to follow the objects. ``async with`` calls it."""
        self._client._check_open()
        if self._started:
            raise RuntimeError("an informer can start only once")
        self._started = True
        self._began = time.monotonic()
        request = fanout_pb2.WatchRequest()
        request.CopyFrom(self._request)
        if self._file is not None:
            self._restore(self._file)
            if self._position.revision > 0:
                request.after.CopyFrom(position_to(self._position))
        self._client._informers.add(self)
        for handler in self._handlers:
            handler.start(self._tasks.start(handler.run()))
        if self._file is not None:
            self._saver = Saver(self._file, self._saved, self._file_failed)
            self._tasks.start(self._saver.run())
        self._watch, joined = InformerWatch.join(
            self._client, request, self._bookmark_interval, self._metadata, self._member
        )
        self._fresh_for = self._watch.fresh_for()
        self._unconfirmed = joined and request.consistency.WhichOneof("level") is None
        self._settle()

    async def wait_closed(self) -> None:
        """Wait until the informer ends, and raise its error unless it was closed."""
        try:
            await self._wait(lambda: False)
        except ClosedError:
            pass

    async def close(self) -> None:
        """End the informer, after it has saved its state. The copy stays as it is."""
        self._end(ClosedError("the informer is closed"))
        if self._watch is not None:
            await self._watch.leave(self._member)
        await self._tasks.close()
        for handler in self._handlers:
            handler.remove()
        self._client._informers.discard(self)

    def _end(self, why: BaseException) -> None:
        if self._ended is None:
            self._ended = why
        self._wake()

    def _interrupted(self, at: float, why: BaseException | None) -> None:
        self._lost = at
        if self._callback is not None and why is not None:
            self._callback(why)

    def _state(self) -> tuple[Update | None, Update | None]:
        """Return updates that lead another informer to this state."""
        state = part = None
        if self._position.revision > 0:
            objects = [self._invalid[key][0] if key in self._invalid else i.object for key, i in self._items.items()]
            objects += [o for key, (o, _, _) in self._invalid.items() if key not in self._items]
            state = state_of(objects, self._position, self._as_of, complete=True)
        if self._incoming is not None:
            part = state_of(self._incoming.values(), Position(), None, complete=False)
        return state, part

    async def _confirm(self, at: Position) -> None:
        """Find out what the state at a position lacks of the present one, with a short watch."""
        asked = time.monotonic()
        request = fanout_pb2.WatchRequest()
        request.CopyFrom(self._request)
        request.after.CopyFrom(position_to(at))
        try:
            async with Watch(
                self._client, request, bookmark_interval=self._bookmark_interval, reports=False, metadata=self._metadata
            ) as watch:
                async for update in watch:
                    if update.events or update.replace:
                        at = update.position
                    if update.complete and update.as_of is not None and update.as_of >= asked:
                        self._confirmed = at, asked
                        self._settle()
                        return
        except (Error, ClosedError):
            pass  # the shared watch ends for the same reason, or confirms the state later

    def _apply(self, update: Update) -> None:
        if self._ended is not None:
            return
        since = self._position
        if update.replace:
            self._incoming = {}
        changed = False
        if self._incoming is not None:
            for e in update.events:
                if e.type is EventType.DELETED:
                    self._incoming.pop(e.object.key, None)
                else:
                    self._incoming[e.object.key] = e.object
            if not update.complete:
                return
            incoming, self._incoming = self._incoming, None
            changed = self._replace(incoming, since)
        else:
            for e in update.events:
                self._put(e.object.key, None if e.type is EventType.DELETED else e.object, since)
                changed = True
        self._position = update.position
        self._as_of = update.as_of
        if update.synced or not self._has_state and update.complete:
            self._has_state = True
        self._settle()
        if self._saver is not None:
            self._saver.changed(changed)

    def _settle(self) -> None:
        """Note how fresh the state is."""
        if self._confirmed is not None:
            at, as_of = self._confirmed
            proven = at.epoch == self._position.epoch and at.revision <= self._position.revision
            if proven and (self._as_of is None or self._as_of < as_of):
                self._as_of = as_of
        if not self._has_fresh and self._is_fresh():
            self._has_fresh = True
            for handler in self._handlers:
                handler.begin_settling()
        if self._unconfirmed and self._position.revision > 0:
            self._unconfirmed = False
            if not self._has_fresh:
                self._tasks.start(self._confirm(self._position))
        self._wake()

    def _is_fresh(self) -> bool:
        if self._as_of is None:
            return False
        level = self._request.consistency.WhichOneof("level")
        if level == "any":
            return True
        if level == "min_revision":
            return self._position.revision >= self._request.consistency.min_revision
        return self._as_of >= self._began

    def _replace(self, objects: Mapping[str, Object], since: Position) -> bool:
        """Replace the copy, with the deletions first, and return whether it was another one."""
        changed = False
        for key in [k for k in self._items.keys() | self._invalid.keys() if k not in objects]:
            self._put(key, None, since)
            changed = True
        for key in sorted(objects):
            o = objects[key]
            known = self._invalid[key][0] if key in self._invalid else None
            if known is None and key in self._items:
                known = self._items[key].object
            if known != o:
                self._put(key, o, since)
                changed = True
        return changed

    def _put(self, key: str, o: Object | None, since: Position) -> None:
        """Apply the change of one object."""
        old = self._items.get(key)
        new: Item[T] | None = None
        if o is not None:
            try:
                if o.undecryptable:
                    raise ValueError("the server cannot decrypt the value")
                new = Item(self._decode(o), o)
            except Exception as error:
                self._note_invalid(o, error, since)
                if old is not None:  # there is nothing for the handlers: the value is the old one
                    self._items[key] = Item(old.value, old.object, str(error))
                return
        invalid = self._invalid.pop(key, None)
        if invalid is not None:
            since = invalid[2]  # the handlers have the version before
        if new is not None:
            self._items[key] = new
        elif old is not None:
            del self._items[key]
        else:
            return
        for handler in self._handlers:
            handler.changed(key, old, since)

    def _note_invalid(self, o: Object, error: Exception, since: Position) -> None:
        why = str(error) or type(error).__name__
        if o.key in self._invalid:
            since = self._invalid[o.key][2]
        self._invalid[o.key] = o, why, since
        _log.warning("cannot decode %s of revision %d: %s", o.key, o.mod_revision, why)
        if self._on_error is not None:
            self._on_error(o, error)

    # The state file.

    def _restore(self, file: StateFile) -> None:
        try:
            position, objects = file.read()
        except DamagedError as error:
            self._file_failed(error)
            return
        for o in objects:
            self._put(o.key, o, Position())
        self._position = position
        self._has_state = position.revision > 0
        self._wake()

    def _saved(self) -> tuple[Position, list[Object]]:
        """Return the state to save: the last version that can be decoded, then the newest one."""
        objects = [item.object for item in self._items.values()]
        objects += [o for o, _, _ in self._invalid.values()]
        return self._position, objects

    def _file_failed(self, error: Exception) -> None:
        _log.warning("the state file cannot be used: %s", error)
        if self._on_error is not None:
            self._on_error(None, error)


class _Member:
    """The part of an informer in its watch."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.receive = informer._apply
        self.interrupted = informer._interrupted
        self.end = informer._end
        self.progress = informer._progress
        self.state = informer._state
