"""Reads, writes and watches of one resource."""

from __future__ import annotations

import contextlib
import datetime
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fanoutd.core import Core
from fanoutd.history import HistoryEntry, entry_from, history_request
from fanoutd.informer import Informer
from fanoutd.informer_watch import InformerWatches
from fanoutd.item import Decoder
from fanoutd.local_copy import LocalCopy
from fanoutd.objects import LastChange, Object, Position, object_from, position_from, time_from
from fanoutd.requests import Metadata
from fanoutd.selection import consistency, scope, watch_request
from fanoutd.state_file import StateFile
from fanoutd.update import Attempts
from fanoutd.v1 import fanout_pb2, store_pb2
from fanoutd.values import Value, value_of
from fanoutd.wait import SETTLE, Options, statuses, wait_request
from fanoutd.wait_status import WaitStatus
from fanoutd.watch import Watch
from fanoutd.watcher import Watcher

__all__ = ["Check", "Delete", "Page", "Put", "Resource", "Transaction"]

T = TypeVar("T")

BOOKMARK_INTERVAL = 10.0


@dataclass(slots=True)
class Put:
    """An operation of a transaction: store an object."""

    key: str
    value: str | bytes | Value
    if_revision: int | None = None
    """Only if the object has this mod_revision; 0: if there is none."""
    ttl: float | None = None
    """Remove the object after so many seconds."""
    keep_ttl: bool = False
    """Keep the time to live of the object."""
    overwrite_opaque: bool = False
    """Replace the object also if the server cannot decode or decrypt it. It may belong to another program."""


@dataclass(slots=True)
class Delete:
    """An operation of a transaction: remove an object."""

    key: str
    if_revision: int | None = None
    """Only if the object has this mod_revision."""


@dataclass(slots=True)
class Check:
    """An operation of a transaction: write nothing, but require this mod_revision; 0: no object."""

    key: str
    revision: int


@dataclass(slots=True)
class Transaction:
    """The result of a transaction."""

    revision: int
    """The revision of all its writes."""
    deleted: list[bool]
    """For each operation, whether it has removed an object."""


@dataclass(slots=True)
class Page:
    """A part of a list."""

    objects: list[Object]
    position: Position
    """The position of the whole list."""
    next_token: str
    """The token of the next page. Empty on the last one."""
    remaining: int | None
    """The number of objects after this page, if the server knows it."""


