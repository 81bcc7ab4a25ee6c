"""The rules for events that must be held back, and for the delays and reports of a client."""

import unittest

from fanoutd.assembly import Assembler
from fanoutd.backoff import Backoff
from fanoutd.objects import Position, object_from, object_to
from fanoutd.reports import _shortened
from fanoutd.v1 import fanout_pb2, object_pb2

R = fanout_pb2.WatchResponse


def message(kind: int, revision: int, *keys: str, **fields: object) -> fanout_pb2.WatchResponse:
    """Return a message with an event for each key."""
    m = R(kind=kind, position=object_pb2.Position(epoch="e", revision=revision), **fields)  # type: ignore[arg-type]
    for key in keys:
        m.events.add(type=fanout_pb2.Event.TYPE_ADDED, revision=revision, object=object_pb2.Object(key=key, text="x"))
    return m


class AssemblerTest(unittest.TestCase):
    """Each test feeds messages to an Assembler."""

    def test_a_reset_passes_as_incomplete_updates(self) -> None:
        a = Assembler(Position("e", 3))
        begin = a.receive(message(R.KIND_CATCH_UP_BEGIN, 0, catch_up=R.CATCH_UP_RESET))
        assert begin is not None and begin.replace and not begin.complete
        self.assertEqual(a.at.revision, 0)
        part = a.receive(message(R.KIND_CATCH_UP_PART, 0, "a"))
        assert part is not None and not part.complete
        end = a.receive(message(R.KIND_SYNCED, 5))
        assert end is not None and end.complete and end.synced
        self.assertEqual(a.at, Position("e", 5))

    def test_a_delta_is_held_until_its_end(self) -> None:
        a = Assembler(Position("e", 3))
        a.receive(message(R.KIND_CATCH_UP_BEGIN, 3, catch_up=R.CATCH_UP_DELTA))
        self.assertIsNone(a.receive(message(R.KIND_CATCH_UP_PART, 3, "a")))
        self.assertEqual(a.at.revision, 3)
        end = a.receive(message(R.KIND_SYNCED, 5))
        assert end is not None and end.delta
        self.assertEqual([e.key for e in end.events], ["a"])

    def test_another_stream_drops_what_is_held(self) -> None:
        a = Assembler(Position("e", 3))
        self.assertIsNone(a.receive(message(R.KIND_LIVE, 3, "a", partial=True)))
        a.begin_stream()
        u = a.receive(message(R.KIND_LIVE, 4, "b"))
        assert u is not None
        self.assertEqual([e.key for e in u.events], ["b"])


class BackoffTest(unittest.TestCase):
    """Delays are random and bounded."""

    def test_delays_grow_to_a_limit(self) -> None:
        b = Backoff(1, 4)
        for limit in [1, 2, 4, 4, 4]:
            self.assertLessEqual(b.next(), limit)
        b.reset()
        self.assertLessEqual(b.next(), 1)


class ObjectTest(unittest.TestCase):
    """Objects keep the difference between an absent and an empty value."""

    def test_values_survive(self) -> None:
        for value in [None, "", "ä", b"", b"\xff"]:
            m = object_pb2.Object(key="k", labels={"a": "b"}, mod_revision=1)
            if isinstance(value, str):
                m.text = value
            elif value is not None:
                m.data = value
            o = object_from(m)
            self.assertEqual(o.value, value)
            self.assertEqual(object_to(o), m)


class ReportTest(unittest.TestCase):
    """Messages of errors have a bounded size."""

    def test_long_messages_are_cut_between_characters(self) -> None:
        self.assertEqual(_shortened("ä" * 1000), "ä" * 512)


if __name__ == "__main__":
    unittest.main()
