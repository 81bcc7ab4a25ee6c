"""What a program can observe of its client, for metrics and traces."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "Fenced", "HandlerFailed", "Observer", "RequestEnded", "WatchEnded", "WatchInterrupted", "WatchOpened",
    "WatchReceived",
]  # fmt: skip


class RequestEnded(NamedTuple):
    """A request has ended, with all its attempts."""

    method: str
    """The name in the protocol, such as ``Get``."""
    resource: str
    code: str
    """The code of gRPC, such as ``OK``."""
    seconds: float
    """The duration, with all attempts and pauses."""
    attempts: int
    """How often the request was sent. 0: no server could be reached."""


class WatchOpened(NamedTuple):
    """The first message of a stream of a watch has arrived."""

    resource: str
    server: str
    """The address of the server."""
    resumed: bool
    """Whether the watch continues at a position."""
    shared: bool
    """Whether it shares the stream of Subscribe."""


class WatchReceived(NamedTuple):
    """Events have arrived, or a catch-up has ended."""

    resource: str
    events: int
    """The number of events."""
    catch_up: str
    """The catch-up that they belong to: ``reset``, ``delta`` or ``replay``. Empty: they are new."""
    synced: bool
    """Whether the catch-up has ended."""


class WatchInterrupted(NamedTuple):
    """A watch has lost its server."""

    resource: str
    code: str
    """The code of gRPC. ``UNAVAILABLE`` also if the server was silent."""
    reason: str
    """The reason of the error, or nothing."""
    delay: float
    """The seconds until the watch tries to resume."""


class WatchEnded(NamedTuple):
    """A watch has ended with an error that no retry can help."""

    resource: str
    code: str
    reason: str


class HandlerFailed(NamedTuple):
    """A handler of an informer has rejected a change."""

    resource: str
    key: str
    error: str
    delay: float
    """The seconds until the change is offered again."""


class Observer:
    """Is called when something happens. Override the methods that you need.

    They are called in the event loop of the client, and must return soon. An exception is logged, and changes
    nothing. States are not reported but read: see ``Client.informers``.
    """

    def request(self, event: RequestEnded) -> None:
        """Note the end of a request."""

    def watch_opened(self, event: WatchOpened) -> None:
        """Note that a watch began, or has resumed."""

    def watch_received(self, event: WatchReceived) -> None:
        """Note the events of a message."""

    def watch_interrupted(self, event: WatchInterrupted) -> None:
        """Note that a watch has lost its server."""

    def watch_ended(self, event: WatchEnded) -> None:
        """Note that a watch has failed for good."""

    def handler_failed(self, event: HandlerFailed) -> None:
        """Note that a handler has rejected a change."""


class Fenced(Observer):
    """Calls an observer, whose exceptions are logged."""

    def __init__(self, observer: Observer | None, log: logging.Logger) -> None:
        if observer is None:
            return
        self._log = log
        for name in ("request", "watch_opened", "watch_received", "watch_interrupted", "watch_ended", "handler_failed"):
            setattr(self, name, self._fenced(getattr(observer, name)))

    def _fenced(self, hook: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(event: Any) -> None:
            try:
                hook(event)
            except KeyboardInterrupt:
                raise
            except BaseException:
                self._log.exception("an observer has failed")

        return call
