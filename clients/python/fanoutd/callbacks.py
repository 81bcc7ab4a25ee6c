"""Functions of the user that the client calls."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["refuse_coroutine_function"]


def refuse_coroutine_function(what: str, function: Any) -> None:
    """Raise TypeError for a coroutine function where nothing would await its result."""
    call = getattr(function, "__call__", None)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise TypeError(f"{what} needs a function, not a coroutine function, which would never run")
