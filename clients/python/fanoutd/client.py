"""The client."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import socket
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from types import TracebackType
from typing import Any

import grpc

from fanoutd.callbacks import in_callback
from fanoutd.connection import Connection, Servers
from fanoutd.credentials import TLS, Token, TokenSource, is_local
from fanoutd.errors import ClosedError
from fanoutd.informer import Informer
from fanoutd.informer_watch import InformerWatch
from fanoutd.observer import Fenced, Observer
from fanoutd.process import Process
from fanoutd.requests import Metadata, Requests
from fanoutd.resource import Resource
from fanoutd.streams import Streams
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.version import VERSION
from fanoutd.watch import Watch

__all__ = ["Client"]


# How long the last client waits for the tasks of gRPC, and the classes whose methods these are.
_END_OF_CALLS = 0.25
_CALL_CLASSES = ("_AioCall.", "UnaryUnaryCall.", "UnaryStreamCall.", "StreamStreamCall.")


async def _end_of_calls() -> None:
    """Wait for the tasks of gRPC, which end a moment after a call was cancelled.

    They should not outlive the event loop. Nothing tells those of one client from others, so only the last client
    waits.
    """
    tasks = {t for t in asyncio.all_tasks() if getattr(t.get_coro(), "__qualname__", "").startswith(_CALL_CLASSES)}
    if tasks:
        await asyncio.wait(tasks, timeout=_END_OF_CALLS)


class Client:
    """A client of one or more servers over the same etcd.

    Use it in one event loop, which must run when it is made::

        async with Client("127.0.0.1:7420") as client:
            config = client.resource("config")
            print(await config.get("shop/limits"))

    ``servers`` is an address ``host:port``, several with commas between them or in a list, or a target of gRPC
    such as ``unix:/run/fanoutd.sock``. A server on this machine is reached in plaintext, others with TLS, unless
    ``insecure`` says otherwise.

    ``token`` is a bearer token, or a function (it may be a coroutine function) that returns one for each
    request; ``token_file`` is a file that has it. A token is never sent in plaintext to another machine.

    ``instance`` and ``labels`` name this program to operators. Default: ``HOST/PID``.

    ``logger`` gets the messages of the client. Default: ``logging.getLogger("fanoutd")``. ``interceptors`` are those
    of ``grpc.aio``, and ``options`` those of its channels. ``observer`` is called for what happens; see Observer.

    A client does not survive a fork of the process: calls in the child raise RuntimeError.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        tls: TLS | None = None,
        insecure: bool = False,
        token: str | TokenSource | None = None,
        token_file: str | None = None,
        instance: str | None = None,
        labels: Mapping[str, str] | None = None,
        logger: logging.Logger | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
        options: Sequence[tuple[str, Any]] = (),
        observer: Observer | None = None,
    ) -> None:
        addresses = [a.strip() for a in servers.split(",")] if isinstance(servers, str) else list(servers)
        if insecure and tls is not None:
            raise ValueError("insecure and tls exclude each other")
        if tls is None and not insecure and not all(map(is_local, addresses)):
            tls = TLS()
        source: Token | None = None
        if token is not None and token_file is not None:
            raise ValueError("token and token_file exclude each other")
        if token is not None:
            source = Token.fixed(token) if isinstance(token, str) else Token(token)
        elif token_file is not None:
            source = Token.of_file(token_file)
        self._addresses = addresses
        self._settings: dict[str, Any] = {
            "tls": tls, "insecure": tls is None, "token": token, "token_file": token_file, "instance": instance,
            "labels": labels, "logger": logger, "interceptors": interceptors, "options": options,
        }  # fmt: skip
        self._process = Process()
        self._loop = asyncio.get_running_loop()
        self._log = logger or logging.getLogger("fanoutd")
        self._tasks = Tasks(self._log)
        self._observer = Fenced(observer, self._log)
        options = [("grpc.primary_user_agent", f"fanoutd-python/{VERSION}"), *options]
        self._servers = Servers(addresses, tls, source, self._tasks, self._log, options, interceptors)
        self._requests = Requests(self._servers, self._observer)
        subscriber = fanout_pb2.Subscriber(
            instance=f"{socket.gethostname()}/{os.getpid()}" if instance is None else instance, labels=labels or {}
        )
        self._streams = Streams(self._servers, self._tasks, subscriber, self._log)
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._informers: list[Informer[Any]] = []
        self._informer_watches: dict[bytes, InformerWatch] = {}
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _of(self, address: str, name: str | None) -> Client:
        """Return a client of one server with the same settings. Its certificate must have the name, if there is one."""
        settings = dict(self._settings)
        tls = settings["tls"]
        if tls is not None and tls.server_name is None:
            settings["tls"] = dataclasses.replace(tls, server_name=name)
        return Client([address], **settings)

    def resource(self, name: str) -> Resource:
        """Return a handle of a resource: a collection of objects that the servers are configured with."""
        return Resource(self, name)

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._closed

    async def close(self) -> None:
        """End all watches and informers, and close all connections. Later calls fail with ClosedError.

        It may be called anywhere, and more than once. In a handler or another callback, it does not wait for the end.
        """
        if not self._process.is_this:
            self._closed = True  # the connections belong to the parent
            return
        if self._closing is None:
            self._closed = True
            # The end is not part of the callback that asks for it.
            self._closing = self._loop.create_task(self._close(), context=Context())
        if not in_callback() and asyncio.current_task() not in self._tasks:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._servers.refuse()
        await asyncio.gather(*(informer.close() for informer in self._informers), return_exceptions=True)
        for watch in list(self._watches):
            watch._interrupt()
        await self._tasks.close()
        await self._servers.close()
        if self._process.leave():
            await _end_of_calls()

    @property
    def informers(self) -> list[Informer[Any]]:
        """The informers that are running."""
        return list(self._informers)

    async def connection(self) -> Connection:
        """Return a connection with the generated stubs ``reads``, ``writes`` and ``admin``, for other requests.

        Use it in a ``with`` block, which keeps it open.
        """
        self._check_open()
        return await self._servers.connect()

    def _later(self, function: Callable[..., None], *args: object) -> None:
        """Call a function in the event loop of the client, from any thread."""
        if self._process.is_this:
            try:
                self._loop.call_soon_threadsafe(function, *args)
            except RuntimeError:
                pass  # the event loop was closed before the client

    def _check_open(self) -> None:
        self._process.check()
        if self._closed:
            raise ClosedError("the client is closed")

    async def _call(
        self,
        service: str,
        method: str,
        request: Any,
        timeout: float | None,
        retry: bool = False,
        metadata: Metadata = (),
    ) -> Any:
        """Send a request, and send it again if that does no harm."""
        self._check_open()
        return await self._requests.send(service, method, request, timeout=timeout, metadata=metadata, read=retry)
