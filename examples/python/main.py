"""Follows a part of a resource and prints a line of JSON for whatever happens."""

import argparse
import asyncio
import base64
import json
import signal
import sys
import time
from pathlib import Path

# Where the generated code is.
sys.path.insert(0, str(Path(__file__).parent / "stubs"))

from fanout.v1.fanout_pb2 import WatchRequest  # noqa: E402
from saved import Damaged, File  # noqa: E402
from state import State  # noqa: E402
from subscriber import Refused, Subscriber  # noqa: E402

# Seconds between two writes of the file, at least. An older state is no mistake:
# resuming takes a little longer.
SAVE_INTERVAL = 1.0


class Follower:
    """What this program does with a subscription: print it and keep it in a file."""

    def __init__(self, state, file):
        self._state = state
        self._file = file  # None: nothing is kept
        self._saved_at = 0.0

    def changed(self, what, key, o):
        if o is None:
            tell(what, key=key)
        else:
            tell(what, key=key, revision=o.mod_revision, **value(o))
        self.save(SAVE_INTERVAL)

    def noticed(self, what, **details):
        if what in ("synced", "bookmark", "draining"):
            details |= {"objects": len(self._state.objects), "revision": revision(self._state)}
        tell(what, **details)
        self.save(SAVE_INTERVAL)

    def save(self, interval=0.0):
        if self._file and time.monotonic() - self._saved_at >= interval:
            self._file.save(self._state)
            self._saved_at = time.monotonic()


def value(o):
    """The value of an object, which is a text, bytes or nothing."""
    match o.WhichOneof("value"):
        case "text":
            return {"text": o.text}
        case "data":
            return {"data": base64.b64encode(o.data).decode()}
    return {}


def revision(state):
    return state.position.revision if state.position else None


def tell(what, **details):
    print(json.dumps({"what": what, **details}), flush=True)


async def follow(args):
    file, state = None, State()
    if args.state:
        file = File(args.state, args.resource, args.prefix)
        try:
            state = file.load()
        except Damaged as error:
            tell("damaged", why=str(error))
    tell("begin", objects=len(state.objects), revision=revision(state))

    request = WatchRequest(resource=args.resource)
    if args.prefix:
        request.scope.prefix = args.prefix
    follower = Follower(state, file)
    subscriber = Subscriber(
        args.target, request, state, follower.changed, follower.noticed, args.bookmarks
    )
    running = asyncio.ensure_future(subscriber.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        follower.save()
        tell("end", objects=len(state.objects), revision=revision(state))
    except Refused as error:
        tell("refused", why=str(error))
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="where fanoutd is, such as 127.0.0.1:7420")
    parser.add_argument("resource", help="the resource to watch")
    parser.add_argument("prefix", nargs="?", default="", help="only what is below this path")
    parser.add_argument("--state", metavar="FILE", help="keep the state here, and begin with it")
    parser.add_argument(
        "--bookmarks", type=float, default=10.0, metavar="SECONDS",
        help="how often the server speaks when nothing happens (default 10)",
    )
    sys.exit(asyncio.run(follow(parser.parse_args())))


if __name__ == "__main__":
    main()
