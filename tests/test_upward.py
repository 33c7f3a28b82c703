"""Queries that go up or sideways once are patterns that go down: they say what lxml says, and are not rechecked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from oracles.differential import Query, Setting, compare
from support.sanitized import fewer

from treecast import Index, _native

COUNT, ITEMS = 300, 40
NAMESPACES = (("p", "urn:p"),)
TESTS = ("a", "b", "c", "*", "node()", "p:a", "p:*")
AXES = ("parent", "ancestor", "preceding-sibling", "following-sibling", "ancestor-or-self", "self")
RESTS = ("", "", "/@x", "/@y", "/a", "/b", "/*", "/@*", "/p:a", "/..", "/text()")
COMPARISONS = ("", "", ' = "1"', " = 1", ' != "x"', " > 1", ' = ""', " != 1", ' = "x"')
PREDICATES = (
    *("", "", "", "[@x]", '[@x = "1"]', "[b]", '[a = "1"]', '[. = "1"]', "[1]", "[1 < @y]", '["1" = @x]', "[@x and b]"),
    *('[contains(@x, "1")]', "[last()]", "[../a]"),
)


def draw_element(random: Random, depth: int) -> str:
    name = random.choice(("a", "b", "c", "p:a"))
    names = random.sample(("x", "y"), random.randint(0, 2))
    attributes = "".join(f' {one}="{random.choice(("1", "2", "x", ""))}"' for one in names)
    parts = []
    for _ in range(random.randint(0, 3)):
        deeper = depth and random.random() < 0.8
        parts.append(draw_element(random, depth - 1) if deeper else random.choice(("1", "x", "<!--c-->", "")))
    return f"<{name}{attributes}>{''.join(parts)}</{name}>"


def draw_document(random: Random) -> bytes:
    root = random.choice(("r", "a", "b"))
    inside = "".join(draw_element(random, 3) for _ in range(random.randint(1, 3)))
    return f'<{root} xmlns:p="urn:p">{inside}</{root}>'.encode()


def draw_query(random: Random) -> str:
    name, predicate = random.choice(("a", "b", "c", "*", "p:a")), random.choice(PREDICATES)
    up = random.choice(("..", f"{random.choice(AXES)}::{random.choice(TESTS)}{random.choice(PREDICATES)}"))
    condition = f"{up}{random.choice(RESTS)}{random.choice(COMPARISONS)}"
    boolean = random.choice(("true()", "false()", "@y"))
    return random.choice(
        (
            f"//{name}[{condition}]",
            f"//{name}[{condition}]",
            f"//{name}[not({condition})]",
            f"//{name}[boolean({condition})]{random.choice(('', '/b'))}",
            f"//{name}{predicate}[{condition}]{random.choice(PREDICATES)}",
            f"//{name}{predicate}/{up}{random.choice(RESTS)}",
            f"(//{name}{predicate})[{random.choice(('1', '2', 'last()'))}]",
            f"//{name}[boolean(@x{random.choice(COMPARISONS)}) {random.choice(('and', 'or'))} {boolean}]",
            f"//{name}[not({random.choice(('true()', 'false()', 'boolean(@x = 1)', 'boolean(a)'))})]",
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_drawn(seed: int) -> None:
    random = Random(f"upward/{seed}")
    texts = [draw_query(random) for _ in range(fewer(400))]
    queries = [Query(text, text, NAMESPACES, NAMESPACES) for text in texts]
    documents = [draw_document(random) for _ in range(12)]
    assert compare(queries, documents, [Setting("bulk", seed=seed)]) == len(queries) * len(documents)


DECIDED: dict[str, tuple[Callable[[int], str], int]] = {
    "..": (lambda place: f'//sub[../@code = "C{place}"]', ITEMS),
    "parent::": (lambda place: f'//sub[parent::item/@code = "C{place}"]', ITEMS),
    "parent:: of a path": (lambda place: f'//sub/parent::item[@code = "C{place}"]', ITEMS),
    "ancestor::": (lambda place: f'//sub[ancestor::item/@code = "C{place}"]', ITEMS),
    "ancestor:: with a predicate": (lambda place: f'//sub[ancestor::item[@code = "C{place}"]]', ITEMS),
    "preceding-sibling::": (lambda place: f'//item[preceding-sibling::item/@code = "C{place}"]', ITEMS - 1),
    "following-sibling::": (lambda place: f'//item[following-sibling::item/@code = "C{place}"]', ITEMS - 1),
    "the first of all": (lambda place: f'(//item[@code = "C{place}"])[1]', ITEMS),
    "true()": (lambda place: f'//item[@code = "C{place}" and true()]', ITEMS),
    "boolean()": (lambda place: f'//item[boolean(@code = "C{place}")]', ITEMS),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_goes_up_once_is_not_rechecked(name: str) -> None:
    """A recheck takes at least a step for each of the items."""
    query, matches = DECIDED[name]
    index = Index()
    index.add_many((str(place), query(place)) for place in range(COUNT))
    items = "".join(f'<item code="C{place}"><sub/></item>' for place in range(ITEMS))
    assert len(index.match(f"<list>{items}</list>".encode())) == matches
    assert _native.testing.looked_at(index._native) <= 2 * COUNT
