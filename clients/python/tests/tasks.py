"""The asyncio tasks that are left after a test."""

from __future__ import annotations

import asyncio

_TIMEOUT = 300.0


async def only(expected: set[asyncio.Task[object]]) -> None:
    """Wait until no tasks but the expected ones are left: calls of gRPC end a moment after they are cancelled."""
    async with asyncio.timeout(_TIMEOUT):
        while left := asyncio.all_tasks() - expected:
            await asyncio.wait(left)
