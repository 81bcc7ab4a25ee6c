"""What a request covers, and how fresh its answer must be."""

from __future__ import annotations

from fanoutd.objects import Position, position_to
from fanoutd.v1 import fanout_pb2, object_pb2

__all__ = ["consistency", "scope", "watch_request"]


def scope(prefix: str | None, key: str | None) -> object_pb2.Scope | None:
    """Return the scope of a request."""
    if prefix is not None and key is not None:
        raise ValueError("prefix and key exclude each other")
    if prefix is not None:
        return object_pb2.Scope(prefix=prefix)
    return None if key is None else object_pb2.Scope(key=key)


def consistency(
    allow_stale: bool, min_revision: int | None, at_revision: int | None
) -> object_pb2.ReadConsistency | None:
    """Return how fresh an answer must be. None: as fresh as possible."""
    if allow_stale + (min_revision is not None) + (at_revision is not None) > 1:
        raise ValueError("allow_stale, min_revision and at_revision exclude each other")
    if allow_stale:
        return object_pb2.ReadConsistency(any=object_pb2.AnyRevision())
    if min_revision is not None:
        return object_pb2.ReadConsistency(min_revision=min_revision)
    return None if at_revision is None else object_pb2.ReadConsistency(exact_revision=at_revision)


def watch_request(
    resource: str,
    *,
    prefix: str | None = None,
    key: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
    omit_values: bool = False,
    previous_object: bool = False,
    latest: bool = False,
    every_event: bool = False,
    max_batch_delay: float | None = None,
    after: Position | None = None,
    from_now: bool = False,
    allow_stale: bool = False,
    min_revision: int | None = None,
    at_revision: int | None = None,
    json_values: bool = False,
) -> fanout_pb2.WatchRequest:
    """Return the request of a watch."""
    if after is not None and from_now:
        raise ValueError("after and from_now exclude each other")
    if latest and every_event:
        raise ValueError("latest and every_event exclude each other")
    request = fanout_pb2.WatchRequest(
        resource=resource,
        scope=scope(prefix, key),
        label_selector=label_selector,
        field_selector=field_selector,
        omit_values=omit_values,
        previous_object=previous_object,
        every_event=every_event,
        json_values=json_values,
        consistency=consistency(allow_stale, min_revision, at_revision),
    )
    if latest:
        request.delivery = fanout_pb2.DELIVERY_LATEST
    if max_batch_delay is not None:
        request.max_batch_delay.FromMilliseconds(round(1000 * max_batch_delay))
    if after is not None:
        request.after.CopyFrom(position_to(after))
    if from_now:
        request.from_now.SetInParent()
    return request
