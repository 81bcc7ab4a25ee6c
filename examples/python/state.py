"""What a subscriber knows, and where in the history that is."""

from fanout.v1.fanout_pb2 import Event, WatchResponse
from fanout.v1.object_pb2 import Object, Position

# Catch-ups during which there is no position that what has arrived would belong to.
BETWEEN_POSITIONS = (WatchResponse.CATCH_UP_RESET, WatchResponse.CATCH_UP_DELTA)


class State:
    """The objects of a watch by key, as they were at a position.

    The objects and the position always belong together. What the server sends
    between two positions is kept aside until the second one is reached: the whole
    of a RESET or a DELTA, and the parts of a revision that is too large for one
    message. So a reader never sees half a snapshot, and a stream can break at any
    place without harm.
    """

    def __init__(self, objects=(), position=None):
        self.objects = {o.key: o for o in objects}
        self.position = position  # None: nothing is known
        self._catch_up = WatchResponse.CATCH_UP_UNSPECIFIED
        self._pending = []  # events on the way to the next position

    def apply(self, message):
        """Applies a message of the stream.

        Returns what it changed, in order: tuples of "added", "modified" or
        "deleted", the key, and the object, which is None where it was deleted.
        """
        if message.kind == WatchResponse.KIND_CATCH_UP_BEGIN:
            self._catch_up, self._pending = message.catch_up, []
            return []
        if message.kind == WatchResponse.KIND_DRAINING:
            self._pending = []  # the rest of it does not come any more
        self._pending.extend(message.events)
        synced = message.kind == WatchResponse.KIND_SYNCED
        if message.partial or self._catch_up in BETWEEN_POSITIONS and not synced:
            return []
        changes = list(self._commit())
        if synced:
            self._catch_up = WatchResponse.CATCH_UP_UNSPECIFIED
        self.position = Position(epoch=message.position.epoch, revision=message.position.revision)
        return changes

    def _commit(self):
        events, self._pending = self._pending, []
        if self._catch_up == WatchResponse.CATCH_UP_RESET:
            there = {e.object.key for e in events}
            for key in [k for k in self.objects if k not in there]:
                yield from self._remove(key)
        for e in events:
            if e.type == Event.TYPE_DELETED:
                yield from self._remove(e.object.key)
            else:
                yield from self._put(e.object)

    def _put(self, new):
        old = self.objects.get(new.key)
        if old == new:
            return  # a RESET brought what is known already
        # A copy, because a part of a message keeps all of it in memory.
        self.objects[new.key] = kept = Object()
        kept.CopyFrom(new)
        yield "modified" if old else "added", kept.key, kept

    def _remove(self, key):
        # A DELTA also names keys that were never here.
        if self.objects.pop(key, None):
            yield "deleted", key, None
