"""The full-size check of covering: 1,000,000 triples (a, b, document) with a.covers(b), many canonical documents."""

from __future__ import annotations

from random import Random

import pytest
from generators.covering_pairs import ALL, DESCEND, MIXED, WILD, Dialect, count_triples, draw_pair, is_contained

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
        contained = is_contained(a, b, gap_max, documents_max=2_000)
        if contained is not None:
            assert a.covers(b) == contained, f"{a} covers {b}: {contained}"
            decided += 1
