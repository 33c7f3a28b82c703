"""Thousands of crashes of a store, under a disk that loses what was not synced: every acknowledged group is there.

The twin of tests/serve/test_store_crash.py.

TREECAST_SEED chooses the first seed, to try a failure again, and TREECAST_RUNS how many seeds there are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.crash_trial import CrashTrial
from support.crashing_disk import compile_shim

pytestmark = pytest.mark.long

RUNS = 60
LIVES = 4
MOMENTS = 25


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    shim = compile_shim(tmp_path)
    first = int(os.environ.get("TREECAST_SEED", "1000"))
    runs = int(os.environ.get("TREECAST_RUNS", str(RUNS)))
    groups = 0
    for seed in range(first, first + runs):
        print(f"seed {seed}", flush=True)
        trial = CrashTrial(tmp_path / str(seed), shim, seed)
        for _ in range(LIVES):
            assert trial.crashes(MOMENTS) == []
        groups += trial.disk.acknowledged
        shutil.rmtree(tmp_path / str(seed))
    print(f"{runs} seeds, {runs * LIVES} processes killed, {runs * LIVES * MOMENTS} crashes, {groups} groups")
