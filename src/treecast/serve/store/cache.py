"""A small map that forgets what was used least recently. Safe to use from several threads; never waits for a disk.

>>> cache = Cache(count_max=2)
>>> for number in (1, 2, 1, 3):
...     cache.put(number, str(number))
>>> cache.get(1), cache.get(2)
('1', None)
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cache(Generic[Value]):
    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._values: OrderedDict[int, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: int) -> Value | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: int, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._count_max:
                self._values.popitem(last=False)

    def remove(self, key: int) -> None:
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
