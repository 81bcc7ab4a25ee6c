"""The test client of the conformance kit: it does what ../../conformance/README.md says.

    go run ./conformance -- /usr/bin/python3 clients/python/conformance.py
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fanoutd  # noqa: E402

MAX_LINE = 1 << 20

# How often the test client looks whether a copy is stale.
LOOK_INTERVAL = 0.05

CHANGES = {
    fanoutd.EventType.ADDED: "add",
    fanoutd.EventType.MODIFIED: "update",
    fanoutd.EventType.DELETED: "delete",
}


def show(name: str, what: str, **fields: Any) -> None:
    print(json.dumps({"name": name, "what": what, **fields}), flush=True)


def show_state(name: str, at: fanoutd.Position, objects: dict[str, Any]) -> None:
    show(name, "state", epoch=at.epoch, revision=str(at.revision), objects=objects)


def shown(o: fanoutd.Object) -> dict[str, Any]:
    """Return what is shown of an object."""
    fields: dict[str, Any] = {"contentType": o.content_type, "labels": o.labels}
    if isinstance(o.value, str):
        fields["text"] = o.value
    elif o.value is not None:
        fields["data"] = base64.b64encode(o.value).decode()
    return fields


class Follower:
    """Follows one watch."""

    def __init__(self, command: dict[str, Any], client: fanoutd.Client) -> None:
        self.name: str = command["name"]
        self._command = command
        self._client = client
        self._gate = asyncio.Event()
        self._gate.set()
        self._rejected: set[str] = set()
        self._stopping = False
        self.task = asyncio.create_task(self._run())

    def obey(self, command: dict[str, Any]) -> None:
        do = command["do"]
        if do == "stop":
            self._stopping = True
            self._gate.set()
            self.task.cancel()
            return
        if do == "pause":
            self._gate.clear()
        elif do == "continue":
            self._gate.set()
        elif do == "reject":
            self._rejected.add(command["key"])
        elif do == "accept":
            self._rejected.discard(command["key"])
        show(self.name, "done")

    async def _run(self) -> None:
        try:
            if self._command.get("informer"):
                await self._follow_informer()
            else:
                await self._follow_watch()
        except fanoutd.Error as error:
            show(self.name, "failed", code=error.code.name, reason=error.reason or "")
        except fanoutd.ClosedError:
            pass
        except asyncio.CancelledError:
            if self._stopping:
                show(self.name, "stopped")

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "prefix": self.name,
            "latest": self._command.get("latest", False),
            "label_selector": self._command.get("labelSelector", ""),
            "field_selector": self._command.get("fieldSelector", ""),
            "bookmark_interval": self._command["bookmarkMillis"] / 1000,
        }

    async def _follow_watch(self) -> None:
        objects: dict[str, Any] = {}
        from_now, every_event = self._command.get("fromNow", False), self._command.get("everyEvent", False)
        config = self._client.resource("config")
        async with config.watch(from_now=from_now, every_event=every_event, **self._options) as watch:
            async for update in watch:
                await self._gate.wait()
                if update.replace:
                    objects.clear()
                for e in update.events:
                    if e.type is fanoutd.EventType.DELETED:
                        objects.pop(e.key, None)
                    else:
                        objects[e.key] = shown(e.object)
                if update.complete:
                    show_state(self.name, update.position, objects)

    async def _follow_informer(self) -> None:
        informer = self._client.resource("config").informer(
            fanoutd.decode.as_object,
            state_file=self._command.get("state"),
            on_error=lambda o, _: show(self.name, "damaged") if o is None else None,
            **self._options,
        )
        informer.add_handler(self._handle)
        async with informer:
            observers = [asyncio.create_task(self._show_sync(informer)), asyncio.create_task(self._show_stale(informer))]
            try:
                at = fanoutd.Position()
                while True:
                    at = await informer.changed(at)
                    show_state(self.name, at, {key: shown(informer[key]) for key in informer})
            finally:
                for observer in observers:
                    observer.cancel()

    async def _show_sync(self, informer: fanoutd.Informer[fanoutd.Object]) -> None:
        try:
            await informer.wait_for_sync()
        except (fanoutd.Error, fanoutd.ClosedError):
            return  # the follower shows it
        show(self.name, "synced")

    async def _show_stale(self, informer: fanoutd.Informer[fanoutd.Object]) -> None:
        stale = True
        while True:
            if informer.stale != stale:
                stale = not stale
                show(self.name, "stale", stale=stale)
            await asyncio.sleep(LOOK_INTERVAL)

    async def _handle(self, change: fanoutd.Change[fanoutd.Object]) -> None:
        await self._gate.wait()
        item = change.new or change.old
        assert item is not None
        rejected = change.key in self._rejected
        show(
            self.name, "handler", type=CHANGES[change.type], key=change.key, revision=str(item.object.mod_revision),
            rejected=rejected,
        )  # fmt: skip
        if rejected:
            raise ValueError("the application rejects the object")


async def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    clients: dict[str, fanoutd.Client] = {}
    followers: dict[str, Follower] = {}
    while line := await reader.readline():
        command = json.loads(line)
        if command["do"] == "watch":
            name = command.get("client", "")
            if name not in clients:
                clients[name] = fanoutd.Client(command["servers"], insecure=True, token_file=command.get("tokenFile"))
            followers[command["name"]] = Follower(command, clients[name])
        else:
            followers[command["name"]].obey(command)
    for follower in followers.values():
        follower.task.cancel()
    await asyncio.gather(*(f.task for f in followers.values()), return_exceptions=True)
    await asyncio.gather(*(client.close() for client in clients.values()))


asyncio.run(main())
