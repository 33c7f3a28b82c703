"""Content generalisation (ONYX, section 4.2.1): fewer, broader conjunctions in place of many.

There are five ways to say less, from the one that loses least on:

1. only what several conjunctions share is kept, one path of each (common disjuncts), or only how texts begin (values);
2. the tests are dropped (values);
3. both: one path without tests;
4. a prefix of that path (structure);
5. one of its names, anywhere, or no more than the root element.

Where conjunctions have nothing in common, what remains is *true*. Each result covers what it replaces, so nothing is
lost but precision.

    >>> for level in generalisations((("//d",), ("/a", "/b", "/c", '[@x="123"]'))):
    ...     print([describe(broader) for broader in level])
    ['/a/b/c[@x="123"]', '//d', '//d and /a/b/c[starts-with(@x, "12")]']
    ['//d and /a/b/c']
    ['/a/b/c']
    ['/a/b']
    ['//c', '//b', '/a']

`choose` goes through the levels until few enough conjunctions are left. Within a level it is a greedy set cover: always
the replacement that loses least precision for each conjunction that it saves. How much that is, a sample of documents
says: those that it matches and nothing else does. Without one, `weight` guesses the share of documents that match.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import lru_cache
from math import inf

from treecast.overlay.onyx.routing.covering import (
    BEGINNINGS,
    beginning,
    consequences,
    is_always_true,
    read_test,
    split,
    structure,
)
from treecast.overlay.onyx.routing.routing_query import PATTERN, TRUE, Conjunction, Path, describe, is_plain
from treecast.overlay.onyx.routing.sample import Sample

__all__ = ["choose", "describe", "generalisations", "weight"]

_PATHS_MAX = 4  # of one conjunction that are generalised each on its own

# The guessed share of documents that pass one part of a path.
_ROOT, _NAMED, _WILD, _EQUAL, _OTHER = 0.9, 0.6, 0.95, 0.005, 0.5
_SHARE_MIN = 1e-9
_LEAST = 0.01  # of what passes, the part that is taken to be lost in any case

LEVELS = 5


def generalisations(conjunction: Conjunction) -> list[list[Conjunction]]:
    """By level, what covers a conjunction by its form, without itself and without `true`."""
    paths = tuple(path for path in conjunction if path[0][0] != PATTERN)
    few = sorted(paths, key=_path_weight)[:_PATHS_MAX]
    bare = [tuple([token for token in path if token[0] == "/"]) for path in few]
    rows: list[list[Path]] = [[], [], []]
    for path in bare:
        for level, shorter in enumerate(_shorter(path)):
            rows[level] += shorter
    shared = [(path,) for path in few if len(paths) > 1]
    beginnings = [_shortened(paths, length) for length in reversed(BEGINNINGS)]
    levels = [dict.fromkeys([paths, *shared, *beginnings]), {structure(paths): None}]
    levels += [dict.fromkeys((path,) for path in row) for row in rows]
    seen: dict[Conjunction, None] = {conjunction: None, TRUE: None}
    found: list[list[Conjunction]] = []
    for broader in levels:
        found.append([each for each in broader if each not in seen and not all(map(is_always_true, each))])
        seen |= broader
    return found


def _shortened(paths: Conjunction, length: int) -> Conjunction:
    """The conjunction with no more of its texts than how they begin."""
    return tuple(sorted([tuple([_shortened_test(token, length) for token in path]) for path in paths]))


@lru_cache(maxsize=1 << 16)
def _shortened_test(token: str, length: int) -> str:
    test = read_test(token) if token[0] == "[" else None
    if test is None or not isinstance(test.value, str):
        return token
    shorter = beginning(test.target, test.value[:length])
    return shorter if shorter in consequences(token) else token


@lru_cache(maxsize=1 << 14)
def _shorter(bare: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """A path without tests; its prefixes; each of its names anywhere, and the first step."""
    steps = split(bare)[0 if bare[0].startswith("//") else 1 :]
    names = [(f"//{step.name}",) for step in reversed(steps) if is_plain(step.name)]
    return [bare], [bare[:end] for end in range(len(bare) - 1, 1, -1)], [*names, bare[:1]]


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
            if test is not None and test.relation == "starts-with":
                share *= max(_EQUAL, _OTHER ** len(str(test.value)))
            else:
                share *= _EQUAL if test is not None and test.relation == "=" else _OTHER
    return share


def choose(conjunctions: Iterable[Conjunction], size_max: int, sample: Sample | None = None) -> list[Conjunction]:
    """Conjunctions that cover some of those given, so that no more than `size_max` remain with the others."""
    given = dict.fromkeys(conjunctions)
    rows = sorted(given)
    for level in range(LEVELS):
        if len(rows) <= size_max:
            break
        rows = _reduce(rows, level, size_max, sample)
    return [row for row in rows if row not in given] if len(rows) <= size_max else [TRUE]


class _Loss:
    """How much precision replacements cost."""

    def __init__(self, rows: list[Conjunction], broader: Iterable[Conjunction], sample: Sample | None) -> None:
        self.rows = rows
        self.documents = len(sample) if sample else 0
        self.bits: dict[Conjunction, int] = {}
        self.forwarded = 0
        if sample and self.documents:
            self.bits = sample.bits(dict.fromkeys([*rows, *broader]))
            for row in rows:
                self.forwarded |= self.bits[row]

    def of(self, broader: Conjunction, places: list[int]) -> float:
        """The share of documents that it would let through in vain, in place of these rows."""
        own = weight(broader)
        if self.documents:
            extra = (self.bits[broader] & ~self.forwarded).bit_count() / self.documents
            return extra + _LEAST * own  # the guess breaks ties
        known = min(own, sum(weight(self.rows[place]) for place in places))
        return own - known + _LEAST * own

    def take(self, broader: Conjunction) -> None:
        """Note that it was chosen."""
        self.forwarded |= self.bits.get(broader, 0)


def _reduce(rows: list[Conjunction], level: int, size_max: int, sample: Sample | None) -> list[Conjunction]:
    """The rows, some of them replaced by generalisations of one level."""
    members: dict[Conjunction, list[int]] = {}
    for place, conjunction in enumerate(rows):
        for broader in generalisations(conjunction)[level]:
            members.setdefault(broader, []).append(place)
    for place, conjunction in enumerate(rows):
        if conjunction in members:  # one that is there already costs nothing
            members[conjunction].append(place)
    members = {broader: places for broader, places in members.items() if len(places) > 1}
    loss = _Loss(rows, members, sample)
    left = [True] * len(rows)
    size = len(rows)

    def rate(broader: Conjunction) -> float:
        """The precision lost for each conjunction saved, as far as that is necessary."""
        members[broader] = alive = [place for place in members[broader] if left[place]]
        if len(alive) < 2:
            return inf
        return loss.of(broader, alive) / min(len(alive) - 1, size - size_max)

    heap = [entry for entry in ((rate(broader), broader) for broader in members) if entry[0] < inf]
    heapq.heapify(heap)
    chosen: dict[Conjunction, None] = {}
    while size > size_max and heap:
        known, broader = heapq.heappop(heap)
        now = rate(broader)
        if now == inf:
            continue
        if now > known and heap and now > heap[0][0]:
            heapq.heappush(heap, (now, broader))
            continue
        for place in members[broader]:
            left[place] = False
        size -= len(members[broader]) - 1
        chosen[broader] = None
        loss.take(broader)
    return sorted({*chosen, *(row for place, row in enumerate(rows) if left[place])})
