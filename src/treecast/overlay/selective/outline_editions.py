"""Outlines of trees in a network, which change: subtrees go and elements come, from one edition to the next.

    >>> from treecast.overlay.selective.outline_editions import change_to, rows_of
    >>> from treecast.selective.outline import Outline
    >>> outline = Outline([-1, 0, 0])
    >>> rows_of(outline)
    [(0, -1), (1, 0), (2, 0)]
    >>> change_to(outline, [(0, -1), (7, 0), (2, 0), (8, 2)])
    OutlineChange(removed=[1], inserted=[(7, 0, 0), (8, 2, 0)])

Everything here comes from strangers: what is no tree, or no change of this tree, gives None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from treecast.overlay.selective.selective_messages import (
    OutlineAsk,
    OutlineChange,
    OutlineChanges,
    OutlineRows,
    Rights,
)
from treecast.selective.outline import Outline

Row = tuple[int, int]


def rows_of(outline: Outline) -> list[Row]:
    """(id, parent) in document order."""
    return [(id, -1 if (parent := outline.parent(id)) is None else parent) for id in outline]


def outline_of(rows: Sequence[Row]) -> Outline | None:
    """The outline with these rows; None if they are no tree in document order."""
    if not rows or rows[0][1] != -1 or rows[0][0] < 0:
        return None
    path = [rows[0][0]]
    ids = {rows[0][0]}
    for id, parent in rows[1:]:
        while path and path[-1] != parent:
            path.pop()
        if not path or id in ids or id < 0:
            return None
        path.append(id)
        ids.add(id)
    return Outline.restore(rows, max(ids) + 1)


def change_to(outline: Outline, rows: Sequence[Row]) -> OutlineChange | None:
    """What makes these rows of an outline. None if what both have is in another place: ids do not move."""
    new = dict(rows)
    if rows[0] != (outline.root, -1):
        return None
    removed_tops = [
        id for id in outline if id not in new and (above := outline.parent(id)) is not None and above in new
    ]
    children: dict[int, int] = {}
    insertions: list[tuple[int, int, int]] = []
    for id, parent in rows[1:]:
        position = children.get(parent, 0)
        children[parent] = position + 1
        if id not in outline:
            insertions.append((id, parent, position))
        elif outline.parent(id) != parent:
            return None
    common_ids = [id for id, _ in rows if id in outline]
    if common_ids != [id for id in outline if id in new]:
        return None
    return OutlineChange(removed_tops, insertions)


def is_possible(outline: Outline, change: OutlineChange) -> bool:
    """Whether an outline can be changed in this way."""
    removed_ids: set[int] = set()
    for top in change.removed:
        if top not in outline or top == outline.root or top in removed_ids:
            return False
        removed_ids.update(outline.subtree(top))
    counts: dict[int, int] = {}
    for id, parent, position in change.inserted:
        if parent not in counts:
            if parent not in outline or parent in removed_ids:
                return False
            counts[parent] = sum(child not in removed_ids for child in outline.children(parent))
        if id < 0 or id in outline or id in counts or not 0 <= position <= counts[parent]:
            return False
        counts[parent] += 1
        counts[id] = 0
    return True


class Editions:
    """The editions of one tree's outline that a peer can tell others about."""

    def __init__(self, edition: int, rights: Rights, changes_max: int) -> None:
        self.edition = edition
        self.rights = rights
        self._changes: deque[OutlineChange] = deque(maxlen=changes_max)

    def add(self, change: OutlineChange, rights: Rights) -> None:
        """The next edition."""
        self._changes.append(change)
        self.edition += 1
        self.rights = rights

    def jump(self, edition: int, rights: Rights) -> None:
        """A later edition; what lies between is not known."""
        self._changes.clear()
        self.edition = edition
        self.rights = rights

    def answer(self, message: OutlineAsk, outline: Outline) -> OutlineRows | OutlineChanges | None:
        """What one who has that edition needs; None if it is this one or a later one."""
        if message.edition >= self.edition:
            return None
        missing = self.edition - message.edition
        if not message.edition or missing > len(self._changes):
            return OutlineRows(self.edition, self.rights, rows_of(outline))
        return OutlineChanges(message.edition, self.rights, list(self._changes)[-missing:])
