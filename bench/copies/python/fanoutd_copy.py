"""Keeps a copy with the Python client. The package internal/copies describes what it prints."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients" / "python"))

import fanoutd  # noqa: E402


async def main() -> None:
    address, objects = sys.argv[1], int(sys.argv[2])
    changes = 0

    def changed(change: fanoutd.Change[str]) -> None:
        nonlocal changes
        if change.type is fanoutd.EventType.MODIFIED:
            changes += 1
            if changes == objects:
                print("changed", flush=True)

    async with fanoutd.Client(address) as client, client.resource("bench").informer(fanoutd.decode.as_text) as copy:
        copy.add_handler(changed)
        await copy.wait_for_sync()
        if len(copy) == objects:
            print("loaded", flush=True)
        await asyncio.Event().wait()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
