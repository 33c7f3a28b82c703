"""The full-size checks of selective publishing: 100,000 trees and sequences of operations against brute force."""

from __future__ import annotations

import pytest
from support.subtree_rounds import forwarding_round, route_round

pytestmark = pytest.mark.long


@pytest.mark.parametrize("part", range(10))
def test_routes_equal_brute_force(part: int) -> None:
    assert sum(route_round(seed) for seed in range(part * 10_000, (part + 1) * 10_000)) > 10_000


@pytest.mark.parametrize("part", range(10))
def test_forwarding_equals_brute_force(part: int) -> None:
    assert sum(forwarding_round(seed) for seed in range(part * 10_000, (part + 1) * 10_000)) > 1_000
