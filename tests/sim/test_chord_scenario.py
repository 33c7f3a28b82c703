"""A ring in the simulated world: fresh seeds, Chord as published, and bugs planted to be found."""

from __future__ import annotations

import os

import pytest
from support.planted_ring_bugs import PLANTED

from treecast.sim.chord.churn import run_churn
from treecast.sim.chord.scenario import ChordScenario
from treecast.sim.faults import Partition
from treecast.sim.scenario import Outcome, report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS = 40
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "200000"))
FOUND_BY = {
    "Chord as published": 18,
    "the base taken for dead": 0,
    "a dead predecessor": 5,
    "acknowledgement before the copies": 26,
    "no comparison of copies": 0,
    "strays dropped at once": 179,
    "a copy that is not stored": 0,
}
"""Where to begin looking: a seed that finds it is not far."""
PLANTED_SEEDS_MAX = 20


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(ChordScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    # A scenario in which nothing happens finds nothing.
    names = {name for outcome in outcomes for name in outcome.counts}
    means = {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) / SEEDS for name in names}
    assert means["joins"] > 2 and means["leaves"] > 0.3 and means["crashes"] > 1 and means["lost disks"] > 0.3
    assert means["acknowledged"] > 10 and means["checks"] > 30 and means["right lookups"] > 4
    partitions = [fault for outcome in outcomes for fault in outcome.faults if isinstance(fault, Partition)]
    assert {partition.one_way for partition in partitions} == {True, False} and len(partitions) > SEEDS / 4


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    seeds = range(FOUND_BY[name], FOUND_BY[name] + PLANTED_SEEDS_MAX)
    outcome = next((outcome for outcome in map(PLANTED[name].run, seeds) if outcome.failure is not None), None)
    assert outcome is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    # It is the planted bug, and nothing else, that makes this seed fail.
    assert ChordScenario().run(outcome.seed).failure is None


def test_chord_as_published_breaks_the_invariant() -> None:
    """Not only what is built on the ring: a list of successors that names no living member."""
    failure = PLANTED["Chord as published"].run(FOUND_BY["Chord as published"]).failure
    assert failure is not None and failure.startswith("names no living member")


def test_a_seed_replays_exactly() -> None:
    assert ChordScenario().run(7).digest == ChordScenario().run(7).digest


def test_lookups_are_right_under_churn() -> None:
    """Sessions with a median of 1.4 minutes. tests/long has a thousand peers."""
    outcome = run_churn(FIRST_SEED, 30, seconds=40, session_s=84)
    assert outcome.failure is None and outcome.crashes > 3 and outcome.lookups > 150
    assert outcome.right >= 0.99 * outcome.lookups
