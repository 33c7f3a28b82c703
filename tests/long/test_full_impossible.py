"""Queries that are said to match nothing, at full size: 200,000 drawn ones, each on 40 documents."""

from __future__ import annotations

from random import Random

import pytest
from support.rounds_impossible import IMPOSSIBLE_ROUNDS

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", IMPOSSIBLE_ROUNDS)
def test_what_is_reported_never_matches(name: str) -> None:
    random = Random(f"{name}/full")
    assert sum(IMPOSSIBLE_ROUNDS[name](random, 100, 40) for _ in range(1_000)) > 10_000
