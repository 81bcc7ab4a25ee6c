"""The client."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from fanoutd.connection import Connection
from fanoutd.core import Core
from fanoutd.informer import Informer
from fanoutd.informer_watch import InformerWatches
from fanoutd.resource import Resource
from fanoutd.settings import Configured, Settings

__all__ = ["Client", "client_with"]


class Client(Configured):
    """A client of one or more servers over the same etcd.

    Use it in one event loop, which must run when it is made::

        async with Client("127.0.0.1:7420") as client:
            config = client.resource("config")
            print(await config.get("shop/limits"))

    ``servers`` is an address ``host:port``, several with commas between them or in a list, or a target of gRPC
    such as ``unix:/run/fanoutd.sock``. A server on this machine is reached in plaintext, others with TLS, unless
    ``insecure`` says otherwise.

    ``token`` is a bearer token, or a function (it may be a coroutine function) that returns one for each
    request; ``token_file`` is a file that has it. A token is never sent in plaintext to another machine.

    ``instance`` and ``labels`` name this program to operators. Default: ``HOST/PID``.

    ``logger`` gets the messages of the client. Default: ``logging.getLogger("fanoutd")``. ``interceptors`` are those
    of ``grpc.aio``, and ``options`` those of its channels. ``observer`` is called for what happens; see Observer.

    A client does not survive a fork of the process: calls in the child raise RuntimeError.
    """

    def _set_up(self, settings: Settings) -> None:
        self._core = Core(settings)
        self._informer_watches = InformerWatches(self._core)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def resource(self, name: str) -> Resource:
        """Return a handle of a resource: a collection of objects that the servers are configured with."""
        return Resource(self._core, self._informer_watches, name)

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._core.closed

    async def close(self) -> None:
        """End all watches and informers, and close all connections. Later calls fail with ClosedError.

        It may be called anywhere, and more than once. In a handler or another callback, it does not wait for the end.
        """
        await self._core.close()

    @property
    def informers(self) -> list[Informer[Any]]:
        """The informers that are running."""
        return [i for i in self._core.informers if isinstance(i, Informer)]

    async def connection(self) -> Connection:
        """Return a connection with the generated stubs ``reads``, ``writes`` and ``admin``, for other requests.

        Use it in a ``with`` block, which keeps it open.
        """
        self._core.check_open()
        return await self._core.servers.connect()


def client_with(settings: Settings) -> Client:
    """Return a client with the settings of a client without asyncio."""
    client = Client.__new__(Client)
    client._set_up(settings)
    return client
