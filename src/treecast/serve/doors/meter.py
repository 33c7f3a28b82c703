"""Rates: counts that only grow, looked at once a second, for the last minute.

Use it for what people watch; `/metrics` has the same counts for those who keep them.

>>> meter = Meter(("published",), 60)
>>> for second in range(4):
...     meter.sample(second * 1_000, (second * 5,))
>>> meter.rates(2), meter.history(3)
([5.0], [[5.0, 5.0, 5.0]])
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

STEP_MS = 1_000


class Meter:
    """Keeps one sample a second. Counts that fall, because what counts was rebuilt, go on from where they were."""

    def __init__(self, names: tuple[str, ...], seconds: int) -> None:
        self.names = names
        self._samples: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=seconds + 1)
        self._last = (0,) * len(names)
        self._totals = self._last

    def is_due(self, now_ms: int) -> bool:
        return not self._samples or now_ms - self._samples[-1][0] >= STEP_MS

    def sample(self, now_ms: int, counts: tuple[int, ...]) -> None:
        """`now_ms` is of a clock that never goes back."""
        self._totals = self.totals(counts)
        self._last = counts
        self._samples.append((now_ms, self._totals))

    def totals(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """How much there was of each, up to these counts."""
        increases = [new - old if new >= old else new for new, old in zip(counts, self._last, strict=True)]
        return tuple(total + more for total, more in zip(self._totals, increases, strict=True))

    def rates(self, seconds: int) -> list[float]:
        """By second, over the last so many seconds, or as many as there were."""
        if len(self._samples) < 2:
            return [0.0] * len(self.names)
        end_ms, end = self._samples[-1]
        begin_ms, begin = self._samples[max(len(self._samples) - 1 - seconds, 0)]
        seconds_passed = max(end_ms - begin_ms, 1) / 1_000
        return [round((new - old) / seconds_passed, 2) for new, old in zip(end, begin, strict=True)]

    def history(self, seconds: int) -> list[list[float]]:
        """For each name the rates of the last seconds, the newest last; zeros before there were any."""
        steps = list(pairwise(self._samples))[-seconds:]
        rows = [[0.0] * (seconds - len(steps)) for _ in self.names]
        for (begin_ms, begin), (end_ms, end) in steps:
            seconds_passed = max(end_ms - begin_ms, 1) / 1_000
            for row, new, old in zip(rows, end, begin, strict=True):
                row.append(round((new - old) / seconds_passed, 2))
        return rows
