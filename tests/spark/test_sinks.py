"""Matches by subscription: a directory for each, or hashed buckets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from treecast import PipelineError
from treecast.names import hashed
from treecast.spark.batch.sinks import directory_of, stream_directories, with_directory, write_directories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IDS = [
    "sport",
    "ärger",
    "a/b:c=d %",
    "..",
    "x" * 1000,
    "ü" * 60,
    " ",
    "line\nbreak",
    "nul\0",
    hashed("x" * 1000),
    "Sport",
]


@pytest.fixture
def matches(spark: SparkSession) -> DataFrame:
    rows = [(file, id) for file in range(6) for id in IDS]
    return spark.createDataFrame(rows, "file int, subscription string").repartition(3)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row.file, row.subscription) for row in frame.collect())


def expected() -> list[tuple[Any, ...]]:
    return sorted((file, id) for file in range(6) for id in IDS)


def test_one_directory_per_subscription(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    write_directories(matches, tmp_path / "out", len(IDS))
    directories = [path for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert len(directories) == len(IDS) and all(path.parent == tmp_path / "out" for path in directories)
    assert all(len(list(path.glob("*.parquet"))) == 1 for path in directories)
    back = spark.read.parquet(str(tmp_path / "out"))
    assert rows_of(back) == expected()
    for id in IDS:
        own = back.filter(back.directory == directory_of(id, len(IDS)))
        assert {row.subscription for row in own.collect()} == {id}
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="already exists"):
        write_directories(matches, tmp_path / "out", len(IDS))


def test_buckets_beyond_the_limit(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    write_directories(matches, tmp_path / "out", 1_000_000, buckets=4, format="json")
    back = spark.read.json(str(tmp_path / "out"))
    assert rows_of(back) == expected()
    assert {path.name for path in (tmp_path / "out").glob("directory=*")} <= {
        f"directory=bucket-0000{n}" for n in range(4)
    }
    for row in with_directory(matches, 1_000_000, buckets=4).collect():
        assert row.directory == directory_of(row.subscription, 1_000_000, buckets=4)


def test_a_stream_of_them(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    matches.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(matches.schema).parquet(str(tmp_path / "in"))
    writer = stream_directories(stream, len(IDS)).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    query.awaitTermination(300)
    assert rows_of(spark.read.parquet(str(tmp_path / "out"))) == expected()


def test_what_is_no_matches(spark: SparkSession, tmp_path: Path) -> None:
    for schema in ("file int", "subscription string, error string", "subscription string, directory string"):
        with pytest.raises(PipelineError, match="TC708"):
            write_directories(spark.createDataFrame([], schema), tmp_path / "out", 1)
    with pytest.raises(ValueError, match="from 1 to 65,536"):
        write_directories(spark.createDataFrame([], "subscription string"), tmp_path / "out", 1, buckets=0)
