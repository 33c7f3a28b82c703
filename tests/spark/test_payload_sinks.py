"""Payloads for subscribers: as files, each there once whatever is repeated, in Parquet, and from a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treecast import Index, PipelineError
from treecast.names import hashed
from treecast.spark import match_stream, render, split
from treecast.spark.batch.payload_files import directory_name, file_name, write
from treecast.spark.batch.sinks import PayloadFiles, Written, directory_of, path_of, write_directories, write_payloads
from treecast.spark.stream.match_stream import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IDS = ["sport", "ärger", "a/b:c=d %", "..", "x" * 1000, "ü" * 60, " ", "line\nbreak", "nul\0", hashed("x" * 1000)]


@pytest.fixture
def deliveries(spark: SparkSession) -> DataFrame:
    rows = [(file, n, id, f"<p>{file} {id}</p>".encode()) for file in ("a", "b") for n in range(2) for id in IDS]
    return spark.createDataFrame(rows, "file string, n int, subscription string, payload binary").repartition(3)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("subscriptions", [len(IDS), 1_000_000])
def test_each_delivery_is_a_file(
    spark: SparkSession, deliveries: DataFrame, tmp_path: Path, subscriptions: int
) -> None:
    settings: dict[str, Any] = {"key": ("file", "n"), "buckets": 4}
    counts = write_payloads(deliveries, tmp_path / "out", subscriptions, **settings)
    expected = {
        str(path_of(id, (file, n), subscriptions, buckets=4)): f"<p>{file} {id}</p>".encode()
        for file in ("a", "b")
        for n in range(2)
        for id in IDS
    }
    assert contents(tmp_path / "out") == expected
    assert counts == Written(4 * len(IDS), 0, sum(map(len, expected.values())))
    # The same again, as after a task that was repeated: nothing changes.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.xml")}
    assert write_payloads(deliveries, tmp_path / "out", subscriptions, **settings) == Written(
        0, 4 * len(IDS), counts.bytes
    )
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.xml")} == before
    # Spark knows the directories again.
    back = spark.read.format("binaryFile").option("recursiveFileLookup", "false").load(str(tmp_path / "out"))
    directories = {directory_of(id, subscriptions, buckets=4) for id in IDS}
    assert {row.directory for row in back.select("directory").distinct().collect()} == directories


def test_a_key_that_tells_too_little_is_found_out(deliveries: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions

    write_payloads(deliveries, tmp_path / "same", 10, key=("file",))  # both of a file are equal
    assert len(contents(tmp_path / "same")) == 2 * len(IDS)
    other = deliveries.withColumn(
        "payload", functions.concat("payload", functions.col("n").cast("string").cast("binary"))
    )
    with pytest.raises(Exception, match=r"TC719 .* holds another payload\n  hint: choose key columns"):
        write_payloads(other, tmp_path / "other", 10, key=("file",))
    assert not [name for name in contents(tmp_path / "other") if "/." in name]


def test_a_half_written_file_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that dies before its file has its name leaves nothing that the next attempt would trip over."""
    batch = pa.RecordBatch.from_pydict(
        {"directory": ["d", "d"], "subscription": ["s", "s"], "n": [1, 2], "payload": [b"one", b""]}
    )
    arguments = (str(tmp_path), ("n",), (), ".txt")

    def die(*_: object) -> None:
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", die)
        with pytest.raises(PipelineError, match=r"TC719 .*cannot be written: the disk is gone"):
            list(write(iter([batch]), *arguments))
    assert contents(tmp_path) == {}
    with monkeypatch.context() as patch:  # a file system without links
        patch.setattr("os.link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no links")))
        (counts,) = write(iter([batch]), *arguments)
    assert counts.to_pylist() == [{"files": 2, "present": 0, "bytes": 3}]
    assert contents(tmp_path) == {
        f"directory=d/{file_name('s', [1], '.txt')}": b"one",
        f"directory=d/{file_name('s', [2], '.txt')}": b"",
    }
    (counts,) = write(iter([batch]), *arguments)
    assert counts.to_pylist() == [{"files": 0, "present": 2, "bytes": 3}]
    assert directory_name("a/\x00=ü") == "directory=a%2F%00%3Dü"


def test_parquet_by_subscriber(spark: SparkSession, deliveries: DataFrame, tmp_path: Path) -> None:
    write_directories(deliveries, tmp_path / "out", len(IDS))
    back = spark.read.parquet(str(tmp_path / "out"))
    own = back.filter(back.directory == directory_of("..", len(IDS))).collect()
    assert sorted(bytes(row.payload) for row in own) == [b"<p>a ..</p>"] * 2 + [b"<p>b ..</p>"] * 2


