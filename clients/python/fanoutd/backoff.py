"""Delays between retries."""

import random

__all__ = ["Backoff"]


class Backoff:
    """Computes random delays whose limit doubles with each retry.

    A delay lies between zero and the limit, so that clients that lose a server together do not come back
    together.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._retries = 0

    def next(self) -> float:
        """Return the seconds to wait before the next retry."""
        limit = min(self._first * 2 ** min(self._retries, 30), self._most)
        self._retries += 1
        return random.uniform(0, limit)

    def reset(self) -> None:
        """Make the next delay as short as the first one."""
        self._retries = 0
