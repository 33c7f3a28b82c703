"""A broker with a backup in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import pytest
from support.replica_bugs import PLANTED
from support.seeds import find_planted, first_seed, means_of, run_fresh

from treecast.sim.replica.scenario import ReplicaScenario

pytestmark = pytest.mark.house

SEEDS = 25
FIRST_SEED = first_seed(200_000)
FOUND_BY = {
    "acknowledgement before the backup's": 1,
    "an answer before the backup's write": 0,
    "a confirmation before the backup's": 11,
    "no fencing": 11,
    "a lost chunk of a snapshot": 0,
    "groups out of order": 0,
    "acknowledgements while pairing": 22,
}
"""Where to begin looking: a seed that finds it is not far."""
PLANTED_SEEDS_MAX = 10


def test_fresh_seeds() -> None:
    means = means_of(run_fresh(ReplicaScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS)))
    assert means["operations"] > 30 and means["receipts"] > 20
    assert means["takeovers"] > 0.5 and means["lost_disks"] > 0.2 and means["snapshots"] > 1


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    seeds = range(FOUND_BY[name], FOUND_BY[name] + PLANTED_SEEDS_MAX)
    find_planted(PLANTED[name], seeds, ReplicaScenario)
