"""Rings at full size: 5,000 seeds, a thousand peers under churn, and the distributed NFA on the whole corpus."""

from __future__ import annotations

import multiprocessing
import os

import pytest
from support.ring_filtering import check_corpus
from test_cases import CASES

from treecast.overlay.chord.nfa_peer import Method
from treecast.sim.chord.churn import run_churn
from treecast.sim.chord.filter_scenario import FilterScenario
from treecast.sim.chord.scenario import ChordScenario
from treecast.sim.scenario import report_of

pytestmark = pytest.mark.long

SEEDS = 5_000
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "1000000"))
SESSION_S = 84  # a median of 1.4 minutes


def failure_of(seed: int) -> str | None:
    """Every fifth seed has documents and subscriptions."""
    outcome = (FilterScenario if seed % 5 == 0 else ChordScenario)().run(seed)
    return None if outcome.failure is None else report_of(outcome)


def test_5000_seeds() -> None:
    with multiprocessing.get_context("spawn").Pool() as pool:
        reports = pool.imap_unordered(failure_of, range(FIRST_SEED, FIRST_SEED + SEEDS), chunksize=50)
        failed = [report for report in reports if report is not None]
    assert not failed, f"{len(failed)} of {SEEDS} fail:\n" + "\n".join(failed[:5])


def test_a_thousand_peers_under_churn() -> None:
    outcome = run_churn(FIRST_SEED, 1_000, seconds=300, session_s=SESSION_S)
    assert outcome.failure is None and outcome.crashes > 1_000
    assert outcome.right >= 0.999 * outcome.lookups


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("shed_rate", [0.1, 1.0])
@pytest.mark.parametrize("method", ["recursive", "iterative"])
@pytest.mark.parametrize("length", range(4))
def test_the_whole_corpus(length: int, method: Method, shed_rate: float, members: int) -> None:
    check_corpus(CASES, method, {"fragment_length": length, "shed_rate": shed_rate, "members": members})
