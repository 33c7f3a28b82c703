"""A loss of power: whatever a disk does with what was not synced, every acknowledged group is there, and whole.

A process stores groups, with a shim under it that records every write and sync, and is killed. Then what a disk may
have kept at some moments of its life is made and opened; the next process goes on from there. The full-size twin is
tests/long/test_full_store_crash.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.crash_trial import CrashTrial
from support.crashing_disk import CrashingDisk, compile_shim

pytestmark = pytest.mark.house

LIVES = 3
MOMENTS = 8


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


def test_nothing_acknowledged_is_lost(tmp_path: Path, shim: Path) -> None:
    trial = CrashTrial(tmp_path, shim, seed=1)
    for _ in range(LIVES):
        assert trial.crashes(MOMENTS) == []
    assert trial.disk.acknowledged > 10


def test_nothing_is_lost_after_a_failed_sync(tmp_path: Path, shim: Path) -> None:
    """What a failed sync did not write is gone, though the system still shows it. Opening anew relies on none of it."""
    for seed in (4, 5):
        assert CrashTrial(tmp_path / str(seed), shim, seed, fails=True).crashes(MOMENTS) == []


@pytest.mark.parametrize("without", ["sync of the log", "sync of the tables", "sync of directories", "second writing"])
def test_a_missing_mechanism_is_found(tmp_path: Path, shim: Path, without: str) -> None:
    """The disk is as bad as it has to be: without a sync, or where a failed one is believed, something is lost."""
    for seed in range(4, 9):
        trial = CrashTrial(tmp_path / str(seed), shim, seed, without, fails=without == "second writing")
        if trial.crashes(40):
            return
    pytest.fail(f"nothing was lost without the {without}")


def test_the_recording_is_what_happened(tmp_path: Path, shim: Path) -> None:
    """Replayed as a whole, it gives the files that the process has left."""
    for kill_before in (300, 0):
        trial = CrashTrial(tmp_path / str(kill_before), shim, seed=5)
        disk = CrashingDisk(trial.root, Random(1))
        for operation in trial.live(kill_before=kill_before):
            disk.replay(operation)
        disk.copy(tmp_path / f"replayed-{kill_before}")
        expected, replayed = (
            {str(path.relative_to(root)): path.is_file() and path.read_bytes() for path in root.rglob("*")}
            for root in (trial.root, tmp_path / f"replayed-{kill_before}")
        )
        expected.pop("store/tables.sqlite-shm", None)
        assert replayed.keys() == expected.keys()
        assert replayed == expected
        assert len(expected) > 6
