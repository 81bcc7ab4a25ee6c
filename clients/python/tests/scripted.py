"""Servers whose answers a test chooses, and sockets that never answer."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from fanoutd.v1 import errordetails_pb2, fanout_pb2, fanout_pb2_grpc, object_pb2, store_pb2, store_pb2_grpc
from fanoutd.v1.status import status_pb2

def silent() -> socket.socket:
    """Return a socket to which clients can connect, and that never sends anything."""
    return socket.create_server(("127.0.0.1", 0))


def address_of(s: socket.socket) -> str:
    """Return the address of a socket."""
    host, port = s.getsockname()[:2]
    return f"{host}:{port}"


class Failure(Exception):
    """Makes a scripted server fail."""

    def __init__(self, code: grpc.StatusCode, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(code.name)
        self.code, self.reason, self.retry_after = code, reason, retry_after

    def status(self) -> status_pb2.Status:
        """Return the status as a message."""
        s = status_pb2.Status(code=self.code.value[0], message="scripted")
        if self.reason:
            info = errordetails_pb2.ErrorInfo(reason=self.reason, domain="fanoutd.github.io")
            s.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
        if self.retry_after:
            retry = errordetails_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(round(1000 * self.retry_after))
            s.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=retry.SerializeToString())
        return s


class Scripted(fanout_pb2_grpc.FanoutServiceServicer, store_pb2_grpc.StoreServiceServicer):
    """A server with one object, at revision 1. Without a script, it answers as a server would."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.metadata: list[dict[str, str | bytes]] = []
        self.watches: list[fanout_pb2.WatchRequest] = []
        self.watched = asyncio.Condition()
        self.fail: Callable[[str, int], Failure | None] = lambda method, n: None
        """Called with the name of the method, and how often it was called."""
        self.before: Callable[[], Awaitable[Any]] | None = None
        """Called before each answer."""
        self.subscribe: Callable[[], Awaitable[None]] | None = None
        """Called before the answer to Subscribe, which then fails with UNIMPLEMENTED."""
        self.begin: Callable[[int, fanout_pb2.WatchRequest, Any], Awaitable[None]] | None = None
        """Called for each Watch, before its snapshot, with the number of the call."""
        self.watch: Callable[[int, fanout_pb2.WatchRequest, Any], Awaitable[None]] | None = None
        """Called for each Watch, after its snapshot, with the number of the call."""

    async def start(self) -> Scripted:
        """Start the server."""
        self._server = grpc.aio.server()
        fanout_pb2_grpc.add_FanoutServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        store_pb2_grpc.add_StoreServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def stop(self) -> None:
        """Stop the server."""
        await self._server.stop(None)

    async def _note(self, method: str, context: Any) -> None:
        self.calls[method] += 1
        self.metadata.append(dict(context.invocation_metadata()))
        if self.before is not None:
            await self.before()
        failure = self.fail(method, self.calls[method])
        if failure is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", failure.status().SerializeToString()),))
            await context.abort(failure.code, "scripted")

    async def Get(self, request: fanout_pb2.GetRequest, context: Any) -> fanout_pb2.GetResponse:
        await self._note("Get", context)
        return fanout_pb2.GetResponse(object=object_pb2.Object(key=request.key, text="1", mod_revision=1))

    async def Put(self, request: store_pb2.PutRequest, context: Any) -> store_pb2.PutResponse:
        await self._note("Put", context)
        return store_pb2.PutResponse(revision=2)

    async def Watch(self, request: fanout_pb2.WatchRequest, context: Any) -> None:
        async with self.watched:
            self.watches.append(request)
            self.watched.notify_all()
        await self._note("Watch", context)
        if self.begin is not None:
            await self.begin(len(self.watches), request, context)
        if not request.HasField("after"):
            await context.write(self.message(fanout_pb2.WatchResponse.KIND_CATCH_UP_BEGIN, 0, "a"))
        await context.write(self.message(fanout_pb2.WatchResponse.KIND_SYNCED, 1))
        if self.watch is not None:
            await self.watch(len(self.watches), request, context)
        else:
            await asyncio.Event().wait()

    async def Report(self, request: fanout_pb2.ReportRequest, context: Any) -> None:
        await self._note("Report", context)
        await context.abort(grpc.StatusCode.NOT_FOUND, "scripted")

    async def Subscribe(self, requests: Any, context: Any) -> None:
        if self.subscribe is not None:
            await self.subscribe()
        await self._note("Subscribe", context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "scripted")

    def message(self, kind: int, revision: int, *keys: str) -> fanout_pb2.WatchResponse:
        """Return a message of a watch."""
        m = fanout_pb2.WatchResponse(kind=kind)  # type: ignore[arg-type]
        if revision:
            m.position.epoch, m.position.revision = "epoch", revision
        if kind == fanout_pb2.WatchResponse.KIND_CATCH_UP_BEGIN:
            m.catch_up = fanout_pb2.WatchResponse.CATCH_UP_RESET
        for key in keys:
            o = object_pb2.Object(key=key, text=str(revision), mod_revision=revision or 1)
            m.events.add(type=fanout_pb2.Event.TYPE_ADDED, object=o, revision=revision or 1)
        return m

    async def until_watches(self, n: int) -> fanout_pb2.WatchRequest:
        """Wait for a watch, counted from 1, and return its request."""
        async with self.watched:
            await self.watched.wait_for(lambda: len(self.watches) >= n)
            return self.watches[n - 1]
