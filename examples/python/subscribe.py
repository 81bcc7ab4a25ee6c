"""Keeps a copy of the objects below a prefix, and prints its changes.

    PYTHONPATH=clients/python /usr/bin/python3 examples/python/subscribe.py SERVER RESOURCE PREFIX STATE_FILE
"""

import asyncio
import signal
import sys

import fanoutd


def show(change: fanoutd.Change[str]) -> None:
    print(change.type.value, change.key, change.new.value if change.new else "", flush=True)


async def main(server: str, resource: str, prefix: str, state_file: str) -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    async with fanoutd.Client(server) as client:
        informer = client.resource(resource).informer(fanoutd.decode.as_text, prefix=prefix, state_file=state_file)
        informer.add_handler(show)
        async with informer:
            await interrupted.wait()


asyncio.run(main(*sys.argv[1:]))
