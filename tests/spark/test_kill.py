"""A streaming job killed at random moments: every match is in its output once (50 runs: tests/long)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from killing import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_stream_writes_every_match_once(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    trial = Trial(tmp_path, seed)
    try:
        for _ in range(2):
            trial.kill_once()
        trial.finish()
    finally:
        trial.stop()
    rows = [row.asDict(recursive=True) for row in spark.read.parquet(str(tmp_path / "matches")).collect()]
    trial.verify(rows)
