"""The law of the link algebra at full size: 100,000 sets, over one to four hops, each before and after two changes."""

from __future__ import annotations

import pytest
from generators.link_sets import run_rounds

pytestmark = pytest.mark.long

PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_the_law_holds_at_full_size(part: int) -> None:
    seen = run_rounds(seed=1000 + part, rounds=100_000 // PARTS, documents=1, changes=2)
    assert seen["documents"] == 3 * 100_000 // PARTS
    assert min(seen[kind] for kind in ("projection", "restructuring", "nothing")) > 100_000 // PARTS // 10
    assert seen["delivered after removal"] > 100_000 // PARTS // 10
