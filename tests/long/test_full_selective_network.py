"""Selective publishing in fifteen processes: a service, brokers of five levels, three members.

A broker dies at each level, then two that are not adjacent; brokers join; connections are lost; nothing else is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.selective_play import play

pytestmark = pytest.mark.long


def test_fifteen_processes(tmp_path: Path) -> None:
    play(tmp_path, [2, 2, 2, 2, 3], has_stalls=True)
