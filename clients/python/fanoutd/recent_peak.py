"""The largest value that a number had within a period."""

from __future__ import annotations

from collections import deque

__all__ = ["RecentPeak"]


class RecentPeak:
    """The largest value of a number within the last seconds of a period."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._current = 0
        # Earlier values that are larger than all later ones, each with the time until which it counts.
        self._former: deque[tuple[int, float]] = deque()

    def set(self, now: float, n: int) -> None:
        """Change the number."""
        if n < self._current and self._period > 0:
            self._former.append((self._current, now + self._period))
        while self._former and self._former[-1][0] <= n:
            self._former.pop()
        self._current = n

    def max(self, now: float) -> int:
        """Return the largest value of the period that ends now."""
        while self._former and self._former[0][1] <= now:
            self._former.popleft()
        return self._former[0][0] if self._former else self._current

    def falls(self) -> float | None:
        """Return when ``max`` becomes smaller if the number does not change. Call it after ``max``."""
        return self._former[0][1] if self._former else None
