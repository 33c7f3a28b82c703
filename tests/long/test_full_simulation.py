"""The simulated world at full size: 20,000 seeds of the broker, and planted bugs that are hard to find."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from support.planted_bugs import RARE

from treecast.sim.__main__ import SCENARIOS
from treecast.sim.broker.scenario import BrokerScenario
from treecast.sim.scenario import report_of

pytestmark = pytest.mark.long

SEEDS = 20_000
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "1000000"))
RARE_SEEDS_MAX = 2_000


def failure_of(seed: int) -> str | None:
    """Three quarters of the seeds run the broker, the others its variants."""
    names = [*[BrokerScenario.name] * 6, *sorted(set(SCENARIOS) - {BrokerScenario.name})]
    outcome = SCENARIOS[names[seed % len(names)]]().run(seed)
    return None if outcome.failure is None else report_of(outcome)


def test_20000_seeds() -> None:
    with multiprocessing.get_context("spawn").Pool() as pool:
        reports = pool.imap_unordered(failure_of, range(FIRST_SEED, FIRST_SEED + SEEDS), chunksize=50)
        failed = [report for report in reports if report is not None]
    assert not failed, f"{len(failed)} of {SEEDS} fail:\n" + "\n".join(failed[:5])


@pytest.mark.parametrize("name", RARE)
def test_rare_planted_bugs_are_found(name: str) -> None:
    found = next((o for o in map(RARE[name].run, range(RARE_SEEDS_MAX)) if o.failure is not None), None)
    assert found is not None, f"{RARE_SEEDS_MAX} seeds did not find it"
    assert type(RARE[name])().run(found.seed).failure is None
