"""The Python client of fanoutd. It reads, writes and watches objects, and keeps local copies of them::

    import asyncio, fanoutd

    async def main():
        async with fanoutd.Client("127.0.0.1:7420") as client:
            async for update in client.resource("config").watch(prefix="shop"):
                print(update.position.revision, [(e.type.value, e.key) for e in update.events])

    asyncio.run(main())

``fanoutd.sync`` has the same without asyncio.
"""

from fanoutd import decode
from fanoutd.client import Client
from fanoutd.credentials import TLS, TokenSource
from fanoutd.errors import ClosedError, Error, NotFoundError, PreconditionFailedError, Reason, Violation
from fanoutd.handler import Handler, HandlerFunction
from fanoutd.history import HistoryEntry, HistoryKind
from fanoutd.informer import Informer
from fanoutd.item import Change, Decoder, Item, Snapshot
from fanoutd.objects import Event, EventType, LastChange, Object, Position, Update
from fanoutd.observer import (
    HandlerFailed,
    Observer,
    RequestEnded,
    WatchEnded,
    WatchInterrupted,
    WatchOpened,
    WatchReceived,
)
from fanoutd.requests import Metadata
from fanoutd.resource import Check, Delete, Page, Put, Resource, Transaction
from fanoutd.state_file import DamagedError
from fanoutd.values import Value
from fanoutd.version import VERSION as __version__
from fanoutd.wait_status import NotReachedError, PendingWatch, RefusedError, WaitServer, WaitStatus
from fanoutd.watch import Watch

__all__ = [
    "TLS",
    "Change",
    "Check",
    "Client",
    "ClosedError",
    "DamagedError",
    "Decoder",
    "Delete",
    "Error",
    "Event",
    "EventType",
    "Handler",
    "HandlerFailed",
    "HandlerFunction",
    "HistoryEntry",
    "HistoryKind",
    "Informer",
    "Item",
    "LastChange",
    "Metadata",
    "NotFoundError",
    "NotReachedError",
    "Object",
    "Observer",
    "Page",
    "PendingWatch",
    "Position",
    "PreconditionFailedError",
    "Put",
    "Reason",
    "RefusedError",
    "RequestEnded",
    "Resource",
    "Snapshot",
    "TokenSource",
    "Transaction",
    "Update",
    "Value",
    "Violation",
    "WaitServer",
    "WaitStatus",
    "Watch",
    "WatchEnded",
    "WatchInterrupted",
    "WatchOpened",
    "WatchReceived",
    "__version__",
    "decode",
]
