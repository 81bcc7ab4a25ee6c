"""A server for the tests of programs that use the client::

    import fanoutd.sync
    from fanoutd.testing import Server

    with Server() as server, fanoutd.sync.Client(server.address) as client:
        client.resource("config").put("shop/limits", "1")
        server.cut_connections()

It is a process of the program ``fanouttest``: the real server, with a store in memory instead of etcd.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from types import TracebackType
from typing import Any

import grpc

__all__ = ["Server"]

_PROGRAM = "fanouttest"
_VARIABLE = "FANOUTTEST"

# How long the program may take to end. It cuts all connections, so it ends at once.
_END = 30.0


class Server:
    """A server with some resources, which are empty: by default one, ``config``.

    ``program`` is the path or name of the program. Default: the environment variable FANOUTTEST, or
    ``fanouttest`` in the folders of PATH.

    The server ends with ``with``, with ``close``, and with this process. Any number of threads may use it. Its
    methods wait until the server has obeyed, which takes milliseconds, also in a coroutine.
    """

    def __init__(self, *resources: str, program: str | None = None) -> None:
        self._program = _find(program)
        command = [self._program]
        for name in resources or ("config",):
            command += ["--resource", name]
        self._lock = threading.Lock()
        # In a session of its own, Ctrl-C reaches the tests only, which then end the server.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )
        try:
            self._address: str = self._read()["address"]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The address for clients. It stays the same when the server stops and starts."""
        return self._address

    def cut_connections(self) -> None:
        """Cut all connections, as a network does. Clients connect again and resume."""
        self._obey("cut_connections")

    def stop(self) -> None:
        """Make the server unreachable until ``start``."""
        self._obey("stop")

    def start(self) -> None:
        """Start the server after ``stop``. Its objects and positions are those from before."""
        self._obey("start")

    def refuse(self, code: grpc.StatusCode, reason: str) -> None:
        """Answer all requests with an error until ``accept``, those of watches, too.

        Whether clients try again depends on the code and the reason, such as ``Reason.NOT_READY``.
        """
        self._obey("refuse", code=code.name, reason=reason)

    def accept(self) -> None:
        """Serve requests again after ``refuse``."""
        self._obey("accept")

    def expire_positions(self) -> None:
        """Forget the history, so no watch can resume: each one gets an update with ``replace``.

        Watches with ``every_event`` end with ``Reason.POSITION_EXPIRED``.
        """
        self._obey("expire_positions")

    def new_epoch(self) -> None:
        """Have the same objects with other revisions, as after etcd was restored from a backup."""
        self._obey("new_epoch")

    def stop_etcd(self) -> None:
        """Make etcd unreachable for the server until ``start_etcd``.

        Writes and reads fail with ``Reason.STORE_UNAVAILABLE``, and copies become stale.
        """
        self._obey("stop_etcd")

    def start_etcd(self) -> None:
        """Make etcd reachable again."""
        self._obey("start_etcd")

    def close(self) -> None:
        """End the server for good."""
        with self._lock:
            assert self._process.stdin is not None and self._process.stdout is not None
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended already
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()

    def _obey(self, command: str, **arguments: str) -> None:
        with self._lock:
            assert self._process.stdin is not None
            if self._process.stdin.closed:
                raise ValueError("the server is closed")
            try:
                self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # reading tells why
            answer = self._read()
        if "error" in answer:
            raise ValueError(answer["error"])

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._program} has ended")
        return json.loads(line)


def _find(program: str | None) -> str:
    name = program or os.environ.get(_VARIABLE) or _PROGRAM
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"there is no program {name!r}: install {_PROGRAM}, which is in the archives of fanoutd's releases, or name "
            f"it with the argument 'program' or the environment variable {_VARIABLE}"
        )
    return found
