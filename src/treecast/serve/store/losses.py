"""Refuses to open a store that has lost something which was stored, before any of its files is changed.

What a crash may leave follows from the order in which a group is written (`store.py`): bodies of the one group that was
under way, behind the end of the last segment and in new ones. Everything that rows name is there. So these are losses:

- Tables that are older than the last group that was stored: SQLite's log was cut or deleted, or they were replaced.
- A segment that is missing, or shorter than its row says.

Flipped bits are not looked for: the store reads around them, and `verify` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treecast.serve.store import directory as layout
from treecast.serve.store import failures, last_group
from treecast.serve.store.log import Descriptor, SegmentRow, lost_path, read_whole, segment_path
from treecast.serve.store.segment import BODY_NUMBER_MAX, scan
from treecast.serve.store.tables import TablesView, view_tables

_NAMED_MAX = 5
"""Files in a message."""
_NO_DOCUMENTS = "No documents are lost, but subscriptions or acknowledgements are"


class _Loss(NamedTuple):
    """Bodies of one file that are lost, or would be."""

    path: Path
    reason: str
    bodies: int
    first: int
    last: int

    def __str__(self) -> str:
        count = f"{self.bodies} documents, {self.first} to {self.last}" if self.bodies > 1 else f"document {self.last}"
        return f"{layout.BODIES}/{self.path.name} {self.reason}: {count}"


def expect_no_loss(directory: Path, identity: layout.Identity) -> bool:
    """Look at a store that is complete, and not open. Raises StorageError TC422, and sqlite3.Error.

    Returns whether its owner has accepted that the tables are older: by removing `last-group`.
    """
    view = view_tables(directory / layout.TABLES)
    stored = last_group.read_last_group(directory, identity.mark)
    committed = view.last_group or 0
    if stored is not None and stored > committed:
        raise _older_tables(directory, list(_unnamed_bodies(directory, identity, view)), committed, stored)
    bodies, active = directory / layout.BODIES, view.segments[-1:]
    accepted = [row for row in view.segments if row not in active and lost_path(bodies, row.first).exists()]
    losses = [loss for row in view.segments if row not in accepted and (loss := _loss_of(bodies, row, identity))]
    if losses:
        has_active = any(loss.last == row.last for row in active for loss in losses)
        raise _lost_segments(directory, losses, has_active=has_active)
    return stored is None and view.last_group is not None


def _older_tables(directory: Path, losses: list[_Loss], committed: int, stored: int) -> Exception:
    return failures.damaged(
        f"{directory.name}/{layout.TABLES} is older than the rest of the store: it ends with group {committed}, but"
        f" group {stored} was stored. {_listed(losses) or _NO_DOCUMENTS}",
        f"put {layout.TABLES} and {layout.TABLES}-wal back as they were, or restore a backup;"
        f" to go on without what is lost, remove {directory.name}/{last_group.NAME}",
    )


def _lost_segments(directory: Path, losses: list[_Loss], *, has_active: bool) -> Exception:
    hint = f"put back what is missing in {directory.name}/{layout.BODIES}, or restore a backup"
    if not has_active:
        names = ", ".join(loss.path.with_suffix(".lost").name for loss in losses[:_NAMED_MAX])
        hint += f"; to go on without these documents, make empty files there: {names}"
    return failures.damaged(f"{directory.name} has lost documents. {_listed(losses)}", hint)


def _listed(losses: list[_Loss]) -> str:
    more = f"; and {len(losses) - _NAMED_MAX} files more" if len(losses) > _NAMED_MAX else ""
    return "; ".join(map(str, losses[:_NAMED_MAX])) + more


def _loss_of(bodies: Path, row: SegmentRow, identity: layout.Identity) -> _Loss | None:
    """What is lost of a segment."""
    path = segment_path(bodies, row.first)
    size = path.stat().st_size if path.exists() else -1
    if size >= row.size:
        return None
    if size < 0:
        return _Loss(path, "is missing", row.bodies, row.first, row.last)
    numbers = scan(read_whole(Descriptor(path), size), identity.mark, first=row.first, last=row.last).numbers
    first = numbers[-1] + 1 if numbers else row.first
    return _Loss(path, f"has {size} of {row.size} bytes", row.bodies - len(numbers), first, row.last)


def _unnamed_bodies(directory: Path, identity: layout.Identity, view: TablesView) -> Iterator[_Loss]:
    """The bodies behind those that the tables name."""
    active = view.segments[-1] if view.segments else SegmentRow(0, 0, 0, 0)
    for path in sorted((directory / layout.BODIES).glob("*.log")):
        first = int(path.stem) if path.stem.isdecimal() else 0
        if first <= active.last and first != active.first:
            continue
        begin = active.size if first == active.first else 0
        data = read_whole(Descriptor(path), path.stat().st_size)[begin:]
        numbers = scan(data, identity.mark, first=active.last + 1, last=BODY_NUMBER_MAX).numbers
        if numbers:
            yield _Loss(path, "has more than the tables name", len(numbers), numbers[0], numbers[-1])
