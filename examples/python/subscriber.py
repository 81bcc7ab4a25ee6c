"""A watch that lasts: it connects, resumes, notices silence and tries again."""

import asyncio
import random

import grpc

from fanout.v1.fanout_pb2 import WatchRequest, WatchResponse
from fanout.v1.fanout_pb2_grpc import FanoutServiceStub
from refusal import Refusal

# Seconds before the first and before every later attempt, at most. What is waited is
# drawn at random below it: subscribers that lose a server together do not come back
# together.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0


class Silence(Exception):
    """Nothing came, although bookmarks were asked for: the peer is gone."""


class Refused(Exception):
    """The server will never accept the watch."""


class Subscriber:
    """Keeps a State at the present.

    target    a gRPC target, such as "127.0.0.1:7420"
    request   a WatchRequest that says what to watch; where to begin is filled in
    state     the State
    changed   called with each change of the state: what, key, object
    noticed   called with what else happens: its name, and details by keyword
    bookmarks seconds after which the server speaks if nothing happens
    """

    def __init__(self, target, request, state, changed, noticed, bookmarks=10.0):
        self._target = target
        self._request = request
        self._state = state
        self._changed = changed
        self._noticed = noticed
        self._silence = 3 * bookmarks
        request.bookmark_interval.FromMilliseconds(int(1000 * bookmarks))

    async def run(self):
        """Runs until it is cancelled, or raises Refused."""
        limit = FIRST_DELAY
        while True:
            at_least, why = 0.0, "the stream has ended"
            try:
                async for message in self._watch():
                    self._take(message)
                    if message.kind == WatchResponse.KIND_SYNCED:
                        limit = FIRST_DELAY
            except Silence:
                why = f"nothing came for {self._silence} seconds"
            except grpc.aio.AioRpcError as error:
                refusal = Refusal(error)
                if refusal.final:
                    raise Refused(str(refusal)) from error
                if refusal.position_is_void:
                    self._state.position = None  # begin with a snapshot
                at_least, why = refusal.retry_after, str(refusal)
            delay = at_least + random.uniform(0, limit)
            limit = min(2 * limit, LONGEST_DELAY)
            self._noticed("disconnected", why=why, retry_in=round(delay, 3))
            await asyncio.sleep(delay)

    async def _watch(self):
        """Yields the messages of one stream, which begins where the state is."""
        request = WatchRequest()
        request.CopyFrom(self._request)
        if self._state.position is not None:
            request.after.CopyFrom(self._state.position)
        # Each attempt has a connection of its own. One that is used again could be
        # the dead one, or wait longer than we do.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self._target, options) as channel:
            stream = FanoutServiceStub(channel).Watch(request)
            while True:
                try:
                    # The next message is asked for when the last one was dealt with:
                    # who is slow is not silent, and the server waits.
                    message = await asyncio.wait_for(stream.read(), self._silence)
                except asyncio.TimeoutError:
                    raise Silence from None
                if message is grpc.aio.EOF:
                    return
                yield message

    def _take(self, message):
        """Applies a message and tells of it."""
        if message.kind == WatchResponse.KIND_CATCH_UP_BEGIN:
            name = WatchResponse.CatchUp.Name(message.catch_up)
            self._noticed("catch-up", kind=name.removeprefix("CATCH_UP_"))
        for what, key, o in self._state.apply(message):
            self._changed(what, key, o)
        for kind, name in (
            (WatchResponse.KIND_SYNCED, "synced"),
            (WatchResponse.KIND_BOOKMARK, "bookmark"),
            (WatchResponse.KIND_DRAINING, "draining"),
        ):
            if message.kind == kind:
                self._noticed(name)
