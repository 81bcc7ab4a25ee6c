"""The client without asyncio::

    import fanoutd.sync

    with fanoutd.sync.Client("127.0.0.1:7420") as client:
        for update in client.resource("config").watch(prefix="shop"):
            print(update.position.revision, [(e.type.value, e.key) for e in update.events])

A client runs a ``fanoutd.Client`` in a thread that all clients share. Any number of threads may use the client. Each
function takes the arguments of the function of ``fanoutd`` with the same name, and waits for its result. Callbacks
that are not handlers run in the shared thread: they must return soon, and cannot call these functions, except for
``close``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import grpc

import fanoutd
from fanoutd.item import Change, Item
from fanoutd.objects import Position, Update
from fanoutd.requests import Metadata
from fanoutd.resource import BOOKMARK_INTERVAL
from fanoutd.runner import Runner
from fanoutd.wait import SETTLE, Options, statuses, wait_request

__all__ = ["Client", "Handler", "Informer", "Resource", "Watch"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _HandlerThread(threading.local):
    """What the thread of a handler knows about itself."""

    runner: _Runner | None = None


_handler_thread = _HandlerThread()


class _Runner(Runner):
    """Runs the coroutines of a client, and has the threads of its handlers."""

    def __init__(self) -> None:
        super().__init__()
        self._handlers: set[Handler] = set()

    def add_handler(self, handler: Handler) -> None:
        """Note a handler, whose thread ends with this one."""
        self._handlers.add(handler)

    def end_handlers(self, informer: Informer[Any] | None = None) -> None:
        """End the threads of the handlers of one informer or of all, after their calls have returned.

        Handlers do not wait, because they would wait for themselves or for each other.
        """
        wait = _handler_thread.runner is not self
        for handler in list(self._handlers):
            if informer is None or handler._informer is informer:
                self.end_handler(handler, wait)

    def end_handler(self, handler: Handler, wait: bool) -> None:
        """End the thread of a handler."""
        handler._thread.shutdown(wait)
        self._handlers.discard(handler)


def _blocking(
    method: Callable[Concatenate[fanoutd.Resource, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[Resource, P], R]:
    """Make a method that waits for its result."""

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._runner.run(method(self._resource, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[fanoutd.Resource, P], AsyncIterator[T]]
) -> Callable[Concatenate[Resource, P], Iterator[T]]:
    """Make a method that returns an iterator."""

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        iterator = method(self._resource, *args, **kwargs)

        async def following() -> list[T]:
            async for value in iterator:
                return [value]
            return []

        while values := self._runner.run(following()):
            yield from values

    return call


def _watching(
    method: Callable[Concatenate[fanoutd.Resource, P], fanoutd.Watch]
) -> Callable[Concatenate[Resource, P], Watch]:
    """Make a method that returns a watch."""

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> Watch:
        async def watch() -> fanoutd.Watch:
            return method(self._resource, *args, **kwargs)

        return Watch(self._runner, self._runner.run(watch()))

    return call


class Client:
    """A client of one or more servers; see fanoutd.Client."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        tls: fanoutd.TLS | None = None,
        insecure: bool = False,
        token: str | fanoutd.TokenSource | None = None,
        token_file: str | None = None,
        instance: str | None = None,
        labels: Mapping[str, str] | None = None,
        logger: logging.Logger | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
        options: Sequence[tuple[str, Any]] = (),
        observer: fanoutd.Observer | None = None,
    ) -> None:
        async def make() -> fanoutd.Client:
            return fanoutd.Client(
                servers, tls=tls, insecure=insecure, token=token, token_file=token_file, instance=instance,
                labels=labels, logger=logger, interceptors=interceptors, options=options, observer=observer,
            )  # fmt: skip

        self._runner = _Runner()
        try:
            self._client = self._runner.run(make())
        except BaseException:
            self._runner.close(None)
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def resource(self, name: str) -> Resource:
        """Return a handle of a resource."""
        return Resource(self._runner, self._client.resource(name))

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._client.closed

    def close(self) -> None:
        """End all watches and informers, the connections, and the threads.

        It may be called anywhere, and more than once. It waits for the end, also for the calls of handlers, except in
        a callback of the client.
        """
        if self._runner.close(self._client):
            self._runner.end_handlers()


