"""Event streams and WebSockets of a service that is killed under load lose nothing.

tests/long/test_full_doors_kill.py does the same many times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doors_trial import DoorsTrial

pytestmark = pytest.mark.house


def test_a_service_that_is_killed_twice_loses_nothing(tmp_path: Path) -> None:
    with DoorsTrial(tmp_path) as trial:
        for _ in range(2):
            trial.kill()
        missing = trial.finish()
    assert trial.faults == []
    assert {reader: sorted(numbers)[:5] for reader, numbers in missing.items() if numbers} == {}
    assert len(trial.published) >= 40 and trial.connects >= 9
