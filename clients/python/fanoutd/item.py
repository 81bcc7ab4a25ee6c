"""What informers keep and pass on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fanoutd.objects import EventType, Object, Position

__all__ = ["Change", "Decoder", "Item", "Snapshot"]

T = TypeVar("T")

Decoder = Callable[[Object], T]
"""Makes a value of an object. It raises an exception if that is impossible."""


@dataclass(slots=True, eq=False)
class Item(Generic[T]):
    """An object with its decoded value. Items are shared: do not change them."""

    value: T
    object: Object
    invalid: str | None = None
    """Why a newer version of the object cannot be decoded. The item then has the last one that can, and handlers
    are not called."""


@dataclass(slots=True)
class Change(Generic[T]):
    """A change of one item, as a handler sees it."""

    key: str
    old: Item[T] | None
    """The item that the handler has. None: the item is new to it."""
    new: Item[T] | None
    """The item now. None: it has left the view."""

    @property
    def type(self) -> EventType:
        """Return what happened."""
        if self.old is None:
            return EventType.ADDED
        return EventType.DELETED if self.new is None else EventType.MODIFIED


class Snapshot(NamedTuple, Generic[T]):
    """The copy of an informer as it was at one position."""

    position: Position
    """The position. Revision 0: there was no copy."""
    items: dict[str, Item[T]]
    """The items by key. The dict belongs to the caller."""
