"""A broker with a backup in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import os

import pytest
from support.replica_bugs import PLANTED

from treecast.sim.replica.scenario import ReplicaScenario
from treecast.sim.scenario import Outcome, report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS = 60
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "200000"))
FOUND_BY = {
    "acknowledgement before the backup's": 1,
    "an answer before the backup's write": 0,
    "no fencing": 19,
    "a lost chunk of a snapshot": 0,
    "groups out of order": 34,
    "acknowledgements while pairing": 23,
}
"""Where to begin looking: a seed that finds it is not far."""
PLANTED_SEEDS_MAX = 30


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failed = list(run_seeds(ReplicaScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failed, "\n".join(report_of(outcome) for outcome in failed[:3])
    # A scenario in which nothing happens finds nothing.
    means = {name: sum(outcome.counts[name] for outcome in outcomes) / SEEDS for name in outcomes[0].counts}
    assert means["operations"] > 30 and means["receipts"] > 20
    assert means["takeovers"] > 0.5 and means["lost_disks"] > 0.2 and means["snapshots"] > 1


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    seeds = range(FOUND_BY[name], FOUND_BY[name] + PLANTED_SEEDS_MAX)
    found = next((outcome for outcome in map(PLANTED[name].run, seeds) if outcome.failure is not None), None)
    assert found is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    # It is the planted bug, and nothing else, that makes this seed fail.
    assert ReplicaScenario().run(found.seed).failure is None
