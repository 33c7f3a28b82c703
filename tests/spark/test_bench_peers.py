"""The peers of `treecast bench` that run on Spark: what they find is right, and their settings are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treecast.measure import Effort, Inputs, differences
from treecast.measure.engine_cell import measure_engine
from treecast.measure.spark_cell import measure_on_spark
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Effort(budget_seconds=0.5, passes=1, compared=4)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    schema = Schema.records()
    queries = list(generate_queries(schema, 300, QuerySettings(predicates=1), seed=1))
    return Inputs(queries, list(generate_documents(schema, 8, DocumentSettings(bytes_target=1500), seed=1)))


@pytest.mark.parametrize("name", ["spark-xpath", "spark-lxml", "spark-treecast"])
def test_peers_find_what_we_find(name: str, inputs: Inputs, spark: SparkSession) -> None:
    expected = measure_engine("auto", inputs, TINY)[1]
    cell, answers = measure_on_spark(name, inputs, TINY, spark)
    assert (cell.engine, cell.queries, cell.failure) == (name, 300, "")
    assert 0 < cell.sampled <= 300
    assert cell.extrapolated == (cell.sampled < 300)
    assert cell.unseen.wall > 0
    assert cell.warm.wall > 0
    assert answers.documents == 4
    assert len(answers.asked) == cell.sampled
    assert differences(expected, answers) == []
    if name == "spark-treecast":
        assert len(answers.pairs) > 0
