"""A storage as its peer sees it: with the changes that the peer has asked for, whether or not they are durable yet.

A peer is ahead of its storage: what it asked to store a moment ago may still be on its way to the disk. Reading through
a `Shadow`, it finds its own changes at once. When they are durable, the shadow forgets them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from treecast.overlay.storage import (
    Append,
    BodyGoneError,
    Change,
    Delete,
    DeleteBefore,
    DropBefore,
    Key,
    Put,
    PutMany,
    Storage,
)

SCANNED_AT_ONCE = 1_000


class Shadow:
    """Reads from a storage, under changes that are not durable yet."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._group = 0
        self._groups: deque[tuple[int, list[tuple[str, Sequence[int | str]]], list[int]]] = deque()
        self._rows: dict[str, dict[int | str, tuple[int, bytes | None]]] = {}
        self._bodies: dict[int, bytes] = {}
        self._deleted_before: dict[str, int] = {}
        self._dropped_before = 0

    def apply(self, changes: Iterable[Change]) -> int:
        """Remember changes that were asked for; returns the number of their group, for `durable`."""
        self._group += 1
        keys: list[tuple[str, Sequence[int | str]]] = []
        bodies: list[int] = []
        for change in changes:
            # PERF: bench/network_cpu.py; types are compared, which is faster than patterns.
            if type(change) is Append:
                self._bodies[change.number] = change.body
                bodies.append(change.number)
            elif type(change) is Put:
                self._rows.setdefault(change.table, {})[change.key] = (self._group, change.value)
                keys.append((change.table, (change.key,)))
            elif type(change) is PutMany:
                values = zip(repeat(self._group), change.values, strict=False)
                self._rows.setdefault(change.table, {}).update(zip(change.keys, values, strict=True))
                keys.append((change.table, change.keys))
            elif type(change) is Delete:
                self._rows.setdefault(change.table, {})[change.key] = (self._group, None)
                keys.append((change.table, (change.key,)))
            elif type(change) is DeleteBefore:
                self._deleted_before[change.table] = max(change.key, self._deleted_before.get(change.table, 0))
            else:
                assert isinstance(change, DropBefore)
                self._dropped_before = max(change.number, self._dropped_before)
        self._groups.append((self._group, keys, bodies))
        return self._group

    def durable(self, group: int) -> None:
        """All groups up to this one are in the storage."""
        while self._groups and self._groups[0][0] <= group:
            number, keys, bodies = self._groups.popleft()
            for table, some in keys:
                rows = self._rows[table]
                for key in some:
                    row = rows.get(key)
                    if row is not None and row[0] == number:  # else it has changed again since
                        del rows[key]
            for body in bodies:
                del self._bodies[body]

    def waiting(self) -> int:
        """How many groups are not known to be durable."""
        return len(self._groups)

    def get(self, table: str, key: int | str) -> bytes | None:
        rows = self._rows.get(table)
        if rows and key in rows:
            return rows[key][1]
        if isinstance(key, int) and key < self._deleted_before.get(table, 0):
            return None
        return self._storage.get(table, key)

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The values of those keys that exist."""
        pending: Any = self._rows.get(table, {})
        before = self._deleted_before.get(table, 0)
        keys = list(keys)
        stored = [key for key in keys if key not in pending and not (isinstance(key, int) and key < before)]
        rows = self._storage.get_many(table, stored)
        rows.update((key, pending[key][1]) for key in keys if key in pending and pending[key][1] is not None)
        return rows

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        """Up to `count_max` rows after a key, ascending; none only if there are no more."""
        pending: Any = self._rows.get(table, {})
        before = self._deleted_before.get(table)
        if before is not None and isinstance(after, int):
            after = max(after, before - 1)
        while True:
            stored = self._storage.scan(table, after, count_max)
            if not pending:
                return stored
            is_last = len(stored) < count_max
            end = None if is_last else stored[-1][0]
            rows = {key: value for key, value in stored if key not in pending}
            for key, (_, value) in pending.items():
                if value is not None and key > after and (end is None or key <= end):
                    rows[key] = value
            if rows or end is None:
                return sorted(rows.items())[:count_max]
            after = end

    def stored_count(self, table: str) -> int:
        """How many rows are stored, whatever was asked for since."""
        return self._storage.count(table)

    def rows(self, table: str, after: Key, step: int = SCANNED_AT_ONCE) -> Iterator[tuple[Key, bytes]]:
        """All rows after a key, ascending, read `step` at a time. Changes may be made between them."""
        while rows := self.scan(table, after, step):
            yield from rows
            after = rows[-1][0]

    def body(self, number: int) -> bytes:
        if number in self._bodies:
            return self._bodies[number]
        if number < self._dropped_before:
            raise BodyGoneError(number)
        return self._storage.body(number)

    def body_bytes(self) -> int:
        return self._storage.body_bytes()
