"""The distributed NFA in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import os

import pytest
from support.planted_filter_bugs import PLANTED

from treecast.sim.chord.filter_scenario import FilterScenario
from treecast.sim.scenario import Outcome, report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS = 10
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "200000"))
FOUND_BY = {
    "reading before entries have arrived": 7,
    "a notification that is not repeated": 51,
    "deliveries that are not remembered": 0,
    "copies that do not follow": 2,
}
"""Where to begin looking: a seed that finds it is not far."""
PLANTED_SEEDS_MAX = 30


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(FilterScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    names = {name for outcome in outcomes for name in outcome.counts}
    means = {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) / SEEDS for name in names}
    assert means["subscribed"] > 5 and means["complete"] > 4 and means["matches"] > 5 and means["crashes"] > 1


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    seeds = range(FOUND_BY[name], FOUND_BY[name] + PLANTED_SEEDS_MAX)
    outcome = next((outcome for outcome in map(PLANTED[name].run, seeds) if outcome.failure is not None), None)
    assert outcome is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    assert FilterScenario().run(outcome.seed).failure is None
