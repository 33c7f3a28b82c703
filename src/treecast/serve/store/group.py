"""A group of changes, reduced to what has to be written: the last change of each key counts.

>>> from treecast.overlay.storage import Delete, Put
>>> group = Group.of([Put("t", 1, b"old"), Put("t", 1, b"new"), Put("t", 2, b""), Delete("t", 2)])
>>> group.tables["t"].values
{1: b'new', 2: None}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from treecast.overlay.storage import Append, AppendMany, Change, Delete, DeleteBefore, DropBefore, Put, PutMany


@dataclass
class TableChanges:
    """First all keys less than `before` are deleted, then `values` are put; None deletes a key."""

    key_type: type
    values: dict[int | str, bytes | None] = field(default_factory=dict)
    before: int | None = None
    _lowest: int | None = None  # a bound: no key of `values` is less

    def change(self, key: int | str, value: bytes | None) -> None:
        if type(key) is not self.key_type:
            raise TypeError(f"the keys of this table are {self.key_type.__name__}, not {type(key).__name__}")
        self.values[key] = value
        if self.key_type is int and (self._lowest is None or key < self._lowest):  # type: ignore[operator]
            self._lowest = key  # type: ignore[assignment]

    def change_many(self, keys: Sequence[int | str], values: Sequence[bytes]) -> None:
        if set(map(type, keys)) != {self.key_type}:
            raise TypeError(f"the keys of this table are {self.key_type.__name__}, and one is not")
        self.values.update(zip(keys, values, strict=True))
        if self.key_type is int:
            lowest: int = min(keys)  # type: ignore[assignment]
            self._lowest = lowest if self._lowest is None else min(lowest, self._lowest)

    def delete_before(self, key: int) -> None:
        if self.key_type is not int:
            raise TypeError("only integer keys can be deleted by range")
        if self.before is None or key > self.before:
            self.before = key
        # Rows are mostly added at the end and deleted at the beginning, so there is seldom anything to look through.
        if self._lowest is not None and self._lowest < key:
            self.values = {kept: value for kept, value in self.values.items() if kept >= key}  # type: ignore[operator]
            self._lowest = min(self.values, default=None)  # type: ignore[assignment]


@dataclass
class Group:
    """The changes of one group, by what they concern."""

    tables: dict[str, TableChanges] = field(default_factory=dict)
    bodies: list[Append | AppendMany] = field(default_factory=list)
    drop_before: int | None = None

    @classmethod
    def of(cls, changes: Sequence[Change]) -> Group:
        group = cls()
        for change in changes:
            # PERF: bench/store.py; types are compared, as isinstance is slow where it says no.
            if type(change) is Put:
                group._table(change.table, type(change.key)).change(change.key, change.value)
            elif type(change) is PutMany:
                if change.keys:
                    group._table(change.table, type(change.keys[0])).change_many(change.keys, change.values)
            elif type(change) is Append or type(change) is AppendMany:
                group.bodies.append(change)
            elif type(change) is Delete:
                group._table(change.table, type(change.key)).change(change.key, None)
            elif type(change) is DeleteBefore:
                group._table(change.table, int).delete_before(change.key)
            else:
                assert isinstance(change, DropBefore)
                group.drop_before = max(change.number, group.drop_before or 0)
        return group

    def _table(self, name: str, key_type: type) -> TableChanges:
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = TableChanges(key_type)
        return table
