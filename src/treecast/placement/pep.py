"""Partitioning by exclusiveness patterns (O11): queries that compare the same thing with different values go apart.

Theory of operation. A *pattern* is a path and a target in it that queries compare with `=`. A document in which the
target occurs once can only match queries of one value, so queries divided by that value are divided well.

Choosing patterns. For each pattern, the queries that have it are counted. The greedy choice takes the pattern that
covers the most queries not covered yet, divided by how often its target occurs in a document. Then each pattern with a
repeated target is replaced by one that repeats less, if as many queries stay covered.

Making partitions. The values of each pattern are cut into K buckets that equally many queries ask for. Bucket i of
every pattern is partition i. A query that has several of the patterns is placed by one of them. Which one follows from
its text, so that it can be found again. Queries without any pattern are the "don't care" partition, the last one, which
sees every document.

A document goes to the partitions of the values that occur in it *and* are asked for: the router holds the query
`path[target = value]` for every pattern and value in use. It covers all queries that were placed by them. So a value
that repeats, or is written in another way ("1", "1.0"), is no problem.

As queries come and go, new values fall into the bucket of their neighbour. When partitions have become more uneven than
they were, or the patterns cover less (`unbalanced`), `rebalance` chooses again and says what has to move. Once there
are more queries than the patterns were chosen for, what was reached then is no longer the measure.

Source: ONYX, section 4.4. We differ: partitions are matched by values asked for, not by whole buckets, so fewer match;
patterns come from the queries themselves, not from accepting states.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from treecast import _native
from treecast.document import Bytes, EntityTexts, Limits
from treecast.errors import DocumentError
from treecast.placement.aggregate import Selectivity
from treecast.placement.facts import Pair, Survey, survey
from treecast.placement.filter_tree import Chain, FilterTree
from treecast.placement.group_placement import FilteredPlacement
from treecast.placement.members import Members

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions

PATTERNS_MAX = 10
_CANDIDATES_MAX = 200  # patterns whose repetition is looked at
_SKEW_MAX = 2.0
_SKEW_GROWTH_MAX = 1.5  # where a value that many ask for leaves partitions uneven from the beginning
_UNCOVERED_MAX = 0.1  # how much the share of "don't care" may grow
_ADDED_MAX = 2  # times as many as the patterns were chosen for: then these say nothing of today's queries

Value: TypeAlias = tuple[int, float, str]


class Pattern(NamedTuple):
    """A chosen pattern."""

    path: str
    """As a query: `/a/b/@x`, `/a/b`, `/a/b/text()`."""
    covered: int
    """Queries that have it."""
    repetition: float
    """How often it occurs in the documents that have it, on average; 1: at most once."""


class _LayoutFigures(NamedTuple):
    """What the choice of patterns gave."""

    queries: int
    uncovered: float
    skew: float


@dataclass
class _Buckets:
    """The buckets of one pattern: values in their order, each with its partition."""

    values: list[Value]
    partitions: list[int]

    def partition(self, value: Value) -> int:
        """Of a value, or of its neighbour if it is new; the first one where there was no value at all."""
        return self.partitions[max(0, bisect_right(self.values, value) - 1)] if self.values else 0


class Pep(FilteredPlacement):
    """K partitions by the values of a few patterns, and one for the queries that have none of them.

    `once` are patterns (`/a/b/@x`) that the schema allows at most once in a document. For others a sample of
    `documents` decides. `shards` counts all partitions, the last one included. The first add_many decides the patterns.

    That takes three steps, which work on counts: `choose`, `cut` and `place`. Code that counts a population
    elsewhere, such as `treecast.spark.batch.population`, calls them with its counts.
    """

    name = "pep"

    def __init__(
        self,
        shards: int,
        *,
        documents: Sequence[Bytes] = (),
        once: Collection[str] = (),
        patterns_max: int = PATTERNS_MAX,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        entities: EntityTexts = None,
    ) -> None:
        super().__init__(shards, namespaces)
        if patterns_max < 1:
            raise ValueError(f"patterns_max must be 1 or more, not {patterns_max}")
        self._patterns_max = patterns_max
        self._once = frozenset(once)
        self._documents = Selectivity(documents, limits=limits, entities=entities).documents
        self._settings = {"limits": limits, "entities": entities}
        self._lay_out()

    def _lay_out(self) -> None:
        self._members = Members()
        self._tree = FilterTree(self._members, **self._settings)  # type: ignore[arg-type]
        for shard in range(self.shards - 1):
            self._tree.branch(-1, shard=shard)
        self._rest = self._tree.branch(-1, shard=self.shards - 1)
        self._buckets: dict[str, _Buckets] = {}
        self.patterns: tuple[Pattern, ...] = ()
        self._at_layout: _LayoutFigures | None = None
        self._added_since_layout = 0  # since then

    # -- the interface

    def _enter(self, facts: Survey) -> None:
        if not len(self):
            self.choose(Counter(frozenset(pair.pattern for pair in facts.pairs(row)) for row in range(len(facts))))
            pairs = [self._pair(facts, row) for row in range(len(facts))]
            self.cut(Counter(pair for pair in pairs if pair is not None))
        else:
            pairs = [self._pair(facts, row) for row in range(len(facts))]
        self.place(facts.ids, pairs)

    def describe(self) -> str:
        """See Placement."""
        texts = ", ".join(f"{pattern.path} ({pattern.repetition:.1f} a document)" for pattern in self.patterns)
        return (
            f"{len(self)} subscriptions in {self.shards - 1} partitions by the values of {texts or 'no pattern'}; "
            f"{self.uncovered:.1%} of them have none and are held where every document comes."
        )

    # -- its state

    @property
    def uncovered(self) -> float:
        """The share of the subscriptions in the "don't care" partition."""
        return self._tree.shard_sizes()[self.shards - 1] / max(1, len(self))

    @property
    def skew(self) -> float:
        """How much the largest of the other partitions is above their mean."""
        shard_sizes = self._tree.shard_sizes()
        sizes = [shard_sizes[shard] for shard in range(self.shards - 1)]
        return max(sizes, default=0) * len(sizes) / max(1, sum(sizes)) if sizes else 1.0

    @property
    def unbalanced(self) -> bool:
        """Whether `rebalance` is due: partitions have become uneven, or the patterns cover clearly less than before."""
        layout = self._at_layout
        if layout is None or self._added_since_layout > _ADDED_MAX * layout.queries:
            return self.skew > _SKEW_MAX or self.uncovered > _UNCOVERED_MAX
        uneven = self.skew > max(_SKEW_MAX, _SKEW_GROWTH_MAX * layout.skew)
        return uneven or self.uncovered > layout.uncovered + _UNCOVERED_MAX

    def rebalance(self, subscriptions: Subscriptions) -> dict[str, tuple[int, int]]:
        """Choose patterns and buckets again for all subscriptions; the answer is who moves: id -> (from, to)."""
        facts = survey(subscriptions, self._namespaces)
        Members().check_new(facts.ids)  # raises before anything changes
        before = {id: self.holders(id)[0] for id in self._members}
        self._lay_out()
        self._enter(facts)
        after = {id: self.holders(id)[0] for id in self._members}
        return {id: (old, after[id]) for id, old in before.items() if id in after and after[id] != old}

    # -- the three steps

    def choose(self, signatures: Mapping[frozenset[str], int]) -> tuple[str, ...]:
        """Choose the patterns; the answer is as `Pair.pattern` writes them.

        `signatures` count, for each set of patterns, the queries that have exactly these.
        """
        count_by_signature = Counter({signature: count for signature, count in signatures.items() if signature})
        coverage: Counter[str] = Counter()
        for signature, count in count_by_signature.items():
            for pattern in signature:
                coverage[pattern] += count
        candidates = sorted(coverage, key=lambda pattern: (-coverage[pattern], pattern))[:_CANDIDATES_MAX]
        repetition = {pattern: self._repetition(pattern) for pattern in candidates}
        patterns = _greedy(count_by_signature, repetition, self._patterns_max)
        patterns = _with_fewer_repeats(patterns, count_by_signature, repetition)
        self.patterns = tuple(Pattern(_as_query(text), coverage[text], repetition[text]) for text in patterns)
        self._buckets = {pattern: _Buckets([], []) for pattern in patterns}
        self._at_layout = None
        return tuple(patterns)

    def _repetition(self, pattern: str) -> float:
        path = _as_query(pattern)
        if path in self._once or not self._documents:
            return 1.0
        counts = []
        for document in self._documents:
            with suppress(DocumentError):  # one that only the index's own settings accept
                counts.append(len(_native.select(bytes(document), path.encode())))
        return sum(counts) / max(1, sum(count > 0 for count in counts)) or 1.0

    def cut(self, asked: Mapping[Pair, int]) -> None:
        """Cut the values of each pattern into buckets; `asked` is the number of queries that go by each pair."""
        values: dict[str, Counter[Value]] = {pattern: Counter() for pattern in self._buckets}
        for pair, count in asked.items():
            values[pair.pattern][_value(pair.literal)] += count
        partitions = max(1, self.shards - 1)
        for pattern, counts in values.items():
            total, before = counts.total(), 0
            places = []
            for value in sorted(counts):  # the bucket that the middle of its queries falls into
                places.append(min(partitions - 1, int(partitions * (before + counts[value] / 2) / total)))
                before += counts[value]
            self._buckets[pattern] = _Buckets(sorted(counts), places)

    def place(self, ids: Sequence[str], pairs: Sequence[Pair | None]) -> None:
        """Enter new ids, each by the pair that it goes by: of those with a chosen pattern the one at the checksum of
        the query's text; None where it has none."""
        self._members.check_new(ids)
        chains = {pair: self._chain(pair) for pair in dict.fromkeys(pairs)}
        self._tree.enter(ids, [chains[pair] for pair in pairs])
        self._added_since_layout += len(ids)
        if self._at_layout is None:
            self._at_layout, self._added_since_layout = _LayoutFigures(len(self), self.uncovered, self.skew), 0

    def _pair(self, facts: Survey, row: int) -> Pair | None:
        """The pair that a query goes by: it follows from its text, so that it can be found again."""
        pairs = [pair for pair in facts.pairs(row) if pair.pattern in self._buckets]
        if not pairs:
            return None
        return pairs[zlib.crc32(facts.queries[row].encode()) % len(pairs)]

    def _chain(self, pair: Pair | None) -> Chain:
        if pair is None or self.shards == 1:
            return Chain(self.shards - 1, ((self._rest, "/*"),))
        partition = self._buckets[pair.pattern].partition(_value(pair.literal))
        return Chain(partition, ((partition, pair.filter),))


