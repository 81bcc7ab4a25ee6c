"""Values to write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fanoutd.objects import Object

__all__ = ["Value", "value_of"]


@dataclass(slots=True)
class Value:
    """A value to write, if it is more than a text or bytes."""

    data: str | bytes
    content_type: str | None = None
    """The media type. None: that of text or of bytes; in an update, the one that the object has."""
    labels: Mapping[str, str] | None = None
    """The labels. None: no labels; in an update, those that the object has."""

    @staticmethod
    def json(value: Any, labels: Mapping[str, str] | None = None) -> Value:
        """Return a value that is encoded as JSON."""
        return Value(json.dumps(value, ensure_ascii=False), "application/json", labels)

    @staticmethod
    def of(o: Object) -> Value:
        """Return the value of an object, with its type and labels."""
        if o.value is None:
            raise ValueError(f"the value of {o.key} is unknown")
        return Value(o.value, o.content_type, o.labels)

    def completed_by(self, o: Object) -> Value:
        """Return the value with the type and the labels of an object, unless it has others."""
        return Value(
            self.data,
            o.content_type if self.content_type is None else self.content_type,
            o.labels if self.labels is None else self.labels,
        )


def value_of(value: str | bytes | Value) -> Value:
    """Return what a caller wants to write. Raise TypeError if the protocol has no such values."""
    whole = value if isinstance(value, Value) else Value(value)
    if not isinstance(whole.data, str | bytes):
        raise TypeError(f"a value is a str or bytes, not {type(whole.data).__name__}; Value.json encodes others")
    return whole
