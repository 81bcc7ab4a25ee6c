"""Decoders for informers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fanoutd.objects import Object

__all__ = ["as_json", "as_object", "as_text", "json_as"]

T = TypeVar("T")


def as_object(o: Object) -> Object:
    """Return the object as it is."""
    return o


def as_json(o: Object) -> Any:
    """Return the value, decoded from JSON."""
    return o.json()


def as_text(o: Object) -> str:
    """Return the value as text."""
    if o.value is None:
        raise ValueError("the value is unknown")
    return o.value if isinstance(o.value, str) else o.value.decode()


def json_as(kind: Callable[..., T]) -> Callable[[Object], T]:
    """Return a decoder that calls a class with the members of a JSON object as keyword arguments."""

    def decode(o: Object) -> T:
        return kind(**o.json())

    return decode
