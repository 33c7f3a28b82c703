"""Storage in a simulated world: in memory, with the ways in which disks fail.

It keeps the promises of `treecast.overlay.storage`: a group of changes is written whole or not at all, and is durable
when `write` returns. A host writes in two steps, so that a crash can come between them: `append` hands a group to the
disk, `sync` makes it durable and visible. At a crash, the disk keeps some of the first groups that were not synced.

    >>> from random import Random
    >>> from treecast.overlay.storage import Put
    >>> storage = SimulatedStorage()
    >>> storage.write([Put("t", 1, b"durable")])
    >>> storage.append([Put("t", 1, b"not synced")])
    >>> storage.crash(Random(1))
    >>> storage.get("t", 1)
    b'durable'
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from random import Random
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
    StorageError,
    one_by_one,
)

UNSYNCED_GROUPS_MAX = 1_000


class _Table:
    """Rows, and their keys in order."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[int | str, bytes] = {}
        self.keys: list[Any] = []

    def put(self, key: int | str, value: bytes) -> None:
        if key not in self.rows:
            if not self.keys or key > self.keys[-1]:
                self.keys.append(key)
            else:
                insort(self.keys, key)
        self.rows[key] = value

    def delete(self, key: int | str) -> None:
        if self.rows.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def delete_before(self, key: int) -> None:
        end = bisect_left(self.keys, key)
        for row_key in self.keys[:end]:
            del self.rows[row_key]
        del self.keys[:end]


class SimulatedStorage:
    """Tables and bodies in memory. A world switches its faults on and off.

    `is_full` and `failing_syncs` make `sync` raise. After a failed sync every write fails until `open` is called, as on
    a real disk, where nobody knows what such a sync has dropped.
    """

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._bodies = _Table()
        self._body_bytes = 0
        self._last_body: int | None = None
        self._unsynced_groups: list[Sequence[Change]] = []
        self._uncertain: Sequence[Change] | None = None  # the group of a sync that failed
        self._damaged_bodies: set[int] = set()
        self.is_full = False
        self.is_broken = False
        self.failing_syncs = 0
        self.groups_written = 0

    # -- writing

    def write(self, changes: Sequence[Change]) -> None:
        self.append(changes)
        self.sync()

    def append(self, changes: Sequence[Change]) -> None:
        """Hand a group to the disk. It can be read only after `sync`, and a crash before that may lose it."""
        assert len(self._unsynced_groups) < UNSYNCED_GROUPS_MAX, "a host that never syncs"
        self._unsynced_groups.append(changes)

    def sync(self) -> None:
        """Make all groups durable. Raises StorageError, and then none of them is visible."""
        groups, self._unsynced_groups = self._unsynced_groups, []
        if self.is_broken:
            raise StorageError("an earlier sync failed, so this store must be opened anew", code="TC420")
        if self.is_full:
            raise StorageError("no space left on the simulated disk", code="TC421")
        if self.failing_syncs:
            self.failing_syncs -= 1
            self.is_broken = True
            self._uncertain = groups[0] if groups else None
            raise StorageError("the simulated disk failed to sync", code="TC420")
        for group in groups:
            self._apply(group)

    def crash(self, random: Random) -> None:
        """Lose what was not synced, or only the later groups of it."""
        for group in self._unsynced_groups[: random.randint(0, len(self._unsynced_groups))]:
            self._apply(group)
        self._unsynced_groups.clear()
        self.open(random)

    def open(self, random: Random) -> None:
        """Reopen, after a crash or a failed sync. The group of a failed sync may turn out to be there after all."""
        self._unsynced_groups.clear()
        if self._uncertain is not None and random.random() < 0.5:
            self._apply(self._uncertain)
        self._uncertain = None
        self.is_broken = False

    def lose(self) -> None:
        """The disk is gone; an empty one takes its place."""
        self._tables.clear()
        self._bodies = _Table()
        self._body_bytes = 0
        self._last_body = None
        self._unsynced_groups.clear()
        self._uncertain = None
        self._damaged_bodies.clear()
        self.is_broken = False

    def damage(self, random: Random) -> int | None:
        """One of the bodies cannot be read any more. Returns its number."""
        if not self._bodies.keys:
            return None
        number: int = random.choice(self._bodies.keys)
        self._damaged_bodies.add(number)
        return number

    def damaged_bodies(self) -> frozenset[int]:
        return frozenset(self._damaged_bodies)

    def _apply(self, group: Sequence[Change]) -> None:
        self.groups_written += 1
        for change in one_by_one(group):
            if isinstance(change, Put):
                self._table(change.table).put(change.key, change.value)
            elif isinstance(change, Append):
                assert self._last_body is None or change.number > self._last_body, "numbers of bodies ascend"
                self._last_body = change.number
                self._bodies.put(change.number, change.body)
                self._body_bytes += len(change.body)
            elif isinstance(change, Delete):
                self._table(change.table).delete(change.key)
            elif isinstance(change, DeleteBefore):
                self._table(change.table).delete_before(change.key)
            else:
                self._drop_before(change)

    def _drop_before(self, change: DropBefore) -> None:
        end = bisect_left(self._bodies.keys, change.number)
        self._body_bytes -= sum(len(self._bodies.rows[number]) for number in self._bodies.keys[:end])
        self._bodies.delete_before(change.number)

    def _table(self, name: str) -> _Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table()
        return table

    # -- reading

    def tables(self) -> dict[str, dict[int | str, bytes]]:
        """Copies of all tables, and of the bodies as one that is called `bodies`: for whoever compares."""
        return {name: dict(table.rows) for name, table in {**self._tables, "bodies": self._bodies}.items()}

    def get(self, table: str, key: int | str) -> bytes | None:
        contents = self._tables.get(table)
        return contents.rows.get(key) if contents is not None else None

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        rows = self._tables[table].rows if table in self._tables else {}
        return {key: rows[key] for key in keys if key in rows}

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        contents = self._tables.get(table)
        if contents is None:
            return []
        begin = bisect_right(contents.keys, after)
        return [(key, contents.rows[key]) for key in contents.keys[begin : begin + count_max]]

    def count(self, table: str) -> int:
        contents = self._tables.get(table)
        return len(contents.keys) if contents is not None else 0

    def body(self, number: int) -> bytes:
        body = self._bodies.rows.get(number)
        if body is None:
            raise BodyGoneError(number)
        if number in self._damaged_bodies:
            raise StorageError(f"document {number} is damaged on the simulated disk", code="TC422")
        return body

    def body_bytes(self) -> int:
        return self._body_bytes

    def first_body(self) -> int | None:
        return self._bodies.keys[0] if self._bodies.keys else None
