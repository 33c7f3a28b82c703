"""A new version of a document: what has changed is found by the digests of subtrees, and all else keeps its id.

    >>> from treecast.selective.folded import fold
    >>> from treecast.selective.labelled import LabelledDocument
    >>> from treecast.selective.versions import apply_version
    >>> document = LabelledDocument.read(b"<a><b>1</b><c/></a>")
    >>> apply_version(document, fold(b"<a><b>2</b><d/><c/></a>"))
    Change(changed=frozenset({0, 1}), inserted=frozenset({3}), removed=frozenset())
    >>> document.to_bytes()
    b'<a><b>2</b><d></d><c></c></a>'

Theory of operation: both versions get a digest for each subtree. Equal digests need no further look. Where the children
of an element differ, those that are equal anchor the comparison (the longest sequence of them that is in order in
both); between anchors, elements of one name are taken for versions of each other, one after the other, and what is left
was inserted or removed. An element that moves elsewhere is removed and inserted, with another id.

Source: Selective, section VII-B, which leaves open how changes are found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from treecast.selective.folded import Element, FoldedDocument
from treecast.selective.labelled import LabelledDocument


class Change(NamedTuple):
    """The ids of elements that a new version touches."""

    changed: frozenset[int]
    """Their own content or their list of children is another one."""
    inserted: frozenset[int]
    removed: frozenset[int]


def apply_version(document: LabelledDocument, folded: FoldedDocument) -> Change:
    """Change the document into this version of it."""
    return _Comparison(document, folded).apply()


class _Comparison:
    def __init__(self, document: LabelledDocument, folded: FoldedDocument) -> None:
        self._document = document
        self._folded = folded
        self._children: list[list[int]] = [[] for _ in folded.elements]
        for number, parent in enumerate(folded.parents):
            if parent >= 0:
                self._children[parent].append(number)
        self._new = _digests(folded)
        outline = document.outline
        self._old: dict[int, bytes] = {}
        for id in outline.post_order():
            self._old[id] = _digest(document.elements[id], [self._old[child] for child in outline.children(id)])
        self._changed: set[int] = set()
        self._inserted: set[int] = set()
        self._removed: set[int] = set()

    def apply(self) -> Change:
        waiting = [(self._document.outline.root, 0)]
        while waiting:
            id, number = waiting.pop()
            if self._old[id] == self._new[number]:
                continue
            if self._document.elements[id] != self._folded.elements[number]:
                self._document.elements[id] = self._folded.elements[number]
                self._changed.add(id)
            waiting.extend(self._align(id, number))
        self._document.before, self._document.after = self._folded.before, self._folded.after
        self._document.forget_caches()
        return Change(frozenset(self._changed), frozenset(self._inserted), frozenset(self._removed))

    def _align(self, id: int, number: int) -> list[tuple[int, int]]:
        """Make the children of an element those of its new version. Returns the pairs that are still to compare."""
        outline = self._document.outline
        old, new = outline.children(id), self._children[number]
        partners = dict(self._pairs(old, new))  # new -> old
        old_partners = set(partners.values())
        for child in old:
            if child not in old_partners:
                removed_ids = outline.remove(child)
                self._removed.update(removed_ids)
                for one in removed_ids:
                    del self._document.elements[one]
        if len(old_partners) < len(old) or len(partners) < len(new):
            self._changed.add(id)
        for place, child in enumerate(new):
            if child not in partners:
                self._insert(id, place, child)
        return [(partner, child) for child, partner in partners.items()]

    def _insert(self, parent: int, place: int, number: int) -> None:
        outline, elements = self._document.outline, self._document.elements
        waiting = [(parent, place, number)]
        while waiting:
            above, position, one = waiting.pop()
            id = outline.insert(above, position)
            elements[id] = self._folded.elements[one]
            self._inserted.add(id)
            children = self._children[one]
            # The last is inserted first, so that each finds its place at the front.
            waiting.extend((id, 0, child) for child in children)

    def _pairs(self, old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, int]]:
        """(new, old) of children that are versions of each other, in order."""
        anchors = [*self._anchors(old, new), (len(new), len(old))]
        new_from = old_from = 0
        for new_to, old_to in anchors:
            yield from self._alike(old[old_from:old_to], new[new_from:new_to])
            if new_to < len(new) and old_to < len(old):
                yield new[new_to], old[old_to]
            new_from, old_from = new_to + 1, old_to + 1

    def _anchors(self, old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
        """Places of equal subtrees, ascending in both: the longest such sequence (as in patience sorting)."""
        places: dict[bytes, list[int]] = {}
        for place in reversed(range(len(old))):
            places.setdefault(self._old[old[place]], []).append(place)
        candidates = []
        for place, number in enumerate(new):
            if twins := places.get(self._new[number]):
                candidates.append((place, twins.pop()))  # equal subtrees pair up in order
        ends: list[int] = []
        chains: list[tuple[int, int]] = []  # index into candidates and the chain before it
        tops: list[int] = []
        for index, (_, place) in enumerate(candidates):
            length = bisect_left(ends, place)
            chains.append((index, tops[length - 1] if length else -1))
            if length == len(ends):
                ends.append(place)
                tops.append(index)
            else:
                ends[length], tops[length] = place, index
        pairs: list[tuple[int, int]] = []
        at = tops[-1] if tops else -1
        while at >= 0:
            pairs.append(candidates[at])
            at = chains[at][1]
        return pairs[::-1]

    def _alike(self, old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of one name between two anchors, in order."""
        places: dict[str, deque[int]] = {}
        for place, id in enumerate(old):
            places.setdefault(self._document.elements[id].name, deque()).append(place)
        at = 0
        for number in new:
            waiting = places.get(self._folded.elements[number].name)
            while waiting and waiting[0] < at:
                waiting.popleft()
            if waiting:
                at = waiting[0] + 1
                yield number, old[waiting[0]]


def _digests(folded: FoldedDocument) -> list[bytes]:
    digests: list[bytes] = [b""] * len(folded.elements)
    below: list[list[bytes]] = [[] for _ in folded.elements]
    for number in reversed(range(len(folded.elements))):
        digests[number] = _digest(folded.elements[number], below[number][::-1])
        if (parent := folded.parents[number]) >= 0:
            below[parent].append(digests[number])
    return digests


def _digest(element: Element, children: Sequence[bytes]) -> bytes:
    hasher = blake2b(repr(tuple(element)).encode(), digest_size=16)
    for child in children:
        hasher.update(child)
    return hasher.digest()
