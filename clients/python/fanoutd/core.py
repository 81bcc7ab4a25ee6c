"""What the parts of a client share."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from fanoutd.callbacks import in_callback
from fanoutd.connection import Servers
from fanoutd.errors import ClosedError
from fanoutd.process import Process
from fanoutd.requests import Metadata, Requests
from fanoutd.settings import Settings
from fanoutd.streams import Streams
from fanoutd.tasks import Tasks

__all__ = ["Core", "Informer"]

# How long the last client waits for the tasks of gRPC, and the classes whose methods these are.
_END_OF_CALLS = 0.25
_CALL_CLASSES = ("_AioCall.", "UnaryUnaryCall.", "UnaryStreamCall.", "StreamStreamCall.")


class Watch(Protocol):
    """What ends with a client."""

    def interrupt(self) -> None:
        """Wake the iteration, because the client was closed."""


class Informer(Protocol):
    """What ends with a client, and waits for its last save and its handlers."""

    async def close(self) -> None:
        """End the informer."""


class Core:
    """The servers of a client, its requests and streams, and everything that ends with it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.process = Process()
        self.loop = asyncio.get_running_loop()
        self.log = settings.log
        self.observer = settings.observer
        self.tasks = Tasks(self.log)
        self.servers = Servers(settings, self.tasks)
        self.streams = Streams(self.servers, self.tasks, settings.subscriber, self.log)
        self._requests = Requests(self.servers, self.observer)
        self.watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self.informers: list[Informer] = []
        """Those that are running."""
        self.closed = False
        self._closing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End everything. In a callback, do not wait for the end."""
        if not self.process.is_this:
            self.closed = True  # the connections belong to the parent
            return
        if self._closing is None:
            self.closed = True
            # The end is not part of the callback that asks for it.
            self._closing = self.loop.create_task(self._close(), context=Context())
        if not in_callback() and asyncio.current_task() not in self.tasks:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.servers.refuse()
        await asyncio.gather(*(informer.close() for informer in self.informers), return_exceptions=True)
        for watch in list(self.watches):
            watch.interrupt()
        await self.tasks.close()
        await self.servers.close()
        if self.process.leave():
            await _end_of_calls()

    def later(self, function: Callable[..., None], *args: object) -> None:
        """Call a function in the event loop of the client, from any thread."""
        if self.process.is_this:
            try:
                self.loop.call_soon_threadsafe(function, *args)
            except RuntimeError:
                pass  # the event loop was closed before the client

    def check_open(self) -> None:
        """Raise an error if the client cannot be used any more."""
        self.process.check()
        if self.closed:
            raise ClosedError("the client is closed")

    async def call(
        self,
        service: str,
        method: str,
        request: Any,
        timeout: float | None,
        retry: bool = False,
        metadata: Metadata = (),
    ) -> Any:
        """Send a request, and send it again if that does no harm."""
        self.check_open()
        return await self._requests.send(service, method, request, timeout=timeout, metadata=metadata, read=retry)


async def _end_of_calls() -> None:
    """Wait for the tasks of gRPC, which end a moment after a call was cancelled.

    They should not outlive the event loop. Nothing tells those of one client from others, so only the last client
    waits.
    """
    tasks = {t for t in asyncio.all_tasks() if getattr(t.get_coro(), "__qualname__", "").startswith(_CALL_CLASSES)}
    if tasks:
        await asyncio.wait(tasks, timeout=_END_OF_CALLS)
