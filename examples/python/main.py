"""Follows a part of a resource and prints each event as a line of JSON."""

import argparse
import asyncio
import base64
import json
import signal
import sys
import time
from pathlib import Path

# The generated code.
sys.path.insert(0, str(Path(__file__).parent / "stubs"))

from fanout.v1.fanout_pb2 import WatchRequest  # noqa: E402
from saved import Damaged, File  # noqa: E402
from state import State  # noqa: E402
from subscriber import Refused, Subscriber  # noqa: E402

# The least time in seconds between two writes of the state file. An older state does no
# harm: the server then sends a little more after a restart.
SAVE_INTERVAL = 1.0


class Printer:
    """Prints changes and events, and saves the state in a file."""

    def __init__(self, state, file):
        self._state = state
        self._file = file  # None: the state is not saved
        self._saved_at = 0.0

    def on_change(self, what, key, o):
        if o is None:
            print_line(what, key=key)
        else:
            print_line(what, key=key, revision=o.mod_revision, **value(o))
        self.save(SAVE_INTERVAL)

    def on_event(self, what, **details):
        if what in ("synced", "bookmark", "draining"):
            details |= {"objects": len(self._state.objects), "revision": revision(self._state)}
        print_line(what, **details)
        self.save(SAVE_INTERVAL)

    def save(self, interval=0.0):
        if self._file and time.monotonic() - self._saved_at >= interval:
            self._file.save(self._state)
            self._saved_at = time.monotonic()


def value(o):
    """Returns the value of an object: text, bytes, or nothing if it is unknown."""
    match o.WhichOneof("value"):
        case "text":
            return {"text": o.text}
        case "data":
            return {"data": base64.b64encode(o.data).decode()}
    return {}


def revision(state):
    return state.position.revision if state.position else None


def print_line(what, **details):
    print(json.dumps({"what": what, **details}), flush=True)


async def follow(args):
    file, state = None, State()
    if args.state:
        file = File(args.state, args.resource, args.prefix)
        try:
            state = file.load()
        except Damaged as error:
            print_line("damaged", why=str(error))
    print_line("begin", objects=len(state.objects), revision=revision(state))

    request = WatchRequest(resource=args.resource)
    if args.prefix:
        request.scope.prefix = args.prefix
    printer = Printer(state, file)
    subscriber = Subscriber(
        args.target, request, state, printer.on_change, printer.on_event, args.bookmarks
    )
    running = asyncio.ensure_future(subscriber.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        printer.save()
        print_line("end", objects=len(state.objects), revision=revision(state))
    except Refused as error:
        print_line("refused", why=str(error))
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="address of the server, such as 127.0.0.1:7420")
    parser.add_argument("resource", help="resource to watch")
    parser.add_argument("prefix", nargs="?", default="", help="watch only what is below this path")
    parser.add_argument("--state", metavar="FILE", help="save the state in this file, and begin with it")
    parser.add_argument(
        "--bookmarks", type=float, default=10.0, metavar="SECONDS",
        help="interval of bookmarks while nothing happens (default 10)",
    )
    sys.exit(asyncio.run(follow(parser.parse_args())))


if __name__ == "__main__":
    main()
