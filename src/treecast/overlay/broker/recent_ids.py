"""The ids of the documents that were published last, to recognise what is published again.

Ids come at one end and go at the other, all the time. They are kept in blocks that only grow and are dropped as a
whole: one large dictionary would be made anew every now and then, to get rid of its gaps. Copies of several megabytes
leave holes in the memory of a process that nothing else fits into.

    >>> ids = RecentIds(count_max=2)
    >>> for number, name in enumerate(("a", "b", "c"), 1):
    ...     ids.add(name, number, published_ms=number)
    >>> ids.forget(now_ms=3, age_ms_max=100)
    1
    >>> ids.number_of("a"), ids.number_of("c"), len(ids)
    (None, 3, 2)
"""

from __future__ import annotations

from array import array
from collections import deque

BLOCKS = 4
"""A block has so much of what is remembered. PERF: bench/broker_soak.py. All are looked through for an id that is new:
with 4 a document costs 1.4 µs more than with one dictionary, with 16 it is 4.6."""


class _Block:
    __slots__ = ("names", "numbers", "times")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.numbers = array("q")
        self.times = array("q")


class RecentIds:
    """Names of documents, and their numbers, which ascend. `forget` keeps the last `count_max`."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._block_max = max(1, count_max // BLOCKS)
        self._blocks: deque[_Block] = deque()
        self._begin = 0  # in the first block
        self._forgotten = 0  # the last number that was
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, name: str, number: int, published_ms: int) -> None:
        """A document that is not among these was published."""
        if not self._blocks or len(self._blocks[-1].numbers) >= self._block_max:
            self._blocks.append(_Block())
        block = self._blocks[-1]
        block.names[name] = number
        block.numbers.append(number)
        block.times.append(published_ms)
        self._count += 1

    def number_of(self, name: str) -> int | None:
        """None: it was not published lately."""
        for block in reversed(self._blocks):
            number = block.names.get(name)
            if number is not None:
                return number if number > self._forgotten else None
        return None

    def forget(self, now_ms: int, age_ms_max: int) -> int:
        """Drop those that are older, or too many; returns the last number of them, or 0."""
        last = 0
        while self._blocks:
            block = self._blocks[0]
            end = self._begin + max(0, self._count - self._count_max)
            while end < len(block.times) and now_ms - block.times[end] > age_ms_max:
                end += 1
            end = min(end, len(block.numbers))
            if end > self._begin:
                last = block.numbers[end - 1]
                self._count -= end - self._begin
                self._begin = end
            if end < len(block.numbers):
                break
            self._blocks.popleft()
            self._begin = 0
        self._forgotten = last or self._forgotten
        return last
