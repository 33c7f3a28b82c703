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

from treecast.document import Bytes, Limits
from treecast.errors import QueryError
from treecast.selective.encoding import encode_folded
from treecast.selective.folded import Element, FoldedDocument, fold
from treecast.selective.outline import Outline
from treecast.selective.selector import Selector
from treecast.selective.subtrees import Subtree, Subtrees, choose
from treecast.selective.view import forms_of, write_fragment


class LabelledDocument:
    """The elements of a document by their ids, and their outline."""

    def __init__(self, outline: Outline, elements: dict[int, Element], before: str = "", after: str = "") -> None:
        self.outline = outline
        self.elements = elements
        self.before = before
        self.after = after
        self._selector: Selector | None = None
        self._ids: list[int] = []  # in document order, once a path has asked for them

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
        return self.selector.data

    @property
    def selector(self) -> Selector:
        """What paths select in this version."""
        if self._selector is None:
            self._selector = Selector(self.folded())
        return self._selector

    @selector.setter
    def selector(self, selector: Selector) -> None:
        self._selector = selector

    def forget_caches(self) -> None:
        """To be called after the elements or the outline have been changed."""
        self._selector = None
        self._ids = []

    def encode(self) -> bytes:
        """The paper's encoding, with the labels and ids as they are now."""
        return encode_folded(self.folded(), self.outline, list(self.outline))

    # -- paths

    def select(self, path: str, namespaces: Mapping[str, str] | None = None) -> list[int]:
        """The ids of the elements that a path selects, in document order. Raises QueryError."""
        places = self.selector.places(path, namespaces)
        self._ids = self._ids or list(self.outline)
        return [self._ids[place] for place in places]

    def choose(
        self,
        include: Iterable[str],
        *,
        exclude: Iterable[str] = (),
        namespaces: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Subtrees:
        """A subscription: the subtrees that paths select, without those that others select, which win.

        Each path has to select something, unless `allow_empty`. Raises QueryError (TC163).
        """
        include_paths, exclude_paths = list(include), list(exclude)
        self.selector.check(include_paths, "inclusion", namespaces, allow_empty=allow_empty)
        self.selector.check(exclude_paths, "exclusion", namespaces, allow_empty=allow_empty)
        roots = {path: self.select(path, namespaces) for path in [*include_paths, *exclude_paths]}
        subtrees = choose(
            (id for path in include_paths for id in roots[path]),
            (id for path in exclude_paths for id in roots[path]),
            self.outline,
        )
        if not subtrees.parts and not allow_empty:
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
