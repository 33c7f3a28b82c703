"""Schemas -> path queries, as the YFilter experiments drew theirs.

A query is a random walk from the root over "may contain" edges: at each step the element becomes `*` with one
probability and is reached by `//` with another; a `//` may skip levels of the walk. The walk ends at an element
without children, at the depth limit, or by chance. Its steps get predicates and nested paths, which ask for attributes,
values and children that can occur there. The defaults are those of DHT-NFA, Table 1. (YFilter's generator; we differ:
skipped levels are part of the walk, so every query without a value, a position or a second branch can match some
document of the schema.)

    >>> from treecast.workload import QuerySettings, Schema, generate_queries
    >>> schema = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>")
    >>> sorted(generate_queries(schema, 3, QuerySettings(wildcard=0, descendant=0), seed=3))
    ['/a', '/a/b', '/a/b/c']
    >>> for query in generate_queries(Schema.records(), 2, QuerySettings(predicates=1, nested=1, wildcard=0), seed=3):
    ...     print(query)
    /trades[trade/parties/broker]/trade//comment[@by="theatre"]
    //trades[trade/fee][@exported="2026-04-23"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treecast.errors import QueryLimitError
from treecast.workload.query_walk import QueryWalk
from treecast.workload.schema import Schema
from treecast.workload.shares import turns
from treecast.workload.values import SKEW_MAX, Values

# After this many draws in a row without a new query, or this many per requested query, the schema has no more.
STALE_DRAWS_MAX = 20_000
DRAWS_PER_QUERY_MAX = 200
# Where another schema can take over, the search ends sooner.
STALE_TURN_DRAWS_MAX = 500
DEPTH_MAX = 100
PER_QUERY_MAX = 20
KINDS = ("attribute", "text", "position")


@dataclass(frozen=True)
class QuerySettings:
    """What queries look like.

    `depth_min`, `depth_max`: the number of steps, not counting those of predicates and nested paths.
    Probabilities: `wildcard` and `descendant` per step, `skip` for each further level that a `//` skips, `stop` after
    each step, `attribute` and `text` of a final `/@a` (where the element has attributes) or `/text()`.
    `skew`: theta; the element of a step is drawn by Zipf's law among those that may occur there, in the order of the
    content model. 0 draws all equally often.
    `predicates` per query, on average: 1.5 gives one to half of the queries and two to the others. `kinds` are the
    shares of their kinds: `attribute` (`[@a="v"]`), `text` (`[text()="v"]`) and `position` (`[2]`, up to
    `position_max`). `nested` paths per query, on average, of up to `nested_depth_max` steps.
    `values`: where values come from; give documents the same. Without `selectivity` a predicate asks for equality with
    a drawn value. With it, this share of the values that documents give there satisfies it: numbers by a range of that
    width, others by a mixture of `=` and `!=` that has this share on average.
    `distinct`: no query repeats.
    """

    depth_max: int = 10
    depth_min: int = 1
    wildcard: float = 0.2
    descendant: float = 0.2
    skip: float = 0.5
    stop: float = 0.1
    attribute: float = 0.0
    text: float = 0.0
    skew: float = 0.0
    predicates: float = 0.0
    kinds: Mapping[str, float] = field(default_factory=lambda: {"attribute": 1.0})
    position_max: int = 3
    nested: float = 0.0
    nested_depth_max: int = 3
    selectivity: float | None = None
    values: Values = field(default_factory=Values)
    distinct: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.depth_min <= self.depth_max <= DEPTH_MAX:
            raise ValueError(f"depth_min is at least 1, depth_max at least that and at most {DEPTH_MAX}")
        if self.nested_depth_max < 1 or self.position_max < 1:
            raise ValueError("nested_depth_max and position_max are at least 1")
        chances = [self.wildcard, self.descendant, self.skip, self.stop, self.attribute, self.text]
        chances += [] if self.selectivity is None else [self.selectivity]
        if not all(0 <= chance <= 1 for chance in chances) or self.attribute + self.text > 1:
            raise ValueError("probabilities and selectivity are from 0 to 1, and attribute + text at most 1")
        if not 0 <= self.predicates <= PER_QUERY_MAX or not 0 <= self.nested <= PER_QUERY_MAX:
            raise ValueError(f"predicates and nested are from 0 to {PER_QUERY_MAX}")
        if not 0 <= self.skew <= SKEW_MAX:
            raise ValueError(f"a skew is from 0 to {SKEW_MAX:g}")
        shares = self.kinds.values()
        if not set(self.kinds) <= set(KINDS) or not all(share >= 0 for share in shares) or not sum(shares):
            raise ValueError(f"kinds of predicates are {', '.join(KINDS)}, with shares that are not all zero")


def generate_queries(
    schema: Schema | Sequence[Schema],
    count: int,
    settings: QuerySettings | None = None,
    *,
    seed: int = 0,
    weights: Sequence[float] | None = None,
    note: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """`count` queries. Raises a QueryLimitError if the schemas do not have that many.

    Several schemas are used in turn, evenly or by weights. One that runs out of distinct queries is skipped, and `note`
    is called with a message.
    """
    if count < 0:
        raise ValueError("count is not negative")
    schemas = [schema] if isinstance(schema, Schema) else list(schema)
    order = turns(len(schemas), weights)
    settings = settings or QuerySettings()
    settings.values.check_names([element for one in schemas for element in one.elements.values()])
    walks = [
        QueryWalk(one, settings, f"{seed}/queries/{place}" if place else f"{seed}/queries")
        for place, one in enumerate(schemas)
    ]
    if settings.distinct and len(walks) == 1:
        return _distinct(walks[0], count)
    if settings.distinct:
        return _distinct_of_several(walks, order, count, note)
    return _repeating(walks, order, count)


def _repeating(walks: Sequence[QueryWalk], order: Iterator[tuple[int, int]], count: int) -> Iterator[str]:
    for _ in range(count):
        walk = walks[next(order)[0]]
        query = _next_of(walk, frozenset(), STALE_DRAWS_MAX)
        if query is None:
            raise exhaustion_error(walk.schema.name, 0, count)
        yield query


def _next_of(walk: QueryWalk, known_queries: frozenset[str] | set[str], draws: int) -> str | None:
    """The next query that is not in `known_queries`; None if that many draws give none."""
    for _ in range(draws):
        query = walk.draw()
        if query is not None and query not in known_queries:
            return query
    return None


def _distinct(walk: QueryWalk, count: int) -> Iterator[str]:
    """PERF: the loop that makes a million queries; tests/long/test_full_workload.py."""
    known_queries: set[str] = set()
    draw = walk.draw
    stale = draws = 0
    draws_max = STALE_DRAWS_MAX + DRAWS_PER_QUERY_MAX * count
    while len(known_queries) < count:
        query = draw()
        draws += 1
        if query is None or query in known_queries:
            stale += 1
            if stale > STALE_DRAWS_MAX or draws > draws_max:
                raise exhaustion_error(walk.schema.name, len(known_queries), count)
        else:
            stale = 0
            known_queries.add(query)
            yield query


def _distinct_of_several(
    walks: Sequence[QueryWalk],
    order: Iterator[tuple[int, int]],
    count: int,
    note: Callable[[str], None] | None,
) -> Iterator[str]:
    known_queries: set[str] = set()
    query_counts = [0] * len(walks)
    open_places = set(range(len(walks)))
    while len(known_queries) < count:
        place = next(order)[0]
        if place not in open_places:
            continue
        query = _next_of(walks[place], known_queries, STALE_TURN_DRAWS_MAX if len(open_places) > 1 else STALE_DRAWS_MAX)
        if query is None:
            open_places.remove(place)
            if not open_places:
                raise exhaustion_error("the schemas", len(known_queries), count)
            if note is not None:
                name = walks[place].schema.name
                count_text = f"{query_counts[place]:,}"
                note(f"{name} has hardly more than {count_text} distinct queries; the others make up for the rest")
        else:
            query_counts[place] += 1
            known_queries.add(query)
            yield query


def exhaustion_error(name: str, found_count: int, count: int) -> QueryLimitError:
    """The error for a schema without more queries."""
    message = f"{name} gave only {found_count:,} distinct queries of the {count:,} asked for"
    hint = (
        f"ask for {found_count:,}, raise depth_max, or allow repetitions"
        if found_count
        else "no path of the schema serves"
    )
    return QueryLimitError(message, code="TC381", hint=hint)
