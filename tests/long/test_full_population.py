"""A million subscriptions on Spark: generated, partitioned by PEP and aggregated, and all as in one process.

The twin of tests/spark/test_population.py. How long it takes is measured by bench/populations.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generators.populations import (
    check_aggregate,
    check_same_pep,
    similar_documents,
    similar_table,
    valued_documents,
    valued_table,
)

from treecast import Index
from treecast.placement import Pep, violations
from treecast.spark import aggregate, generate_queries, pep
from treecast.workload import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

MILLION = 1_000_000
VALUES = 50_000
SHARDS = 200
FILES = 8


def stored(spark: SparkSession, table: pa.Table, directory: Path) -> DataFrame:
    """The table as several files, so that there are several tasks."""
    rows = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * rows, rows), directory / f"{number}.parquet")
    return spark.read.parquet(str(directory))


def test_pep_of_a_million(spark: SparkSession, tmp_path: Path) -> None:
    table, documents = valued_table(MILLION, VALUES), valued_documents(200, VALUES)
    found = pep(stored(spark, table, tmp_path), SHARDS, documents=documents[:100])
    one = Pep(SHARDS, documents=documents[:100])
    one.add_many(table)
    check_same_pep(found, one, table.column("id").to_pylist())
    index = Index()
    index.add_many(table)
    assert violations(found, documents, [index.match(document) for document in documents]) == []
    print(found.describe())


def test_an_aggregate_of_a_million(spark: SparkSession, tmp_path: Path) -> None:
    table, documents = similar_table(MILLION), similar_documents()
    sample: Any = spark.createDataFrame([(document,) for document in documents], "document binary")
    found = aggregate(stored(spark, table, tmp_path), documents=sample, filters_max=1000)
    assert found.shrinkage >= 100
    assert found.false_forwards <= 0.3
    check_aggregate(found, table, documents, table.column("query").to_pylist()[::2000])
    print(found.describe())


def test_a_million_queries_are_distinct(spark: SparkSession, tmp_path: Path) -> None:
    generate_queries(spark, Schema.news(), MILLION, seed=1, partitions=8).write.parquet(str(tmp_path / "queries"))
    queries = spark.read.parquet(str(tmp_path / "queries"))
    assert queries.count() == MILLION
    assert queries.select("query").distinct().count() == MILLION
    assert queries.select("id").distinct().count() == MILLION
    again = generate_queries(spark, Schema.news(), MILLION, seed=1, partitions=3)
    assert again.exceptAll(queries).isEmpty()
