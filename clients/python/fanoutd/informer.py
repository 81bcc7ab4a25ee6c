"""A local copy of objects."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fanoutd.caller import Caller, HandlerFunction, TaskCaller
from fanoutd.callbacks import (
    call_back,
    calling,
    in_callback,
    is_interrupt,
    message_of,
    refuse_awaitable,
    refuse_coroutine_function,
)
from fanoutd.errors import ClosedError, Error
from fanoutd.handler import Handler
from fanoutd.handler_loop import HandlerLoop
from fanoutd.informer_watch import InformerWatch, lower, lowest, state_of
from fanoutd.item import Change, Decoder, Item, Snapshot
from fanoutd.objects import EventType, Object, Position, Update, position_to
from fanoutd.observer import HandlerFailed
from fanoutd.reports import Progress
from fanoutd.requests import Metadata
from fanoutd.saver import Saver
from fanoutd.state_file import DamagedError, StateFile
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.watch import Watch
from fanoutd.worker import Worker

if TYPE_CHECKING:
    from fanoutd.client import Client

__all__ = ["Change", "Decoder", "Informer", "Item"]

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
        refuse_coroutine_function("decode", decode)
        refuse_coroutine_function("on_interruption", on_interruption)
        refuse_coroutine_function("on_error", on_error)
        self._client = client
        self._request = request
        self._metadata = metadata
        self._decode = decode
        self._bookmark_interval = bookmark_interval
        self._file = StateFile(state_file, request, max_state_bytes) if state_file is not None else None
        self._on_interruption = on_interruption
        self._on_error = on_error
        self._items: dict[str, Item[T]] = {}
        self._invalid: dict[str, tuple[Object, str, Position]] = {}  # the newest versions, and why they are invalid
        self._failures: list[_Failure] = []  # about which the user was not called yet
        self._incoming: dict[str, Object] | None = None  # the state that replaces the copy
        self._position = Position()
        self._lock = threading.Lock()  # of the items and the position, while they change and for other threads
        self._handlers: list[HandlerLoop[T]] = []
        self._handler_tasks: set[asyncio.Task[None]] = set()
        self._tasks = Tasks(client._log)
        self._watch: InformerWatch | None = None
        self._member = _Member(self)
        self._unconfirmed = False  # the watch began before the informer, so its state may be older
        self._confirmed: tuple[Position, float] | None = None  # from here on, the state is as fresh as at this time
        self._saver: Saver | None = None
        self._saving: asyncio.Task[None] | None = None
        self._closing = threading.Event()  # fanoutd.sync shows it to other threads
        self._confirming: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._finished = False  # all has ended but the handlers
        self._worker: Worker | None = None  # the thread in which fanoutd.sync calls the functions that are not handlers
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

    def item(self, key: str) -> Item[T]:
        """Return the value of an object together with the object. Raise KeyError if there is none."""
        return self._items[key]

    def snapshot(self) -> Snapshot[T]:
        """Return the position, and all items by key as they are there. Any thread may call it."""
        with self._lock:
            return Snapshot(self._position, dict(self._items))

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

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self._request.resource

    @property
    def invalid(self) -> int:
        """The number of objects whose latest version cannot be decoded."""
        return len(self._invalid)

    @property
    def queue(self) -> int:
        """The number of changes that wait for handlers, with those that handlers have rejected."""
        return sum(loop.queue for loop in self._handlers)

    # Waiting.

    async def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until the copy has every write that was acknowledged before the start.

        Each handler was then called for all of it, successfully or not, also one that was added late. Raise
        TimeoutError after so many seconds, the error of the informer if it has ended or ends first, and
        RuntimeError if it was not started.
        """
        async with asyncio.timeout(timeout):
            await self._wait(lambda: self._has_fresh)
            for loop in list(self._handlers):
                await self._wait_for_handler(loop)

    async def _wait_for_handler(self, loop: HandlerLoop[T]) -> None:
        await self._wait(lambda: loop.settled)

    async def wait_for_state(self, timeout: float | None = None) -> None:
        """Wait until there is a copy, perhaps a stale one from the state file; fail as ``wait_for_sync`` does."""
        async with asyncio.timeout(timeout):
            await self._wait(lambda: self._has_state)

    async def changed(self, after: Position) -> Position:
        """Wait until the copy has another position than this one, and return that."""
        await self._wait(lambda: self._position != after)
        return self._position

    async def wait_closed(self) -> None:
        """Wait until the informer ends, and raise its error unless it was closed."""
        try:
            await self._wait(lambda: False)
        except ClosedError:
            pass

    async def _wait(self, reached: Callable[[], bool]) -> None:
        while True:
            if self._ended is not None:
                raise self._ended
            if not self._started:
                raise RuntimeError("the informer was not started")
            if reached():
                return
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
        if not callable(function):
            raise TypeError(f"a handler is a function, not {type(function).__name__}")
        return self._add_handler(TaskCaller(function))

    def _add_handler(self, caller: Caller[T]) -> Handler[T]:
        if self._ended is not None:
            raise self._ended
        loop = HandlerLoop(caller, self._items, self._progressed, self._rejected)
        self._handlers.append(loop)
        for key in self._items:
            loop.changed(key, None, Position())
        if self._has_fresh:
            loop.begin_settling()
        if self._started:
            self._run_handler(loop)
        return Handler(loop, self._wait)

    def _run_handler(self, loop: HandlerLoop[T]) -> None:
        task = self._tasks.start(loop.run())
        self._handler_tasks.add(task)
        task.add_done_callback(self._handler_ended)

    def _handler_ended(self, task: asyncio.Task[None]) -> None:
        self._handler_tasks.discard(task)
        self._leave_client()

    def _rejected(self, key: str, error: str, delay: float) -> None:
        self._client._log.warning("a handler rejects %s, retry in %.1f s: %s", key, delay, error)
        self._client._observer.handler_failed(HandlerFailed(self._request.resource, key, error, delay))

    def _progressed(self) -> None:
        self._handlers = [h for h in self._handlers if not h.removed]
        if self._watch is not None:
            self._watch.wake_reports()
        self._wake()

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
        """Begin to follow the objects. ``async with`` calls it.

        Raise ValueError if the path of the state file is not a regular file.
        """
        self._client._check_open()
        if self._ended is not None:
            raise self._ended
        if self._started:
            raise RuntimeError("an informer can start only once")
        if self._file is not None:
            self._file.check()
        self._started = True
        self._began = time.monotonic()
        request = fanout_pb2.WatchRequest()
        request.CopyFrom(self._request)
        if self._file is not None:
            self._restore(self._file)
            if self._ended is not None:
                raise self._ended  # a decoder has closed it
            if self._position.revision > 0:
                request.after.CopyFrom(position_to(self._position))
        self._client._informers.append(self)
        for loop in self._handlers:
            self._run_handler(loop)
        if self._file is not None:
            self._saver = Saver(self._file, self._saved, self._file_failed)
            self._saving = self._tasks.start(self._saver.run())
        self._watch, joined = InformerWatch.join(
            self._client, request, self._bookmark_interval, self._metadata, self._member
        )
        if self._closing.is_set():  # by a decoder
            self._watch.leave(self._member)
        self._fresh_for = self._watch.fresh_for()
        self._unconfirmed = joined and request.consistency.WhichOneof("level") is None
        self._settle()

    async def close(self, timeout: float = 10.0) -> None:
        """End the informer, and save its state. The copy stays as it is.

        It may be called anywhere and more than once. Handlers that are coroutines are cancelled. The call waits
        for handlers that still run, at most so many seconds in all; a handler that closes its informer or another
        one does not wait for handlers.
        """
        if not self._client._process.is_this:
            return  # its tasks are those of the parent
        self._begin_closing()
        assert self._ending is not None
        waiting: set[asyncio.Task[None]] = {self._ending}
        if not in_callback():
            waiting |= self._handler_tasks
        _, late = await asyncio.wait(waiting, timeout=timeout)
        if late:
            log = self._client._log
            log.warning("an informer was closed, but %d of its tasks have not ended within %g s", len(late), timeout)
        for task in late - {self._ending}:
            self._handler_tasks.discard(task)  # later calls do not wait again
            task.cancel()
        self._leave_client()

    def _begin_closing(self) -> None:
        """Ask everything to end, and let a task wait for that."""
        if self._ending is not None:
            return
        self._closing.set()
        self._end(ClosedError("the informer is closed"))
        if self._watch is not None:
            self._watch.leave(self._member)  # before a handler that has not applied everything is removed
        for loop in list(self._handlers):
            loop.remove()
        if self._saver is not None:
            self._saver.stop()
        self._ending = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> None:
        if self._watch is not None:
            await self._watch.left()
        if self._saving is not None:
            await asyncio.wait([self._saving])
        if self._confirming is not None:
            self._confirming.cancel()
            await asyncio.wait([self._confirming])
        if self._worker is not None:
            self._worker.end()
        self._finished = True
        self._leave_client()

    def _leave_client(self) -> None:
        """Let the client forget an informer that has ended: until then, its close waits for it."""
        if self._finished and not self._handler_tasks:
            self._client._informers = [i for i in self._client._informers if i is not self]

    def _end(self, why: BaseException) -> None:
        if self._ended is None:
            self._ended = why
        self._wake()

    def _interrupted(self, at: float, why: BaseException | None) -> None:
        self._lost = at
        if why is not None:
            self._tell("on_interruption", self._on_interruption, why)

    def _tell(self, name: str, function: Callable[..., object] | None, *args: object) -> None:
        if function is None:
            return
        if self._worker is None:
            call_back(self._client._log, name, function, *args)
        else:
            self._worker.call(self._tell_in_thread, name, function, *args)

    def _tell_in_thread(self, name: str, function: Callable[..., object], *args: object) -> None:
        callback = _ThreadCallback()
        calling.set(callback)
        call_back(self._client._log, name, function, *args)
        callback.active = False

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
        if update.replace:
            self._incoming = {}
        news: list[tuple[str, Object | None]]
        if self._incoming is not None:
            for e in update.events:
                if e.type is EventType.DELETED:
                    self._incoming.pop(e.object.key, None)
                else:
                    self._incoming[e.object.key] = e.object
            if not update.complete:
                return
            incoming, self._incoming = self._incoming, None
            news = self._difference(incoming)
        else:
            news = [(e.object.key, None if e.type is EventType.DELETED else e.object) for e in update.events]
        self._put_all(news, update.position)
        self._as_of = update.as_of
        if update.synced or not self._has_state and update.complete:
            self._has_state = True
        self._settle()
        if self._saver is not None:
            self._saver.changed(bool(news))
        self._tell_failures()

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
                self._confirming = self._tasks.start(self._confirm(self._position))
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

    def _difference(self, objects: Mapping[str, Object]) -> list[tuple[str, Object | None]]:
        """Return the changes that lead from the copy to other objects: the deletions, then the others by key."""
        news: list[tuple[str, Object | None]] = [
            (key, None) for key in self._items.keys() | self._invalid.keys() if key not in objects
        ]
        for key in sorted(objects):
            o = objects[key]
            known = self._invalid[key][0] if key in self._invalid else None
            if known is None and key in self._items:
                known = self._items[key].object
            if known != o:
                news.append((key, o))
        return news

    def _put_all(self, news: Iterable[tuple[str, Object | None]], position: Position) -> None:
        """Change objects, all at once: decode them first."""
        since = self._position
        decoded = [(key, None if o is None else self._decoded(o)) for key, o in news]
        with self._lock:
            for key, new in decoded:
                if isinstance(new, _Failure):
                    self._note_invalid(new, since)
                else:
                    self._put(key, new, since)
            self._position = position

    def _decoded(self, o: Object) -> Item[T] | _Failure:
        try:
            if o.undecryptable:
                raise ValueError("the server cannot decrypt the value")
            value = self._decode(o)
            refuse_awaitable(value)
            return Item(value, o)
        except Exception as error:
            return _Failure(o, error)
        except BaseException as error:
            if is_interrupt(error):
                raise
            wrong = RuntimeError(f"the decoder has raised {type(error).__name__}: {message_of(error)}")
            wrong.__cause__ = error
            return _Failure(o, wrong)

    def _put(self, key: str, new: Item[T] | None, since: Position) -> None:
        """Apply the change of one object."""
        old = self._items.get(key)
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

    def _note_invalid(self, failure: _Failure, since: Position) -> None:
        o, why = failure.object, message_of(failure.error)
        if o.key in self._invalid:
            since = self._invalid[o.key][2]
        self._invalid[o.key] = o, why, since
        self._failures.append(failure)
        old = self._items.get(o.key)
        if old is not None:  # there is nothing for the handlers: the value is the old one
            self._items[o.key] = Item(old.value, old.object, why)

    def _tell_failures(self) -> None:
        """Call the user about objects that cannot be decoded, after the copy has changed."""
        failures, self._failures = self._failures, []
        for failure in failures:
            o, error = failure.object, failure.error
            self._client._log.warning("cannot decode %s of revision %d: %s", o.key, o.mod_revision, message_of(error))
            self._tell("on_error", self._on_error, o, error)

    # The state file.

    def _restore(self, file: StateFile) -> None:
        try:
            position, objects = file.read()
        except DamagedError as error:
            self._file_failed(error)
            return
        self._put_all([(o.key, o) for o in objects], position)
        self._has_state = position.revision > 0
        self._tell_failures()

    def _saved(self) -> tuple[Position, list[Object]]:
        """Return the state to save: the last version that can be decoded, then the newest one."""
        objects = [item.object for item in self._items.values()]
        objects += [o for o, _, _ in self._invalid.values()]
        return self._position, objects

    def _file_failed(self, error: Exception) -> None:
        self._client._log.warning("the state file cannot be used: %s", message_of(error))
        self._tell("on_error", self._on_error, None, error)


class _ThreadCallback:
    """A function that is called in the thread for callbacks."""

    active = True


class _Failure(NamedTuple):
    """An object that cannot be decoded."""

    object: Object
    error: Exception


class _Member:
    """The part of an informer in its watch."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.receive = informer._apply
        self.interrupted = informer._interrupted
        self.end = informer._end
        self.progress = informer._progress
        self.state = informer._state
