"""Random queries of which many are contradictory: few names and values, compared again and again in `and`, `or`, `not`.

query = draw_contradictory_query(Random(7))        # a `Query`, the same text for treecast and for lxml
"""

from __future__ import annotations

from random import Random

from oracles.differential import Query, plain

SUBJECTS = ("@x", "@x", "@x", "@y", ".", ".", "b", "c", "text()", ".//b", "b/@x", "../@x")
RELATIONS = ("=", "=", "=", "!=", "<", ">", "<=", ">=")
VALUES = ('"1"', '"2"', "1", "2", "3", '"x"', '"y"', '"xy"', '""', '" 1 "', '"1.0"')
PARTS = ('"x"', '"y"', '"1"')
POSITIONS = ("0", "1", "2", "1.5", "last()")
OTHERS = (
    "self::a", "self::b", "self::*", "parent::a", "string-length(@x) = 1", "string-length(substring(@x, 1, 2)) > 2",
    'normalize-space(.) = "x"', 'normalize-space(.) = " x"', 'translate(., "x", "y") = "y"', "@x = @y", "count(b) > 1",
    'translate(., "x", "y") = "x"', "count(b) - 1 < 0", "position() mod 2 = 2", 'local-name() = "p:a"', "@x/b",
    "ancestor::c",
)  # fmt: skip


def draw_contradictory_query(random: Random) -> Query:
    """A path of one to three steps with conditions."""
    text = ""
    for place in range(random.choice((1, 1, 2, 3))):
        axis = random.choice(("", "", "", "self::", "descendant::")) if place else ""
        text += random.choice(("/", "//")) + axis + random.choice("aabc*")
        for _ in range(random.choice((0, 1, 1, 2))):
            text += f"[{_condition(random, 0)}]"
    return plain(text)


def _condition(random: Random, depth: int) -> str:
    kind = random.random()
    if depth > 2 or kind < 0.45:
        return _test(random)
    if kind < 0.75:
        return f"{_condition(random, depth + 1)} and {_condition(random, depth + 1)}"
    if kind < 0.85:
        return f"({_condition(random, depth + 1)} or {_condition(random, depth + 1)})"
    if kind < 0.95:
        return f"not({_condition(random, depth + 1)})"
    return f"{random.choice(('b', 'c', '*', './/a'))}[{_condition(random, depth + 1)}]"


def _test(random: Random) -> str:
    kind, subject = random.random(), random.choice(SUBJECTS)
    if kind < 0.6:
        return f"{subject} {random.choice(RELATIONS)} {random.choice(VALUES)}"
    if kind < 0.8:
        return f"{random.choice(('contains', 'starts-with'))}({subject}, {random.choice(PARTS)})"
    if kind < 0.85:
        return f"position() {random.choice(RELATIONS)} {random.choice(POSITIONS)}"
    return subject if kind < 0.9 else random.choice(OTHERS)
