"""From many expressions a small set that covers them (X8), chosen by what documents look like.

Theory of operation. Each query is reduced to the plain path of each of its branches: its *skeletons*, see `facts`. They
cover it. A skeleton without any name is replaced by an element or a value that must be there.

A skeleton has *generalisations*, which cover it by construction: its prefixes, its suffixes after `//`, each of its
names after `//`, and `/*`. To choose few of them, so that every skeleton is covered, is a set cover. A generalisation
costs a fixed price, plus the share of documents that it alone would forward.

The choice is greedy: the best ratio of cost to newly covered skeletons comes first. It is repeated with a higher price
until the set is small enough; `/*` is the last resort, so that any size can be met. Selectivities come from a sample of
documents, which one index of all generalisations matches.

There are never false negatives; the share of false forwards is reported.

Source: XTrie, "Generating intermediate filters", which refers to its authors' tree pattern aggregation. We differ:
paths instead of tree patterns, and set cover instead of pairwise least upper bounds, because both hold for a million.

    >>> result = aggregate([("1", "/a/b/c"), ("2", "/a/b/d[@x = 1]"), ("3", "/z")], filters_max=2)
    >>> len(result.filters), result.expressions
    (2, 3)
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treecast.document import Bytes, EntityTexts, Limits
from treecast.index import Index
from treecast.placement.facts import Survey, survey

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions

ANYTHING = "/*"
SOURCES_MAX = 20_000  # distinct paths whose generalisations are weighed; of more, prefixes are taken first
DOCUMENTS_MAX = 256  # of the sample
FILTERS_MAX = 100
_STEP = re.compile(r"(//?)(\*\[local-name\(\) = '[^']*'\]|[^/\[]+)")
_WITH_VALUE = re.compile(r"(.*?)\[(?:\.|@[^ ]+|text\(\)) = .*\]", re.DOTALL)
_PRICES = (1e-12, 1e3)  # the lowest: as many filters as are allowed; the highest: as few as will do
_HALVINGS = 10


@dataclass(frozen=True)
class Aggregate:
    """A covering set, and how good it is."""

    filters: tuple[str, ...]
    covering: Mapping[str, str]
    """For each path that an expression was reduced to (`Survey.covers_of`), the filter that covers it."""
    expressions: int
    """Subscriptions that were aggregated."""
    documents: int
    """Documents of the sample that could be read."""
    wanted: int
    """Of them, those that match one of the expressions."""
    forwarded: int
    """Those that match one of the filters."""

    @property
    def shrinkage(self) -> float:
        """How many expressions there are for each filter."""
        return self.expressions / max(1, len(self.filters))

    @property
    def false_forwards(self) -> float:
        """The share of the documents that are forwarded without a match."""
        return (self.forwarded - self.wanted) / max(1, self.documents)

    @property
    def precision(self) -> float:
        """The share of the forwarded documents that match an expression."""
        return self.wanted / self.forwarded if self.forwarded else 1.0

    def describe(self) -> str:
        """A sentence for people."""
        return (
            f"{self.expressions} expressions are covered by {len(self.filters)} filters ({self.shrinkage:.0f} to 1); "
            f"of {self.documents} documents {self.wanted} are wanted and {self.forwarded} forwarded, "
            f"a precision of {self.precision:.1%}."
        )


class Selectivity:
    """Which documents of a sample match an expression: bits of an integer, the first document the lowest."""

    def __init__(
        self, documents: Sequence[Bytes] = (), *, limits: Limits | None = None, entities: EntityTexts = None
    ) -> None:
        self._settings = {"limits": limits, "entities": entities}
        step = max(1, len(documents) // DOCUMENTS_MAX)
        sample = list(documents[::step][:DOCUMENTS_MAX])
        empty = Index(limits=limits, entities=entities)
        bad = {row for row, _ in empty.match_part(sample, report=True).rejected} if sample else set()
        self.documents = [document for row, document in enumerate(sample) if row not in bad]
        self._bits_by_path: dict[str, int] = {}

    def learn(self, filters: Iterable[str]) -> None:
        """Match the expressions that are not known yet, all at once."""
        new = list(dict.fromkeys(text for text in filters if text not in self._bits_by_path))
        bits = [0] * len(new)
        if new and self.documents:
            index = Index(limits=self._settings["limits"], entities=self._settings["entities"])  # type: ignore[arg-type]
            index.add_many([(str(number), text) for number, text in enumerate(new)])
            for place, document in enumerate(self.documents):
                for number in index.match(document):
                    bits[int(number)] |= 1 << place
        self._bits_by_path.update(zip(new, bits, strict=True))

    def bits(self, text: str) -> int:
        """The documents that match an expression that was learnt."""
        return self._bits_by_path[text]


def generalisations(path: str) -> list[str]:
    """What covers a plain path, or one with a value at its end: itself first, then plain paths; `/*` is the last."""
    steps = _steps(path)
    texts = [path, "".join(slash + test for slash, test in steps)]
    texts += ["".join(slash + test for slash, test in steps[:end]) for end in range(len(steps) - 1, 0, -1)]
    tails = ["".join(slash + test for slash, test in steps[begin:]) for begin in range(len(steps))]
    texts += [tail if tail.startswith("//") else "/" + tail for tail in tails]
    texts += ["//" + test for _, test in steps if test != "*"]
    return [*dict.fromkeys(text for text in texts if text not in ("//*", ANYTHING)), ANYTHING]


def aggregate(
    subscriptions: Subscriptions,
    *,
    documents: Sequence[Bytes] = (),
    filters_max: int = FILTERS_MAX,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> Aggregate:
    """At most `filters_max` expressions that together cover all subscriptions; `documents` are a sample."""
    if filters_max < 1:
        raise ValueError(f"filters_max must be 1 or more, not {filters_max}")
    all_of_them: Subscriptions = subscriptions if hasattr(subscriptions, "schema") else list(subscriptions)
    facts = survey(all_of_them, namespaces)
    selectivity = Selectivity(documents, limits=limits, entities=entities)
    exact = Index(namespaces=namespaces, limits=limits, entities=entities)
    if selectivity.documents:
        exact.add_many(all_of_them)
    matching_documents = sum(bool(exact.match(document)) for document in selectivity.documents)
    paths = (text for row in range(len(facts)) for text in facts.covers_of(row))
    return of_paths(paths, selectivity, filters_max, expressions=len(facts), wanted=matching_documents)


def of_paths(
    paths: Iterable[str], selectivity: Selectivity, filters_max: int, *, expressions: int, wanted: int
) -> Aggregate:
    """The aggregate of expressions that are already reduced (`Survey.covers_of`) and matched with the sample."""
    covering = cover(paths, selectivity, filters_max)
    filters = tuple(dict.fromkeys(covering.values()))
    forwarded_bits = 0
    for text in filters:
        forwarded_bits |= selectivity.bits(text)
    documents = len(selectivity.documents)
    return Aggregate(filters, covering, expressions, documents, wanted, forwarded_bits.bit_count())


def cover(paths: Iterable[str], selectivity: Selectivity, filters_max: int) -> dict[str, str]:
    """For each path the filter that covers it, with at most `filters_max` filters."""
    sources = shorten_paths(list(dict.fromkeys(paths)))
    sources = {path: ANYTHING if source == "//*" else source for path, source in sources.items()}
    distinct_sources = list(dict.fromkeys(sources.values()))

    options = {source: generalisations(source) for source in distinct_sources}
    covered_by: dict[str, list[str]] = {}
    for source, texts in options.items():
        for text in texts:
            covered_by.setdefault(text, []).append(source)

    # What covers one source only is worth no more than that source itself.
    own = set(distinct_sources)
    candidates = {text: sources for text, sources in covered_by.items() if len(sources) > 1 or text in own}
    selectivity.learn([*candidates, ANYTHING])
    filter_by_source = _within(distinct_sources, candidates, selectivity, filters_max)
    return {path: filter_by_source[source] for path, source in sources.items()}


def _within(
    sources: list[str], candidates: Mapping[str, list[str]], selectivity: Selectivity, filters_max: int
) -> dict[str, str]:
    """The greedy choice at the lowest price, of those tried, that gives few enough filters."""
    low, high = _PRICES
    filter_by_source = _greedy(sources, candidates, selectivity, low, len(sources) + 1)
    if len(set(filter_by_source.values())) <= filters_max:
        return filter_by_source
    best = _greedy(sources, candidates, selectivity, high, filters_max)
    for _ in range(_HALVINGS):
        price = (low * high) ** 0.5
        filter_by_source = _greedy(sources, candidates, selectivity, price, len(sources) + 1)
        if len(set(filter_by_source.values())) <= filters_max:
            best, high = filter_by_source, price
        else:
            low = price
    return best


def shorten_paths(paths: Sequence[str], sources_max: int = SOURCES_MAX) -> dict[str, str]:
    """For each path itself; or, if there are more than `sources_max` paths, a prefix of it.

    All prefixes have the same number of steps, the largest at which no more than `sources_max` of them differ.
    """
    if len(paths) <= sources_max:
        return {path: path for path in paths}
    steps_by_path = {path: _steps(path) for path in paths}
    length = max(map(len, steps_by_path.values()))
    while True:
        length -= 1
        prefix_by_path = {
            path: "".join(slash + test for slash, test in steps[:length]) for path, steps in steps_by_path.items()
        }
        if length <= 1 or len(set(prefix_by_path.values())) <= sources_max:
            return prefix_by_path


def _steps(path: str) -> list[tuple[str, str]]:
    """(slash, test) of each step, without the value at its end, which may look like steps."""
    value_match = _WITH_VALUE.fullmatch(path) if path.endswith("]") else None
    return _STEP.findall(path if value_match is None else value_match[1])


def _greedy(
    sources: list[str],
    candidates: Mapping[str, list[str]],
    selectivity: Selectivity,
    price: float,
    filters_max: int,
) -> dict[str, str]:
    """For each source the filter that covers it. Filters are chosen one by one; the last that fits covers the rest."""
    forwarded_bits = 0  # documents that have to be forwarded, or are already
    for source in sources:
        forwarded_bits |= selectivity.bits(source)
    own = set(sources)
    weight = 1.0 / (len(selectivity.documents) + 1)
    remaining = set(sources)
    filter_by_source: dict[str, str] = {}

    def rate(text: str) -> float:
        gain = sum(source in remaining for source in candidates[text])
        if not gain:
            return float("inf")
        if text in own:
            return price / gain
        # As if the sample had one more document, of which a path with many names matches little. That breaks ties, and
        # decides alone if there is no sample.
        name_count = sum(test != "*" for _, test in _steps(text))
        extra = (selectivity.bits(text) & ~forwarded_bits).bit_count() + 0.5**name_count
        return float(price + extra * weight) / gain

    heap = [(rate(text), text) for text in candidates]
    heapq.heapify(heap)
    filters = 0
    while remaining:
        if filters == filters_max - 1:
            return filter_by_source | dict.fromkeys(remaining, _narrowest(remaining, candidates, selectivity))

        # The rating may have become worse since it was computed: if another one is better now, this one goes back.
        old_rating, text = heapq.heappop(heap)
        rating = rate(text)
        if rating > old_rating and heap and rating > heap[0][0]:
            if rating < float("inf"):
                heapq.heappush(heap, (rating, text))
            continue

        covered_sources = [source for source in candidates[text] if source in remaining]
        if not covered_sources:
            continue
        filters += 1
        filter_by_source |= dict.fromkeys(covered_sources, text)
        remaining.difference_update(covered_sources)
        forwarded_bits |= selectivity.bits(text)
    return filter_by_source


def _narrowest(sources: set[str], candidates: Mapping[str, list[str]], selectivity: Selectivity) -> str:
    """Of what covers all that is left, the one that the fewest documents match."""
    some = next(iter(sources))
    fitting = [text for text in generalisations(some) if sources <= set(candidates.get(text, ()))]
    return min(fitting, key=lambda text: (selectivity.bits(text).bit_count(), text), default=ANYTHING)


def of_survey(facts: Survey, rows: Iterable[int], selectivity: Selectivity, filters_max: int) -> dict[str, str]:
    """For what some subscriptions are reduced to, the filters that cover it."""
    return cover((text for row in rows for text in facts.covers_of(row)), selectivity, filters_max)
