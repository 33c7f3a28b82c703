"""Content generalisation (ONYX, section 4.2.1): fewer, broader conjunctions in place of many.

There are five ways to say less:

1. only what several conjunctions share is kept, one path of each (common disjuncts) or one test, or how texts begin;
2. the tests are dropped (values);
3. both: one path without tests;
4. a prefix of that path (structure);
5. one of its names, anywhere, or no more than the root element.

Where conjunctions have nothing in common, what remains is *true*. Each result covers what it replaces, so nothing is
lost but precision.

    >>> for level in range(5):
    ...     found = generalisations((("//d",), ("/a", "/b", "/c", '[@x="123"]')), level)
    ...     print([describe(broader) for broader in found])
    ['/a/b/c[@x="123"]', '//d', '//d and /a/b/c[starts-with(@x, "12")]', '//d and /a/b/c[starts-with(@x, "1")]']
    ['//d and /a/b/c']
    ['/a/b/c', '//d']
    ['/a/b']
    ['//c', '//b', '/a', '//d']

Where few forms have many values, `choose` leaves this to `value_groups.py`. Otherwise it is a greedy set cover: always
the rule that loses least precision for each conjunction that it saves. How much that is, a sample of documents says:
those that it matches and nothing else does. Without one, `weight` guesses the share of documents that match.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import inf

from treecast.overlay.onyx.routing.covering import (
    beginning,
    is_always_true,
    read_test,
    split,
    start_of,
    structure,
)
from treecast.overlay.onyx.routing.routing_query import PATTERN, TRUE, Conjunction, Path, describe, has_hole, is_plain
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.value_groups import Part, divide, groups_of

__all__ = ["choose", "describe", "generalisations", "weight"]

BEGINNINGS = (1, 2, 3, 4, 6, 8, 12, 16)  # lengths to which a text is shortened
_FORMS = 0.9  # of the room, that may go to groups of one form as they are
_ROWS_MAX = 20_000  # conjunctions that say which documents are wanted anyway
_MERGED_MAX = 20_000  # conjunctions up to which each is looked at by itself where there are too many forms
_GROUP_MIN = 8  # conjunctions of one form that are taken together even then
_PATHS_MAX = 4  # of one conjunction that are generalised each on its own

# The guessed share of documents that pass one part of a path.
_ROOT, _NAMED, _WILD, _EQUAL, _OTHER = 0.9, 0.6, 0.95, 0.005, 0.5
_SHARE_MIN = 1e-9
_LEAST = 0.01  # of what passes, the part that is taken to be lost in any case


def generalisations(conjunction: Conjunction, level: int) -> list[Conjunction]:
    """What covers a conjunction by its form at one level, without itself and without `true`."""
    found = _LEVELS[level](tuple(path for path in conjunction if path[0][0] != PATTERN))
    return [
        each
        for each in dict.fromkeys(found)
        if each != conjunction and not has_hole(each) and not all(map(is_always_true, each))
    ]


def _parts(paths: Conjunction) -> list[Conjunction]:
    """Without the tree pattern; one path; one test, and the steps to it; texts by how they begin."""
    few = sorted(paths, key=_path_weight)[:_PATHS_MAX] if len(paths) > 1 else paths
    found = [paths, *((path,) for path in few if len(paths) > 1)]
    for path in few:
        found += [(row,) for row in _single_tests(path)]
    starts = [start_of(token) for path in paths for token in path if token[0] == "["]
    longest = max([len(start[1]) for start in starts if start], default=0)
    found += [_shortened(paths, length) for length in reversed(BEGINNINGS) if length < longest]
    return found


def _single_tests(path: Path) -> list[Path]:
    """For each test of a path the steps to it, and no other test."""
    places = [place for place, token in enumerate(path) if token[0] == "["]
    if not places or (len(places) == 1 and places[0] == len(path) - 1):
        return []
    rows: list[Path] = []
    for place in places[-_PATHS_MAX:]:
        rows.append((*(token for token in path[:place] if token[0] == "/"), path[place]))
    return rows


def _bare_paths(paths: Conjunction) -> list[Path]:
    few = sorted(paths, key=_path_weight)[:_PATHS_MAX] if len(paths) > 1 else paths
    return [tuple([token for token in path if token[0] == "/"]) for path in few]


def _shortened(paths: Conjunction, length: int) -> Conjunction:
    """The conjunction with no more of its texts than how they begin."""
    return tuple(sorted([tuple([_shortened_test(token, length) for token in path]) for path in paths]))


def _shortened_test(token: str, length: int) -> str:
    start = start_of(token) if token[0] == "[" else None
    return beginning(start[0], start[1][:length]) if start and length < len(start[1]) else token


@lru_cache(maxsize=1 << 14)
def _names(bare: Path) -> list[Path]:
    """Each of the names of a path anywhere, and its first step."""
    steps = split(bare)[0 if bare[0].startswith("//") else 1 :]
    return [*((f"//{step.name}",) for step in reversed(steps) if is_plain(step.name)), bare[:1]]


_LEVELS: tuple[Callable[[Conjunction], list[Conjunction]], ...] = (
    _parts,
    lambda paths: [structure(paths)],
    lambda paths: [(bare,) for bare in _bare_paths(paths)],
    lambda paths: [(bare[:end],) for bare in _bare_paths(paths) for end in range(len(bare) - 1, 1, -1)],
    lambda paths: [(name,) for bare in _bare_paths(paths) for name in _names(bare)],
)


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


def choose(
    conjunctions: Iterable[Conjunction], size_max: int, sample: Sample | None = None, groups: Iterable[Part] = ()
) -> dict[Conjunction, list[Conjunction]]:
    """Rules that cover some of the conjunctions, so that no more than `size_max` remain; with those that each is for.

    First values (`value_groups.py`): a rule for each group of one form, and the groups cut where that gains most. If
    there are too many forms, half of the room goes to rules that cover several of them. `groups` are further ones.
    """
    groups = [*groups_of(dict.fromkeys(conjunctions)), *groups]
    rows = [each for group in groups for each in group.conjunctions]
    if len(rows) <= size_max:
        return {}
    loss = _Loss(rows, sample)
    done: list[tuple[Conjunction, list[Conjunction]]] = []
    if len(groups) > max(1, size_max * _FORMS):
        few = inf if len(rows) <= _MERGED_MAX else _GROUP_MIN
        groups = [part for group in groups for part in (group.apart() if len(group) < few else [group])]
        several = sum(len(group) for group in groups if len(group) > 1)
        kept = _merge(groups, size_max - min(size_max // 2, several), loss)
        if kept is None:
            return {TRUE: rows}
        merged, groups = kept
        done += merged.items()
    done += [(part.rule, part.conjunctions) for part in divide(groups, size_max - len(done), loss.of_all)]
    chosen: dict[Conjunction, list[Conjunction]] = {}
    for rule, members in done:
        if members != [rule]:
            chosen.setdefault(rule, []).extend(each for each in members if each != rule)
    return chosen


def _merge(
    groups: list[Part], size_max: int, loss: _Loss
) -> tuple[dict[Conjunction, list[Conjunction]], list[Part]] | None:
    """Rules that cover several groups, and the groups that are left; None where nothing is narrow enough."""
    by_rule: dict[Conjunction, list[Part]] = {}
    for group in groups:
        by_rule.setdefault(group.rule, []).append(group)
    into = {row: row for row in sorted(by_rule)}
    rows = list(into)
    while len(rows) > size_max:
        replaced = _reduce(rows, size_max, loss)
        if not replaced:
            return None
        into = {row: replaced.get(rule, rule) for row, rule in into.items()}
        rows = sorted(set(into.values()))
    members: dict[Conjunction, list[Conjunction]] = {}
    left: list[Part] = []
    for row, rule in into.items():
        if row == rule:
            left += by_rule[row]
        else:
            members.setdefault(rule, []).extend(each for group in by_rule[row] for each in group.conjunctions)
    return members, left


class _Loss:
    """How much precision rules cost, by a sample of documents; by a guess where there is none."""

    def __init__(self, rows: list[Conjunction], sample: Sample | None) -> None:
        self._sample = sample
        self._documents = len(sample) if sample else 0
        self._bits: dict[Conjunction, int] = {}
        self._forwarded = 0
        if sample and self._documents:
            # PERF: bench.onyx_routing, summarise: of very many, some say well enough which documents are wanted anyway.
            self._forwarded = sample.union(rows[:: 1 + len(rows) // _ROWS_MAX])

    def learn(self, rules: Iterable[Conjunction]) -> None:
        """Have these rules judged at once."""
        if self._sample and self._documents:
            self._bits |= self._sample.bits([rule for rule in dict.fromkeys(rules) if rule not in self._bits])

    def of(self, rule: Conjunction) -> float:
        """The share of documents that it would let through in vain."""
        own = weight(rule)
        if not self._documents:
            return own
        extra = (self._bits[rule] & ~self._forwarded).bit_count() / self._documents
        return extra + own * _LEAST  # the guess breaks ties

    def of_all(self, rules: list[Conjunction]) -> list[float]:
        """The same for many."""
        self.learn(rules)
        return [self.of(rule) for rule in rules]

    def take(self, rule: Conjunction) -> None:
        """Note that it was chosen: what it lets through costs nothing any more."""
        self._forwarded |= self._bits.get(rule, 0)


def _reduce(rows: list[Conjunction], size_max: int, loss: _Loss) -> dict[Conjunction, Conjunction]:
    """By row what replaces it, so that no more than `size_max` are left, if that is possible.

    A greedy set cover: always the rule that loses least precision for each row that it saves, of any level.
    """
    members: dict[Conjunction, list[int]] = {}
    for place, conjunction in enumerate(rows):
        for level in range(len(_LEVELS)):
            for broader in generalisations(conjunction, level):
                members.setdefault(broader, []).append(place)
    for place, conjunction in enumerate(rows):
        if conjunction in members:  # one that is there already costs nothing
            members[conjunction].append(place)
    members = {broader: places for broader, places in members.items() if len(places) > 1}
    loss.learn(members)
    left = [True] * len(rows)
    size = len(rows)

    def rate(broader: Conjunction) -> float:
        """The precision lost for each conjunction saved, as far as that is necessary."""
        members[broader] = alive = [place for place in members[broader] if left[place]]
        if len(alive) < 2:
            return inf
        return loss.of(broader) / min(len(alive) - 1, size - size_max)

    heap = [entry for entry in ((rate(broader), broader) for broader in members) if entry[0] < inf]
    heapq.heapify(heap)
    replaced: dict[Conjunction, Conjunction] = {}
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
            replaced[rows[place]] = broader
        size -= len(members[broader]) - 1
        loss.take(broader)
    return replaced
