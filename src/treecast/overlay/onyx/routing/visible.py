"""The conjunctions that a summary shows: which of them cover a given one, and which it covers, without a look at each.

    >>> visible = Visible()
    >>> broad, narrow = (("//c",),), (("/a", "/c", '[@x="12"]'),)
    >>> visible.show([broad])
    >>> visible.find_witnesses([narrow])
    [(('//c',),)]
    >>> visible.show([narrow])
    >>> visible.below([broad])
    [(('//c',),), (('/a', '/c', '[@x="12"]'),)]

Theory of operation. An index of structures (`structures.py`) says which structures may cover which. Tests are looked
up: what covers a conjunction has no test, or only tests that follow from its own. Each visible conjunction is anchored
at one of its tests, the rarest when it came; so a conjunction looks at what is anchored at each test that follows from
its own. Of the ways in which a text may begin, only lengths that occur are looked up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from treecast.overlay.onyx.routing.covering import (
    beginning,
    covers,
    follows,
    presence_of,
    read_test,
    start_of,
    structure,
    tests_of,
)
from treecast.overlay.onyx.routing.routing_query import Conjunction, has_hole
from treecast.overlay.onyx.routing.structures import Structures

_LAST = "\U0010ffff"  # after whatever begins with a text


class _Bucket:
    """The visible conjunctions of one structure; what they hold is listed when somebody asks."""

    __slots__ = ("_holding", "_starts", "entries")

    def __init__(self) -> None:
        self.entries: dict[Conjunction, None] = {}
        self._holding: dict[str, dict[Conjunction, None]] | None = None  # each test, and what it implies but beginnings
        self._starts: dict[str, list[tuple[str, Conjunction]]] = {}  # by target, in order

    def add(self, conjunction: Conjunction) -> None:
        self.entries[conjunction] = None
        self._starts.clear()
        if self._holding is not None:
            self._hold(self._holding, conjunction)

    def remove(self, conjunction: Conjunction) -> None:
        del self.entries[conjunction]
        self._starts.clear()
        if self._holding is not None:
            for key in _held(conjunction):
                rows = self._holding[key]
                del rows[conjunction]
                if not rows:
                    del self._holding[key]

    def covered(self, conjunction: Conjunction) -> Iterable[Conjunction]:
        """Those that a conjunction of such a structure may cover."""
        tests = tests_of(conjunction)
        if not tests:
            return self.entries
        if self._holding is None:
            self._holding = {}
            for each in self.entries:
                self._hold(self._holding, each)
        holding = self._holding
        rows = [holding.get(test, {}) for test in tests]
        few: Iterable[Conjunction] = rows[min(range(len(rows)), key=lambda place: len(rows[place]))]
        for test in tests:
            known = read_test(test)
            if known is not None and known.relation == "starts-with" and known.value:
                few = self._beginning(known.target, str(known.value))  # nothing else implies it but itself
                break
        return few

    def _beginning(self, target: str, text: str) -> list[Conjunction]:
        rows = self._starts.get(target)
        if rows is None:
            rows = [
                (start[1], each)
                for each in self.entries
                for start in map(start_of, tests_of(each))
                if start and start[0] == target
            ]
            rows.sort()
            self._starts[target] = rows
        first, last = bisect_left(rows, (text,)), bisect_left(rows, (text + _LAST,))
        return [each for _, each in rows[first:last]]

    @staticmethod
    def _hold(holding: dict[str, dict[Conjunction, None]], conjunction: Conjunction) -> None:
        for key in _held(conjunction):
            holding.setdefault(key, {})[conjunction] = None


def _held(conjunction: Conjunction) -> dict[str, None]:
    tests = tests_of(conjunction)
    return dict.fromkeys(tests) | dict.fromkeys(each for each in map(presence_of, tests) if each)


def hides(conjunction: Conjunction, other: Conjunction) -> bool:
    """Whether one covers the other; of two that cover each other, the first in order stays.

    A set form covers nothing by its tokens: what it covers depends on its values.
    """
    if has_hole(conjunction) or not covers(conjunction, other, follows):
        return False
    return conjunction < other or not covers(other, conjunction, follows)


class Visible:
    """Conjunctions that come and go, each once."""

    def __init__(self, *, seed: int | None = None) -> None:
        self._structures = Structures(seed=seed)
        self._anchors: dict[Conjunction, str] = {}  # "" where it has no test
        self._anchored: dict[str, dict[Conjunction, Conjunction]] = {}  # test -> conjunction -> its structure
        self._bare: dict[Conjunction, dict[Conjunction, None]] = {}  # structure -> conjunctions without tests
        self._buckets: dict[Conjunction, _Bucket] = {}
        self._lengths: dict[str, dict[int, int]] = {}  # target -> length of a beginning -> how many tests ask for it

    def __len__(self) -> int:
        return len(self._anchors)

    def __contains__(self, conjunction: object) -> bool:
        return conjunction in self._anchors

    def __iter__(self) -> Iterator[Conjunction]:
        return iter(self._anchors)

    def show(self, conjunctions: Sequence[Conjunction]) -> None:
        """Add conjunctions that are not there; raises QueryError, and adds none, if one cannot be a query."""
        kinds = [structure(each) for each in conjunctions]
        self._structures.add(dict.fromkeys(kind for kind in kinds if kind not in self._buckets))
        anchored, lengths = self._anchored, self._lengths
        for conjunction, kind in zip(conjunctions, kinds, strict=True):
            bucket = self._buckets.get(kind)
            if bucket is None:
                bucket = self._buckets[kind] = _Bucket()
            bucket.add(conjunction)
            tests = tests_of(conjunction)
            if not tests:
                self._anchors[conjunction] = ""
                self._bare.setdefault(kind, {})[conjunction] = None
                continue
            anchor = tests[0] if len(tests) == 1 else min(tests, key=self._frequency)
            self._anchors[conjunction] = anchor
            anchored.setdefault(anchor, {})[conjunction] = kind
            for target, length in map(_asked_beginning, tests):
                if length:
                    counts = lengths.setdefault(target, {})
                    counts[length] = counts.get(length, 0) + 1

    def unshow(self, conjunctions: Iterable[Conjunction]) -> None:
        """Remove conjunctions that are there."""
        empty: list[Conjunction] = []
        for conjunction in conjunctions:
            anchor = self._anchors.pop(conjunction)
            kind = structure(conjunction)
            bucket = self._buckets[kind]
            bucket.remove(conjunction)
            if not bucket.entries:
                del self._buckets[kind]
                empty.append(kind)
            if not anchor:
                del self._bare[kind][conjunction]
                if not self._bare[kind]:
                    del self._bare[kind]
                continue
            rows = self._anchored[anchor]
            del rows[conjunction]
            if not rows:
                del self._anchored[anchor]
            self._forget_lengths(conjunction)
        self._structures.remove(empty)

    def _forget_lengths(self, conjunction: Conjunction) -> None:
        for target, length in map(_asked_beginning, tests_of(conjunction)):
            if length:
                counts = self._lengths[target]
                counts[length] -= 1
                if not counts[length]:
                    del counts[length]

    def _frequency(self, test: str) -> int:
        return len(self._anchored.get(test, ()))

    def find_witnesses(self, conjunctions: Sequence[Conjunction]) -> list[Conjunction | None]:
        """For each conjunction another one, visible, that hides it."""
        if not self._anchors:
            return [None] * len(conjunctions)
        kinds = [structure(each) for each in conjunctions]
        distinct = list(dict.fromkeys(kinds))
        above = {
            kind: (frozenset(found), [each for each in found if each in self._bare])
            for kind, found in zip(distinct, self._structures.above(distinct), strict=True)
        }
        return [self._witness(each, *above[kind]) for each, kind in zip(conjunctions, kinds, strict=True)]

    def _witness(
        self, conjunction: Conjunction, above: frozenset[Conjunction], bare: list[Conjunction]
    ) -> Conjunction | None:
        for kind in bare:
            for other in self._bare[kind]:
                if other != conjunction and hides(other, conjunction):
                    return other
        tests = tests_of(conjunction)
        keys = self._keys(tests) if tests else ()
        known: set[str] | None = None
        for key in keys:
            for other, kind in self._anchored.get(key, _NONE).items():
                if kind not in above or other == conjunction:
                    continue
                known = set(keys) if known is None else known
                if known.issuperset(tests_of(other)) and hides(other, conjunction):
                    return other
        return None

    def _keys(self, tests: Sequence[str]) -> list[str]:
        """The tests, and what follows from them as far as somebody asks for it."""
        keys = list(tests)
        for test in tests:
            presence = presence_of(test)
            if presence:
                keys.append(presence)
            start = start_of(test) if self._lengths else None
            if start and start[0] in self._lengths:
                target, text = start
                keys += [beginning(target, text[:length]) for length in self._lengths[target] if length <= len(text)]
        return keys

    def below(self, conjunctions: Sequence[Conjunction]) -> list[Conjunction]:
        """Those that one of the conjunctions may cover."""
        ours: dict[Conjunction, list[Conjunction]] = {}  # by structure
        for conjunction in conjunctions:
            ours.setdefault(structure(conjunction), []).append(conjunction)
        found: dict[Conjunction, None] = {}
        for (_, rows), candidates in zip(ours.items(), self._structures.below(list(ours)), strict=True):
            for kind in candidates:
                bucket = self._buckets[kind]
                for conjunction in rows:
                    found.update(dict.fromkeys(bucket.covered(conjunction)))
        return list(found)


_NONE: dict[Conjunction, Conjunction] = {}


def _asked_beginning(test: str) -> tuple[str, int]:
    """The target of a test of how a text begins, and the length of that; 0 for other tests."""
    if not test.startswith("[starts-with("):
        return "", 0
    start = start_of(test)
    return (start[0], len(start[1])) if start else ("", 0)
