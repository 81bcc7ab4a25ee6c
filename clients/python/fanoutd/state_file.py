"""The last known good state in a file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from fanoutd.objects import Object, Position, object_from, object_to, position_from, position_to
from fanoutd.v1 import fanout_pb2, object_pb2

__all__ = ["DamagedError", "StateFile"]

# The number is the version of the format, which the Go client has, too.
_MAGIC = b"fanoutd last known good 1\n"
_HASH = hashlib.sha256().digest_size


class DamagedError(Exception):
    """A state file exists and cannot be used."""


class StateFile:
    """A file with the objects of a watch and their position.

    It consists of a line that names the format, the WatchRequest with the position, the objects, and the
    SHA-256 of all that. The length of each message precedes it. If the newest version of an object cannot be
    decoded, the last decoded version comes before it.

    A path that is something else than a regular file, or a link to one, is neither read nor replaced.
    """

    def __init__(self, path: str, watch: fanout_pb2.WatchRequest, max_bytes: int) -> None:
        self._path = Path(path)
        self._watch = fanout_pb2.WatchRequest(
            resource=watch.resource,
            omit_values=watch.omit_values,
            json_values=watch.json_values,
            label_selector=watch.label_selector,
            field_selector=watch.field_selector,
        )
        if watch.HasField("scope"):
            self._watch.scope.CopyFrom(watch.scope)
        self._max_bytes = max_bytes

    def check(self) -> None:
        """Raise ValueError if the path is not a regular file. It may be missing."""
        try:
            self._status()
        except _WrongKindError as error:
            raise ValueError(str(error)) from None
        except OSError:
            pass  # reading and writing report it

    def read(self) -> tuple[Position, list[Object]]:
        """Return the saved state. The position has revision 0 if there is no file."""
        try:
            status = self._status()
            if status is None:
                return Position(), []
            if status.st_size > self._max_bytes:
                raise DamagedError(f"{self._path}: the file has more than {self._max_bytes} bytes")
            return self._parse(self._path.read_bytes())
        except FileNotFoundError:
            return Position(), []
        except DamagedError:
            raise
        except Exception as error:  # the parsers raise many types
            raise DamagedError(f"{self._path}: {error}") from error

    def _status(self) -> os.stat_result | None:
        """Return the status of the file, or None if there is none. Opening a FIFO would wait for its other end."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for test, name in _KINDS if test(status.st_mode)), "special file")
            raise _WrongKindError(f"{self._path} is a {kind}, not a regular file")
        return status

    def _parse(self, content: bytes) -> tuple[Position, list[Object]]:
        if not content.startswith(_MAGIC):
            raise DamagedError(f"{self._path}: the file is of another kind")
        body, digest = content[:-_HASH], content[-_HASH:]
        if hashlib.sha256(body).digest() != digest:
            raise DamagedError(f"{self._path}: the file is damaged")
        parts = []
        view, at = memoryview(body), len(_MAGIC)
        while at < len(body):
            size, at = _length(view, at)
            parts.append(bytes(view[at : at + size]))
            at += size
        saved = fanout_pb2.WatchRequest.FromString(parts[0])
        position = position_from(saved.after)
        saved.ClearField("begin")
        if saved != self._watch:
            raise DamagedError(f"{self._path}: the file has the state of another watch")
        return position, [object_from(object_pb2.Object.FromString(part)) for part in parts[1:]]

    def write(self, position: Position, objects: Iterable[Object]) -> None:
        """Replace the file as a whole."""
        head = fanout_pb2.WatchRequest()
        head.CopyFrom(self._watch)
        head.after.CopyFrom(position_to(position))
        content = bytearray(_MAGIC)
        for message in [head.SerializeToString(), *(object_to(o).SerializeToString() for o in objects)]:
            content += _encoded(len(message))
            content += message
        content += hashlib.sha256(content).digest()
        if len(content) > self._max_bytes:
            raise OSError(f"{self._path}: the state has more than {self._max_bytes} bytes")
        self._replace(content)

    def _replace(self, content: bytearray) -> None:
        status = self._status()
        path = Path(os.path.realpath(self._path))  # a link stays, and its target is replaced
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)  # of a process that was killed
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                if status is not None:
                    _inherit(file.fileno(), path, status)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            if error.errno == errno.EBUSY:
                why = f"{path} is a mount point and cannot be replaced: mount its folder instead"
                raise OSError(errno.EBUSY, why) from error
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _WrongKindError(OSError):
    """The path is not a regular file."""


_KINDS = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def _inherit(fresh: int, path: Path, old: os.stat_result) -> None:
    """Give a new file the mode, the owner and the group of the one at the path, or raise OSError."""
    mine, mode = os.fstat(fresh), old.st_mode & 0o777
    try:
        if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(fresh, old.st_uid, old.st_gid)
        os.fchmod(fresh, mode)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot keep mode {mode:o} and owner {old.st_uid}:{old.st_gid} of {path} ({error.strerror}): "
            f"change its owner to {mine.st_uid}:{mine.st_gid}, or remove it",
        ) from error


def _encoded(length: int) -> bytes:
    """Return a length as a varint."""
    out = bytearray()
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out)


def _length(content: memoryview, at: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    length, shift = 0, 0
    while content[at] & 0x80:
        length |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return length | content[at] << shift, at + 1
