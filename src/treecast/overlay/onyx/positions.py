"""How far a broker has got with each root: every document up to there that concerns its subscribers is stored here.

A position only advances. It is stored in the group of the documents that it stands for: a crash takes back both, or
neither. If it advances without any document, there is no hurry: it is stored with whatever comes next, or now and then.
A position that is behind is safe. The broker asks again for what it knows already, and finds nothing in it.

    >>> from treecast.overlay.broker.turn import Turn
    >>> positions = Positions([])
    >>> positions.begin("b1", "5f1c", 0)
    >>> positions.advance("b1", 7)
    >>> positions.number("b1"), positions.is_known("b2")
    (7, False)
    >>> turn = Turn(0)
    >>> positions.store(turn)
    >>> len(turn.changes)
    1
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.overlay.broker.rows import Row, decode
from treecast.overlay.broker.turn import Turn

POSITIONS = "positions"


class PositionRow(Row, frozen=True):
    """`positions[root]`: of the data that `store` names, everything up to `number` is here."""

    store: str
    number: int


class Positions:
    """One number for each root."""

    def __init__(self, rows: Iterable[tuple[str, bytes]]) -> None:
        self._rows = {root: decode(data, PositionRow) for root, data in rows}
        self._changed: dict[str, None] = {}

    def is_known(self, root: str) -> bool:
        return bool(self.store_of(root))

    def number(self, root: str) -> int:
        row = self._rows.get(root)
        return row.number if row else 0

    def store_of(self, root: str) -> str:
        """What identifies the root's data; empty: not known yet."""
        row = self._rows.get(root)
        return row.store if row else ""

    def begin(self, root: str, store: str, number: int) -> None:
        """A root is new, or has lost its data and begins anew."""
        self._rows[root] = PositionRow(store, number)
        self._changed[root] = None

    def advance(self, root: str, number: int) -> None:
        row = self._rows[root]
        assert row.store, "documents without a store would count as this broker's own"
        if number > row.number:
            self._rows[root] = PositionRow(row.store, number)
            self._changed[root] = None

    def has_changed(self) -> bool:
        return bool(self._changed)

    def store(self, turn: Turn) -> None:
        """Add what has changed to the changes of a turn."""
        for root in self._changed:
            turn.put(POSITIONS, root, self._rows[root])
        self._changed.clear()

    def by_store(self) -> dict[str, int]:
        """The numbers, by what identifies the data of a root."""
        return {row.store: row.number for row in self._rows.values() if row.store}

    def items(self) -> list[tuple[str, int]]:
        return [(root, row.number) for root, row in self._rows.items()]
