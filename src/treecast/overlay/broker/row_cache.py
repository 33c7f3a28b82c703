"""A bounded cache of decoded rows of one table, read through the shadow."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic

from treecast.overlay.broker.rows import AnyRow, decode
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Key


class RowCache(Generic[Key, AnyRow]):
    """Rows by their keys; those that were remembered longest ago make room for others."""

    def __init__(self, shadow: Shadow, table: str, kind: type[AnyRow], rows_max: int) -> None:
        self._shadow = shadow
        self._table = table
        self._kind = kind
        self._rows_max = rows_max
        self._rows: OrderedDict[Key, AnyRow] = OrderedDict()

    def get(self, key: Key) -> AnyRow | None:
        """The row as it is stored, or about to be; None if there is none."""
        row = self._rows.get(key)
        if row is None:
            data = self._shadow.get(self._table, key)
            if data is None:
                return None
            row = decode(data, self._kind)
            self.remember(key, row)
        return row

    def remember(self, key: Key, row: AnyRow) -> None:
        """A row that was read, or that is about to be stored."""
        self._rows[key] = row
        self._rows.move_to_end(key)
        if len(self._rows) > self._rows_max:
            self._rows.popitem(last=False)

    def forget(self, key: Key) -> None:
        self._rows.pop(key, None)

    def forget_before(self, key: Key) -> None:
        for other in [other for other in self._rows if other < key]:
            del self._rows[other]
