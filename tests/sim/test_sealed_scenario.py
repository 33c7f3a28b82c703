"""Sealed documents in simulated networks: fresh seeds, planted bugs, deaths at each level and at two."""

from __future__ import annotations

import os

import pytest
from support.planted_sealed_bugs import BUGS, plant

from treecast.sim.faults import Crash
from treecast.sim.scenario import Outcome, report_of, run_seeds
from treecast.sim.selective.sealed_plan import draw_sealed
from treecast.sim.selective.sealed_scenario import FOR_EVER_MS, SealedScenario

pytestmark = pytest.mark.house

SEEDS = 30
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "100000"))
LONG_SEEDS = 5_000
BUG_SEEDS = 20


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(SealedScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    names = ("views", "structure", "partial", "revocations", "dead", "joins", "caught up")
    means = {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) / SEEDS for name in names}
    # A scenario in which nothing happens finds nothing.
    assert means["views"] > 4 and means["structure"] > 1.5 and means["partial"] > 0.4 and means["revocations"] > 0.3
    assert means["dead"] > 0.4 and means["joins"] > 0.7 and means["caught up"] > 0.2, means


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    failures = list(run_seeds(SealedScenario(), range(first, first + LONG_SEEDS), lambda outcome: None))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    with plant(name):
        failing = next((one for one in map(SealedScenario().run, range(BUG_SEEDS)) if one.failure is not None), None)
    assert failing is not None, f"{BUG_SEEDS} seeds did not find it"
    assert SealedScenario().run(failing.seed).failure is None


def test_brokers_die_at_each_level_and_at_two() -> None:
    seed = next(seed for seed in range(100) if len(draw_sealed(seed).levels) == 4 and not draw_sealed(seed).joins)
    levels = draw_sealed(seed).levels
    victims = [(0,), (1,), (2,), (3,), (0, 2), (0, 3), (1, 3), (1, 2)]  # adjacent ones, too
    for ranks in victims:
        faults = [Crash(levels[rank][0], 1_500 + 300 * rank, FOR_EVER_MS) for rank in ranks]
        outcome = SealedScenario().run(seed, faults)
        assert outcome.failure is None, report_of(outcome)
        assert outcome.counts["dead"] == len(ranks)
