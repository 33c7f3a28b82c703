"""The full-size check of covering: 1,000,000 triples (a, b, document) with a.covers(b), many canonical documents."""

from __future__ import annotations

from random import Random

import pytest
from covering import ALL, DESCEND, MIXED, WILD, Dialect, Judge, canonical, count_triples, draw_pair

pytestmark = pytest.mark.long


@pytest.mark.parametrize("part", range(8))
def test_never_contradicts_matching(part: int) -> None:
    _, matched = count_triples(Random(f"triples/{part}"), ALL, 110_000)
    assert matched > 50_000


@pytest.mark.parametrize("dialect", [DESCEND, WILD, MIXED])
def test_never_contradicts_matching_of_tree_patterns(dialect: Dialect) -> None:
    _, matched = count_triples(Random("triples"), dialect, 40_000)
    assert matched > 20_000


@pytest.mark.parametrize(("dialect", "gap_max"), [(DESCEND, 2), (WILD, 0)])
def test_complete_for_two_fragments(dialect: Dialect, gap_max: int) -> None:
    random = Random("complete/full")
    decided = 0
    while decided < 40_000:
        a, b = draw_pair(random, dialect)
        judge = Judge(a)
        expected: bool | None = True
        for count, document in enumerate(canonical(b, gap_max)):
            if not judge.matches(document):
                expected = False
                break
            if count == 2_000:
                expected = None
                break
        if expected is not None:
            assert a.covers(b) == expected, f"{a} covers {b}: {expected}"
            decided += 1
