"""The outline of a document: its elements as numbers, and labels that say which subtree contains which.

Every element has a post-order number (PON), and every subtree a lower bound (LB), the lowest PON in it. So one subtree
contains another if its range LB..PON contains the other's PON: no tree has to be walked. An outline has no names and no
content. It is all that a broker knows of a document.

Documents change, so labels are not consecutive: the gaps between them take what is inserted. If a gap is full, the
labels around it are spread again, few on average (`relabels` counts them). Their order never changes.
The identity of an element is its *id*. It keeps its id, and no other element gets it later.

    >>> from treecast.selective.outline import Outline
    >>> outline = Outline([-1, 0, 1, 1, 0], spacing=1)  # a(b(c, d), e), numbered as in the paper
    >>> [outline.label(id) for id in outline]
    [(5, 1), (3, 1), (1, 1), (2, 2), (4, 4)]
    >>> outline.contains(1, 3), outline.contains(3, 1)
    (True, False)
    >>> new = outline.insert(1, 1)  # between c and d: there is no gap, so labels are spread
    >>> new, [id for id in outline.post_order()]
    (5, [2, 5, 3, 1, 4, 0])

Source: Selective, section IV-A. We differ: the paper suggests fractions, of which floating point has few. Integers are
spread by the algorithm of Bender, Cole, Demaine, Farach-Colton and Zito, "Two simplified algorithms for
maintaining order in a list" (2002): a range of labels of size 2^i is full if it holds more than (2/T)^i of them,
and the smallest range around the place that is not full is spread. That is O(log n) labels an insertion, amortised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

LABEL_BITS = 62
LABEL_MAX = (1 << LABEL_BITS) - 1
DENSITY = 1.5
"""T above: nearer to 1, labels lie closer; nearer to 2, fewer are spread at a time."""
Label = tuple[int, int]


class Entry:
    """One element of an outline. Entries form a list in post-order as well as a tree."""

    __slots__ = ("children", "first", "following", "id", "label", "parent", "preceding", "size")

    def __init__(self, id: int, parent: Entry | None) -> None:
        self.id = id
        self.parent = parent
        self.children: list[Entry] = []
        self.first: Entry = self
        """What comes first in post-order in its subtree: its leftmost leaf. Its label is the lower bound."""
        self.label = 0
        self.size = 1
        self.preceding: Entry | None = None
        self.following: Entry | None = None


class Outline:
    """The structure of a document that changes, without its content."""

    def __init__(self, parents: Sequence[int], *, spacing: int | None = None) -> None:
        """`parents` gives the parent of each element in document order, -1 for the root; ids are the positions.

        `spacing` is the distance of neighbouring labels, by default as large as possible; 1 gives the paper's numbers.
        """
        self._entries: dict[int, Entry] = {}
        self._ids: dict[int, int] = {}  # by label
        self._next_id = len(parents)
        self.relabels = 0
        """How many labels have changed since the beginning."""
        for id, parent in enumerate(parents):
            above = self._entries[parent] if parent >= 0 else None
            entry = self._entries[id] = Entry(id, above)
            if above is not None:
                above.children.append(entry)
        self.root = 0
        self._number(spacing or LABEL_MAX // (len(parents) + 1))

    @classmethod
    def restore(cls, rows: Sequence[tuple[int, int]], next_id: int) -> Self:
        """An outline with given ids: (id, id of the parent) in document order, -1 for the parent of the root."""
        outline = cls([-1])
        outline._entries.clear()
        outline._ids.clear()
        for id, parent in rows:
            above = outline._entries[parent] if parent >= 0 else None
            entry = outline._entries[id] = Entry(id, above)
            if above is not None:
                above.children.append(entry)
        outline.root, outline._next_id = rows[0][0], next_id
        outline._number(LABEL_MAX // (len(rows) + 1))
        return outline

    @property
    def next_id(self) -> int:
        """The id that the next new element gets."""
        return self._next_id

    def _number(self, spacing: int) -> None:
        last: Entry | None = None
        for number, entry in enumerate(post_order(self._entries[self.root]), 1):
            entry.label = number * spacing
            self._ids[entry.label] = entry.id
            entry.size = 1 + sum(child.size for child in entry.children)
            entry.first = entry.children[0].first if entry.children else entry
            entry.preceding = last
            if last is not None:
                last.following = entry
            last = entry

    # -- questions

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: int) -> bool:
        return id in self._entries

    def __iter__(self) -> Iterator[int]:
        """All ids in document order."""
        return self.subtree(self.root)

    def subtree(self, id: int) -> Iterator[int]:
        """The ids of a subtree in document order."""
        waiting = [self._entries[id]]
        while waiting:
            entry = waiting.pop()
            yield entry.id
            waiting.extend(reversed(entry.children))

    def post_order(self) -> Iterator[int]:
        return (entry.id for entry in post_order(self._entries[self.root]))

    def parent(self, id: int) -> int | None:
        above = self._entries[id].parent
        return above.id if above is not None else None

    def children(self, id: int) -> list[int]:
        return [entry.id for entry in self._entries[id].children]

    def ancestors(self, id: int) -> Iterator[int]:
        """From the parent up to the root."""
        above = self._entries[id].parent
        while above is not None:
            yield above.id
            above = above.parent

    def label(self, id: int) -> Label:
        """(PON, LB) of an element as they are now."""
        entry = self._entries[id]
        return entry.label, entry.first.label

    def find(self, label: Label) -> int | None:
        """The id of the subtree with exactly this label."""
        id = self._ids.get(label[0])
        return id if id is not None and self.label(id) == label else None

    def find_end(self, pon: int) -> Label | None:
        """The label of the subtree that ends with this number."""
        id = self._ids.get(pon)
        return self.label(id) if id is not None else None

    def contains(self, outer: int, inner: int) -> bool:
        """Whether the subtree of one element contains that of another, which may be the same: by labels alone."""
        pon, low = self.label(outer)
        return low <= self._entries[inner].label <= pon

    def size(self, id: int) -> int:
        """The number of elements of a subtree."""
        return self._entries[id].size

    def entry(self, id: int) -> Entry:
        """The element itself, for structures that follow its label as it changes."""
        return self._entries[id]

    def distance(self, one: int, other: int) -> int:
        """The edges between two elements, through their lowest common ancestor."""
        path = [one, *self.ancestors(one)]
        steps = {id: step for step, id in enumerate(path)}
        for step, id in enumerate([other, *self.ancestors(other)]):
            if id in steps:
                return step + steps[id]
        raise AssertionError("two elements of one outline have an ancestor in common")

    # -- changes

    def insert(self, parent: int, position: int, id: int | None = None) -> int:
        """Add an element without children as the child of `parent` at this position. Returns its id."""
        above = self._entries[parent]
        if not 0 <= position <= len(above.children):
            raise IndexError(f"element {parent} has {len(above.children)} children: no position {position}")
        if id is None:
            id = self._next_id
        assert id not in self._entries, "ids are not used twice"
        self._next_id = max(self._next_id, id + 1)
        entry = self._entries[id] = Entry(id, above)
        # In post-order it stands before whatever comes first in the next sibling, or before the parent.
        after = above.children[position].first if position < len(above.children) else above
        above.children.insert(position, entry)
        _find_first(above)
        entry.preceding, entry.following = after.preceding, after
        if after.preceding is not None:
            after.preceding.following = entry
        after.preceding = entry
        self._give_label(entry)
        _add_to_sizes(above, 1)
        return id

    def remove(self, id: int) -> list[int]:
        """Remove a subtree; returns its ids. No label changes."""
        if id == self.root:
            raise ValueError("the root of an outline cannot be removed")
        top = self._entries[id]
        assert top.parent is not None
        entries = list(post_order(top))
        before, behind = entries[0].preceding, top.following
        assert behind is not None
        behind.preceding = before
        if before is not None:
            before.following = behind
        top.parent.children.remove(top)
        _find_first(top.parent)
        _add_to_sizes(top.parent, -top.size)
        for entry in entries:
            del self._entries[entry.id]
            del self._ids[entry.label]
        return [entry.id for entry in entries]

    def _give_label(self, entry: Entry) -> None:
        following = entry.following
        assert following is not None
        low = entry.preceding.label if entry.preceding is not None else 0
        if following.label - low < 2:
            self._spread(following)
            low = entry.preceding.label if entry.preceding is not None else 0
        entry.label = (low + following.label) // 2
        self._ids[entry.label] = entry.id

    def _spread(self, around: Entry) -> None:
        """Make room before `around`: spread the labels of the smallest range around it that is not full."""
        first = last = around
        count, bits = 1, 0
        while True:
            bits += 1
            assert bits <= LABEL_BITS, "2^62 labels are enough for any document"
            low = around.label >> bits << bits
            high = low + (1 << bits) - 1
            # The element that waits for its label is linked already; it has label 0 and is passed over.
            while (before := _labelled_before(first)) is not None and before.label >= low:
                first, count = before, count + 1
            while last.following is not None and last.following.label <= high:
                last, count = last.following, count + 1
            step = (1 << bits) // (count + 1)
            if count + 1 <= (2 / DENSITY) ** bits and step >= 2:
                break
        entries: list[Entry] = []
        entry: Entry | None = first
        while entry is not None:
            if entry.label:
                entries.append(entry)
                del self._ids[entry.label]
            entry = entry.following if entry is not last else None
        for number, entry in enumerate(entries, 1):
            entry.label = low + number * step
            self._ids[entry.label] = entry.id
        self.relabels += len(entries)


def _add_to_sizes(entry: Entry | None, change: int) -> None:
    while entry is not None:
        entry.size += change
        entry = entry.parent


def _labelled_before(entry: Entry) -> Entry | None:
    before = entry.preceding
    return before if before is None or before.label else before.preceding


def _find_first(entry: Entry | None) -> None:
    """Find the leftmost leaf of a subtree whose children have changed, and tell those above that begin with it."""
    while entry is not None:
        first = entry.children[0].first if entry.children else entry
        if first is entry.first:
            return
        entry.first = first
        entry = entry.parent


def post_order(top: Entry) -> Iterator[Entry]:
    """A subtree, children before parents."""
    waiting: list[tuple[Entry, Iterable[Entry]]] = [(top, iter(top.children))]
    while waiting:
        entry, rest = waiting[-1]
        child = next(iter(rest), None)
        if child is None:
            waiting.pop()
            yield entry
        else:
            waiting.append((child, iter(child.children)))
