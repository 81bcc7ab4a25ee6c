"""A program for the tests of ../../test/clients: it keeps copies, and prints one of them for each line of its input.

    clients/python/soak.py SERVERS RESOURCE informers|watch|list BOOKMARK_INTERVAL
    clients/python/soak.py SERVERS RESOURCE file BOOKMARK_INTERVAL STATE_FILE

The interval has milliseconds. With ``list``, there is no copy: the program lists the objects for each line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fanoutd  # noqa: E402


class Copy:
    """A copy that a watch keeps."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self.position = fanoutd.Position()

    async def follow(self, watch: fanoutd.Watch) -> None:
        async for update in watch:
            if update.replace:
                self.objects.clear()
            for e in update.events:
                if e.type is fanoutd.EventType.DELETED:
                    self.objects.pop(e.key, None)
                else:
                    self.objects[e.key] = e.object.mod_revision
            self.position = update.position if update.complete else fanoutd.Position()


def show(position: fanoutd.Position, objects: dict[str, int], pending: str) -> None:
    line = {"epoch": position.epoch, "revision": str(position.revision), "pending": pending}
    print(json.dumps({**line, "objects": {key: str(revision) for key, revision in objects.items()}}), flush=True)


def revisions(informer: fanoutd.Informer[fanoutd.Object]) -> dict[str, int]:
    return {key: o.mod_revision for key, o in informer.items()}


class Handled:
    """What the handler of an informer has seen."""

    def __init__(self, informer: fanoutd.Informer[fanoutd.Object]) -> None:
        self.informer = informer
        self.objects: dict[str, int] = {}
        informer.add_handler(self.handle)

    def handle(self, change: fanoutd.Change[fanoutd.Object]) -> None:
        if change.new is None:
            del self.objects[change.key]
        else:
            self.objects[change.key] = change.new.value.mod_revision

    def pending(self) -> str:
        if self.informer.stale:
            return "the informer is stale"
        return "" if revisions(self.informer) == self.objects else "the handler has another state"


async def informers(config: fanoutd.Resource, lines: asyncio.StreamReader, interval: float) -> None:
    async with config.informer(fanoutd.decode.as_object, bookmark_interval=interval) as first:
        await first.wait_for_sync()
        # It joins the watch of the first.
        joined = config.informer(fanoutd.decode.as_object, bookmark_interval=interval)
        handled = Handled(joined)
        async with joined:
            while await lines.readline():
                pending = handled.pending()
                if not pending and (first.position, revisions(first)) != (joined.position, revisions(joined)):
                    pending = "the informers that share a watch have different states"
                show(joined.position, revisions(joined), pending)


async def file(config: fanoutd.Resource, lines: asyncio.StreamReader, interval: float, state_file: str) -> None:
    informer = config.informer(fanoutd.decode.as_object, bookmark_interval=interval, state_file=state_file)
    handled = Handled(informer)
    async with informer:
        while await lines.readline():
            show(informer.position, revisions(informer), handled.pending())


async def watch(config: fanoutd.Resource, lines: asyncio.StreamReader, interval: float) -> None:
    copy = Copy()
    async with config.watch(bookmark_interval=interval) as updates:
        following = asyncio.create_task(copy.follow(updates))
        while await lines.readline():
            show(copy.position, copy.objects, "the watch has ended" if following.done() else "")
    await following


async def lists(config: fanoutd.Resource, lines: asyncio.StreamReader) -> None:
    while await lines.readline():
        try:
            page = await config.list_page()
        except fanoutd.Error as error:
            show(fanoutd.Position(), {}, str(error))
        else:
            show(page.position, {o.key: o.mod_revision for o in page.objects}, "")


async def main(servers: str, resource: str, kind: str, milliseconds: str, state_file: str = "") -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    interval = int(milliseconds) / 1000
    async with fanoutd.Client(servers) as client:
        config = client.resource(resource)
        match kind:
            case "informers":
                await informers(config, lines, interval)
            case "file":
                await file(config, lines, interval, state_file)
            case "watch":
                await watch(config, lines, interval)
            case "list":
                await lists(config, lines)


asyncio.run(main(*sys.argv[1:]))
