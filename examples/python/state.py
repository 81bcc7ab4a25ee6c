"""The state of a subscriber: its objects, and the position at which they were so."""

from fanout.v1.fanout_pb2 import Event, WatchResponse
from fanout.v1.object_pb2 import Object, Position

# Catch-ups whose events must be held back until SYNCED. The events of a REPLAY need not:
# its position advances with them.
HELD_UNTIL_SYNCED = (WatchResponse.CATCH_UP_RESET, WatchResponse.CATCH_UP_DELTA)


class State:
    """The objects of a watch by key, as they were at a position.

    Objects and position always belong together. Events that lie after the position are
    held back until the next position is reached: the events of a RESET or a DELTA, and
    those of partial messages. So readers never see half a snapshot, and a stream may
    break at any place.
    """

    def __init__(self, objects=(), position=None):
        self.objects = {o.key: o for o in objects}
        self.position = position  # None: there is no state yet
        self._catch_up = WatchResponse.CATCH_UP_UNSPECIFIED
        self._held = []  # events after the position

    def apply(self, message):
        """Applies a message of the stream.

        Returns the changes in order, as tuples of "added", "modified" or "deleted", the
        key, and the object, which is None for "deleted".
        """
        if message.kind == WatchResponse.KIND_CATCH_UP_BEGIN:
            self._catch_up, self._held = message.catch_up, []
            return []
        if message.kind == WatchResponse.KIND_DRAINING:
            self._held = []  # the rest of them will not come
        self._held.extend(message.events)
        synced = message.kind == WatchResponse.KIND_SYNCED
        if message.partial or self._catch_up in HELD_UNTIL_SYNCED and not synced:
            return []
        changes = list(self._apply_held())
        if synced:
            self._catch_up = WatchResponse.CATCH_UP_UNSPECIFIED
        self.position = Position(epoch=message.position.epoch, revision=message.position.revision)
        return changes

    def _apply_held(self):
        events, self._held = self._held, []
        if self._catch_up == WatchResponse.CATCH_UP_RESET:
            present = {e.object.key for e in events}
            for key in [k for k in self.objects if k not in present]:
                yield from self._remove(key)
        for e in events:
            if e.type == Event.TYPE_DELETED:
                yield from self._remove(e.object.key)
            else:
                yield from self._put(e.object)

    def _put(self, new):
        old = self.objects.get(new.key)
        if old == new:
            return  # a RESET repeats unchanged objects
        # Copy the object: a reference into a message keeps the whole message in memory.
        self.objects[new.key] = kept = Object()
        kept.CopyFrom(new)
        yield "modified" if old else "added", kept.key, kept

    def _remove(self, key):
        # A DELTA may delete keys that were never here.
        if self.objects.pop(key, None):
            yield "deleted", key, None