class Resource:
    """A handle of one resource. ``Client.resource`` returns it."""

    def __init__(self, core: Core, informer_watches: InformerWatches, name: str) -> None:
        self._core, self._informer_watches = core, informer_watches
        self.name = name

    async def get(
        self,
        key: str,
        *,
        allow_stale: bool = False,
        min_revision: int | None = None,
        at_revision: int | None = None,
        last_change: bool = False,
        json_values: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> Object:
        """Return an object. Raise NotFoundError if there is none.

        By default the answer has every write that was acknowledged before. ``allow_stale`` accepts what a server
        knows without asking etcd, ``min_revision`` a state of this revision or a later one, and ``at_revision``
        reads the past. ``last_change`` sets that field of the object, and needs the right "history" as well.
        ``json_values`` returns values of the codec "protobuf" in their JSON form. ``metadata`` is sent with the request,
        here and elsewhere. ``timeout`` is in seconds, for all attempts together; default: 30.
        """
        request = fanout_pb2.GetRequest(
            resource=self.name,
            key=key,
            consistency=consistency(allow_stale, min_revision, at_revision),
            last_change=last_change,
            json_values=json_values,
        )
        response = await self._core.call("reads", "Get", request, timeout, True, metadata)
        o = object_from(response.object)
        if response.HasField("ttl"):
            o.ttl = response.ttl.seconds + response.ttl.nanos / 1e9
        if response.HasField("last_change"):
            c = response.last_change
            o.last_change = LastChange(c.author, time_from(c.time.seconds, c.time.nanos), c.message)
        return o

    async def list_page(
        self,
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        start_key: str = "",
        page_size: int = 0,
        page_token: str = "",
        allow_stale: bool = False,
        min_revision: int | None = None,
        at_revision: int | None = None,
        json_values: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> Page:
        """Return one page of a list. ``list`` returns all objects."""
        request = fanout_pb2.ListRequest(
            resource=self.name,
            scope=scope(prefix, key),
            consistency=consistency(allow_stale, min_revision, at_revision),
            label_selector=label_selector,
            field_selector=field_selector,
            start_key=start_key,
            page_size=page_size,
            page_token=page_token,
            json_values=json_values,
        )
        response = await self._core.call("reads", "List", request, timeout, True, metadata)
        remaining = response.remaining_count if response.HasField("remaining_count") else None
        return Page(
            [object_from(o) for o in response.objects],
            position_from(response.position),
            response.next_page_token,
            remaining,
        )

    async def list(
        self,
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        start_key: str = "",
        page_size: int = 0,
        allow_stale: bool = False,
        min_revision: int | None = None,
        at_revision: int | None = None,
        json_values: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> AsyncIterator[Object]:
        """Iterate over objects in order of their keys, all as they were at one revision.

        The pages are fetched during the iteration, with the ``timeout`` for each of them. It fails with the reason
        PAGE_TOKEN_EXPIRED if the servers forget the revision before its end.
        """
        token = ""
        stale, least, exact = allow_stale, min_revision, at_revision
        while True:
            page = await self.list_page(
                prefix=prefix, key=key, label_selector=label_selector, field_selector=field_selector,
                start_key=start_key, page_size=page_size, page_token=token,
                allow_stale=stale, min_revision=least, at_revision=exact,
                json_values=json_values, metadata=metadata, timeout=timeout,
            )  # fmt: skip
            for o in page.objects:
                yield o
            token = page.next_token
            if not token:
                return
            stale, least, exact = False, None, None  # the token names the revision

    async def count(
        self,
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        allow_stale: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> int:
        """Return the number of objects that ``list`` would return."""
        request = fanout_pb2.ListRequest(
            resource=self.name,
            scope=scope(prefix, key),
            label_selector=label_selector,
            field_selector=field_selector,
            consistency=consistency(allow_stale, None, None),
            count_only=True,
        )
        response = await self._core.call("reads", "List", request, timeout, True, metadata)
        return int(response.remaining_count)

    async def put(
        self,
        key: str,
        value: str | bytes | Value,
        *,
        if_revision: int | None = None,
        ttl: float | None = None,
        keep_ttl: bool = False,
        overwrite_opaque: bool = False,
        message: str = "",
        skip_validation: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> int:
        """Store an object, and return the revision of the write.

        With ``if_revision``, the object must have this mod_revision (0: there must be none); otherwise
        PreconditionFailedError is raised. ``overwrite_opaque`` replaces an object also if the server cannot decode or
        decrypt it. ``message`` is why the caller writes: the history of the resource keeps it, with the name of the caller
        and the time. ``skip_validation`` writes although the validation rules of the resource refuse it. The caller needs
        the right "skip-validation" as well, and the audit log notes it.

        A write that fails with UNAVAILABLE may have been applied: the client does not repeat it, because only the caller
        knows whether that does harm.
        """
        operation = _put(Put(key, value, if_revision, ttl, keep_ttl, overwrite_opaque))
        request = store_pb2.PutRequest(
            resource=self.name, put=operation, message=message, skip_validation=skip_validation
        )
        return int((await self._core.call("writes", "Put", request, timeout, False, metadata)).revision)

    async def validate(
        self,
        key: str,
        value: str | bytes | Value,
        *,
        if_revision: int | None = None,
        overwrite_opaque: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> None:
        """Ask the server whether its validation rules allow a put, and write nothing.

        A refusal is an Error with the reason VALUE_REFUSED, whose ``violations`` are the faults. A revision is not
        compared, but ``if_revision=0`` means that there is no object. ``overwrite_opaque`` is that of ``put``: rules that
        compare a value with the old one need it where the server cannot decode or decrypt the old one.
        """
        operation = _put(Put(key, value, if_revision, overwrite_opaque=overwrite_opaque))
        request = store_pb2.PutRequest(resource=self.name, put=operation, validate_only=True)
        await self._core.call("writes", "Put", request, timeout, False, metadata)

    async def delete(
        self,
        key: str,
        *,
        if_revision: int | None = None,
        message: str = "",
        skip_validation: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> bool:
        """Remove an object. Return whether there was one.

        ``message`` and ``skip_validation`` are those of ``put``.
        """
        request = store_pb2.DeleteRequest(
            resource=self.name, delete=_delete(Delete(key, if_revision)), message=message, skip_validation=skip_validation
        )
        return bool((await self._core.call("writes", "Delete", request, timeout, False, metadata)).deleted)

    async def transact(
        self,
        *operations: Put | Delete | Check,
        message: str = "",
        skip_validation: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> Transaction:
        """Apply all operations at one revision, or none. Each must have a key of its own.

        ``message`` and ``skip_validation`` are those of ``put``, for all operations.
        """
        request = store_pb2.TransactRequest(resource=self.name, message=message, skip_validation=skip_validation)
        for operation in operations:
            match operation:
                case Put():
                    request.operations.add(put=_put(operation))
                case Delete():
                    request.operations.add(delete=_delete(operation))
                case Check():
                    request.operations.add().check.CopyFrom(
                        store_pb2.CheckOperation(key=operation.key, mod_revision=operation.revision)
                    )
                case _:
                    raise TypeError(f"an operation is a Put, a Delete or a Check, not {type(operation).__name__}")
        response = await self._core.call("writes", "Transact", request, timeout, False, metadata)
        return Transaction(response.revision, [r.deleted for r in response.results])

    async def update(
        self,
        key: str,
        change: Callable[[Object | None], str | bytes | Value | None | Awaitable[str | bytes | Value | None]],
        *,
        ttl: float | None = None,
        message: str = "",
        skip_validation: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> int:
        """Read an object, change it, and write it unless it was changed meanwhile. Otherwise start over.

        ``change`` gets the object, or None if there is none, and returns the new value, or None to leave it.
        It may be called several times. Return the revision of the write, or of the object if it stays.

        The object keeps its labels, its content type and its time to live, unless a returned ``Value`` or ``ttl``
        has others. ``message`` and ``skip_validation`` are those of ``put``. ``timeout`` is for all of it, with the calls
        of ``change``; by default it is 30 seconds.
        """
        put = functools.partial(self.put, message=message, skip_validation=skip_validation)
        attempts = Attempts(self.get, put, key, ttl, metadata, timeout)
        while True:
            result = change(await attempts.read())
            value = await attempts.of(result) if inspect.isawaitable(result) else result
            revision = await attempts.write(value)
            if revision is not None:
                return revision

    async def history(
        self,
        *,
        prefix: str | None = None,
        key: str | None = None,
        up_to: int | None = None,
        at: datetime.datetime | None = None,
        values: bool = False,
        page_size: int = 0,
        json_values: bool = False,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> AsyncIterator[HistoryEntry]:
        """Iterate over the writes to an object, to the objects below a path, or to all of them, newest first.

        It begins with the newest write, with that of a revision or before it (``up_to``), or at a time or before it
        (``at``). ``values`` adds the objects as they were written. The pages are fetched during the iteration, with the
        ``timeout`` for each of them; ``page_size`` is how many writes one has, at most 1000 (default: 100). It fails with
        the reason NO_HISTORY if the resource has none. The caller needs the right "history".
        """
        request = history_request(
            self.name, prefix=prefix, key=key, up_to=up_to, at=at, values=values, page_size=page_size,
            json_values=json_values,
        )  # fmt: skip
        while True:
            response = await self._core.call("reads", "History", request, timeout, True, metadata)
            for entry in response.entries:
                yield entry_from(entry)
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    async def revision_at(
        self,
        time: datetime.datetime,
        *,
        prefix: str | None = None,
        key: str | None = None,
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> int:
        """Return the revision that a time means: that of the last write of the resource at the time or before it.

        It is the same for every prefix and key, and 0 if the history has no such write. The caller needs the right
        "history" to the prefix or the key, or to the whole resource.
        """
        request = history_request(self.name, prefix=prefix, key=key, at=time, page_size=1)
        return int((await self._core.call("reads", "History", request, timeout, True, metadata)).revision)

    def watch(
        self,
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        after: Position | None = None,
        from_now: bool = False,
        omit_values: bool = False,
        previous_object: bool = False,
        latest: bool = False,
        every_event: bool = False,
        max_batch_delay: float | None = None,
        allow_stale: bool = False,
        min_revision: int | None = None,
        at_revision: int | None = None,
        json_values: bool = False,
        metadata: Metadata = (),
        bookmark_interval: float = BOOKMARK_INTERVAL,
        reports: bool = True,
        on_interruption: Callable[[BaseException], None] | None = None,
    ) -> Watch:
        """Return an asynchronous iterator over the state and all later changes; see Watch.

        It begins with the present state, ``after`` a position that an earlier watch had, or ``from_now``.
        ``latest`` merges the events that wait for a slow caller. ``every_event`` makes it an error if events
        would be skipped. ``bookmark_interval`` is how often, in seconds, the server confirms a quiet watch;
        after three intervals of silence the client takes another connection. Without ``reports``, the server does
        not learn what the caller has applied, and operators who wait for a change do not wait for this watch.
        """
        self._core.check_open()
        request = watch_request(
            self.name, prefix=prefix, key=key, label_selector=label_selector, field_selector=field_selector,
            after=after, from_now=from_now, omit_values=omit_values, previous_object=previous_object, latest=latest,
            every_event=every_event, max_batch_delay=max_batch_delay, allow_stale=allow_stale,
            min_revision=min_revision, at_revision=at_revision, json_values=json_values,
        )  # fmt: skip
        watcher = Watcher(
            self._core, request, metadata=metadata, bookmark_interval=bookmark_interval, reports=reports,
            on_interruption=on_interruption,
        )  # fmt: skip
        return Watch(watcher)

    def informer(
        self,
        decode: Decoder[T],
        *,
        prefix: str | None = None,
        key: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        omit_values: bool = False,
        latest: bool = False,
        max_batch_delay: float | None = None,
        allow_stale: bool = False,
        min_revision: int | None = None,
        json_values: bool = False,
        metadata: Metadata = (),
        bookmark_interval: float = BOOKMARK_INTERVAL,
        state_file: str | None = None,
        max_state_bytes: int = 1 << 30,
        on_interruption: Callable[[BaseException], None] | None = None,
        on_error: Callable[[Object | None, Exception], None] | None = None,
    ) -> Informer[T]:
        """Return an informer: a copy of objects that is kept up to date; see Informer.

        ``decode`` makes the values of the informer: ``decode.as_json``, ``decode.as_object``, another function of
        that module, or one of yours. With ``state_file``, the copy is saved in this file, together with its
        position, and begins with it. The file has all values in plain text.

        ``on_error`` is called for an object that cannot be decoded, and without an object for a state file that
        cannot be used.
        """
        self._core.check_open()
        request = watch_request(
            self.name, prefix=prefix, key=key, label_selector=label_selector, field_selector=field_selector,
            omit_values=omit_values, latest=latest, max_batch_delay=max_batch_delay, allow_stale=allow_stale,
            min_revision=min_revision, json_values=json_values,
        )  # fmt: skip
        copy = LocalCopy(
            self._core, self._informer_watches, request, decode, metadata=metadata,
            bookmark_interval=bookmark_interval,
            state_file=None if state_file is None else StateFile(state_file, request, max_state_bytes),
            on_interruption=on_interruption, on_error=on_error,
        )  # fmt: skip
        return Informer(copy)

    async def wait(
        self,
        revision: int,
        *,
        prefix: str | None = None,
        key: str | None = None,
        subscribers: str = "",
        instance: str = "",
        require_all: bool = False,
        quorum: float = 1.0,
        tolerate: int = 0,
        min_watches: int = 1,
        allow_missing_servers: bool = False,
        settle: float = SETTLE,
        timeout: float | None = None,
        progress: Callable[[WaitStatus], Any] | None = None,
    ) -> WaitStatus:
        """Wait until a share of the affected watches, over all servers, has applied a revision.

        It asks each server of the client, and each address of a DNS name: a server knows only its own watches. It
        needs the right ``admin`` to the resource.

        ``prefix`` and ``key`` select the watches whose own scope overlaps this one, ``subscribers`` those whose
        programs have these labels (``"app=cart"``), and ``instance`` those of one program. Watches that do not
        report are only listed, except with ``require_all``.

        ``quorum`` is the share that must have applied the revision, ``tolerate`` how many may fail, and
        ``min_watches`` the least number of affected watches. Set it where it is known: otherwise a subscriber that
        is not connected is not missed. A watch that has ended counts for another ``settle`` seconds, because its
        client may be on its way to another server.

        Every server must have answered once, except with ``allow_missing_servers``. ``progress`` is called with
        each change of the status, and once a second. It may be a coroutine function. What it raises ends the wait.

        Raises RefusedError at once if more watches than ``tolerate`` have failed, NotReachedError after
        ``timeout`` seconds (default: never), and Error if a server refuses the request.
        """
        found = statuses(
            self._core,
            wait_request(
                self.name, revision, prefix=prefix, key=key, subscribers=subscribers, instance=instance,
                require_all=require_all,
            ),
            Options(quorum, tolerate, min_watches, allow_missing_servers, settle, timeout),
        )  # fmt: skip
        async with contextlib.aclosing(found):
            async for status in found:
                if progress is not None and inspect.isawaitable(told := progress(status)):
                    await told
        return status


def _put(p: Put) -> store_pb2.PutOperation:
    value = value_of(p.value)
    operation = store_pb2.PutOperation(
        key=p.key,
        content_type=value.content_type or "",
        labels=dict(value.labels or {}),
        keep_ttl=p.keep_ttl and p.ttl is None,
    )
    operation.overwrite_opaque = p.overwrite_opaque
    if isinstance(value.data, str):
        operation.text = value.data
    else:
        operation.data = value.data
    if p.if_revision is not None:
        operation.if_mod_revision = p.if_revision
    if p.ttl is not None:
        operation.ttl.FromMilliseconds(round(1000 * p.ttl))
    return operation


def _delete(d: Delete) -> store_pb2.DeleteOperation:
    operation = store_pb2.DeleteOperation(key=d.key)
    if d.if_revision is not None:
        operation.if_mod_revision = d.if_revision
    return operation


