"""A token bucket: a rate, and a second of it in advance.

>>> bucket = Bucket(10, now_ms=0)
>>> bucket.take(10, now_ms=0), bucket.take(1, now_ms=0), bucket.take(1, now_ms=100)
(0, 100, 0)
"""

from __future__ import annotations

import math


class Bucket:
    """What costs more than a second's worth is allowed from a full bucket, and then waited for."""

    __slots__ = ("_level", "_rate", "_seen_ms")

    def __init__(self, per_second: int, now_ms: int) -> None:
        self._rate = per_second
        self._level = float(per_second)
        self._seen_ms = now_ms

    def take(self, cost: int, now_ms: int) -> int:
        """0 if it is allowed, and taken; else the milliseconds to wait, and nothing is taken."""
        wait = self.wait_ms(cost, now_ms)
        if not wait:
            self._level -= cost
        return wait

    def wait_ms(self, cost: int, now_ms: int) -> int:
        """How long until this much is allowed."""
        gain = self._rate * max(now_ms - self._seen_ms, 0) / 1000
        self._level = min(self._level + gain, self._rate)
        self._seen_ms = now_ms
        missing = min(cost, self._rate) - self._level
        return math.ceil(missing * 1000 / self._rate) if missing > 0 else 0
