"""The full-size check of step lists: 100,000 pairs of a list and a document against lxml."""

from __future__ import annotations

import pytest
from generators.step_lists import run_round

pytestmark = pytest.mark.long


@pytest.mark.parametrize("part", range(10))
def test_drawn_lists_equal_the_oracle(part: int) -> None:
    pairs = filled = 0
    for number in range(2_500):
        drawn, left = run_round(f"full steps/{part}/{number}")
        pairs, filled = pairs + drawn, filled + left
    assert pairs == 10_000
    assert filled > 4_000
