"""State files."""

import stat
import tempfile
import unittest
from pathlib import Path

from fanoutd.objects import Object, Position
from fanoutd.state_file import DamagedError, StateFile
from fanoutd.v1 import fanout_pb2

_LIMIT = 1 << 20
_OBJECTS = [Object("a", "x" * 300, "text/plain", {"l": "v"}, 3, 2, 2), Object("b", b"", mod_revision=4), Object("c")]


class StateFileTest(unittest.TestCase):
    """Each test has a folder."""

    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.path = Path(self._folder.name) / "state"

    def file(self, resource: str = "config", limit: int = _LIMIT) -> StateFile:
        return StateFile(str(self.path), fanout_pb2.WatchRequest(resource=resource), limit)

    def test_a_state_is_read_as_it_was_written(self) -> None:
        self.assertEqual(self.file().read(), (Position(), []))
        self.file().write(Position("e", 5), _OBJECTS)
        self.assertEqual(self.file().read(), (Position("e", 5), _OBJECTS))
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        self.assertEqual([p.name for p in self.path.parent.iterdir()], ["state"])

    def test_each_damage_is_found(self) -> None:
        self.file().write(Position("e", 5), _OBJECTS)
        whole = self.path.read_bytes()
        for i in range(len(whole)):
            for damaged in [whole[:i], whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]]:
                self.path.write_bytes(damaged)
                with self.assertRaises(DamagedError):
                    self.file().read()

    def test_the_state_of_another_watch_is_not_used(self) -> None:
        self.file().write(Position("e", 5), _OBJECTS)
        with self.assertRaises(DamagedError):
            self.file("other").read()

    def test_files_are_bounded(self) -> None:
        with self.assertRaises(OSError):
            self.file(limit=100).write(Position("e", 5), _OBJECTS)
        self.file().write(Position("e", 5), _OBJECTS)
        with self.assertRaises(DamagedError):
            self.file(limit=100).read()


if __name__ == "__main__":
    unittest.main()
