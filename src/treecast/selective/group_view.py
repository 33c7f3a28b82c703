"""The view of one group as its publisher keeps it: elements in the form that the group sees, and when each changed.

A view lives on its own. Its versions count the changes of the view, not those of the document, and a new version of it
is compared with the last one by what the group sees, not by what the document is. So nothing that a group gets depends
on anything that it does not see: not the numbers of versions, not which elements count as changed, not their names.

    >>> from treecast.selective.group_view import GroupView
    >>> from treecast.selective.labelled import LabelledDocument
    >>> view = GroupView("paper", "desk", lambda id, version: (bytes([id]), bytes(32)))
    >>> for data in (b"<a><b>1</b></a>", b"<x><y/><b>1</b></x>", b"<a><b>1</b><b>2</b></a>"):
    ...     document = LabelledDocument.read(data)
    ...     print(view.refresh(document, document.choose(["//b"])), view.version, len(view.changes(view.version - 1)))
    True 1 1
    False 1 1
    True 2 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from treecast import _native
from treecast.selective.digests import element_digest, form_from, record_of, view_digest
from treecast.selective.folded import Element, FoldedDocument
from treecast.selective.labelled import LabelledDocument
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees
from treecast.selective.versions import apply_version
from treecast.selective.view import TOP, forms_of

Secrets = Callable[[int, int], tuple[bytes, bytes]]
"""The token of an element of a view, and its key in a version of the view."""


@dataclass(slots=True)
class ViewEntry:
    """One element of a view."""

    id: int
    token: bytes
    key: bytes
    record: bytes
    version: int
    """That of the view in which this element last changed."""
    digest: bytes | None = None
    """None where it has to be computed again."""


class SavedView(msgspec.Struct, frozen=True, array_like=True):
    """A view at rest: (id, parent, version, record) of each element, in document order."""

    version: int
    next_id: int
    rows: list[tuple[int, int, int, bytes]]


class GroupView:
    """What a group sees of a document, version after version."""

    def __init__(self, document: str, group: str, secrets: Secrets) -> None:
        self.document = document
        self.group = group
        self.version = 0
        self._secrets = secrets
        self._tree: LabelledDocument | None = None
        self._entries: dict[int, ViewEntry] = {}

    def refresh(self, document: LabelledDocument, subtrees: Subtrees) -> bool:
        """Bring the view up to date; says whether it has changed."""
        folded = fold_view(document, subtrees)
        if self._tree is None:
            self._tree = LabelledDocument.from_folded(folded)
            touched_ids = set(self._tree.outline)
        else:
            change = apply_version(self._tree, folded)
            touched_ids = set(change.changed | change.inserted)
            for id in change.removed:
                del self._entries[id]
        if not touched_ids:  # whatever lost a child has changed
            return False
        self.version += 1
        for id in sorted(touched_ids - {TOP}):
            token, key = self._secrets(id, self.version)
            record = record_of(self._tree.elements[id])
            self._entries[id] = ViewEntry(id, token, key, record, self.version)
        for id in touched_ids:
            for above in self._tree.outline.ancestors(id):
                if above != TOP:
                    self._entries[above].digest = None
        return True

    def shows(self, document: LabelledDocument, subtrees: Subtrees) -> bool:
        """Whether the view is these subtrees of this document."""
        return self._tree is not None and self._tree.folded() == fold_view(document, subtrees)

    def save(self) -> SavedView:
        """What is needed to go on later."""
        assert self._tree is not None
        outline = self._tree.outline
        rows = [
            (id, TOP if (above := outline.parent(id)) is None else above, entry.version, entry.record)
            for id in outline
            if (entry := self._entries.get(id)) is not None
        ]
        return SavedView(self.version, outline.next_id, rows)

    def restore(self, saved: SavedView) -> None:
        """Go on from what was saved."""
        self.version = saved.version
        outline = Outline.restore([(TOP, -1), *((id, parent) for id, parent, _, _ in saved.rows)], saved.next_id)
        elements = {id: form_from(record) for id, _, _, record in saved.rows}
        elements[TOP] = _top(len(outline.children(TOP)))
        self._tree = LabelledDocument(outline, elements)
        for id, _, version, record in saved.rows:
            self._entries[id] = ViewEntry(id, *self._secrets(id, version), record, version)

    @property
    def outline(self) -> Outline:
        """The structure of the view; its root is what holds the fragments together."""
        assert self._tree is not None
        return self._tree.outline

    def entry(self, id: int) -> ViewEntry:
        return self._entries[id]

    def subtree_digest(self, id: int) -> bytes:
        return self._digest(self._entries[id])

    def select(self, path: str, namespaces: Mapping[str, str] | None = None) -> list[int]:
        """The ids of the elements of the view that a path selects: each fragment is a document of its own."""
        ids_found: list[int] = []
        bindings = sorted((namespaces or {}).items())
        for top, data in zip(self.fragments(), self.texts(), strict=True):
            ids = list(self.outline.subtree(top.id))
            ids_found += [ids[number] for kind, number in _native.select(data, path.encode(), bindings) if kind == 0]
        return ids_found

    def texts(self) -> list[bytes]:
        """What the group sees, one document for each fragment."""
        assert self._tree is not None
        return [self._tree.fragment(Subtree(top.id)) for top in self.fragments()]

    def fragments(self) -> list[ViewEntry]:
        """The roots of the fragments, in document order."""
        return self.children(TOP)

    def children(self, id: int) -> list[ViewEntry]:
        assert self._tree is not None
        return [self._entries[child] for child in self._tree.outline.children(id)]

    def parent_token(self, id: int) -> bytes:
        """The token of the parent; empty for the root of a fragment."""
        assert self._tree is not None
        parent = self._tree.outline.parent(id)
        return b"" if parent in (None, TOP) else self._entries[parent].token

    def digest(self) -> bytes:
        """The digest of the view as it is."""
        return view_digest(self.document, self.group, self.version, [self._digest(entry) for entry in self.fragments()])

    def _digest(self, top: ViewEntry) -> bytes:
        waiting = [top]
        while waiting:
            entry = waiting[-1]
            below = self.children(entry.id) if entry.digest is None else []
            missing = [child for child in below if child.digest is None]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if entry.digest is None:
                digests = [child.digest or b"" for child in below]
                above = self.parent_token(entry.id)
                entry.digest = element_digest(self.document, entry.token, above, entry.version, entry.record, digests)
        assert top.digest is not None
        return top.digest

    def changes(self, since: int) -> list[ViewEntry]:
        """The entries that have changed after a version, in document order."""
        if self._tree is None:
            return []
        ids = (id for id in self._tree.outline if id != TOP)
        return [entry for id in ids if (entry := self._entries[id]).version > since]


def fold_view(document: LabelledDocument, subtrees: Subtrees) -> FoldedDocument:
    """What is seen of a document, as a document of its own: its fragments below one element without a name."""
    elements = [_top(len(subtrees.parts))]
    parents = [-1]
    for part in subtrees.parts:
        forms, children = forms_of(part, document.outline, document.elements)
        places: dict[int, int] = {}
        above = {child: id for id, below in children.items() for child in below}
        for id, form in forms.items():
            places[id] = len(elements)
            elements.append(form)
            parents.append(places[above[id]] if id in above else 0)
    return FoldedDocument(elements, parents)


def _top(fragments: int) -> Element:
    return Element("", (), (), (), ("",) * (fragments + 1))
