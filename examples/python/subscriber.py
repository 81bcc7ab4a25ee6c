"""A watch that lasts: it connects, resumes, notices silence and retries."""

import asyncio
import random
import time

import grpc

from fanout.v1.fanout_pb2 import WatchRequest, WatchResponse
from fanout.v1.fanout_pb2_grpc import FanoutServiceStub
from refusal import Refusal

# The limits in seconds of the first delay and of all delays. A delay is random between
# zero and its limit, so that subscribers that lose a server together do not come back
# together.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0

# How long in seconds a stream must last before it is resumed at once when the server says so.
RESUME_AFTER = 1.0


class Silence(Exception):
    """No message came for three bookmark intervals: the server is gone."""


class Refused(Exception):
    """The server will never accept the watch."""


class Subscriber:
    """Keeps a State up to date.

    target    a gRPC target, such as "127.0.0.1:7420"
    request   a WatchRequest that says what to watch; the subscriber sets where to begin
    state     the State
    on_change called for each change of the state: what, key, object
    on_event  called for everything else: its name, and details as keyword arguments
    bookmarks the bookmark interval in seconds
    """

    def __init__(self, target, request, state, on_change, on_event, bookmarks=10.0):
        self._target = target
        self._request = request
        self._state = state
        self._on_change = on_change
        self._on_event = on_event
        self._max_silence = 3 * bookmarks
        request.bookmark_interval.FromMilliseconds(int(1000 * bookmarks))

    async def run(self):
        """Runs until it is cancelled, or raises Refused."""
        limit = FIRST_DELAY
        while True:
            at_least, why = 0.0, "the stream has ended"
            began, at_once = time.monotonic(), False
            try:
                async for message in self._watch():
                    self._handle(message)
                    at_once = message.resume_at_once
                    if message.kind == WatchResponse.KIND_SYNCED:
                        limit = FIRST_DELAY
            except Silence:
                why = f"nothing came for {self._max_silence} seconds"
            except grpc.aio.AioRpcError as error:
                refusal = Refusal(error)
                if refusal.final:
                    raise Refused(str(refusal)) from error
                if refusal.position_lost:
                    self._state.position = None  # begin with a snapshot
                at_least, why = refusal.retry_after, str(refusal)
            if at_once and time.monotonic() - began >= RESUME_AFTER:
                delay = 0.0  # the server ends its watches one after the other
            else:
                delay = at_least + random.uniform(0, limit)
                limit = min(2 * limit, LONGEST_DELAY)
            self._on_event("disconnected", why=why, retry_in=round(delay, 3))
            await asyncio.sleep(delay)

    async def _watch(self):
        """Yields the messages of one stream, which begins at the position of the state."""
        request = WatchRequest()
        request.CopyFrom(self._request)
        if self._state.position is not None:
            request.after.CopyFrom(self._state.position)
        # Use a new connection for each attempt. The old one could be dead, or wait longer
        # than we do before it reconnects.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self._target, options) as channel:
            stream = FanoutServiceStub(channel).Watch(request)
            while True:
                try:
                    # Read only when the previous message is handled. So the time limit
                    # does not include our own work, and the server waits for us.
                    message = await asyncio.wait_for(stream.read(), self._max_silence)
                except asyncio.TimeoutError:
                    raise Silence from None
                if message is grpc.aio.EOF:
                    return
                yield message

    def _handle(self, message):
        """Applies a message and reports what happened."""
        if message.kind == WatchResponse.KIND_CATCH_UP_BEGIN:
            name = WatchResponse.CatchUp.Name(message.catch_up)
            self._on_event("catch-up", kind=name.removeprefix("CATCH_UP_"))
        for what, key, o in self._state.apply(message):
            self._on_change(what, key, o)
        for kind, name in (
            (WatchResponse.KIND_SYNCED, "synced"),
            (WatchResponse.KIND_BOOKMARK, "bookmark"),
            (WatchResponse.KIND_DRAINING, "draining"),
        ):
            if message.kind == kind:
                self._on_event(name)
