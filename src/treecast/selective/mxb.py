"""The MXB tree: which subtrees of a document somebody has asked for, as a tree that reflects the document's own.

Each place of the tree stands for a subtree. Its children are subtrees inside it, in document order, and the one that
contains a given element is found by comparing labels: the first child whose PON is not smaller, if its LB is not
larger. A place exists if somebody asked for its subtree, or if two places below it lie in different children of its
element. Nothing stands between: a chain of single children is one step.

    >>> from treecast.selective.mxb import MxbTree
    >>> from treecast.selective.outline import Outline
    >>> outline = Outline([-1, 0, 1, 1, 3, 3, 1, 0], spacing=1)  # 8{6{1,4{2,3},5},7}
    >>> tree = MxbTree(outline)
    >>> for id, key in [(0, "r1"), (4, "r2"), (7, "r3")]:
    ...     tree.add(id, key)
    >>> [place.element.id for place in tree.enclosing(4)]  # 6 and 4 are chains as far as this tree knows
    [0, 4]
    >>> tree.coverage(4)
    Coverage(covering=0, is_identical=False, covered=())
    >>> tree.discard(0, "r1")
    True
    >>> tree.coverage(1)
    Coverage(covering=None, is_identical=False, covered=(4,))

Cost: an operation goes from the root to its element. It visits each place that contains the element, and finds the next
by bisection: at most log2 of the children. If every place has two children or more, as the paper assumes, there are at
most log2(n) of them for a balanced document and n asked-for subtrees. In general there are as many as the element has
ancestors that branch or were asked for, never more than its depth, which `Limits.depth_max` bounds. Insertion looks
for the element where a path branches, up from the element: its depth once more.

Source: Selective, sections IV-B and V-C. We differ: the separators of the paper are the labels of the children
themselves, which are looked up when they are compared, so that labels with gaps may change; paths without branches are
not instantiated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from treecast.selective.outline import Entry, Outline

Key = TypeVar("Key", bound=Hashable)
BLOCK_MAX = 512
"""Children are kept in blocks, so that one more among a million moves at most this many."""


class Coverage(NamedTuple):
    """How a subtree relates to those that were asked for; found in one descent."""

    covering: int | None
    """The topmost subtree that contains it, itself perhaps."""
    is_identical: bool
    """It was asked for itself, and nothing that contains it."""
    covered: tuple[int, ...]
    """If nothing contains it: the topmost ones inside it."""


class Place(Generic[Key]):
    """One place of the tree."""

    __slots__ = ("children", "element", "keys", "parent")

    def __init__(self, element: Entry, parent: Place[Key] | None) -> None:
        self.element = element
        self.parent = parent
        self.children: Row[Key] = Row()
        self.keys: dict[Key, None] = {}  # in the order in which they came


class Row(Generic[Key]):
    """The children of a place in document order, in blocks."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[list[Place[Key]]] = []

    def __iter__(self) -> Iterator[Place[Key]]:
        for block in self._blocks:
            yield from block

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def is_short(self) -> bool:
        """Whether there are fewer than two."""
        return not self._blocks or (len(self._blocks) == 1 and len(self._blocks[0]) < 2)

    def _find(self, label: int) -> tuple[int, int]:
        """Where the first child is whose PON is not smaller: block and place in it."""
        block = bisect_left(self._blocks, label, key=_last_label)
        if block == len(self._blocks):
            return block, 0
        return block, bisect_left(self._blocks[block], label, key=_label)

    def around(self, label: int) -> tuple[Place[Key] | None, Place[Key] | None]:
        """The last child with a smaller PON, and the first that has none."""
        block, place = self._find(label)
        behind = self._blocks[block][place] if block < len(self._blocks) else None
        if place:
            return self._blocks[block][place - 1], behind
        return (self._blocks[block - 1][-1] if block else None), behind

    def add(self, child: Place[Key]) -> None:
        block, place = self._find(child.element.label)
        if block == len(self._blocks):
            if not block:
                self._blocks.append([child])
                return
            block, place = block - 1, len(self._blocks[-1])
        full = self._blocks[block]
        full.insert(place, child)
        if len(full) > BLOCK_MAX:
            self._blocks.insert(block + 1, full[BLOCK_MAX // 2 :])
            del full[BLOCK_MAX // 2 :]

    def replace(self, old: Place[Key], new: Place[Key]) -> None:
        """Put a child where another is: the one contains the other, so that their order is the same."""
        block, place = self._find(old.element.label)
        self._blocks[block][place] = new

    def remove(self, child: Place[Key]) -> None:
        block, place = self._find(child.element.label)
        del self._blocks[block][place]
        if not self._blocks[block]:
            del self._blocks[block]


def _label(place: Place[Key]) -> int:
    return place.element.label


def _last_label(block: list[Place[Key]]) -> int:
    return block[-1].element.label


class MxbTree(Generic[Key]):
    """Keys (who asked, mostly) by subtrees of a document, found by what contains what."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._root: Place[Key] = Place(outline.entry(outline.root), None)
        self.descents = 0
        """How many operations went down the tree."""
        self.steps = 0
        """How many places they visited."""

    # -- questions

    def _descend(self, element: Entry) -> Iterator[Place[Key]]:
        """The places that contain the element, from the root."""
        self.descents += 1
        place: Place[Key] | None = self._root
        label = element.label
        while place is not None:
            self.steps += 1
            yield place
            if place.element is element:
                return
            _, place = place.children.around(label)
            if place is not None and place.element.first.label > label:
                return

    def _innermost(self, element: Entry) -> Place[Key]:
        *_, last = self._descend(element)
        return last

    def enclosing(self, id: int) -> Iterator[Place[Key]]:
        """The places with keys whose subtrees contain that of the element, the outermost first, itself included."""
        return (place for place in self._descend(self.outline.entry(id)) if place.keys)

    def inside(self, id: int) -> Iterator[Place[Key]]:
        """The places with keys strictly inside the subtree of an element, in document order."""
        element = self.outline.entry(id)
        yield from self._below(self._innermost(element), element)

    def _below(self, reference: Place[Key], element: Entry) -> Iterator[Place[Key]]:
        """The places inside an element, of which `reference` is the innermost place that contains it."""
        waiting: list[Place[Key]]
        if reference.element is element:
            waiting = list(reference.children)
        else:  # a chain leads on: of the children at most one is inside
            before, _ = reference.children.around(element.label)
            waiting = [before] if before is not None and _is_inside(before.element, element) else []
        waiting.reverse()
        while waiting:
            place = waiting.pop()
            if place.keys:
                yield place
            waiting.extend(reversed(list(place.children)))

    def keys(self, id: int) -> list[Key]:
        """The keys of exactly this subtree."""
        element = self.outline.entry(id)
        return [key for place in self._descend(element) if place.element is element for key in place.keys]

    def coverage(self, id: int) -> Coverage:
        """Whether something asked for contains a subtree, or is contained in it. One descent finds either."""
        element = self.outline.entry(id)
        place = self._root
        for place in self._descend(element):
            if place.keys:
                return Coverage(place.element.id, place.element is element, ())
        covered_ids: list[int] = []
        end = 0
        for one in self._below(place, element):
            if one.element.label > end:
                covered_ids.append(one.element.id)
                end = one.element.label
        return Coverage(None, False, tuple(covered_ids))

    def __iter__(self) -> Iterator[Place[Key]]:
        """All places with keys, in document order."""
        if self._root.keys:
            yield self._root
        yield from self._below(self._root, self._root.element)

    def height(self) -> int:
        """The most places on a way down."""
        deepest = 0
        waiting = [(self._root, 1)]
        while waiting:
            place, depth = waiting.pop()
            deepest = max(deepest, depth)
            waiting.extend((child, depth + 1) for child in place.children)
        return deepest

    # -- changes

    def add(self, id: int, key: Key) -> None:
        """Add a key to a subtree; adding it again changes nothing."""
        element = self.outline.entry(id)
        last = self._innermost(element)
        place = last if last.element is element else self._instantiate(last, element)
        place.keys[key] = None

    def _instantiate(self, above: Place[Key], element: Entry) -> Place[Key]:
        """A new place below the innermost one that contains the element."""
        before, behind = above.children.around(element.label)
        new: Place[Key] = Place(element, above)
        if before is not None and _is_inside(before.element, element):
            above.children.replace(before, new)
            new.children.add(before)
            before.parent = new
            return new
        # A neighbour in the same child of `above`: the two part at an element between, which becomes a place.
        branch = element.parent
        while branch is not None and branch is not above.element:
            for neighbour in (before, behind):
                if neighbour is not None and _is_inside(neighbour.element, branch):
                    fork: Place[Key] = Place(branch, above)
                    above.children.replace(neighbour, fork)
                    for child in (neighbour, new):
                        child.parent = fork
                        fork.children.add(child)
                    return new
            branch = branch.parent
        above.children.add(new)
        return new

    def discard(self, id: int, key: Key) -> bool:
        """Remove a key from a subtree; says whether it was there."""
        element = self.outline.entry(id)
        place = self._innermost(element)
        if place.element is not element or key not in place.keys:
            return False
        del place.keys[key]
        self._tidy(place)
        return True

    def _tidy(self, place: Place[Key] | None) -> None:
        """Remove places that nobody asked for and where nothing branches, up the tree."""
        while place is not None and place.parent is not None and not place.keys and place.children.is_short():
            above = place.parent
            child = next(iter(place.children), None)
            if child is None:
                above.children.remove(place)
            else:
                above.children.replace(place, child)
                child.parent = above
            place = above


def _is_inside(inner: Entry, outer: Entry) -> bool:
    return outer.first.label <= inner.label <= outer.label
