"""Documents that are not needed any more are dropped: by age, by size, and never before they were delivered.

Only what nobody waits for is dropped for its age (`keep_ms`) or to make room (`keep_bytes`). What somebody has waited
for longer than `undelivered_ms_max` becomes a dead letter, which holds its payload, and is dropped then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.rows import DOCUMENTS, DocumentRow
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import DeleteBefore, DropBefore


class Retention:
    """Drops documents from the beginning."""

    def __init__(self, shadow: Shadow, archive: Archive, backlog: Backlog, settings: BrokerSettings) -> None:
        self._shadow = shadow
        self._archive = archive
        self._backlog = backlog
        self._settings = settings
        self._next_ms = 0
        self.needed_by_others: Callable[[], int] | None = None
        """In a network: the first document that another broker may still ask for."""

    def tick(self, turn: Turn) -> None:
        if turn.now_ms < self._next_ms:
            return
        self._next_ms = turn.now_ms + self._settings.retention_step_ms
        rows = self._rows()
        excess = self._shadow.body_bytes() - self._settings.keep_bytes
        needed_from = self._backlog.needed_from()
        if self.needed_by_others is not None:
            needed_from = min(needed_from, self.needed_by_others())
        overdue = drop = 0
        for number, row in rows:
            age = turn.now_ms - row.published_ms
            if number >= needed_from:
                if age <= self._settings.undelivered_ms_max:
                    break
                overdue = number
            elif age <= self._settings.keep_ms and excess <= 0:
                break
            drop = number
            excess -= row.bytes
        if overdue:
            self._backlog.expire_before(overdue + 1, turn)
        if drop:
            self._drop(drop, turn)

    def _rows(self) -> Iterator[tuple[int, DocumentRow]]:
        """The first documents. Mostly one is enough: nothing is dropped before it is."""
        first = self._archive.rows_after(0, 1)
        yield from first
        if first and self._settings.retention_rows_max > 1:
            yield from self._archive.rows_after(first[0][0], self._settings.retention_rows_max - 1)

    def _drop(self, last: int, turn: Turn) -> None:
        turn.changes.append(DeleteBefore(DOCUMENTS, last + 1))
        for _, kept in self._archive.rows_after(last, 1):
            turn.changes.append(DropBefore(kept.body))
        self._archive.rows.forget_before(last + 1)
