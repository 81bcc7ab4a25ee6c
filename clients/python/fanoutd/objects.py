"""Objects, positions, and what a watch says about them."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fanoutd.v1 import fanout_pb2, object_pb2

__all__ = ["Event", "EventType", "LastChange", "Object", "Position", "Update"]


class Position(NamedTuple):
    """A place in the history of a resource. Every server over the same etcd knows it.

    Compare revisions only within one epoch: a new epoch begins when etcd is replaced or restored. A position
    with revision 0 is none.
    """

    epoch: str = ""
    revision: int = 0

    def is_after(self, other: Position) -> bool:
        """Return whether this position is later than another one, or of another epoch."""
        return self.revision > 0 and (self.epoch != other.epoch or self.revision > other.revision)


class LastChange(NamedTuple):
    """The write that stored an object: who made it, when and why."""

    author: str
    """The name of the writer; empty: anonymous."""
    time: datetime.datetime
    """The time of the write, by the clock of the server."""
    message: str
    """Why, in the words of the writer."""


@dataclass(slots=True)
class Object:
    """One entry of a resource as of its ``mod_revision``. Objects are shared: do not change them."""

    key: str
    """The path of the object in its resource, such as ``"shop/limits"``."""

    value: str | bytes | None = None
    """The value: text, or bytes if it is not text. None: unknown, because the watch omits values, the
    deletion names only the key, or the server cannot decrypt it."""

    content_type: str = ""
    """The media type of the value."""

    labels: dict[str, str] = field(default_factory=dict)
    """The labels of the object."""

    mod_revision: int = 0
    """The revision of the last write."""

    create_revision: int = 0
    """The revision at which the key was created."""

    version: int = 0
    """The number of writes since the key was created."""

    opaque: bool = False
    """Whether the server cannot decode the value. Without a value: it cannot decrypt it."""

    has_ttl: bool = False
    """Whether the object has a time to live."""

    ttl: float | None = None
    """The seconds that are left of the time to live. Only ``get`` sets it."""

    last_change: LastChange | None = None
    """The write that stored the object. Only ``get(last_change=True)`` sets it; None also means that the history
    does not have it."""

    def json(self) -> Any:
        """Return the value, decoded from JSON."""
        if self.value is None:
            raise ValueError(f"the value of {self.key} is unknown")
        return json.loads(self.value)

    @property
    def undecryptable(self) -> bool:
        """Whether the value is unknown because the server cannot decrypt it."""
        return self.opaque and self.value is None


class EventType(enum.Enum):
    """How the view of a watch has changed."""

    ADDED = "added"
    """The object came into the view."""

    MODIFIED = "modified"
    """The object has changed."""

    DELETED = "deleted"
    """The object has left the view."""


class Event(NamedTuple):
    """A change of one object."""

    type: EventType
    object: Object
    """The object after the change. For DELETED: its last content, or only its key."""
    revision: int
    previous: Object | None = None
    """The object before the change, if the watch asks for it and the server knows it."""

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.object.key


@dataclass(slots=True)
class Update:
    """What a watch received.

    To keep a copy: forget all objects if ``replace`` is set, then apply the events by key. If ``complete`` is
    set, the copy is the state at ``position``. Otherwise it is half of a new state, which should not be used.
    """

    position: Position
    """Where the copy is after the events. Pass it to ``watch(after=...)`` to continue in another process."""

    events: list[Event]
    """The changes, in order of their revisions."""

    replace: bool = False
    """A new state follows, with this update: forget all objects first."""

    complete: bool = True
    """The copy is the state at the position."""

    synced: bool = False
    """A catch-up ends: the copy is as current as the server."""

    delta: bool = False
    """The events are the difference to the state before. Events in between were skipped."""

    as_of: float | None = None
    """When the state was last known to be current, as a time of ``time.monotonic()``. None: unknown."""


def position_from(p: object_pb2.Position) -> Position:
    """Return a position of a message."""
    return Position(p.epoch, p.revision)


def position_to(p: Position) -> object_pb2.Position:
    """Return a position for a message."""
    return object_pb2.Position(epoch=p.epoch, revision=p.revision)


def time_from(seconds: int, nanos: int) -> datetime.datetime:
    """Return a time of a message."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc) + datetime.timedelta(microseconds=nanos // 1000)


def object_from(o: object_pb2.Object) -> Object:
    """Return an object of a message. It keeps nothing of the message in memory."""
    which = o.WhichOneof("value")
    value: str | bytes | None = None
    if which == "text":
        value = o.text
    elif which == "data":
        value = o.data
    return Object(
        o.key, value, o.content_type, dict(o.labels), o.mod_revision, o.create_revision, o.version, o.opaque, o.has_ttl
    )


def object_to(o: Object) -> object_pb2.Object:
    """Return an object for a message."""
    m = object_pb2.Object(
        key=o.key,
        content_type=o.content_type,
        labels=o.labels,
        mod_revision=o.mod_revision,
        create_revision=o.create_revision,
        version=o.version,
        opaque=o.opaque,
        has_ttl=o.has_ttl,
    )
    if isinstance(o.value, str):
        m.text = o.value
    elif o.value is not None:
        m.data = o.value
    return m


_EVENT_TYPES = {
    fanout_pb2.Event.TYPE_ADDED: EventType.ADDED,
    fanout_pb2.Event.TYPE_MODIFIED: EventType.MODIFIED,
    fanout_pb2.Event.TYPE_DELETED: EventType.DELETED,
}


def event_from(e: fanout_pb2.Event) -> Event:
    """Return an event of a message. An unknown type counts as a modification."""
    return Event(
        _EVENT_TYPES.get(e.type, EventType.MODIFIED),
        object_from(e.object),
        e.revision,
        object_from(e.previous) if e.HasField("previous") else None,
    )
