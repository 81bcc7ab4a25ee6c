"""Updates: read an object, change it, and write it unless it was changed meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from fanoutd.backoff import Backoff
from fanoutd.errors import Error, NotFoundError, PreconditionFailedError
from fanoutd.objects import Object
from fanoutd.requests import Metadata
from fanoutd.values import Value, value_of

__all__ = ["Attempts"]

T = TypeVar("T")

# The time for all attempts, unless the caller sets another one.
_TIMEOUT = 30.0


class Attempts:
    """The attempts of one update. Their user calls ``read`` and ``write`` in turns, until ``write`` succeeds."""

    def __init__(
        self,
        get: Callable[..., Awaitable[Object]],
        put: Callable[..., Awaitable[int]],
        key: str,
        ttl: float | None,
        metadata: Metadata,
        timeout: float | None,
    ) -> None:
        """``get`` and ``put`` are those of a resource."""
        self._get, self._put = get, put
        self._key, self._ttl, self._metadata = key, ttl, metadata
        self._due = time.monotonic() + (_TIMEOUT if timeout is None else timeout)
        self._pauses = Backoff(0.005, 1.0)
        self._old: Object | None = None

    async def read(self) -> Object | None:
        """Return the object, or None if there is none."""
        try:
            self._old = await self._get(self._key, metadata=self._metadata, timeout=self._left())
        except NotFoundError:
            self._old = None
        return self._old

    async def of(self, value: Awaitable[T]) -> T:
        """Wait for the new value."""
        limit = asyncio.timeout(self._left())
        try:
            async with limit:
                return await value
        except TimeoutError:
            if limit.expired():
                raise self._late("the new value takes too long") from None
            raise

    async def write(self, new: str | bytes | Value | None) -> int | None:
        """Write the new value, and return the revision. None: the object was changed, begin again after a pause.

        What the value does not say stays as it is.
        """
        at = 0 if self._old is None else self._old.mod_revision
        if new is None:
            return at
        value = value_of(new)
        if self._old is not None:
            value = value.completed_by(self._old)
        try:
            return await self._put(
                self._key, value, if_revision=at, ttl=self._ttl, keep_ttl=self._ttl is None,
                metadata=self._metadata, timeout=self._left(),
            )  # fmt: skip
        except PreconditionFailedError as error:
            pause = self._pauses.next()
            if pause >= self._due - time.monotonic():
                raise self._late(error.message) from error
            await asyncio.sleep(pause)
            return None

    def _left(self) -> float:
        left = self._due - time.monotonic()
        if left <= 0:
            raise self._late("there is no time for a further request")
        return left

    def _late(self, why: str) -> Error:
        return Error(grpc.StatusCode.DEADLINE_EXCEEDED, f"the update of {self._key} has no success in time: {why}")
