"""Content generalisation (ONYX, section 4.2.1): fewer, broader conjunctions in place of many.

Three ways to say less, and all may be combined: structure (a prefix of a path, or one of its names anywhere), values
(the tests are dropped), common disjuncts (only what several conjunctions share is kept; where they share nothing,
that is *true*). Each gives conjunctions that cover those they replace, so nothing is lost but precision.

    >>> for broader in generalisations((("/a", "/b", "[@x=1]"), ("//c",))):
    ...     print(describe(broader))
    /a/b[@x=1]
    //c
    //c and /a/b
    /a/b
    /a
    //b
    true

`choose` picks replacements by a greedy set cover: always the one that loses least precision for each conjunction that
it saves. How much is lost is estimated by `weight`, a guess at the share of documents that match; it depends on
nothing but the conjunctions, so two brokers with the same ones choose alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import lru_cache

from treecast.overlay.onyx.routing.covering import is_always_true, read_test, split, structure
from treecast.overlay.onyx.routing.routing_query import PATTERN, TRUE, Conjunction, Path, describe, is_plain

__all__ = ["choose", "describe", "generalisations", "weight"]

_PATHS_MAX = 4  # of one conjunction that are generalised each on its own

# The guessed share of documents that pass one part of a path.
_ROOT, _NAMED, _WILD, _EQUAL, _OTHER = 0.9, 0.6, 0.95, 0.15, 0.6
_SHARE_MIN = 1e-9


def generalisations(conjunction: Conjunction) -> list[Conjunction]:
    """What covers a conjunction by its form, without itself: the more precise first, `true` last."""
    paths = tuple(path for path in conjunction if path[0][0] != PATTERN)
    few = sorted(paths, key=_path_weight)[:_PATHS_MAX]
    found: dict[Conjunction, None] = {paths: None}
    if len(paths) > 1:
        found |= dict.fromkeys((path,) for path in few)
    found[tuple(path for path in structure(paths) if not is_always_true(path))] = None
    for path in few:
        found |= dict.fromkeys((shorter,) for shorter in _shorter(path) if not is_always_true(shorter))
    found[TRUE] = None
    found.pop(conjunction, None)
    return list(found)


@lru_cache(maxsize=1 << 14)
def _shorter_structures(bare: Path) -> tuple[Path, ...]:
    """A path without tests, its prefixes, its last step anywhere and each of its names anywhere."""
    rows: dict[Path, None] = {bare: None}
    rows |= dict.fromkeys(bare[:end] for end in range(len(bare) - 1, 0, -1))
    steps = split(bare)[0 if bare[0].startswith("//") else 1 :]
    rows |= dict.fromkeys((f"//{step.name}",) for step in reversed(steps) if is_plain(step.name))
    return tuple(rows)


def _shorter(path: Path) -> tuple[Path, ...]:
    return _shorter_structures(tuple([token for token in path if token[0] == "/"]))


@lru_cache(maxsize=1 << 16)
def weight(conjunction: Conjunction) -> float:
    """A guess at the share of documents that match."""
    share = 1.0
    for path in conjunction:
        share *= _path_weight(path)
    return max(share, _SHARE_MIN)


@lru_cache(maxsize=1 << 16)
def _path_weight(path: Path) -> float:
    if path[0][0] == PATTERN:
        return _OTHER
    share = 1.0
    for place, step in enumerate(split(path)):
        if not is_plain(step.name):
            share *= _WILD
        else:
            share *= _ROOT if place == 0 and not step.gap else _NAMED
        for token in step.tests:
            test = read_test(token)
            share *= _EQUAL if test is not None and test.relation == "=" else _OTHER
    return share


def choose(conjunctions: Iterable[Conjunction], size_max: int) -> list[Conjunction]:
    """Conjunctions that cover some of those given, so that `size_max` remain with the rest: the best first."""
    rows = sorted(conjunctions)
    members: dict[Conjunction, list[int]] = {}
    for place, conjunction in enumerate(rows):
        for broader in generalisations(conjunction):
            members.setdefault(broader, []).append(place)
    left = [True] * len(rows)
    size = len(rows)

    def rate(broader: Conjunction) -> float:
        """The precision lost for each conjunction saved."""
        alive = [place for place in members[broader] if left[place]]
        members[broader] = alive
        if len(alive) < 2:
            return float("inf")
        own = weight(broader)
        known = min(own, sum(weight(rows[place]) for place in alive))
        return (own - known + _SHARE_MIN * own) / (len(alive) - 1)

    heap = [(rate(broader), broader) for broader in members]
    heap = [entry for entry in heap if entry[0] < float("inf")]
    heapq.heapify(heap)
    chosen: list[Conjunction] = []
    while size > size_max and heap:
        known, broader = heapq.heappop(heap)
        now = rate(broader)
        if now == float("inf"):
            continue
        if now > known and heap and now > heap[0][0]:
            heapq.heappush(heap, (now, broader))
            continue
        for place in members[broader]:
            left[place] = False
        size -= len(members[broader]) - 1
        chosen.append(broader)
    return chosen if size <= size_max else [TRUE]
