"""A broker that is killed under load loses nothing that it has acknowledged. tests/long kills it more often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.killed_broker import KilledBroker

pytestmark = pytest.mark.house


def test_two_kills(tmp_path: Path) -> None:
    trial = KilledBroker(tmp_path / "data", seed=1)
    asyncio.run(trial.run(kills=2))
    assert trial.kills == 2 and trial.acknowledged > 20
    assert trial.problems() == []
