"""The full-size differential test of XTrie: 760,000 decisions of its two variants equal lxml's, or brute force's."""

from __future__ import annotations

from random import Random

import pytest
from support.rounds_xtrie import XTRIE_ROUNDS

pytestmark = pytest.mark.long

DECISIONS = {"language": 120_000, "trees": 100_000, "ordered": 120_000, "samples": 40_000}


@pytest.mark.parametrize("engine", ["xtrie", "xtrie-single-path"])
@pytest.mark.parametrize("name", list(XTRIE_ROUNDS))
def test_drawn_rounds(name: str, engine: str) -> None:
    random = Random(f"{name}/{engine}/full")
    decisions = 0
    while decisions < DECISIONS[name]:
        decisions += XTRIE_ROUNDS[name](engine, random, random.choice((10, 40, 150)), random.choice((4, 8, 20)))
