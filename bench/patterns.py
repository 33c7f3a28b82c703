"""Queries with predicates, drawn from a schema: values, tree patterns, and both as the YFilter release mixes them.

Each query starts from the same random walk that `treecast.workload.generate_queries` takes, with the element of each
step, so that predicates ask for attributes and children that can occur there: 20 % `*`, 20 % `//`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from treecast.workload import Attribute, Schema
from treecast.workload.words import WORDS

STEPS_MAX, BRANCH_STEPS_MAX = 6, 5
WILDCARD, DESCENDANT, SKIP, STOP = 0.2, 0.2, 0.5, 0.2
STALE_DRAWS_MAX = 100_000
NUMBERS = 20


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it is written, and the element that it was drawn for."""

    axis: str
    test: str
    element: str


@dataclass
class Pattern:
    """A main path with predicates, each at one of its steps."""

    steps: list[Step]
    predicates: list[list[str]]

    def __str__(self) -> str:
        return "".join(
            step.axis + step.test + "".join(f"[{predicate}]" for predicate in predicates)
            for step, predicates in zip(self.steps, self.predicates, strict=True)
        )


class Drawer:
    """Draws patterns from one schema; equal seeds draw equal patterns."""

    def __init__(self, schema: Schema, seed: object) -> None:
        self.schema = schema
        self.random = Random(f"{seed}/patterns")

    def walk(self, below: tuple[str, ...], steps_max: int) -> list[Step]:
        """A path whose first step may be any of `below`."""
        random, children = self.random, self.schema.children
        steps: list[Step] = []
        while below:
            element = random.choice(below)
            axis = "//" if random.random() < DESCENDANT else "/"
            while axis == "//" and children(element) and random.random() < SKIP:
                element = random.choice(children(element))
            steps.append(Step(axis, "*" if random.random() < WILDCARD else element, element))
            below = children(element)
            if len(steps) == steps_max or random.random() < STOP:
                break
        return steps

    def pattern(self) -> Pattern:
        steps = self.walk((self.schema.root,), STEPS_MAX)
        return Pattern(steps, [[] for _ in steps])

    def branch(self, pattern: Pattern) -> bool:
        """Add a path to one of the steps; False if none of them has children."""
        places = [place for place, step in enumerate(pattern.steps) if self.schema.children(step.element)]
        if not places:
            return False
        place = self.random.choice(places)
        path = self.walk(self.schema.children(pattern.steps[place].element), BRANCH_STEPS_MAX)
        text = "".join(step.axis + step.test for step in path)
        pattern.predicates[place].append("." + text if text.startswith("//") else text[1:])
        return True

    def attribute(self, pattern: Pattern, places: range) -> tuple[int, Attribute] | None:
        """An attribute of one of the steps at `places`, if they have any."""
        found = [
            (place, attribute)
            for place in places
            for attribute in self.schema.elements[pattern.steps[place].element].attributes
            if not attribute.kind.startswith("ENTIT")
        ]
        return self.random.choice(found) if found else None

    def distinct(self, count: int, draw: Callable[[], str | None]) -> list[str]:
        """`count` different texts; `draw` returns None for a walk that cannot be used."""
        drawn: dict[str, None] = {}
        stale = 0
        while len(drawn) < count:
            text = draw()
            stale = stale + 1 if text is None or text in drawn else 0
            if stale > STALE_DRAWS_MAX:
                raise ValueError(f"the schema gave only {len(drawn)} of the {count} patterns asked for")
            if text is not None:
                drawn[text] = None
        return list(drawn)


def values_of(attribute: Attribute) -> list[str]:
    """The values that generated documents give to this attribute."""
    if attribute.fixed is not None:
        return [attribute.fixed]
    if attribute.values:
        return list(attribute.values)
    if attribute.kind.startswith("ID"):
        return [f"i{number}" for number in range(1, 101)]
    return [*WORDS, *map(str, range(100))]


def draw_values(
    schema: Schema, structures: int, each: int, *, inner: bool = False, seed: int = 1
) -> tuple[list[str], list[str]]:
    """`path[@a="v"]`: this many paths with an attribute, `each` values for every one of them, and as many again whose
    values no document has. Values are drawn from those of the documents first, as far as there are so many."""
    drawer = Drawer(schema, f"{seed}/{inner}")
    pools: dict[str, list[str]] = {}

    def draw() -> str | None:
        pattern = drawer.pattern()
        last = len(pattern.steps) - 1
        found = drawer.attribute(pattern, range(last) if inner else range(last, last + 1))
        if found is None:
            return None
        place, attribute = found
        pattern.predicates[place].append(f'@{attribute.name}="\0"')
        text = str(pattern)
        pools.setdefault(text, [value for value in values_of(attribute) if '"' not in value])
        return text

    present, absent = [], []
    for text in drawer.distinct(structures, draw):
        pool = pools[text]
        missing = [f"none{number}" for number in range(each - len(pool))]
        values = drawer.random.sample(pool, min(each, len(pool))) + missing
        present += [text.replace("\0", value) for value in values]
        absent += [text.replace("\0", f"lacking{number}") for number in range(each)]
    return present, absent


