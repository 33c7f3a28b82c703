"""How far the deliveries of a subscription got: which documents are done, and which are still to be delivered.

A subscription may have acknowledged any of its deliveries, in any order. What is not done is limited by what is held in
memory; what is done while one delivery is tried again and again is not. So the documents that are open are kept.

    >>> progress = Progress(4, upto=9, open=frozenset({5, 7}))
    >>> [number for number in range(3, 12) if not progress.is_done(number)]
    [5, 7, 10, 11]
    >>> Progress.of(progress.row()) == progress
    True
"""

from __future__ import annotations

from typing import NamedTuple

from treecast.overlay.broker.rows import CursorRow


class Progress(NamedTuple):
    """Every delivery up to document `floor` is done, and after it every one up to `upto` that is not in `open`."""

    floor: int
    upto: int = 0
    open: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    """As well, in what an earlier version has stored."""

    @classmethod
    def of(cls, row: CursorRow) -> Progress:
        return cls(row.floor, row.upto, frozenset(row.open), frozenset(row.done))

    def row(self) -> CursorRow:
        return CursorRow(self.floor, sorted(self.done), self.upto, sorted(self.open))

    def is_done(self, document: int) -> bool:
        """Of a document that the subscription matches."""
        if document <= self.floor or document in self.done:
            return True
        return document <= self.upto and document not in self.open
