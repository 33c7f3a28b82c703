"""Selective publishing in processes: sealed documents through levels of brokers, with deaths, joins and absences.

tests/long/test_full_selective_network.py has fifteen processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.selective_play import play

pytestmark = pytest.mark.house


def test_seven_processes(tmp_path: Path) -> None:
    play(tmp_path, [1, 2])
