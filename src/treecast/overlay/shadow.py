"""A storage as its peer sees it: with the changes that the peer has asked for, whether or not they are durable yet.

A peer is ahead of its storage: what it asked to store a moment ago may still be on its way to the disk. Reading through
a `Shadow`, it finds its own changes at once. When they are durable, the shadow forgets them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from treecast.overlay.storage import (
    Append,
    AppendMany,
    BodyGoneError,
    Change,
    Delete,
    DeleteBefore,
    DropBefore,
    Key,
    Put,
    PutMany,
    Storage,
    packed_body,
)

SCANNED_AT_ONCE = 1_000


_UNKNOWN = object()
_LAYERS_MAX = 32
_LAYER_ROWS_MIN = 16
_first = attrgetter("first")


class _Rows:
    """Rows of one table in one group; None where one was deleted. Many that came at once are left as they came, until
    somebody looks for one: few are read before they are durable."""

    __slots__ = ("_came", "_rows")

    def __init__(self) -> None:
        self._rows: dict[int | str, bytes | None] = {}
        self._came: PutMany | None = None

    def __len__(self) -> int:
        return len(self._rows) if self._came is None else len(self._came.keys)

    def put_many(self, change: PutMany) -> None:
        if not self._rows and self._came is None:
            self._came = change
        else:
            self.all.update(zip(change.keys, change.values, strict=True))

    @property
    def all(self) -> dict[int | str, bytes | None]:
        if self._came is not None:
            self._rows.update(zip(self._came.keys, self._came.values, strict=True))
            self._came = None
        return self._rows


class _PendingRows:
    """Rows of one table that are not durable yet.

    PERF: bench/network_cpu.py. The rows of a large group are a *layer*, as they came: nothing is done for each of them.
    All others are in one dictionary, with the numbers of their groups, so that there are never many layers.
    """

    __slots__ = ("_layers", "_rows")

    def __init__(self) -> None:
        self._rows: dict[int | str, tuple[int, bytes | None]] = {}
        self._layers: deque[tuple[int, _Rows]] = deque()

    def __bool__(self) -> bool:
        return bool(self._rows or self._layers)

    def add(self, group: int, rows: _Rows) -> None:
        if len(rows) >= _LAYER_ROWS_MIN and len(self._layers) < _LAYERS_MAX:
            self._layers.append((group, rows))
        else:
            self._rows.update((key, (group, value)) for key, value in rows.all.items())

    def remove(self, group: int, rows: _Rows) -> None:
        """A group, the first that there is, is durable."""
        if self._layers and self._layers[0][0] == group:
            self._layers.popleft()
            return
        for key in rows.all:
            row = self._rows.get(key)
            if row is not None and row[0] == group:  # else it has changed again since
                del self._rows[key]

    def find(self, key: int | str) -> object:
        """The value; None if it was deleted, `_UNKNOWN` if it is not here."""
        group, value = self._rows.get(key, (0, _UNKNOWN))
        for number, rows in reversed(self._layers):
            if number < group:
                break
            if key in rows.all:
                return rows.all[key]
        return value

    def merged(self) -> dict[int | str, bytes | None]:
        merged: dict[int | str, bytes | None] = {}
        groups: dict[int | str, int] = {}
        for number, rows in self._layers:
            merged.update(rows.all)
            groups.update(dict.fromkeys(rows.all, number))
        for key, (group, value) in self._rows.items():
            if group > groups.get(key, 0):
                merged[key] = value
        return merged


class _Group:
    """The changes of one call: rows by table, None where one was deleted, and bodies."""

    __slots__ = ("bodies", "number", "rows", "runs")

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: dict[str, _Rows] = {}
        self.bodies: list[int] = []
        self.runs = 0

    def table(self, name: str) -> _Rows:
        rows = self.rows.get(name)
        if rows is None:
            rows = self.rows[name] = _Rows()
        return rows


class Shadow:
    """Reads from a storage, under changes that are not durable yet."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._group = 0
        self._groups: deque[_Group] = deque()
        self._tables: dict[str, _PendingRows] = {}
        self._bodies: dict[int, bytes] = {}
        self._runs: list[AppendMany] = []  # their numbers ascend
        self._deleted_before: dict[str, int] = {}
        self._dropped_before = 0

    def apply(self, changes: Iterable[Change]) -> int:
        """Remember changes that were asked for; returns the number of their group, for `durable`."""
        self._group += 1
        group = _Group(self._group)
        for change in changes:
            # PERF: bench/network_cpu.py; types are compared, which is faster than patterns.
            if type(change) is AppendMany:
                self._runs.append(change)
                group.runs += 1
            elif type(change) is PutMany:
                group.table(change.table).put_many(change)
            elif type(change) is Append:
                self._bodies[change.number] = change.body
                group.bodies.append(change.number)
            elif type(change) is Put:
                group.table(change.table).all[change.key] = change.value
            elif type(change) is Delete:
                group.table(change.table).all[change.key] = None
            elif type(change) is DeleteBefore:
                self._deleted_before[change.table] = max(change.key, self._deleted_before.get(change.table, 0))
            else:
                assert isinstance(change, DropBefore)
                self._dropped_before = max(change.number, self._dropped_before)
        for name, rows in group.rows.items():
            table = self._tables.get(name)
            if table is None:
                table = self._tables[name] = _PendingRows()
            table.add(group.number, rows)
        self._groups.append(group)
        return group.number

    def durable(self, group: int) -> None:
        """All groups up to this one are in the storage."""
        while self._groups and self._groups[0].number <= group:
            known = self._groups.popleft()
            for name, rows in known.rows.items():
                self._tables[name].remove(known.number, rows)
            for body in known.bodies:
                del self._bodies[body]
            del self._runs[: known.runs]

    def waiting(self) -> int:
        """How many groups are not known to be durable."""
        return len(self._groups)

    def get(self, table: str, key: int | str) -> bytes | None:
        rows = self._tables.get(table)
        if rows and (found := rows.find(key)) is not _UNKNOWN:
            return found  # type: ignore[return-value]
        if isinstance(key, int) and key < self._deleted_before.get(table, 0):
            return None
        return self._storage.get(table, key)

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The values of those keys that exist."""
        pending = self._pending(table)
        before = self._deleted_before.get(table, 0)
        keys = list(keys)
        stored = [key for key in keys if key not in pending and not (isinstance(key, int) and key < before)]
        rows = self._storage.get_many(table, stored)
        rows.update((key, pending[key]) for key in keys if key in pending and pending[key] is not None)
        return rows

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        """Up to `count_max` rows after a key, ascending; none only if there are no more."""
        pending = self._pending(table)
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
            for key, value in pending.items():
                if value is not None and key > after and (end is None or key <= end):
                    rows[key] = value
            if rows or end is None:
                return sorted(rows.items())[:count_max]
            after = end

    def _pending(self, table: str) -> dict[Any, Any]:
        rows = self._tables.get(table)
        return rows.merged() if rows is not None else {}

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
        if (run := self._run_of(number)) is not None:
            return run.body(number)
        if number < self._dropped_before:
            raise BodyGoneError(number)
        return self._storage.body(number)

    def packed(self, ranges: Iterable[tuple[int, int]]) -> list[bytes | memoryview]:
        """Bodies from one number to another, as they travel. Those that are not durable yet are views of what was asked
        for. PERF: bench/network_cpu.py: nothing is done for each."""
        parts: list[bytes | memoryview] = []
        for first, last in ranges:
            while first <= last:
                run = self._run_of(first)
                upto = min(last, run.last) if run is not None else first
                parts.append(packed_body(self.body(first)) if run is None else run.packed(first, upto))
                first = upto + 1
        return parts

    def _run_of(self, number: int) -> AppendMany | None:
        place = bisect_right(self._runs, number, key=_first)
        return self._runs[place - 1] if place and number <= self._runs[place - 1].last else None

    def body_bytes(self) -> int:
        return self._storage.body_bytes()
