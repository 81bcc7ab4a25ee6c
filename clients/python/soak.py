"""A program for the test of ../../test/clients: it keeps copies, and prints one of them for each line of its input.

    clients/python/soak.py SERVERS RESOURCE informer|watch
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fanoutd  # noqa: E402

BOOKMARKS = 0.3


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
    return {key: item.value.mod_revision for key, item in informer.items.items()}


async def main(servers: str, resource: str, kind: str) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with fanoutd.Client(servers) as client:
        config = client.resource(resource)
        if kind == "watch":
            copy = Copy()
            async with config.watch(bookmark_interval=BOOKMARKS) as watch:
                following = asyncio.create_task(copy.follow(watch))
                while await reader.readline():
                    show(copy.position, copy.objects, "the watch has ended" if following.done() else "")
            await following
            return
        handled: dict[str, int] = {}

        def handle(change: fanoutd.Change[fanoutd.Object]) -> None:
            if change.new is None:
                del handled[change.key]
            else:
                handled[change.key] = change.new.value.mod_revision

        # The second informer joins the watch of the first.
        async with config.informer(fanoutd.decode.as_object, bookmark_interval=BOOKMARKS) as first:
            await first.wait_for_sync()
            joined = config.informer(fanoutd.decode.as_object, bookmark_interval=BOOKMARKS)
            joined.add_handler(handle)
            async with joined:
                while await reader.readline():
                    copied, pending = revisions(joined), ""
                    if joined.stale:
                        pending = "the informer is stale"
                    elif copied != handled:
                        pending = "the handler has another state"
                    elif (first.position, revisions(first)) != (joined.position, copied):
                        pending = "the informers that share a watch have different states"
                    show(joined.position, copied, pending)


asyncio.run(main(*sys.argv[1:]))
