"""The client."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import socket
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc

from fanoutd.connection import Connection, Servers
from fanoutd.credentials import TLS, Token, TokenSource, is_local
from fanoutd.errors import ClosedError, error_of_call
from fanoutd.informer import Informer
from fanoutd.informer_watch import InformerWatch
from fanoutd.resource import Resource
from fanoutd.streams import Streams
from fanoutd.tasks import Tasks
from fanoutd.v1 import fanout_pb2
from fanoutd.version import VERSION
from fanoutd.watch import Watch

__all__ = ["Client"]


# Reads are sent up to so many times.
_ATTEMPTS = 4
_TEMPORARY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


# How long a client that is closed waits for the tasks of gRPC, and the classes whose methods these are.
_END_OF_CALLS = 0.25
_CALL_CLASSES = ("_AioCall.", "UnaryUnaryCall.", "UnaryStreamCall.", "StreamStreamCall.")


async def _end_of_calls() -> None:
    """Wait for the tasks of gRPC, which end a moment after a call was cancelled.

    They must not outlive the event loop. Nothing tells those of this client from others, so the time is bounded.
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

    ``instance`` and ``labels`` name this program to operators. Default: host name and process id.
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
            "labels": labels,
        }  # fmt: skip
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._servers = Servers(addresses, tls, source, f"fanoutd-python/{VERSION}", self._tasks)
        subscriber = fanout_pb2.Subscriber(
            instance=f"{socket.gethostname()}-{os.getpid()}" if instance is None else instance, labels=labels or {}
        )
        self._streams = Streams(self._servers, self._tasks, subscriber)
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._informers: weakref.WeakSet[Informer[Any]] = weakref.WeakSet()
        self._informer_watches: dict[bytes, InformerWatch] = {}
        self._closed = False

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
        """End all watches and informers, and close all connections. Later calls fail with ClosedError."""
        if self._closed:
            return
        self._closed = True
        for informer in list(self._informers):
            await informer.close()
        for watch in list(self._watches):
            watch._interrupt()
        await self._tasks.close()
        await self._servers.close()
        await _end_of_calls()

    def check_open(self) -> None:
        """Raise ClosedError if the client was closed."""
        if self._closed:
            raise ClosedError("the client is closed")

    async def connection(self) -> Connection:
        """Return a connection with the generated stubs ``reads``, ``writes`` and ``admin``, for other requests."""
        self.check_open()
        return self._servers.connect()

    async def _call(self, service: str, method: str, request: Any, timeout: float | None, retry: bool = False) -> Any:
        """Send a request, and send it again if that does no harm."""
        pause = 0.2
        for attempt in range(1, _ATTEMPTS + 1):
            self.check_open()
            metadata = await self._servers.metadata()
            with self._servers.connect() as connection:
                try:
                    stub = getattr(connection, service)
                    return await getattr(stub, method)(request, metadata=metadata, timeout=timeout)
                except grpc.aio.AioRpcError as failure:
                    error = error_of_call(failure)
                except (asyncio.CancelledError, grpc.aio.UsageError):
                    self.check_open()  # a call on a connection that was closed
                    raise
                if error.code == grpc.StatusCode.UNAVAILABLE:
                    if error.reason is None:
                        connection.retire()
                    self._servers.turn()
            if not retry or error.code not in _TEMPORARY or attempt == _ATTEMPTS:
                raise error
            await asyncio.sleep(max(error.retry_after, random.uniform(0.8, 1.2) * pause))
            pause = min(3 * pause, 2.0)
        raise AssertionError("not reached")


