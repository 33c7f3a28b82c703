"""Real runs of the three strategies: what each executor holds and sees together finds what one index finds.

On the session of the tests; tests/long/test_full_executors.py runs the same on a cluster of executors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from treecast.experiments import executors
from treecast.measure import Inputs
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("auto", "xtrie-single-path")


def small_inputs() -> Inputs:
    schemas = [Schema.news(), Schema.records()]
    queries = list(generate_queries(schemas, 300, QuerySettings(depth_max=6), seed=1))
    return Inputs(queries, list(generate_documents(schemas, 6, DocumentSettings(bytes_target=1500), seed=1)))


def test_every_strategy_finds_what_one_index_finds(spark: SparkSession, tmp_path: Path) -> None:
    runs = list(executors.measure(spark, small_inputs(), ENGINES, 12, 2, tmp_path, passes=1))
    assert [(run.strategy, run.executors, run.engine) for run in runs] == [
        (strategy, count, engine)
        for strategy, count in (("data-sharing", 1), ("data-sharing", 2), ("filter-sharing", 2), ("hierarchical", 2))
        for engine in ENGINES
    ]
    assert [run.wrong for run in runs] == [0] * 8
    assert len({run.matches for run in runs}) == 1 and runs[0].matches > 0
    assert [run.fan_out for run in runs][:6] == [1, 1, 1, 1, 2, 2] and 0 < runs[-1].fan_out <= 2
    assert all(run.cpu_us >= 0 and run.wall_us > 0 for run in runs), "no clock runs backwards"


def test_a_document_that_loses_matches_is_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    match = executors._match
    monkeypatch.setattr(executors, "_match", lambda *given: match(*given).filter("number <> 0"))
    runs = list(executors.measure(spark, small_inputs(), ENGINES[:1], 6, 2, tmp_path, passes=1))
    assert [run.wrong for run in runs] == [1] * 4


def test_a_cluster_that_does_not_start_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(RuntimeError, match="TC701 Spark needs Java, and JAVA_HOME, /nowhere, has none that runs"):
        executors.on_executors(small_inputs(), ENGINES, 12)
