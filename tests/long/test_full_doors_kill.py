"""tests/serve/test_doors_kill.py, at full size."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doors_trial import DoorsTrial

pytestmark = [pytest.mark.long, pytest.mark.house]

KILLS = 30


def test_a_service_that_is_killed_often_loses_nothing(tmp_path: Path) -> None:
    with DoorsTrial(tmp_path) as trial:
        for _ in range(KILLS):
            trial.kill()
        missing = trial.finish()
    print(f"{KILLS} kills, {len(trial.published)} documents, {trial.repeated} sent again, {trial.connects} connections")
    assert trial.faults == []
    assert {reader: sorted(numbers)[:5] for reader, numbers in missing.items() if numbers} == {}
