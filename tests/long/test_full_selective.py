"""The full-size checks of selective publishing.

100,000 trees and sequences of operations against brute force; 10,000 documents, policies and updates against lxml and
the verifier; 10,000 pairs of worlds that differ in what is hidden; an update of a document of 10 MB.
"""

from __future__ import annotations

import pytest
from support.selective_trial import trial_round, update_share
from support.selective_worlds import interference_round
from support.subtree_rounds import forwarding_round, route_round

pytestmark = pytest.mark.long


@pytest.mark.parametrize("part", range(10))
def test_routes_equal_brute_force(part: int) -> None:
    assert sum(route_round(seed) for seed in range(part * 10_000, (part + 1) * 10_000)) > 10_000


@pytest.mark.parametrize("part", range(10))
def test_forwarding_equals_brute_force(part: int) -> None:
    assert sum(forwarding_round(seed) for seed in range(part * 10_000, (part + 1) * 10_000)) > 1_000


@pytest.mark.parametrize("part", range(10))
def test_members_get_what_lxml_extracts(part: int) -> None:
    assert sum(trial_round(seed) for seed in range(part * 1_000, (part + 1) * 1_000)) > 2_000


@pytest.mark.parametrize("part", range(10))
def test_what_is_hidden_changes_nothing_that_can_be_observed(part: int) -> None:
    assert sum(interference_round(seed) for seed in range(part * 1_000, (part + 1) * 1_000)) > 2_000


def test_an_update_of_ten_megabytes() -> None:
    share, sent = update_share(10_000_000)
    assert sent.keys() == {"all"}
    assert share < 0.01