class Resource:
    """A handle of one resource; see fanoutd.Resource."""

    def __init__(self, runner: _Runner, resource: fanoutd.Resource) -> None:
        self._runner, self._resource = runner, resource
        self.name = resource.name

    get = _blocking(fanoutd.Resource.get)
    list = _iterating(fanoutd.Resource.list)
    list_page = _blocking(fanoutd.Resource.list_page)
    count = _blocking(fanoutd.Resource.count)
    put = _blocking(fanoutd.Resource.put)
    delete = _blocking(fanoutd.Resource.delete)
    transact = _blocking(fanoutd.Resource.transact)
    update = _blocking(fanoutd.Resource.update)
    watch = _watching(fanoutd.Resource.watch)

    def informer(
        self,
        decode: fanoutd.Decoder[T],
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        omit_values: bool = False,
        latest: bool = False,
        max_batch_delay: float | None = None,
        allow_stale: bool = False,
        min_revision: int | None = None,
        json_values: bool = False,
        metadata: Metadata = (),
        bookmark_interval: float = BOOKMARK_INTERVAL,
        state_file: str | None = None,
        max_state_bytes: int = 1 << 30,
        on_interruption: Callable[[BaseException], None] | None = None,
        on_error: Callable[[fanoutd.Object | None, Exception], None] | None = None,
    ) -> Informer[T]:
        """Return an informer; see fanoutd.Resource.informer."""

        async def make() -> fanoutd.Informer[T]:
            return self._resource.informer(
                decode, prefix=prefix, key=key, label_selector=label_selector, field_selector=field_selector,
                omit_values=omit_values, latest=latest, max_batch_delay=max_batch_delay, allow_stale=allow_stale,
                min_revision=min_revision, json_values=json_values, metadata=metadata,
                bookmark_interval=bookmark_interval, state_file=state_file,
                max_state_bytes=max_state_bytes, on_interruption=on_interruption, on_error=on_error,
            )  # fmt: skip

        return Informer(self._runner, self._runner.run(make()))

    def wait(
        self,
        revision: int,
        *,
        prefix: str | None = None,
        key: str | None = None,
        subscribers: str = "",
        instance: str = "",
        require_all: bool = False,
        quorum: float = 1.0,
        tolerate: int = 0,
        min_watches: int = 1,
        allow_missing_servers: bool = False,
        settle: float = SETTLE,
        timeout: float | None = None,
        progress: Callable[[fanoutd.WaitStatus], Any] | None = None,
    ) -> fanoutd.WaitStatus:
        """Wait until watches have applied a revision; see fanoutd.Resource.wait. This thread calls ``progress``."""
        if inspect.iscoroutinefunction(progress):
            raise TypeError("progress is a coroutine function, which needs fanoutd.Resource.wait")
        found = statuses(
            self._resource._client,
            wait_request(
                self.name, revision, prefix=prefix, key=key, subscribers=subscribers, instance=instance,
                require_all=require_all,
            ),
            Options(quorum, tolerate, min_watches, allow_missing_servers, settle, timeout),
        )  # fmt: skip

        async def following() -> fanoutd.WaitStatus | None:
            return await anext(found, None)

        async def end() -> None:
            await found.aclose()

        status = None
        try:
            while latest := self._runner.run(following()):
                status = latest
                if progress is not None:
                    progress(status)
        finally:
            with contextlib.suppress(fanoutd.ClosedError):  # it has ended with the client
                self._runner.run(end())
        assert status is not None  # without one, it raises
        return status


