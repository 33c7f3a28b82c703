"""Both parts of `split` come of one run of the matching, and what Spark keeps for that is released."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treecast
from treecast.spark import match, render, split
from treecast.spark.batch.match import KEPT_MAX, Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOCUMENTS = [("good", "<a/>"), ("other", "<b/>"), ("bad", "<a>"), ("null", None)]
SCHEMA = "key string, document string"

CONNECT = """
import json, sys
sys.path[:0] = [{tests!r}, {spark_tests!r}]
from pyspark.sql import SparkSession
from test_split import counts_of_parts
from treecast.spark import split

spark = SparkSession.builder.remote({address!r}).getOrCreate()
print(json.dumps([counts_of_parts(spark, {file!r}), counts_of_parts(spark, {file!r}, persist=False)]))
spark.stop()
"""


def counted(frame: DataFrame, file: Path) -> DataFrame:
    """The documents, each of which leaves a byte in the file whenever it is handed to what comes next."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            with file.open("ab") as counter:
                counter.write(b"." * batch.num_rows)
            yield batch

    count.__annotations__ = {}
    count.__module__ = "__main__"  # by value: workers have no module of tests
    return frame.mapInArrow(count, SCHEMA)


def counts_of_parts(spark: SparkSession, name: str, **options: bool) -> tuple[int, int, int]:
    """The rows of both parts, and how many documents were matched for them."""
    file = Path(name)
    file.write_bytes(b"")
    documents = counted(spark.createDataFrame(DOCUMENTS, SCHEMA), file)
    index = treecast.Index()
    index.add_many([("a", "/a"), ("any", "//*")])
    with split(match(documents, index, on_error="report"), **options) as (good, bad):
        rows = good.count(), bad.count()
    return *rows, len(file.read_bytes())


@pytest.fixture
def index() -> treecast.Index:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("any", "//*")])
    return index


def test_both_parts_match_each_document_once(spark: SparkSession, tmp_path: Path) -> None:
    assert counts_of_parts(spark, str(tmp_path / "counter")) == (3, 2, len(DOCUMENTS))
    assert counts_of_parts(spark, str(tmp_path / "counter"), persist=False) == (3, 2, 2 * len(DOCUMENTS))


def test_over_connect_as_well(connect_address: str, tmp_path: Path) -> None:
    here = Path(__file__).parent
    code = CONNECT.format(
        tests=str(here.parent), spark_tests=str(here), address=connect_address, file=str(tmp_path / "counter")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[3, 2, len(DOCUMENTS)], [3, 2, 2 * len(DOCUMENTS)]]


def test_what_is_kept_is_released(spark: SparkSession, index: treecast.Index, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_bytes(b"")
    reported = render(counted(spark.createDataFrame(DOCUMENTS, SCHEMA), counter), index, on_error="report")
    with split(reported) as (good, bad):
        assert good.count() == 3 and bad.count() == 2 and good.count() == 3
        assert counter.stat().st_size == len(DOCUMENTS)
        plan = good._jdf.queryExecution().executedPlan().toString()
        assert "StorageLevel(disk" in plan and "memory" not in plan  # that is left to those who asked for it
    assert good.count() == 3 and bad.count() == 2  # they go on, and match again
    assert counter.stat().st_size == 3 * len(DOCUMENTS)


def test_a_process_keeps_a_few_reports(spark: SparkSession, index: treecast.Index, tmp_path: Path) -> None:
    """A function of foreachBatch may split batch after batch, and release nothing."""
    counter = tmp_path / "counter"
    counter.write_bytes(b"")
    documents = counted(spark.createDataFrame(DOCUMENTS, SCHEMA).coalesce(1), counter)
    first, *others = [split(match(documents, index, on_error="report")) for _ in range(KEPT_MAX + 1)]
    for parts, sizes in ((first, [4, 8]), (others[0], [12, 12]), (others[-1], [16, 16])):
        for part, size in zip(parts, sizes, strict=True):
            part.collect()
            assert counter.stat().st_size == size
    for parts in (first, *others):
        parts.release()
        parts.release()


def test_a_later_job_reads_again(spark: SparkSession, index: treecast.Index, tmp_path: Path) -> None:
    """Spark gives kept rows to every query with the same plan, be the files other ones by then."""
    directory = tmp_path / "documents"
    directory.mkdir()

    def split_all() -> Split:
        return split(match(spark.read.schema(SCHEMA).parquet(str(directory)), index, on_error="report"))

    pq.write_table(pa.table({"key": ["1"], "document": ["<a/>"]}), directory / "1.parquet")
    first, _ = split_all()
    assert first.count() == 2
    pq.write_table(pa.table({"key": ["2"], "document": ["<a/>"]}), directory / "2.parquet")
    later, _ = split_all()
    assert later.count() == 4 and first.count() == 2


def test_what_somebody_else_keeps_stays_theirs(spark: SparkSession, index: treecast.Index) -> None:
    reported = match(spark.createDataFrame(DOCUMENTS, SCHEMA), index, on_error="report").cache()
    with split(reported) as (good, _):
        assert good.count() == 3
    assert reported.storageLevel.useMemory
    reported.unpersist()


def test_a_stream_has_both_parts_and_keeps_nothing(spark: SparkSession, index: treecast.Index, tmp_path: Path) -> None:
    spark.createDataFrame(DOCUMENTS, SCHEMA).write.parquet(str(tmp_path / "documents"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "documents"))
    with split(match(stream, index, on_error="report")) as (good, bad):
        for name, part, count in (("good", good, 3), ("bad", bad, 2)):
            writer = part.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{name}.log"))
            query = writer.trigger(availableNow=True).start(str(tmp_path / name))
            query.awaitTermination(300)
            query.stop()
            assert spark.read.parquet(str(tmp_path / name)).count() == count

    # Once is enough where the report is written first: `split` takes what was written.
    counter = tmp_path / "counter"
    report = match(counted(stream, counter), index, on_error="report")
    writer = report.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "report.log"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "report"))
    query.awaitTermination(300)
    query.stop()
    good, bad = split(spark.read.parquet(str(tmp_path / "report")), persist=False)
    assert (good.count(), bad.count(), counter.stat().st_size) == (3, 2, len(DOCUMENTS))
