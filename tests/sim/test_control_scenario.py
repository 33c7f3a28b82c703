"""The control plane in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import pytest
from support.hash_seeds import digests
from support.planted_control_bugs import PLANTED
from support.seeds import first_seed, means_of, run_fresh, run_usual_and_fresh

from treecast.sim.onyx.control import ControlScenario

pytestmark = pytest.mark.house

SEEDS = 25
FIRST_SEED = first_seed(100_000)
PLANTED_FIRST = {"view lost": 9, "two in charge": 2, "answer before the copy": 5}
"""Where to begin to look for a bug, so that it does not take long."""
PLANTED_SEEDS_MAX = 40


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    run_fresh(ControlScenario(), range(first, first + 2_000))


def test_fresh_seeds() -> None:
    means = means_of(run_usual_and_fresh(ControlScenario(), FIRST_SEED, SEEDS))
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
