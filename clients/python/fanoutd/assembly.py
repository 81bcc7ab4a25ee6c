"""Makes updates of the messages of a watch."""

from __future__ import annotations

from fanoutd.delays import Outcome
from fanoutd.objects import Event, Position, Update, event_from, position_from
from fanoutd.v1 import fanout_pb2

__all__ = ["Assembler"]

_BEGIN = fanout_pb2.WatchResponse.KIND_CATCH_UP_BEGIN
_PART = fanout_pb2.WatchResponse.KIND_CATCH_UP_PART
_SYNCED = fanout_pb2.WatchResponse.KIND_SYNCED
_DRAINING = fanout_pb2.WatchResponse.KIND_DRAINING
_NONE = fanout_pb2.WatchResponse.CATCH_UP_UNSPECIFIED
_RESET = fanout_pb2.WatchResponse.CATCH_UP_RESET
_DELTA = fanout_pb2.WatchResponse.CATCH_UP_DELTA


class Assembler:
    """Applies the rules of the protocol for events that must be held back.

    The events of a DELTA all lie after the position at which a broken stream is resumed, and so do those of a
    partial message. The next server may not know every key of them, so it could not tell the caller to remove
    it. The events are held back until their position is reached, and dropped if the stream breaks first.
    """

    def __init__(self, at: Position) -> None:
        self.at = at
        """Where the next stream begins. Revision 0: without a position."""
        self.outcome = Outcome()
        """What has come on the stream."""
        self.lost_position = False
        """Whether the position was given up since the watch began: by a RESET, or by drop_position."""
        self.catch_up: int = _NONE
        """The catch-up that is not complete yet."""
        self._held: list[Event] = []

    def begin_stream(self) -> None:
        """Note that another stream begins."""
        self.outcome = Outcome()
        self.catch_up, self._held = _NONE, []

    def resume_at(self, at: Position) -> None:
        """Make the next stream begin at an earlier position."""
        self.at = at

    def drop_position(self) -> None:
        """Make the next stream begin without a position."""
        self.at, self.lost_position = Position(), True

    def receive(self, m: fanout_pb2.WatchResponse) -> Update | None:
        """Handle a message. Return the update for the caller, or None if there is none yet."""
        self.outcome.note(m)
        u = Update(position_from(m.position), [])
        notable = u.position != self.at
        if m.kind == _BEGIN:
            self.catch_up, self._held = m.catch_up, []
            if m.catch_up == _RESET:
                if self.at.revision > 0:
                    self.drop_position()
                u.replace = notable = True
        elif m.kind == _SYNCED:
            u.delta = self.catch_up == _DELTA
            self.catch_up = _NONE
            u.synced = notable = True
        elif m.kind == _DRAINING:
            self._held = []  # the rest of them does not come
        elif m.kind != _PART:
            notable = True
        self._held += map(event_from, m.events)
        if self._held and (m.partial or self.catch_up == _DELTA):
            return None
        u.events, self._held = self._held, []
        u.complete = self.catch_up != _RESET
        self.at = u.position
        return u if notable or u.events else None

    @property
    def catching_up(self) -> bool:
        """Whether a catch-up is not complete yet."""
        return self.catch_up != _NONE
