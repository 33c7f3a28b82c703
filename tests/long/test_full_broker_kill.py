"""Fifty times a broker is killed under load: every acknowledged document reaches every subscription it should, once.

The twin of tests/serve/test_broker_kill.py.

TREECAST_SEED chooses the seed, to try a failure again, and TREECAST_RUNS how often the broker is killed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.broker_trial import FAULTS, Trial

pytestmark = pytest.mark.long

KILLS = 50


def test_a_broker_that_is_killed_fifty_times_loses_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("TREECAST_SEED", "1000"))
    kills = int(os.environ.get("TREECAST_RUNS", str(KILLS)))
    print(f"seed {seed}", flush=True)
    with Trial(tmp_path, seed) as trial:
        trial.wait_for_deliveries(50)
        while trial.kills < kills:
            trial.kill_once()
        verdict = trial.finish(quiet_seconds=60)
    print(f"killed {trial.kills} times, {trial.starts} starts: {verdict}")
    assert verdict.faults() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broker_with_a_fault_is_found_out(tmp_path: Path, fault: str) -> None:
    with Trial(tmp_path, seed=2, fault=fault) as trial:
        trial.wait_for_deliveries(50)
        trial.kill_once()
        verdict = trial.finish(quiet_seconds=5)
    print(f"{fault}: {verdict}; for example {verdict.faults()[:1]}")
    assert verdict.faults()
