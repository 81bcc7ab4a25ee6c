"""Runs the client for the tests of test/behaviour, whose package driver describes the commands."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fanoutd  # noqa: E402

Command = dict[str, Any]
Line = dict[str, Any]

ODD: dict[str, Any] = {"None": None, "number": 1, "list": ["a"]}


def show(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def described(error: BaseException | None) -> Line:
    if error is None:
        return {}
    if isinstance(error, fanoutd.Error):
        violations = [f"{v.field}: {v.description}" for v in error.violations]
        return {
            "code": error.code.name, "reason": error.reason or "", "message": str(error), "violations": violations,
        }  # fmt: skip
    if isinstance(error, (fanoutd.ClosedError, asyncio.CancelledError)):
        return {"code": "CLOSED", "message": str(error)}
    if isinstance(error, TimeoutError):
        return {"code": "DEADLINE_EXCEEDED", "message": str(error)}
    return {"code": "REFUSED", "message": f"{type(error).__name__}: {error}"}


def shown(o: fanoutd.Object) -> Line:
    data = o.value.encode() if isinstance(o.value, str) else o.value or b""
    value = data.decode(errors="replace") if len(data) <= 1000 else ""
    return {
        "value": value, "bytes": len(data), "contentType": o.content_type, "labels": dict(o.labels), "hasTTL": o.has_ttl,
    }  # fmt: skip


def shown_entry(e: fanoutd.HistoryEntry) -> Line:
    return {
        "kind": e.kind.value, "key": e.key, "revision": e.revision, "author": e.author,
        "time": e.time.isoformat() if e.time else "", "message": e.message, "replaced": e.replaced_revision,
        "writes": e.transaction_writes, "hasTTL": e.has_ttl, "object": shown(e.object) if e.object else None,
    }  # fmt: skip


class Program:
    """The clients, watches and informers."""

    def __init__(self) -> None:
        self.clients: dict[str, fanoutd.Client] = {}
        self.followers: dict[str, Follower] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, command: Command) -> None:
        task = asyncio.create_task(self._run(command))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, command: Command) -> None:
        try:
            line = await self._do(command)
        except BaseException as error:
            line = described(error)
        show(id=command["id"], **line)

    async def _do(self, c: Command) -> Line:
        name: str = c.get("name", "")
        match c["do"]:
            case "client":
                self.clients[c.get("client", "")] = new_client(c)
            case "step":
                step(c["seconds"])
            case "close":
                if name:
                    await self.followers[name].close()
                else:
                    await self.clients[c.get("client", "")].close()
            case "start":
                self.followers[name].start()
            case "handler":
                self.followers[name].add(c)
            case "sync":
                await self.followers[name].sync(seconds(c))
            case "state":
                return self.followers[name].state()
            case "watch":
                self.followers[name] = Watcher(c, self.clients[c.get("client", "")])
            case "informer":
                self.followers[name] = Copier(c, self.clients[c.get("client", "")])
            case _:
                return await request(c, self.clients[c.get("client", "")].resource("config"))
        return {}


def new_client(c: Command) -> fanoutd.Client:
    tls = None
    if c.get("ca") or c.get("cert"):
        tls = fanoutd.TLS(ca_file=c.get("ca"), cert_file=c.get("cert"), key_file=c.get("privateKey"))
    return fanoutd.Client(
        c["servers"], tls=tls, insecure=c.get("insecure", False), token=c.get("token"), token_file=c.get("tokenFile")
    )


def step(seconds: float) -> None:
    """Move the wall clock of this program, except that of gRPC, whose core would see a real step, too."""
    now = time.time

    def stepped() -> float:
        caller: str = sys._getframe(1).f_globals.get("__name__", "")
        return now() if caller.startswith("grpc.") else now() + seconds

    time.time = stepped


def seconds(c: Command) -> float | None:
    return c["millis"] / 1000 if c.get("millis") else None


async def request(c: Command, config: fanoutd.Resource) -> Line:
    key, limit = c.get("key", ""), {"timeout": c["millis"] / 1000} if c.get("millis") else {}
    value: Any = c.get("value", "")
    if c.get("labels") or c.get("contentType"):
        value = fanoutd.Value(value, c.get("contentType", ""), c.get("labels", {}))
    if c.get("odd"):
        value = ODD[c["odd"]]
    why: dict[str, Any] = {"message": c.get("message", ""), "skip_validation": c.get("skip", False), **limit}
    at = datetime.datetime.fromisoformat(c["time"]) if c.get("time") else None
    match c["do"]:
        case "get":
            o = await config.get(key, last_change=c.get("lastChange", False), **limit)
            line: Line = {"object": shown(o)}
            if o.last_change:
                author, time, message = o.last_change
                line["entries"] = [{"author": author, "time": time.isoformat(), "message": message}]
            return line
        case "history":
            entries = config.history(
                prefix=c.get("prefix"), page_size=c.get("pageSize", 0), values=c.get("values", False),
                up_to=c.get("upTo"), at=at, **limit,
            )  # fmt: skip
            return {"entries": [shown_entry(e) async for e in entries]}
        case "revision-at":
            assert at is not None
            return {"revision": await config.revision_at(at, prefix=c.get("prefix"), **limit)}
        case "validate":
            await config.validate(key, value, **limit)
        case "list":
            objects = config.list(prefix=c.get("prefix"), page_size=c.get("pageSize", 0), **limit)
            return {"keys": [o.key async for o in objects]}
        case "count":
            return {"count": await config.count(prefix=c.get("prefix"), **limit)}
        case "put":
            await config.put(key, value, **why)
        case "delete":
            await config.delete(key, **why)
        case "transact":
            await config.transact(fanoutd.Put(key, value), **why)
        case "update":
            changed: str | fanoutd.Value = value
            await config.update(key, lambda _: changed, **why)
        case other:
            raise ValueError(f"unknown command {other}")
    return {}


class Follower:
    """A watch or an informer."""

    def __init__(self, c: Command, client: fanoutd.Client) -> None:
        self.command = c
        self.client = client
        self.name: str = c["name"]
        self.options: dict[str, Any] = {
            "prefix": c.get("prefix"),
            "bookmark_interval": c["bookmarkMillis"] / 1000,
            "on_interruption": self._interrupted,
        }

    async def close(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def add(self, c: Command) -> None:
        raise NotImplementedError

    async def sync(self, timeout: float | None) -> None:
        raise NotImplementedError

    def state(self) -> Line:
        raise NotImplementedError

    def _interrupted(self, error: BaseException) -> None:
        show(name=self.name, what="interrupted", **described(error))
        self.misbehave("interruption")

    def misbehave(self, callback: str) -> None:
        """Do what a callback is told to do. A function that is not asynchronous cannot hang."""
        match self.command.get("callbacks", {}).get(callback):
            case "throw":
                raise ValueError("told to fail")
            case "exit":
                sys.exit("told to exit")
            case "cancel":
                raise asyncio.CancelledError


class Watcher(Follower):
    """A watch."""

    def __init__(self, c: Command, client: fanoutd.Client) -> None:
        super().__init__(c, client)
        if c.get("revision"):
            self.options["after"] = fanoutd.Position(c["epoch"], c["revision"])
        self.watch = client.resource("config").watch(
            from_now=c.get("fromNow", False), min_revision=c.get("minRevision"), at_revision=c.get("atRevision"),
            every_event=c.get("everyEvent", False), **self.options,
        )  # fmt: skip
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        end: BaseException | None = None
        try:
            async for update in self.watch:
                show(
                    name=self.name, what="updated", replace=update.replace, epoch=update.position.epoch,
                    revision=update.position.revision, keys=[e.key for e in update.events],
                )  # fmt: skip
                match self.command.get("does"):
                    case "close":
                        await self.close()
                    case "close-client":
                        await self.client.close()
        except BaseException as error:
            end = error
        show(name=self.name, what="ended", **described(end))

    async def close(self) -> None:
        self.watch.close()


class Copier(Follower):
    """An informer."""

    def __init__(self, c: Command, client: fanoutd.Client) -> None:
        super().__init__(c, client)
        self.informer = client.resource("config").informer(
            self._decode, state_file=c.get("state"), on_error=self._failed, **self.options
        )
        if c.get("handler"):
            self.add(c)
        self.task: asyncio.Task[None] | None = None
        if not c.get("stopped"):
            self.start()

    def start(self) -> None:
        self.informer.start()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        end: BaseException | None = None
        try:
            await self.informer.wait_closed()
        except BaseException as error:
            end = error
        show(name=self.name, what="ended", **described(end))

    def _decode(self, o: fanoutd.Object) -> fanoutd.Object:
        o.json()
        self.misbehave("decode")
        return o

    def _failed(self, o: fanoutd.Object | None, error: BaseException) -> None:
        show(name=self.name, what="warned" if o is None else "invalid", key=o.key if o else "", message=str(error))
        self.misbehave("invalid")

    def add(self, c: Command) -> None:
        self.informer.add_handler(self._handler(c))

    def _handler(self, c: Command) -> Callable[[fanoutd.Change[fanoutd.Object]], Any]:
        failures: dict[str, int] = {}

        async def handle(change: fanoutd.Change[fanoutd.Object]) -> None:
            show(name=self.name, what="called", handler=c["handler"], type=change.type.value, key=change.key)
            match c.get("does"):
                case "throw":
                    failures[change.key] = failures.get(change.key, 0) + 1
                    if not c.get("times") or failures[change.key] <= c["times"]:
                        raise ValueError("told to fail")
                case "exit":
                    sys.exit("told to exit")
                case "cancel":
                    inner = asyncio.ensure_future(asyncio.sleep(60))
                    inner.cancel()
                    await inner
                case "hang":
                    while True:
                        try:
                            await asyncio.Event().wait()
                        except asyncio.CancelledError:
                            show(name=self.name, what="signalled")
                case "close":
                    await self.informer.close()
                case "close-client":
                    await self.client.close()

        return handle

    async def sync(self, timeout: float | None) -> None:
        await self.informer.wait_for_sync(timeout)

    def state(self) -> Line:
        items = {key: self.informer.item(key) for key in self.informer}
        objects = {key: {**shown(item.object), "invalid": item.invalid is not None} for key, item in items.items()}
        return {"objects": objects, "stale": self.informer.stale}

    async def close(self) -> None:
        await self.informer.close()


async def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    program = Program()
    while line := await reader.readline():
        program.begin(json.loads(line))


asyncio.run(main())
