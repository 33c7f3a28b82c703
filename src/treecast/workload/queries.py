"""Schema -> path queries, as the YFilter experiments drew theirs.

A query is a random walk from the root over "may stand in" edges: at each step the element becomes `*` with one
probability and is reached by `//` with another; a `//` may skip levels of the walk. The walk ends at an element
without children, at the depth limit, or by chance. (YFilter, section 6.1; we differ: skipped levels are part of the
walk, so that every query can match some document of the schema.)

    >>> from treecast.workload import QuerySettings, Schema, generate_queries
    >>> schema = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>")
    >>> sorted(generate_queries(schema, 3, QuerySettings(wildcard=0, descendant=0), seed=3))
    ['/a', '/a/b', '/a/b/c']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from treecast.errors import QueryLimitError
from treecast.workload.schema import Schema

# This many draws in a row without a new query: the schema has no more of them.
STALE_DRAWS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """What queries look like; everything but `depth_max` and `distinct` is a probability.

    `wildcard` and `descendant` per step, `skip` for each further level that a `//` skips, `stop` after each step,
    `attribute` and `text` of a final `@a` (where the element has attributes) or `text()`.
    """

    depth_max: int = 10
    wildcard: float = 0.2
    descendant: float = 0.2
    skip: float = 0.5
    stop: float = 0.1
    attribute: float = 0.0
    text: float = 0.0
    distinct: bool = True

    def __post_init__(self) -> None:
        if self.depth_max < 1:
            raise ValueError("depth_max is at least 1")
        chances = (self.wildcard, self.descendant, self.skip, self.stop, self.attribute, self.text)
        if not all(0 <= chance <= 1 for chance in chances) or self.attribute + self.text > 1:
            raise ValueError("probabilities are from 0 to 1, and attribute + text at most 1")


def generate_queries(
    schema: Schema, count: int, settings: QuerySettings | None = None, *, seed: int = 0
) -> Iterator[str]:
    """`count` queries. A QueryLimitError says so when the schema does not have that many distinct ones."""
    settings = settings or QuerySettings()
    walk = _walks(schema, settings, seed)
    if not settings.distinct:
        for _ in range(count):
            yield next(walk)
        return
    seen: set[str] = set()
    stale = 0
    while len(seen) < count:
        query = next(walk)
        if query in seen:
            stale += 1
            if stale > STALE_DRAWS_MAX:
                message = f"the schema gave only {len(seen)} distinct queries of the {count} asked for"
                raise QueryLimitError(message, code="TC391", hint="raise depth_max, or ask for fewer")
        else:
            stale = 0
            seen.add(query)
            yield query


def _walks(schema: Schema, settings: QuerySettings, seed: int) -> Iterator[str]:
    """An endless stream of queries. PERF: numbers instead of names and no calls but random(): bench/million.py."""
    names = list(schema.elements)
    number = {name: place for place, name in enumerate(names)}
    children = [[number[child] for child in schema.children(name)] for name in names]
    attributes = [[f"/@{a.name}" for a in schema.elements[name].attributes] for name in names]
    child_steps = ["/" + name for name in names]
    descendant_steps = ["//" + name for name in names]
    above_root = [number[schema.root]]
    random = Random(f"{seed}/queries").random
    steps_max, wildcard, descendant = settings.depth_max, settings.wildcard, settings.descendant
    skip, stop, attribute = settings.skip, settings.stop, settings.attribute
    text = attribute + settings.text
    while True:
        steps: list[str] = []
        below = above_root
        at = 0
        while below:
            at = below[int(random() * len(below))]
            below = children[at]
            if random() < descendant:
                while below and random() < skip:
                    at = below[int(random() * len(below))]
                    below = children[at]
                steps.append("//*" if random() < wildcard else descendant_steps[at])
            else:
                steps.append("/*" if random() < wildcard else child_steps[at])
            if len(steps) == steps_max or random() < stop:
                break
        if text:
            draw = random()
            if draw < attribute:
                if attributes[at]:
                    steps.append(attributes[at][int(random() * len(attributes[at]))])
            elif draw < text:
                steps.append("/text()")
        yield "".join(steps)
