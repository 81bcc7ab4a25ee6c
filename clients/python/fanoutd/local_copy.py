"""What keeps the copy of an informer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from fanoutd.callback_thread import CallbackThread
from fanoutd.caller import Caller
from fanoutd.callbacks import (
    call_back,
    in_callback,
    is_interrupt,
    message_of,
    refuse_awaitable,
    refuse_coroutine_function,
)
from fanoutd.core import Core, Informer
from fanoutd.errors import ClosedError, Error
from fanoutd.handler_loop import HandlerLoop
from fanoutd.informer_watch import InformerWatch, InformerWatches, lower, lowest, state_of
from fanoutd.item import Decoder, Item, Snapshot
from fanoutd.objects import EventType, Object, Position, Update, position_to
from fanoutd.observer import HandlerFailed
from fanoutd.reports import Progress
from fanoutd.requests import Metadata
from fanoutd.saver import Saver
from fanoutd.state_file import DamagedError, StateFile
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.watcher import Watcher

__all__ = ["LocalCopy"]

T = TypeVar("T")


class LocalCopy(Generic[T]):
    """Keeps a copy of objects, calls the handlers, and saves the copy. An informer is what a user has of it."""

    def __init__(
        self,
        core: Core,
        watches: InformerWatches,
        request: fanout_pb2.WatchRequest,
        decode: Decoder[T],
        *,
        metadata: Metadata,
        bookmark_interval: float,
        state_file: StateFile | None,
        on_interruption: Callable[[BaseException], None] | None,
        on_error: Callable[[Object | None, Exception], None] | None,
    ) -> None:
        refuse_coroutine_function("decode", decode)
        refuse_coroutine_function("on_interruption", on_interruption)
        refuse_coroutine_function("on_error", on_error)
        self._core = core
        self._watches = watches
        self._request = request
        self._metadata = metadata
        self._decode = decode
        self._bookmark_interval = bookmark_interval
        self._file = state_file
        self._on_interruption = on_interruption
        self._on_error = on_error
        self.items: dict[str, Item[T]] = {}
        """The copy."""
        self._invalid: dict[str, tuple[Object, str, Position]] = {}  # the newest versions, and why they are invalid
        self._failures: list[_Failure] = []  # about which the user was not called yet
        self._incoming: dict[str, Object] | None = None  # the state that replaces the copy
        self.position = Position()
        """The position of the copy. Revision 0: there is no copy yet."""
        self._lock = threading.Lock()  # of the items and the position, while they change and for other threads
        self._handlers: list[HandlerLoop[T]] = []
        self._handler_tasks: set[asyncio.Task[None]] = set()
        self._tasks = Tasks(core.log)
        self._watch: InformerWatch | None = None
        self._member = _Member(self)
        self._informer: Informer | None = None
        self._unconfirmed = False  # the watch began before the informer, so its state may be older
        self._confirmed: tuple[Position, float] | None = None  # from here on, the state is as fresh as at this time
        self._saver: Saver | None = None
        self._saving: asyncio.Task[None] | None = None
        self.closing = threading.Event()
        """Set when the informer is closed. fanoutd.sync shows it to other threads."""
        self._confirming: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._finished = False  # all has ended but the handlers
        self.callbacks: CallbackThread | None = None
        """The thread in which fanoutd.sync calls the functions that are not handlers."""
        self._began = 0.0
        self._as_of: float | None = None
        self._lost: float | None = None
        self._fresh_for = 0.0
        self._started = False
        self._ended: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._has_state = self._has_fresh = False

    # Reading.

    def snapshot(self) -> Snapshot[T]:
        """Return the position, and all items by key as they are there. Any thread may call it."""
        with self._lock:
            return Snapshot(self.position, dict(self.items))

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
        """The number of changes that handlers have not accepted."""
        return sum(loop.queue for loop in self._handlers)

    # Waiting.

    async def wait_for_sync(self) -> None:
        """Wait until the copy has every write that was acknowledged before the start, and the handlers were called."""
        await self.wait(lambda: self._has_fresh)
        for loop in list(self._handlers):
            await self._wait_for_handler(loop)

    async def _wait_for_handler(self, loop: HandlerLoop[T]) -> None:
        await self.wait(lambda: loop.settled)

    async def wait_for_state(self) -> None:
        """Wait until there is a copy, perhaps a stale one from the state file."""
        await self.wait(lambda: self._has_state)

    async def wait(self, reached: Callable[[], bool]) -> None:
        """Wait until something is reached.

        Raise the error of the informer if it ends, and RuntimeError if it was not started.
        """
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

    def add_handler(self, caller: Caller[T]) -> HandlerLoop[T]:
        """Let a handler be called for each change, at first for each item that there is."""
        if self._ended is not None:
            raise self._ended
        loop = HandlerLoop(caller, self.items, self._progressed, self._rejected)
        self._handlers.append(loop)
        for key in self.items:
            loop.changed(key, None, Position())
        if self._has_fresh:
            loop.begin_settling()
        if self._started:
            self._run_handler(loop)
        return loop

    def _run_handler(self, loop: HandlerLoop[T]) -> None:
        task = self._tasks.start(loop.run())
        self._handler_tasks.add(task)
        task.add_done_callback(self._handler_ended)

    def _handler_ended(self, task: asyncio.Task[None]) -> None:
        self._handler_tasks.discard(task)
        self._leave_client()

    def _rejected(self, key: str, error: str, delay: float) -> None:
        self._core.log.warning("a handler rejects %s, retry in %.1f s: %s", key, delay, error)
        self._core.observer.handler_failed(HandlerFailed(self._request.resource, key, error, delay))

    def _progressed(self) -> None:
        self._handlers = [h for h in self._handlers if not h.removed]
        if self._watch is not None:
            self._watch.wake_reports()
        self._wake()

    def progress(self) -> Progress:
        """Return how far the informer and its handlers have applied the watch."""
        at = self.position
        own = Progress(at)
        for key, (_, why, since) in self._invalid.items():
            own = Progress(lower(own.applied, since), at, own.error or f"{key}: {why}")
        if self._invalid:
            own = own._replace(failed=frozenset(self._invalid))
        return lowest([own, *(handler.progress(at) for handler in self._handlers)])

    # Running.

    def start(self, informer: Informer) -> None:
        """Begin to follow the objects. The client gets the informer until all has ended."""
        self._core.check_open()
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
            if self.position.revision > 0:
                request.after.CopyFrom(position_to(self.position))
        self._informer = informer
        self._core.informers.append(informer)
        for loop in self._handlers:
            self._run_handler(loop)
        if self._file is not None:
            self._saver = Saver(self._file, self._saved, self._file_failed)
            self._saving = self._tasks.start(self._saver.run())
        self._watch, joined = self._watches.join(request, self._bookmark_interval, self._metadata, self._member)
        if self.closing.is_set():  # by a decoder
            self._watch.leave(self._member)
        self._fresh_for = self._watch.fresh_for()
        self._unconfirmed = joined and request.consistency.WhichOneof("level") is None
        self._settle()

    async def close(self, timeout: float) -> None:
        """End everything, and wait for handlers that still run, at most so many seconds in all."""
        if not self._core.process.is_this:
            return  # its tasks are those of the parent
        self.begin_closing()
        assert self._ending is not None
        waiting: set[asyncio.Task[None]] = {self._ending}
        if not in_callback():
            waiting |= self._handler_tasks
        _, late = await asyncio.wait(waiting, timeout=timeout)
        if late:
            log = self._core.log
            log.warning("an informer was closed, but %d of its tasks have not ended within %g s", len(late), timeout)
        for task in late - {self._ending}:
            self._handler_tasks.discard(task)  # later calls do not wait again
            task.cancel()
        self._leave_client()

    def begin_closing(self) -> None:
        """Ask everything to end, and let a task wait for that."""
        if self._ending is not None:
            return
        self.closing.set()
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
        if self.callbacks is not None:
            self.callbacks.end()
        self._finished = True
        self._leave_client()

    def _leave_client(self) -> None:
        """Let the client forget an informer that has ended: until then, its close waits for it."""
        if self._finished and not self._handler_tasks:
            self._core.informers = [i for i in self._core.informers if i is not self._informer]

    def _fail(self, why: BaseException) -> None:
        """End, because the watch has ended: handlers are called no more, and the file is saved."""
        self._end(why)
        self.begin_closing()

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
        if self.callbacks is None:
            call_back(self._core.log, name, function, *args)
        else:
            self.callbacks.call(name, function, *args)

    def _state(self) -> tuple[Update | None, Update | None]:
        """Return updates that lead another informer to this state."""
        state = part = None
        if self.position.revision > 0:
            objects = [self._invalid[key][0] if key in self._invalid else i.object for key, i in self.items.items()]
            objects += [o for key, (o, _, _) in self._invalid.items() if key not in self.items]
            state = state_of(objects, self.position, self._as_of, complete=True)
        if self._incoming is not None:
            part = state_of(self._incoming.values(), Position(), None, complete=False)
        return state, part

    async def _confirm(self, at: Position) -> None:
        """Find out what the state at a position lacks of the present one, with a short watch."""
        asked = time.monotonic()
        request = fanout_pb2.WatchRequest()
        request.CopyFrom(self._request)
        request.after.CopyFrom(position_to(at))
        watch = Watcher(
            self._core, request, bookmark_interval=self._bookmark_interval, reports=False, metadata=self._metadata
        )
        try:
            async for update in watch:
                if update.events or update.replace:
                    at = update.position
                if update.complete and update.as_of is not None and update.as_of >= asked:
                    self._confirmed = at, asked
                    self._settle()
                    return
        except (Error, ClosedError):
            pass  # the shared watch ends for the same reason, or confirms the state later
        finally:
            watch.close()

    def _apply(self, update: Update) -> None:
        if self._ended is not None:
            return
        if update.replace:
            self._incoming = {}
        news: Iterable[tuple[str, Object | None]]
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
            news = ((e.object.key, None if e.type is EventType.DELETED else e.object) for e in update.events)
        changed = self._put_all(news, update.position)
        self._as_of = update.as_of
        if update.synced or not self._has_state and update.complete:
            self._has_state = True
        self._settle()
        if self._saver is not None:
            self._saver.changed(changed)
        self._tell_failures()

    def _settle(self) -> None:
        """Note how fresh the state is."""
        if self._confirmed is not None:
            at, as_of = self._confirmed
            proven = at.epoch == self.position.epoch and at.revision <= self.position.revision
            if proven and (self._as_of is None or self._as_of < as_of):
                self._as_of = as_of
        if not self._has_fresh and self._is_fresh():
            self._has_fresh = True
            for handler in self._handlers:
                handler.begin_settling()
        if self._unconfirmed and self.position.revision > 0:
            self._unconfirmed = False
            if not self._has_fresh:
                self._confirming = self._tasks.start(self._confirm(self.position))
        self._wake()

    def _is_fresh(self) -> bool:
        if self._as_of is None:
            return False
        level = self._request.consistency.WhichOneof("level")
        if level == "any":
            return True
        if level == "min_revision":
            return self.position.revision >= self._request.consistency.min_revision
        return self._as_of >= self._began

    def _difference(self, objects: Mapping[str, Object]) -> Iterator[tuple[str, Object | None]]:
        """Return the changes that lead from the copy to other objects: the deletions, then the others by key."""
        for key in self.items.keys() | self._invalid.keys():
            if key not in objects:
                yield key, None
        for key in sorted(objects):
            o = objects[key]
            known = self._invalid[key][0] if key in self._invalid else None
            if known is None and key in self.items:
                known = self.items[key].object
            if known != o:
                yield key, o

    def _put_all(self, news: Iterable[tuple[str, Object | None]], position: Position) -> bool:
        """Change objects, all at once: decode them first. Return whether there were any."""
        since = self.position
        keys: list[str] = []
        decoded: list[Item[T] | _Failure | None] = []  # not pairs, each of which the garbage collector would visit
        for key, o in news:
            keys.append(key)
            decoded.append(None if o is None else self._decoded(o))
        with self._lock:
            for key, new in zip(keys, decoded, strict=True):
                if isinstance(new, _Failure):
                    self._note_invalid(new, since)
                else:
                    self._put(key, new, since)
            self.position = position
        return bool(keys)

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
        old = self.items.get(key)
        invalid = self._invalid.pop(key, None)
        if invalid is not None:
            since = invalid[2]  # the handlers have the version before
        if new is not None:
            self.items[key] = new
        elif old is not None:
            del self.items[key]
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
        old = self.items.get(o.key)
        if old is not None:  # there is nothing for the handlers: the value is the old one
            self.items[o.key] = Item(old.value, old.object, why)

    def _tell_failures(self) -> None:
        """Call the user about objects that cannot be decoded, after the copy has changed."""
        failures, self._failures = self._failures, []
        for failure in failures:
            o, error = failure.object, failure.error
            self._core.log.warning("cannot decode %s of revision %d: %s", o.key, o.mod_revision, message_of(error))
            self._tell("on_error", self._on_error, o, error)

    # The state file.

    def _restore(self, file: StateFile) -> None:
        try:
            position, objects = file.read()
        except DamagedError as error:
            self._file_failed(error)
            return
        self._put_all(((o.key, o) for o in objects), position)
        self._has_state = position.revision > 0
        self._tell_failures()

    def _saved(self) -> tuple[Position, list[Object]]:
        """Return the state to save: the last version that can be decoded, then the newest one."""
        objects = [item.object for item in self.items.values()]
        objects += [o for o, _, _ in self._invalid.values()]
        return self.position, objects

    def _file_failed(self, error: Exception) -> None:
        self._core.log.warning("the state file cannot be used: %s", message_of(error))
        self._tell("on_error", self._on_error, None, error)


class _Failure(NamedTuple):
    """An object that cannot be decoded."""

    object: Object
    error: Exception


class _Member:
    """The part of an informer in its watch."""

    def __init__(self, copy: LocalCopy[Any]) -> None:
        self.receive = copy._apply
        self.interrupted = copy._interrupted
        self.end = copy._fail
        self.progress = copy.progress
        self.state = copy._state