def test_what_cannot_be_written_is_said(spark: SparkSession, deliveries: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="TC719 the column file, part of the key of a document, is not there"):
        write_payloads(deliveries.drop("file"), tmp_path, 1)
    with pytest.raises(PipelineError, match="TC719 the column payload, part of the key of a document, is of binary"):
        write_payloads(deliveries, tmp_path, 1, key=("payload",))
    with pytest.raises(PipelineError, match="TC719 the deliveries have no payloads"):
        write_payloads(deliveries.drop("payload"), tmp_path, 1, key=("file",))
    with pytest.raises(PipelineError, match="TC719 hdfs://x/y is not a directory of this machine"):
        write_payloads(deliveries, "hdfs://x/y", 1, key=("file",))
    with pytest.raises(PipelineError, match="TC708"):
        write_payloads(deliveries.withColumnRenamed("n", "error"), tmp_path, 1, key=("file",))
    with pytest.raises(ValueError, match="at least one column"):
        write_payloads(deliveries, tmp_path, 1, key=())
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"TC719 .*cannot be written: Not a directory"):
        write_payloads(deliveries, tmp_path / "file", len(IDS), key=("file", "n"))


def test_a_stream_delivers_payloads_once(spark: SparkSession, tmp_path: Path) -> None:
    """With subscriptions that change between batches, and a sink that fails when its files are written."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()

    def put(**contents: str) -> None:
        """One file of Parquet, which Spark reads itself: no Python has to start for that."""
        columns = {"file": list(contents), "document": list(contents.values())}
        pq.write_table(pa.table(columns), tmp_path / "temporary")
        (tmp_path / "temporary").rename(inbox / f"{next(iter(contents))}.parquet")

    put(one="<a><b>one</b></a>", two="<a><b>two</b></a>", bad="<a>")
    queries = {"whole": "/a", "made": "for $b in $msg//b return <made>{$b/text()}</made>"}
    table = tmp_path / "subscriptions.parquet"
    pq.write_table(pa.table({"id": list(queries), "query": list(queries.values())}), table)
    files = PayloadFiles(tmp_path / "files", 10, key=("file",))
    failures: list[int] = []

    def after(rows: DataFrame, batch: Batch) -> None:
        files(rows, batch)
        if not failures:
            failures.append(batch.number)
            raise RuntimeError("killed here")

    def run(placement: str = "data-sharing") -> None:
        query = match_stream(
            spark.readStream.schema("file string, document string").parquet(str(inbox)),
            table,
            tmp_path / "out",
            checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True},
            after=[after],
            placement=placement,
            shards=None if placement == "data-sharing" else 2,
            render=True,
        )
        query.awaitTermination()

    with pytest.raises(Exception, match="killed here"):
        run()
    run()
    queries["made"] = "for $b in $msg//b return <again>{$b/text()}</again>"
    pq.write_table(pa.table({"id": list(queries), "query": list(queries.values())}), tmp_path / "new")
    (tmp_path / "new").rename(table)
    put(three="<a><b>three</b></a>")
    run("root-tag")
    good, bad = split(spark.read.parquet(str(tmp_path / "out")))
    rows = sorted((row.file, row.subscription, bytes(row.payload).decode()) for row in good.collect())
    assert rows == [
        ("one", "made", "<made>one</made>"),
        ("one", "whole", "<a><b>one</b></a>"),
        ("three", "made", "<again>three</again>"),
        ("three", "whole", "<a><b>three</b></a>"),
        ("two", "made", "<made>two</made>"),
        ("two", "whole", "<a><b>two</b></a>"),
    ]
    assert [(row.file, row.subscription, row.error.code) for row in bad.collect()] == [("bad", None, "TC209")]
    assert failures == [0]
    assert sorted(data.decode() for data in contents(tmp_path / "files").values()) == sorted(row[2] for row in rows)


def test_rendered_rows_go_straight_into_files(spark: SparkSession, tmp_path: Path) -> None:
    index = Index()
    index.add_many([("all", "/a"), ("b", "for $b in $msg//b return <got>{$b}</got>")])
    rows: list[Any] = [("x", "<a><b/></a>"), ("y", "<a/>")]
    frame = spark.createDataFrame(rows, "file string, document string")
    assert write_payloads(render(frame, index), tmp_path, len(index), key=("file",)).files == 3
    assert contents(tmp_path)[str(path_of("b", ("x",), len(index)))] == b"<got><b/></got>"
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["directory=all", "directory=b"]'
