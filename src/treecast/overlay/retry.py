"""When to try again: after a while, then after twice as long, and so on, with jitter. No clock of its own.

    >>> from random import Random
    >>> retry = Retry(Random(1), first_ms=100, max_ms=1000)
    >>> retry.is_due(0)
    True
    >>> retry.start(0)
    >>> retry.is_due(40), retry.is_due(100)
    (False, True)
    >>> [retry.start(100), retry.is_due(190)]
    [None, False]

Jitter keeps peers that failed together from trying again together. A clock that was set back makes everything due.
"""

from __future__ import annotations

from random import Random


class Retry:
    """Waits between half of its time and all of it; the time doubles with each `start` until `reset`."""

    __slots__ = ("_first_ms", "_max_ms", "_random", "_since_ms", "_wait_ms", "count")

    def __init__(self, random: Random, first_ms: int, max_ms: int) -> None:
        self._random = random
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._since_ms: int | None = None
        self._wait_ms = 0
        self.count = 0
        """How often it was started since the last success."""

    def start(self, now_ms: int) -> None:
        """An attempt begins now."""
        time_ms = min(self._max_ms, self._first_ms << min(self.count, 30))
        self._wait_ms = self._random.randint((time_ms + 1) // 2, time_ms)
        self._since_ms = now_ms
        self.count += 1

    def is_due(self, now_ms: int) -> bool:
        """It is time for the next attempt. Before the first it always is."""
        since = self._since_ms
        return since is None or not since <= now_ms < since + self._wait_ms

    def due_in_ms(self, now_ms: int) -> int:
        """How long to wait for the next attempt; 0: it is due."""
        return 0 if self.is_due(now_ms) else self._wait_ms - (now_ms - (self._since_ms or 0))

    def reset(self) -> None:
        """An attempt succeeded: the next one begins with the shortest time."""
        self._since_ms = None
        self.count = 0


def is_due(since_ms: int | None, wait_ms: int, now_ms: int) -> bool:
    """Whether so much time has passed since then: also if that never was, or if the clock was set back."""
    return since_ms is None or not since_ms <= now_ms < since_ms + wait_ms
