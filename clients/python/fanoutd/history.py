"""Who wrote what, when and why."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

from fanoutd.objects import Object, object_from, time_from
from fanoutd.selection import scope
from fanoutd.v1 import fanout_pb2

__all__ = ["HistoryEntry", "HistoryKind"]


class HistoryKind(enum.Enum):
    """What an entry of a history means. Only the first two are writes through fanoutd."""

    PUT = "put"
    """A write."""

    DELETE = "delete"
    """A deletion."""

    EXPIRED = "expired"
    """The time to live of the object has ended."""

    GAP = "gap"
    """Another program wrote the key in etcd."""

    EARLIER = "earlier"
    """The object is older than the history of its key."""

    UNKNOWN = "unknown"
    """A newer server sends a kind that this client does not know."""


@dataclass(slots=True)
class HistoryEntry:
    """One entry of a history."""

    kind: HistoryKind
    key: str

    revision: int
    """The revision of the write. Of a gap and of an earlier object: its mod_revision, or 0 if it is not known.
    0 for an expiry."""

    author: str = ""
    """The name of the writer. Empty: anonymous, or no write."""

    time: datetime.datetime | None = None
    """The time of the write, by the clock of the server. None: no write."""

    message: str = ""
    """Why, in the words of the writer."""

    replaced_revision: int = 0
    """The mod_revision before the write; 0: there was no object."""

    transaction_writes: int = 0
    """The number of keys that the transaction of the write has written."""

    has_ttl: bool = False
    """Whether the object has a time to live."""

    object: Object | None = None
    """The object as it was written, if the values were asked for and the history has it. Its create_revision and
    version are 0."""


_KINDS = {
    fanout_pb2.HistoryEntry.KIND_PUT: HistoryKind.PUT,
    fanout_pb2.HistoryEntry.KIND_DELETE: HistoryKind.DELETE,
    fanout_pb2.HistoryEntry.KIND_EXPIRED: HistoryKind.EXPIRED,
    fanout_pb2.HistoryEntry.KIND_GAP: HistoryKind.GAP,
    fanout_pb2.HistoryEntry.KIND_EARLIER: HistoryKind.EARLIER,
}


def history_request(
    resource: str,
    *,
    prefix: str | None = None,
    key: str | None = None,
    up_to: int | None = None,
    at: datetime.datetime | None = None,
    values: bool = False,
    page_size: int = 0,
    json_values: bool = False,
) -> fanout_pb2.HistoryRequest:
    """Return the request of the first page of a history."""
    if up_to is not None and at is not None:
        raise ValueError("up_to and at exclude each other")
    if page_size < 0:
        raise ValueError(f"page_size is {page_size}, must not be negative")
    request = fanout_pb2.HistoryRequest(
        resource=resource,
        scope=scope(prefix, key),
        values=values,
        page_size=page_size,
        json_values=json_values,
    )
    if up_to is not None:
        request.revision = up_to
    if at is not None:
        if at.tzinfo is None:
            raise ValueError("a time must have a time zone, such as datetime.timezone.utc")
        request.time.FromDatetime(at)
    return request


def entry_from(e: fanout_pb2.HistoryEntry) -> HistoryEntry:
    """Return an entry of a message."""
    return HistoryEntry(
        _KINDS.get(e.kind, HistoryKind.UNKNOWN),
        e.key,
        e.revision,
        e.author,
        time_from(e.time.seconds, e.time.nanos) if e.HasField("time") else None,
        e.message,
        e.replaced_revision,
        e.transaction_writes,
        e.has_ttl,
        object_from(e.object) if e.HasField("object") else None,
    )
