"""The control plane in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import os

import pytest
from support.hash_seeds import digests
from support.planted_control_bugs import PLANTED

from treecast.sim.onyx.control import ControlScenario
from treecast.sim.scenario import Outcome, report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS = 25
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "100000"))
"""Set it to look at other seeds than last time."""
PLANTED_FIRST = {"view lost": 9, "two in charge": 2, "answer before the copy": 5}
"""Where to begin to look for a bug, so that it does not take long."""
PLANTED_SEEDS_MAX = 40


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    failures = list(run_seeds(ControlScenario(), range(first, first + 2_000), lambda outcome: None))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(ControlScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    # A scenario in which nothing happens finds nothing.
    means = {name: sum(outcome.counts[name] for outcome in outcomes) / SEEDS for name in outcomes[0].counts}
    assert means["views"] > 3 and means["adoptions"] > 20 and means["answers"] > 10
    assert means["takeovers"] > 0.1 and means["moved"] > 0.1 and means["spread"] > 0.2 and means["found"] > 0.5


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    scenario = PLANTED[name]
    first = PLANTED_FIRST.get(name, 0)
    seeds = range(first, first + PLANTED_SEEDS_MAX)
    failing = next((outcome for outcome in map(scenario.run, seeds) if outcome.failure is not None), None)
    assert failing is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    # It is the planted bug, and nothing else, that makes this seed fail.
    assert ControlScenario().run(failing.seed).failure is None


def test_runs_repeat_whatever_the_hash_seed() -> None:
    assert len(set(digests("control", 3))) == 3, "different seeds are different runs"
