"""The client without asyncio::

    import fanoutd.sync

    with fanoutd.sync.Client("127.0.0.1:7420") as client:
        for update in client.resource("config").watch(prefix="shop"):
            print(update.position.revision, [(e.type.value, e.key) for e in update.events])

A client runs a ``fanoutd.Client`` in a thread that all clients share. Any number of threads may use the client. Each
function takes the arguments of the function of ``fanoutd`` with the same name, and waits for its result.

``change`` of an update and ``progress`` of a wait run in the thread that waits for the result. Handlers, ``on_error`` and
``on_interruption`` of an informer run in other threads. All of these may use the client. Other callbacks run in the shared
thread: they must return soon, and cannot call these functions, except for ``close``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import fanoutd
from fanoutd.callback_thread import CallbackThread
from fanoutd.callbacks import refuse_coroutine_function
from fanoutd.client import client_with
from fanoutd.objects import Position, Update
from fanoutd.runner import Runner
from fanoutd.settings import Configured, Settings
from fanoutd.sync_informer import Handler, Informer

__all__ = ["Client", "Handler", "Informer", "Resource", "Watch"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[fanoutd.Resource, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[Resource, P], R]:
    """Make a method that waits for its result."""

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._runner.run(method(self._resource, *args, **kwargs))

    return call


def _calling(
    name: str, method: Callable[Concatenate[fanoutd.Resource, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[Resource, P], R]:
    """Make a method that waits for its result. The thread that waits calls the argument with this name."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> R:
        arguments = signature.bind(self._resource, *args, **kwargs)
        function = arguments.arguments.get(name)
        if function is None:
            return self._runner.run(method(self._resource, *args, **kwargs))
        refuse_coroutine_function(name, function)

        def start(relay: Callable[..., Any]) -> Coroutine[Any, Any, R]:
            arguments.arguments[name] = relay
            return method(*arguments.args, **arguments.kwargs)

        return self._runner.run_calling(start, function)

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

        return Watch(self._runner, self._runner.run(watch()), self._resource._core.later)

    return call


def _informing(
    method: Callable[Concatenate[fanoutd.Resource, P], fanoutd.Informer[T]]
) -> Callable[Concatenate[Resource, P], Informer[T]]:
    """Make a method that returns an informer."""

    @functools.wraps(method)
    def call(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> Informer[T]:
        async def make() -> fanoutd.Informer[T]:
            informer = method(self._resource, *args, **kwargs)
            informer._copy.callbacks = CallbackThread(self._resource._core.log)
            return informer

        informer = self._runner.run(make())
        return Informer(self._runner, informer, informer._copy)

    return call


class Client(Configured):
    """A client of one or more servers; see fanoutd.Client."""

    def _set_up(self, settings: Settings) -> None:
        async def make() -> fanoutd.Client:
            return client_with(settings)

        self._runner = Runner()
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

    @property
    def informers(self) -> Sequence[fanoutd.Informer[Any]]:
        """The informers that are running, to read their states for metrics."""
        return self._client.informers

    def close(self) -> None:
        """End all watches and informers, the connections, and the threads.

        It may be called anywhere, and more than once. It waits for the end, also (but at most 10 seconds) for the calls
        of handlers, except in a handler or another callback.
        """
        self._runner.close(self._client.close)


class Resource:
    """A handle of one resource; see fanoutd.Resource."""

    def __init__(self, runner: Runner, resource: fanoutd.Resource) -> None:
        self._runner, self._resource = runner, resource
        self.name = resource.name

    get = _blocking(fanoutd.Resource.get)
    list = _iterating(fanoutd.Resource.list)
    list_page = _blocking(fanoutd.Resource.list_page)
    count = _blocking(fanoutd.Resource.count)
    history = _iterating(fanoutd.Resource.history)
    revision_at = _blocking(fanoutd.Resource.revision_at)
    put = _blocking(fanoutd.Resource.put)
    validate = _blocking(fanoutd.Resource.validate)
    delete = _blocking(fanoutd.Resource.delete)
    transact = _blocking(fanoutd.Resource.transact)
    watch = _watching(fanoutd.Resource.watch)
    informer = _informing(fanoutd.Resource.informer)
    update = _calling("change", fanoutd.Resource.update)
    wait = _calling("progress", fanoutd.Resource.wait)


class Watch:
    """An iterator over the updates of a watch; see fanoutd.Watch. Another thread may close it."""

    def __init__(self, runner: Runner, watch: fanoutd.Watch, later: Callable[..., None]) -> None:
        self._runner, self._watch, self._later = runner, watch, later

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
        self._later(self._watch.close)


class _Loop(Iterator[Update]):
    """A loop over a watch."""

    def __init__(self, runner: Runner, loop: AsyncIterator[Update]) -> None:
        self._runner, self._loop = runner, loop

    def __next__(self) -> Update:
        return _next(self._runner, self._loop)


def _next(runner: Runner, updates: AsyncIterator[Update]) -> Update:
    async def following() -> Update | None:
        return await anext(updates, None)

    update = runner.run(following())
    if update is None:
        raise StopIteration
    return update
