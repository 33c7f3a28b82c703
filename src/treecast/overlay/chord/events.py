"""The start events of a document, labelled with (L:R,D), as they travel from peer to peer; whole or in fragments.

L and R count start and end tags with one counter, D is the depth (section 5.2). A fragment is a subtree and the
elements that lead to it. It has the same labels as the whole, so nothing depends on which of the two a peer was sent.

    >>> events = Events.of(read(b"<a><b/><c><d/></c></a>"))
    >>> events.left, events.right, events.depth
    ([1, 2, 4, 5], [8, 3, 7, 6], [0, 1, 1, 2])
    >>> part = events.fragment(4)
    >>> [part.names[name] for name in part.name]
    [('', 'a'), ('', 'c'), ('', 'd')]
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.document import Document, read
from treecast.overlay.messages import Number

EVENTS_MAX = 10_000_000
ROOT = 0
"""Stands for the document, above its first element."""
_MANY = msgspec.Meta(max_length=EVENTS_MAX)

__all__ = ["EVENTS_MAX", "ROOT", "EventTree", "Events", "read"]


class Events(msgspec.Struct, frozen=True, array_like=True):
    """Columns, in document order."""

    names: Annotated[list[tuple[str, str]], _MANY]
    name: Annotated[list[Number], _MANY]
    left: Annotated[list[Number], _MANY]
    right: Annotated[list[Number], _MANY]
    depth: Annotated[list[Number], _MANY]

    @classmethod
    def of(cls, document: Document) -> Events:
        numbers: dict[tuple[str, str], int] = {}
        name = [numbers.setdefault(each, len(numbers)) for each in document.names]
        labels = document.labels
        return cls(list(numbers), name, *(([label[place] for label in labels]) for place in range(3)))

    def __len__(self) -> int:
        return len(self.name)

    def fragment(self, element: int, depth_max: int | None = None) -> Events:
        """What is inside the element that begins at `element`, up to so many levels below, and what leads to it."""
        if element == ROOT:
            places = list(range(len(self)))
            base = -1
        else:
            at = self.left.index(element)
            base = self.depth[at]
            right = self.right[at]
            above = [i for i in range(at) if self.left[i] < element and self.right[i] > right]
            places = above + [i for i in range(at, len(self)) if self.left[i] < right]
        if depth_max is not None:
            places = [i for i in places if self.depth[i] <= base + depth_max]
        number_by_name: dict[int, int] = {}
        name = [number_by_name.setdefault(self.name[i], len(number_by_name)) for i in places]
        columns = ([column[i] for i in places] for column in (self.left, self.right, self.depth))
        return Events([self.names[number] for number in number_by_name], name, *columns)


class EventTree:
    """Events with who is inside whom, for one who filters."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self._place = {left: place for place, left in enumerate(events.left)}
        self._children: dict[int, list[int]] = {ROOT: []}
        self._parent: dict[int, int] = {}
        open_elements = [ROOT]
        for left, depth in zip(events.left, events.depth, strict=True):
            del open_elements[depth + 1 :]
            self._children[open_elements[-1]].append(left)
            self._children[left] = []
            self._parent[left] = open_elements[-1]
            open_elements.append(left)

    def __contains__(self, element: int) -> bool:
        return element in self._children

    def children(self, element: int) -> list[int]:
        return self._children[element]

    def name(self, element: int) -> tuple[str, str]:
        return self.events.names[self.events.name[self._place[element]]]

    def chain(self, element: int) -> tuple[tuple[int, tuple[str, str]], ...]:
        """The elements from the root to this one."""
        chain = []
        while element != ROOT:
            chain.append((element, self.name(element)))
            element = self._parent[element]
        return tuple(reversed(chain))
