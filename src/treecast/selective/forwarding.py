"""What a broker asks for on behalf of others: few subtrees that contain everything its recipients want.

Covering: a subtree inside one that was asked for already is not asked for again; one that contains others replaces
them. Merging: now and then, two subtrees that are near to each other give way to the subtree of their common ancestor,
if that adds few elements. What it adds are false positives. They travel between brokers and never reach a subscriber,
because the routing tables know what was wanted.

    >>> from treecast.selective.forwarding import Forwarding, MergeSettings
    >>> from treecast.selective.outline import Outline
    >>> outline = Outline([-1, 0, 1, 1, 0], spacing=1)  # 5{3{1,2},4}
    >>> requests = Forwarding(outline)
    >>> requests.want(2)
    Requests(ask=(2,), cancel=())
    >>> requests.want(3)
    Requests(ask=(3,), cancel=())
    >>> requests.merge(MergeSettings(distance=3, ratio=0.3))  # siblings: d is 2, and one of five elements is added
    Requests(ask=(1,), cancel=(2, 3))
    >>> requests.unwant(2)  # what the merged subtree hid comes back
    Requests(ask=(3,), cancel=(1,))

Source: Selective, section IV-C. SD = {d, r}: d counts the edges between two roots through their common ancestor, and is
tested first; r is what merging adds, the ancestor included, over all elements. Both must be below their thresholds,
which the paper does not publish. Each iteration of merging
is followed by covering, until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from treecast.selective.mxb import MxbTree
from treecast.selective.outline import Outline


@dataclass(frozen=True)
class MergeSettings:
    """Thresholds of merging: both d and r must be smaller."""

    distance: int = 3
    ratio: float = 0.005


class Requests(NamedTuple):
    """What to ask for, and what to ask for no longer once that has been granted."""

    ask: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()


class Forwarding:
    """The subtrees that recipients want, and the fewer ones that are asked for in their place."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._counts: Counter[int] = Counter()
        self._wanted: MxbTree[None] = MxbTree(outline)
        self._asked: MxbTree[None] = MxbTree(outline)
        self.merges = 0
        """How many pairs have been merged."""

    def asked_roots(self) -> list[int]:
        """The subtrees that are asked for, in document order; none contains another."""
        return [place.element.id for place in self._asked]

    def wanted_roots(self) -> list[int]:
        """The distinct subtrees that are wanted, in document order."""
        return [place.element.id for place in self._wanted]

    def extra_elements(self) -> int:
        """False positives: elements that are asked for and that nobody wants."""
        tops = self._tops()
        return sum(map(self._outline.size, self.asked_roots())) - sum(map(self._outline.size, tops))

    def _tops(self) -> Iterator[int]:
        end = 0
        for place in self._wanted:
            if place.element.label > end:
                end = place.element.label
                yield place.element.id

    # -- covering

    def want(self, id: int) -> Requests:
        """One more recipient wants this subtree."""
        self._counts[id] += 1
        if self._counts[id] > 1:
            return Requests()
        self._wanted.add(id, None)
        coverage = self._asked.coverage(id)
        if coverage.covering is not None:
            return Requests()
        return self._replace(coverage.covered, [id])

    def unwant(self, id: int) -> Requests:
        """One recipient less wants it. If it, or what it was merged into, hid others, these are asked for again."""
        assert self._counts[id], "only what is wanted can end"
        self._counts[id] -= 1
        if self._counts[id]:
            return Requests()
        del self._counts[id]
        self._wanted.discard(id, None)
        covering = self._asked.coverage(id).covering
        assert covering is not None, "what is wanted is asked for"
        if covering in self._counts:
            return Requests()
        return self._replace([covering], self._wanted.coverage(covering).covered)

    def _replace(self, old: Iterable[int], new: Iterable[int]) -> Requests:
        requests = Requests(tuple(new), tuple(old))
        for id in requests.cancel:
            self._asked.discard(id, None)
        for id in requests.ask:
            self._asked.add(id, None)
        return requests

    # -- merging

    def merge(self, settings: MergeSettings) -> Requests:
        """Merge what is near, then drop what is covered, and so on. To be called now and then."""
        before = self.asked_roots()
        while self._merge_once(settings):
            pass
        after = self.asked_roots()
        old_ids, new_ids = set(before), set(after)
        return Requests(
            tuple(id for id in after if id not in old_ids),
            tuple(id for id in before if id not in new_ids),
        )

    def _merge_once(self, settings: MergeSettings) -> bool:
        """One iteration: merge pairs that have nothing to do with each other, the cheapest first; then cover."""
        candidates = sorted(self._candidates(settings))
        is_changed = False
        for _, _, _, id in candidates:
            coverage = self._asked.coverage(id)
            # An earlier merge of this iteration may have taken one of the two, or both.
            if coverage.covering is None and len(coverage.covered) > 1 and self._ratio(id) < settings.ratio:
                self._replace(coverage.covered, [id])
                self.merges += 1
                is_changed = True
        return is_changed

    def _candidates(self, settings: MergeSettings) -> Iterator[tuple[float, int, int, int]]:
        """(r, d, label, id) of each element that is the lowest common ancestor of a pair that may merge."""
        nearest: dict[int, dict[int, int]] = {}  # ancestor -> its child on the way -> edges to the nearest root
        for id in self.asked_roots():
            child, edges = id, 1
            for ancestor in self._outline.ancestors(id):
                if edges + 1 >= settings.distance:  # the other root is one edge away at least
                    break
                ways = nearest.setdefault(ancestor, {})
                ways[child] = min(edges, ways.get(child, edges))
                child, edges = ancestor, edges + 1
        for ancestor, ways in nearest.items():
            if len(ways) > 1:
                distance = sum(sorted(ways.values())[:2])
                ratio = self._ratio(ancestor)
                if distance < settings.distance and ratio < settings.ratio:
                    yield ratio, distance, self._outline.label(ancestor)[0], ancestor

    def _ratio(self, id: int) -> float:
        """r: the elements that asking for this subtree would add, over all elements."""
        elements_asked = sum(self._outline.size(place.element.id) for place in self._asked.inside(id))
        return (self._outline.size(id) - elements_asked) / len(self._outline)
