"""Fifty kills of a broker under load. The small twin is tests/serve/test_broker_killed.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.killed_broker import KilledBroker

pytestmark = [pytest.mark.house, pytest.mark.long]


def test_fifty_kills(tmp_path: Path) -> None:
    trial = KilledBroker(tmp_path / "data", seed=2)
    asyncio.run(trial.run(kills=50))
    print(f"{trial.kills} kills, {trial.acknowledged} documents acknowledged, {trial.repeated} delivered again")
    assert trial.kills == 50 and trial.problems() == []
