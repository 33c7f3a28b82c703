"""A document with labels: paths become subscriptions to its subtrees, and subscriptions become previews.

    >>> from treecast.selective.labelled import LabelledDocument
    >>> document = LabelledDocument.read(b"<paper><news><item/><item/></news><sport/></paper>", spacing=1)
    >>> wanted = document.choose(["/paper"], exclude=["//news/item[2]"])
    >>> wanted.to_text(document.outline)
    '{(5,1)-(2,2)}'
    >>> document.preview(wanted)
    [b'<paper><news><item></item></news><sport></sport></paper>']
    >>> document.paths(wanted)
    [('/paper', ['/paper/news/item[2]'])]

Use it where a document is published, or where somebody decides who may see what. It holds the whole document in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from treecast import _native
from treecast.document import Bytes, Limits
from treecast.errors import QueryError
from treecast.selective.encoding import encode_folded
from treecast.selective.folded import Element, FoldedDocument, fold
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees, choose
from treecast.selective.view import forms_of, write_fragment


class LabelledDocument:
    """The elements of a document by their ids, and their outline."""

    def __init__(self, outline: Outline, elements: dict[int, Element], before: str = "", after: str = "") -> None:
        self.outline = outline
        self.elements = elements
        self.before = before
        self.after = after
        self._data: bytes | None = None
        self._ids_by_path: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}

    @classmethod
    def read(cls, data: Bytes, *, spacing: int | None = None, limits: Limits | None = None) -> Self:
        """Read a document; `spacing` as in `Outline`. Raises DocumentError."""
        return cls.from_folded(fold(data, limits=limits), spacing=spacing)

    @classmethod
    def from_folded(cls, folded: FoldedDocument, *, spacing: int | None = None) -> Self:
        outline = Outline(folded.parents, spacing=spacing)
        return cls(outline, dict(enumerate(folded.elements)), folded.before, folded.after)

    def __len__(self) -> int:
        return len(self.elements)

    def folded(self) -> FoldedDocument:
        """The elements in document order."""
        ids = list(self.outline)
        places = {id: place for place, id in enumerate(ids)}
        parents = [-1 if (above := self.outline.parent(id)) is None else places[above] for id in ids]
        return FoldedDocument([self.elements[id] for id in ids], parents, self.before, self.after)

    def to_bytes(self) -> bytes:
        """The document in canonical form."""
        if self._data is None:
            self._data = self.folded().to_bytes()
        return self._data

    def forget_caches(self) -> None:
        """To be called after the elements or the outline have been changed."""
        self._data = None
        self._ids_by_path.clear()

    def encode(self) -> bytes:
        """The paper's encoding, with the labels and ids as they are now."""
        return encode_folded(self.folded(), self.outline, list(self.outline))

    # -- paths

    def select(self, path: str, namespaces: Mapping[str, str] | None = None) -> list[int]:
        """The ids of the elements that a path selects, in document order. Raises QueryError."""
        bindings = tuple(sorted((namespaces or {}).items()))
        if (path, bindings) in self._ids_by_path:  # policies of many groups have the same paths
            return self._ids_by_path[path, bindings]
        items = _native.select(self.to_bytes(), path.encode(), list(bindings))
        if any(kind != 0 for kind, _ in items):
            raise QueryError(
                "subtrees begin with elements, and this path selects attributes or text", code="TC163", query=path,
                hint="select the element that has them",
            )  # fmt: skip
        ids = list(self.outline) if items else []
        self._ids_by_path[path, bindings] = [ids[number] for _, number in items]
        return self._ids_by_path[path, bindings]

    def choose(
        self,
        include: Iterable[str],
        *,
        exclude: Iterable[str] = (),
        namespaces: Mapping[str, str] | None = None,
    ) -> Subtrees:
        """A subscription: the subtrees that paths select, without those that others select, which win."""
        include_paths, exclude_paths = list(include), list(exclude)
        roots = {path: self.select(path, namespaces) for path in [*include_paths, *exclude_paths]}
        for path in include_paths:
            if not roots[path]:
                raise QueryError(
                    "the path selects no element of this document", code="TC163", query=path,
                    hint="treecast explain says how near it comes",
                )  # fmt: skip
        subtrees = choose(
            (id for path in include_paths for id in roots[path]),
            (id for path in exclude_paths for id in roots[path]),
            self.outline,
        )
        if not subtrees.parts:
            raise QueryError("everything that is asked for is excluded", code="TC163", hint="exclude less")
        return subtrees

    def paths(self, subtrees: Subtrees) -> list[tuple[str, list[str]]]:
        """For each subtree of a subscription a path that selects its root alone, and paths of what it excludes."""
        return [(self.path(part.root), [self.path(id) for id in part.without]) for part in subtrees.parts]

    def path(self, id: int) -> str:
        """A path that selects this element alone. An element in a namespace is `*`, so that no prefix is needed."""
        steps = []
        for one in (id, *self.outline.ancestors(id)):
            parent = self.outline.parent(one)
            siblings = [one] if parent is None else self.outline.children(parent)
            name = self._plain_name(one)
            alike = siblings if name is None else [other for other in siblings if self._plain_name(other) == name]
            steps.append((name or "*") + (f"[{alike.index(one) + 1}]" if len(alike) > 1 else ""))
        return "/" + "/".join(reversed(steps))

    def _plain_name(self, id: int) -> str | None:
        element = self.elements[id]
        prefix = element.name.rpartition(":")[0]
        return None if prefix or dict(element.bindings).get("") else element.name

    # -- views

    def fragment(self, part: Subtree) -> bytes:
        """What somebody sees of one subtree, in exclusive canonical form."""
        forms, children = forms_of(part, self.outline, self.elements)
        return write_fragment(part.root, forms, children)

    def preview(self, subtrees: Subtrees) -> list[bytes]:
        """What a subscriber would see: one fragment for each subtree."""
        return [self.fragment(part) for part in subtrees.parts]