def _as_query(pattern: str) -> str:
    path, _, target = pattern.partition("\0")
    return path if target == "." else f"{path}/{target}"


def _value(literal: str) -> Value:
    """What a literal is sorted by: numbers first, so that "1" and 1.0 are neighbours, then texts."""
    number = _native.to_number(literal[1:].encode())
    return (1, 0.0, literal[1:]) if math.isnan(number) else (0, number + 0.0, "")


def _greedy(signatures: Counter[frozenset[str]], repetition: Mapping[str, float], patterns_max: int) -> list[str]:
    remaining = Counter(signatures)
    patterns: list[str] = []
    while remaining and len(patterns) < patterns_max:
        gain: Counter[str] = Counter()
        for signature, count in remaining.items():
            for pattern in signature & repetition.keys():
                gain[pattern] += count
        if not gain:
            break
        best = max(gain, key=lambda pattern: (gain[pattern] / repetition[pattern], pattern))
        patterns.append(best)
        remaining = Counter({signature: count for signature, count in remaining.items() if best not in signature})
    return patterns


def _with_fewer_repeats(
    choice: list[str], signatures: Counter[frozenset[str]], repetition: Mapping[str, float]
) -> list[str]:
    """Exchange patterns that repeat for others that repeat less, where as many queries stay covered."""

    def count_covered(patterns: Collection[str]) -> int:
        return sum(count for signature, count in signatures.items() if not signature.isdisjoint(patterns))

    whole = count_covered(choice)
    for place, pattern in enumerate(choice):
        if repetition[pattern] <= 1:
            continue
        others = choice[:place] + choice[place + 1 :]
        if count_covered(others) == whole:
            continue  # it is not needed for coverage, and spreads the load
        better = [p for p in repetition if p not in choice and repetition[p] < repetition[pattern]]
        for candidate in sorted(better, key=lambda p: (repetition[p], p)):
            if count_covered([*others, candidate]) >= whole:
                choice = [*choice[:place], candidate, *choice[place + 1 :]]
                break
    return choice
