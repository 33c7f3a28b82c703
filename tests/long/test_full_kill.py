"""Fifty streaming jobs, each killed at random moments: every match is in the output once, and published once.

The twin of tests/spark/test_kill.py.

TREECAST_SEED chooses the first seed, to try a failure again, and TREECAST_RUNS how many; each run prints its own seed.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.killed_stream import Trial
from support.nats_server import LEFT_OUT

pytestmark = pytest.mark.long

RUNS = 50
KILLS_MAX = 3


def test_fifty_killed_streams_deliver_every_match_once(
    tmp_path: Path, nats_address: str | None, leave_out: Callable[[str], None]
) -> None:
    first = int(os.environ.get("TREECAST_SEED", "1000"))
    runs = int(os.environ.get("TREECAST_RUNS", str(RUNS)))
    kills: Counter[str] = Counter()
    starts = 0
    for seed in range(first, first + runs):
        print(f"seed {seed}", flush=True)
        trial = Trial(tmp_path / str(seed), seed, server=nats_address)
        try:
            for _ in range(1 + seed % KILLS_MAX):
                trial.kill_once()
            trial.finish()
        finally:
            trial.stop()
        trial.verify(trial.rows())
        if nats_address is None:
            leave_out(LEFT_OUT)
        else:
            trial.verify_deliveries(trial.rows())
        shutil.rmtree(tmp_path / str(seed))
        kills += trial.kills
        starts += trial.starts
    print(f"{runs} runs, {starts} starts, killed: {dict(kills)}")
