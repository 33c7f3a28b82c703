"""A streaming job killed at random moments: every match is in its output once, and published once under its id.

The twin of tests/long/test_full_kill.py, which makes fifty runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from support.killed_stream import Trial
from support.nats_server import LEFT_OUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_killed_stream_delivers_every_match_once(
    spark: SparkSession, tmp_path: Path, nats_address: str | None, leave_out: Callable[[str], None]
) -> None:
    trial = Trial(tmp_path, 2, server=nats_address)
    try:
        for _ in range(2):
            trial.kill_once()
        trial.finish()
    finally:
        trial.stop()
    rows = [row.asDict(recursive=True) for row in spark.read.parquet(str(tmp_path / "matches")).collect()]
    trial.verify(rows)
    if nats_address is None:
        leave_out(LEFT_OUT)
    else:
        trial.verify_deliveries(rows)
