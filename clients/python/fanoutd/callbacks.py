"""Functions of the user that the client calls."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

__all__ = [
    "Callback", "call_back", "calling", "in_callback", "is_interrupt", "message_of", "refuse_awaitable",
    "refuse_coroutine_function",
]  # fmt: skip


class Callback(Protocol):
    """Something that calls a function of the user."""

    @property
    def active(self) -> bool:
        """Whether the function is running."""


calling: ContextVar[Callback | None] = ContextVar("fanoutd_calling", default=None)
"""What has called the function of the user that is running. Tasks and threads that the function starts inherit it."""


def in_callback() -> bool:
    """Return whether the caller runs in a function of the user, whose end it must not wait for."""
    callback = calling.get()
    return callback is not None and callback.active


def call_back(log: logging.Logger, what: str, function: Callable[..., object], *args: object) -> None:
    """Call a function that has no caller to whom an exception could go: log it."""
    try:
        refuse_awaitable(function(*args))
    except BaseException as error:
        if is_interrupt(error):
            raise
        log.error("%s has failed: %s", what, message_of(error), exc_info=error)


def is_interrupt(error: BaseException) -> bool:
    """Return whether the user interrupts the program. Python raises that only in the main thread."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def message_of(error: BaseException) -> str:
    """Return the message of an exception of the user."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # its class has a wrong __str__
        return type(error).__name__


# Results without a look for awaitables: informers ask for each object.
_PLAIN = frozenset({type(None), str, bytes, int, float, bool, dict, list})


def refuse_awaitable(result: object) -> None:
    """Raise TypeError if a function has returned an awaitable that nothing would await."""
    if type(result) in _PLAIN:
        return
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise TypeError("the function returns an awaitable, which is not awaited here")


def refuse_coroutine_function(what: str, function: Any) -> None:
    """Raise TypeError for a coroutine function where nothing would await its result."""
    call = getattr(function, "__call__", None)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise TypeError(f"{what} needs a function, not a coroutine function, which would never run")