class Watch:
    """An iterator over the updates of a watch; see fanoutd.Watch. Another thread may close it."""

    def __init__(self, runner: _Runner, watch: fanoutd.Watch) -> None:
        self._runner, self._watch = runner, watch

    def __iter__(self) -> Iterator[Update]:
        return _Loop(self._runner, aiter(self._watch))

    def __next__(self) -> Update:
        return _next(self._runner, self._watch)

    def __enter__(self) -> Watch:
        self._runner.run(self._watch.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def position(self) -> Position:
        """Where the watch resumes."""
        return self._watch.position

    def close(self) -> None:
        """End the watch."""
        self._watch._client._later(self._watch.close)


class _Loop(Iterator[Update]):
    """A loop over a watch."""

    def __init__(self, runner: _Runner, loop: AsyncIterator[Update]) -> None:
        self._runner, self._loop = runner, loop

    def __next__(self) -> Update:
        return _next(self._runner, self._loop)


def _next(runner: _Runner, updates: AsyncIterator[Update]) -> Update:
    async def following() -> Update | None:
        return await anext(updates, None)

    update = runner.run(following())
    if update is None:
        raise StopIteration
    return update


class Handler:
    """A handler that was added to an informer. It has a thread of its own."""

    def __init__(self, runner: _Runner, informer: Informer[Any]) -> None:
        self._runner, self._informer = runner, informer
        self._thread = ThreadPoolExecutor(1, "fanoutd-handler", initializer=self._begin)
        self._handler: fanoutd.Handler[Any] | None = None

    def _begin(self) -> None:
        _handler_thread.runner = self._runner

    def remove(self) -> None:
        """Remove the handler. It gets no further calls."""

        async def remove() -> None:
            if self._handler is not None:
                self._handler.remove()

        try:
            self._runner.run(remove())
        except fanoutd.ClosedError:
            pass  # it has ended with the client
        self._runner.end_handler(self, wait=False)


class Informer(Generic[T]):
    """Keeps a decoded copy of objects; see fanoutd.Informer."""

    def __init__(self, runner: _Runner, informer: fanoutd.Informer[T]) -> None:
        self._runner, self._informer = runner, informer

    def __enter__(self) -> Informer[T]:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, key: str) -> T:
        return self._informer[key]

    def __contains__(self, key: object) -> bool:
        return key in self._informer

    def __len__(self) -> int:
        return len(self._informer)

    def get(self, key: str, default: T | None = None) -> T | None:
        """Return the value of an object, or the default if there is none."""
        return self._informer.get(key, default)

    def snapshot(self) -> tuple[Position, dict[str, Item[T]]]:
        """Return the items by key as they are at one position, and this position."""

        async def copy() -> tuple[Position, dict[str, Item[T]]]:
            return self._informer.position, dict(self._informer.items)

        return self._runner.run(copy())

    @property
    def position(self) -> Position:
        """The position of the copy."""
        return self._informer.position

    @property
    def stale(self) -> bool:
        """Whether the copy may be out of date."""
        return self._informer.stale

    def start(self) -> None:
        """Begin to follow the objects. ``with`` calls it."""

        async def start() -> None:
            self._informer.start()

        self._runner.run(start())

    def add_handler(self, function: Callable[[Change[T]], None]) -> Handler:
        """Call a function for each change, in a thread of its own; see fanoutd.Informer.add_handler."""
        handler = Handler(self._runner, self)

        async def call(change: Change[T]) -> None:
            await asyncio.get_running_loop().run_in_executor(handler._thread, function, change)

        async def add() -> None:
            handler._handler = self._informer.add_handler(call)
            self._runner.add_handler(handler)

        self._runner.run(add())
        return handler

    def wait_for_sync(self, timeout: float | None = None) -> None:
        """Wait until the copy is current and the handlers were called for it. Raise TimeoutError after a time."""
        self._runner.run(self._within(self._informer.wait_for_sync, timeout))

    def wait_for_state(self, timeout: float | None = None) -> None:
        """Wait until there is a copy, perhaps a stale one. Raise TimeoutError after a time."""
        self._runner.run(self._within(self._informer.wait_for_state, timeout))

    def changed(self, after: Position) -> Position:
        """Wait until the copy has another position than this one, and return that."""
        return self._runner.run(self._informer.changed(after))

    @staticmethod
    async def _within(wait: Callable[[], Coroutine[Any, Any, None]], timeout: float | None) -> None:
        async with asyncio.timeout(timeout):
            await wait()

    def close(self) -> None:
        """End the informer and the threads of its handlers.

        The calls of the handlers return first, unless a handler closes the informer.
        """
        try:
            self._runner.run(self._informer.close())
        except fanoutd.ClosedError:
            pass  # it has ended with the client
        self._runner.end_handlers(self)