def draw_trees(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct, one or two branches each, no values."""
    drawer = Drawer(schema, seed)

    def draw() -> str | None:
        pattern = drawer.pattern()
        fits = all(drawer.branch(pattern) for _ in range(drawer.random.randint(1, 2)))
        return str(pattern) if fits else None

    return drawer.distinct(count, draw)


def draw_positions(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct; one step below the first has a position."""
    drawer = Drawer(schema, f"{seed}/positions")

    def draw() -> str | None:
        pattern = drawer.pattern()
        place = drawer.random.randrange(len(pattern.steps))
        if place == 0:
            return None
        pattern.predicates[place].append(drawer.random.choice(("1", "2", "3", "last()", "position() < 3")))
        return str(pattern)

    return drawer.distinct(count, draw)


def draw_child_words(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct; one step has `contains(child, "word")`."""
    drawer = Drawer(schema, f"{seed}/child words")

    def draw() -> str | None:
        pattern = drawer.pattern()
        places = [place for place, step in enumerate(pattern.steps) if schema.children(step.element)]
        if not places:
            return None
        place = drawer.random.choice(places)
        child = drawer.random.choice(schema.children(pattern.steps[place].element))
        pattern.predicates[place].append(f'contains({child}, "{drawer.random.choice(WORDS)}")')
        return str(pattern)

    return drawer.distinct(count, draw)


def draw_path_words(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct; one step has `contains(child/grandchild, "word")`, or a longer path."""
    drawer = Drawer(schema, f"{seed}/path words")

    def draw() -> str | None:
        pattern = drawer.pattern()
        place = drawer.random.randrange(len(pattern.steps))
        path: list[str] = []
        below = schema.children(pattern.steps[place].element)
        while below and len(path) < drawer.random.randint(2, 3):
            path.append(drawer.random.choice(below))
            below = schema.children(path[-1])
        if len(path) < 2:
            return None
        pattern.predicates[place].append(f'contains({"/".join(path)}, "{drawer.random.choice(WORDS)}")')
        return str(pattern)

    return drawer.distinct(count, draw)


def draw_rare_ordered(schema: Schema, count: int) -> list[str]:
    """Ordered patterns of which each has a value that no document has."""
    return [f'//{schema.root}[head/title="lacking{place}"][body]' for place in range(count)]


def draw_common_ordered(schema: Schema, count: int) -> list[str]:
    """Ordered patterns whose parts all hold in every document, but not in this order."""
    return [f'//{schema.root}[body != "lacking{place}"][head]' for place in range(count)]


def draw_rare_path_words(schema: Schema, count: int) -> list[str]:
    """Each asks the first item of a path for a word that no document has."""
    return [f'//{schema.root}[contains(body//p, "lacking{place}")]' for place in range(count)]


def draw_common_path_words(schema: Schema, count: int) -> list[str]:
    """What they ask of the first item of a path is the same for all, and always holds; the rest never does."""
    return [
        f'//{schema.root}[not(contains(body//p, "lacking"))][not(body != "lacking{place}")]' for place in range(count)
    ]


def draw_mixed(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct, like the `mixed` files of the YFilter release: one branch, and two attributes equal to whole numbers
    from 1 to 20, anywhere on the main path."""
    drawer = Drawer(schema, seed)

    def draw() -> str | None:
        pattern = drawer.pattern()
        if not drawer.branch(pattern):
            return None
        for _ in range(2):
            found = drawer.attribute(pattern, range(len(pattern.steps)))
            if found is None:
                return None
            pattern.predicates[found[0]].append(f"@{found[1].name}={drawer.random.randint(1, NUMBERS)}")
        return str(pattern)

    return drawer.distinct(count, draw)


def with_numbers(documents: list[bytes], seed: int = 1) -> list[bytes]:
    """The same documents with every attribute value a whole number from 1 to 20, so that `draw_mixed` finds some."""
    random = Random(f"{seed}/numbers")
    numbers = [f'="{number}"'.encode() for number in range(1, NUMBERS + 1)]
    numbered = []
    for document in documents:
        declaration, end, rest = document.partition(b"?>")
        numbered.append(declaration + end + re.sub(rb'="[^"<>]*"', lambda _: random.choice(numbers), rest))
    return numbered


def with_lacking_values(schema: Schema, queries: list[str], seed: int = 1) -> list[str]:
    """Each query once more, its last step asking for an attribute with a value that no document has."""
    random = Random(f"{seed}/values")
    names = sorted({attribute.name for element in schema.elements.values() for attribute in element.attributes})
    return [f'{query}[@{random.choice(names)}="lacking{place}"]' for place, query in enumerate(queries)]


def with_lacking_numbers(queries: list[str]) -> list[str]:
    """The queries of `draw_mixed` once more, with numbers that no document has."""
    return [re.sub(r"=(\d+)\]", rf"=\g<1>{place + NUMBERS:06}]", query) for place, query in enumerate(queries)]


def with_lacking_names(queries: list[str], seed: int = 1) -> list[str]:
    """Each query once more, one of the element names or `*` in it, in a predicate or not, replaced by one that no
    document has."""
    random = Random(f"{seed}/names")
    lacking = []
    for place, query in enumerate(queries):
        found = random.choice(list(re.finditer(r"(?<=[/\[])[\w*][\w.*-]*", query)))
        lacking.append(f"{query[: found.start()]}lacking{place}{query[found.end() :]}")
    return lacking
