"""State files."""

import errno
import os
import socket
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

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
        request = fanout_pb2.WatchRequest(resource="config", json_values=True)
        with self.assertRaises(DamagedError):
            StateFile(str(self.path), request, 1 << 20).read()
        request = fanout_pb2.WatchRequest(resource="config", delivery=fanout_pb2.DELIVERY_LATEST)
        self.assertEqual(StateFile(str(self.path), request, 1 << 20).read()[0], Position("e", 5))

    def test_files_are_bounded(self) -> None:
        with self.assertRaises(OSError):
            self.file(limit=100).write(Position("e", 5), _OBJECTS)
        self.file().write(Position("e", 5), _OBJECTS)
        with self.assertRaises(DamagedError):
            self.file(limit=100).read()

    def test_only_regular_files_are_read_and_replaced(self) -> None:
        os.mkfifo(self.path.with_name("FIFO"))
        self.path.with_name("directory").mkdir()
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(self.path.with_name("socket")))
        self.path.with_name("device").symlink_to("/dev/null")
        self.path.with_name("link").symlink_to("FIFO")
        for name, kind in {"FIFO": "", "directory": "", "socket": "", "device": "", "link": "FIFO"}.items():
            with self.subTest(name):
                self.path = self.path.with_name(name)
                before = self.path.stat()
                message = f"{name} is a {kind or name}, not a regular file"
                with self.assertRaisesRegex(ValueError, message):
                    self.file().check()
                with self.assertRaisesRegex(DamagedError, message):
                    self.file().read()
                with self.assertRaisesRegex(OSError, message):
                    self.file().write(Position("e", 5), _OBJECTS)
                self.assertTrue(os.path.samestat(before, self.path.stat()))

    def test_the_target_of_a_link_is_replaced(self) -> None:
        (self.path.parent / "data").mkdir()
        target = self.path.parent / "data" / "target"
        self.path.symlink_to("data/target")
        for revision in (5, 6):  # there is no target at first
            self.file().write(Position("e", revision), _OBJECTS)
            self.assertTrue(self.path.is_symlink())
            self.assertEqual(self.file().read(), (Position("e", revision), _OBJECTS))
        self.assertEqual([p.name for p in target.parent.iterdir()], ["target"])

    def test_mode_owner_and_group_stay(self) -> None:
        self.file().write(Position("e", 5), _OBJECTS)
        self.path.chmod(0o640)
        old = self.path.stat()
        if os.geteuid() == 0:
            os.chown(self.path, 1234, 2345)
            old = self.path.stat()
        self.file().write(Position("e", 6), _OBJECTS)
        new = self.path.stat()
        self.assertEqual((new.st_mode, new.st_uid, new.st_gid), (old.st_mode, old.st_uid, old.st_gid))

    def test_a_file_whose_owner_cannot_be_kept_stays(self) -> None:
        self.file().write(Position("e", 5), _OBJECTS)
        old = self.path.stat()
        owner = f"{old.st_uid}:{old.st_gid}"
        for number in errno.EPERM, errno.EINVAL, errno.EROFS:
            for uid, gid in (old.st_uid + 1, old.st_gid), (old.st_uid, old.st_gid + 1):
                mine = mock.patch("os.fstat", return_value=mock.Mock(st_uid=uid, st_gid=gid))
                refused = mock.patch("os.fchown", side_effect=OSError(number, os.strerror(number)))
                with mine, refused, self.assertRaises(OSError) as failed:
                    self.file().write(Position("e", 6), _OBJECTS)
                self.assertEqual(failed.exception.errno, number)
                for part in str(self.path), owner, f"change its owner to {uid}:{gid}":
                    self.assertIn(part, str(failed.exception))
        self.assertTrue(os.path.samestat(old, self.path.stat()))
        self.assertEqual(list(self.path.parent.iterdir()), [self.path])

    def test_a_file_whose_mode_cannot_be_kept_stays(self) -> None:
        self.file().write(Position("e", 5), _OBJECTS)
        old = self.path.stat()
        refused = mock.patch("os.fchmod", side_effect=PermissionError(errno.EPERM, "Operation not permitted"))
        with refused, self.assertRaisesRegex(PermissionError, str(self.path)):
            self.file().write(Position("e", 6), _OBJECTS)
        self.assertTrue(os.path.samestat(old, self.path.stat()))
        self.assertEqual(list(self.path.parent.iterdir()), [self.path])

    def test_an_owner_that_is_right_is_not_changed(self) -> None:
        """Some file systems refuse any change of it."""
        self.file().write(Position("e", 5), _OBJECTS)
        with mock.patch("os.fchown", side_effect=OSError(errno.EINVAL, "Invalid argument")):
            self.file().write(Position("e", 6), _OBJECTS)
        self.assertEqual(self.file().read(), (Position("e", 6), _OBJECTS))

    def test_a_mounted_file_is_explained(self) -> None:
        with mock.patch("os.replace", side_effect=OSError(errno.EBUSY, "Device or resource busy")):
            with self.assertRaisesRegex(OSError, "mount point"):
                self.file().write(Position("e", 5), _OBJECTS)
        self.assertEqual(list(self.path.parent.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
