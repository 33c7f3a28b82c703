"""Files that come into a directory: each read once, in any order of arrival, across restarts, under both triggers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from treecast import Index, PipelineError
from treecast.inputs.listing import ListedFile
from treecast.spark import documents, match
from treecast.spark.sources.source_options import Options, to_strings
from treecast.spark.sources.source_stream import DocumentStream, SeenFiles
from treecast.spark.sources.source_tasks import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stream(directory: Path, **settings: Any) -> DocumentStream:
    return DocumentStream(Options.parse(to_strings({"paths": [directory], **settings})))


def put(directory: Path, *names: str) -> None:
    """Files appear complete, as they should."""
    for name in names:
        temporary = directory / f".{name}.part"
        temporary.write_text(f"<{name.partition('.')[0]}/>")
        temporary.rename(directory / name)


def files_between(reader: DocumentStream, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    tasks = reader.partitions(start, end)
    return sorted(Path(piece.file.path).name for task in tasks if isinstance(task, Task) for piece in task.pieces)


def run(frame: DataFrame, directory: Path, **trigger: Any) -> list[str]:
    """Run a query to its end; what its output holds then."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(**trigger)
        .start()
    )
    if "availableNow" in trigger:
        query.awaitTermination()
    else:
        query.processAllAvailable()
        query.stop()
    rows = frame.sparkSession.read.parquet(str(directory / "out")).collect()
    return sorted(Path(row.file).name for row in rows)


def test_batches_are_repeated_exactly(tmp_path: Path) -> None:
    put(tmp_path, "a.xml", "b.xml", "c.xml")
    os.utime(tmp_path / "b.xml", (1, 1))  # the oldest comes first
    reader = stream(tmp_path, pattern="*.xml")
    start = reader.initialOffset()
    one = reader.latestOffset(start, ReadMaxFiles(2))
    assert reader.initialOffset() == start  # Spark asks again
    assert files_between(reader, start, one) == ["a.xml", "b.xml"]
    put(tmp_path, "d.xml")
    os.utime(tmp_path / "d.xml", (0, 0))  # older than all that was read, and new anyway
    two = reader.latestOffset(one, ReadMaxFiles(2))
    assert files_between(reader, one, two) == ["c.xml", "d.xml"]
    assert reader.latestOffset(two, ReadMaxFiles(2)) == two
    assert reader.partitions(two, two) == []
    assert len(json.dumps(two)) < 100
    # Restarted from any offset that the checkpoint may hold, also one before what the log has.
    for begin, end, expected in ((start, one, ["a.xml", "b.xml"]), (one, two, ["c.xml", "d.xml"])):
        restarted_reader = stream(tmp_path, pattern="*.xml")
        assert restarted_reader.latestOffset(begin, ReadMaxFiles(2)) == end
        assert files_between(restarted_reader, begin, end) == expected
        restarted_reader.stop()
    restarted_reader = stream(tmp_path, pattern="*.xml")
    assert files_between(restarted_reader, start, two) == ["a.xml", "b.xml", "c.xml", "d.xml"]
    put(tmp_path, "e.xml")
    three = restarted_reader.latestOffset(two, ReadAllAvailable())
    assert files_between(restarted_reader, two, three) == ["e.xml"]
    reader.stop()
    restarted_reader.stop()


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, "a.xml")
    reader = stream(tmp_path)
    start = reader.initialOffset()
    one = reader.latestOffset(start, ReadMaxFiles(10))
    (tmp_path / "a.xml").write_text("<changed/>")
    two = reader.latestOffset(one, ReadMaxFiles(10))
    assert files_between(reader, one, two) == ["a.xml"]
    (task,) = reader.partitions(start, one)
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["error"]["code"] for row in rows] == ["TC713"]
    (task,) = reader.partitions(one, two)
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["document"] for row in rows] == [b"<changed/>"]


def test_a_limit_that_spark_lifts_is_lifted(tmp_path: Path) -> None:
    put(tmp_path, *(f"{letter}.xml" for letter in "abcdefg"))
    reader = stream(tmp_path, max_files_per_batch=3)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(3)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(files_between(reader, start, end)) == 7


def test_what_is_there_now_ends(tmp_path: Path) -> None:
    put(tmp_path, *(f"{letter}.xml" for letter in "abcde"))
    reader = stream(tmp_path)
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    sizes: list[int] = []
    while (following := reader.latestOffset(offset, ReadMaxFiles(2))) != offset:
        put(tmp_path, f"late{len(sizes)}.xml")
        sizes.append(len(files_between(reader, offset, following)))
        offset = following
    assert sizes == [2, 2, 1]


def test_a_log_that_is_gone_or_cannot_be_kept_is_told(tmp_path: Path) -> None:
    put(tmp_path, "a.xml")
    reader = stream(tmp_path, log=tmp_path / "log")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxFiles(1))
    reader.stop()
    (log,) = (tmp_path / "log").iterdir()
    log.unlink()
    with pytest.raises(PipelineError, match="TC716"):
        stream(tmp_path, log=tmp_path / "log").latestOffset(end, ReadMaxFiles(1))
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="TC717"):
        stream(tmp_path, log=tmp_path / "file").latestOffset(start, ReadMaxFiles(1))


def test_each_file_once_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    put(inbox, "a.xml", "b.xml", "c.xml")
    frame = documents(spark, inbox, stream=True, max_files_per_batch=2)
    assert frame.isStreaming
    index = Index()
    index.add("any", "/*")
    matches = match(frame, index, on_error="report")
    assert run(matches, tmp_path, availableNow=True) == ["a.xml", "b.xml", "c.xml"]
    put(inbox, "d.xml")
    os.utime(inbox / "d.xml", (0, 0))
    assert run(matches, tmp_path, availableNow=True) == ["a.xml", "b.xml", "c.xml", "d.xml"]
    put(inbox, "e.xml")
    assert run(matches, tmp_path, processingTime="0 seconds") == ["a.xml", "b.xml", "c.xml", "d.xml", "e.xml"]
    batches = list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert len(batches) == 4 and max(path.stat().st_size for path in batches) < 2000


def test_a_glob_may_be_empty_at_first(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    frame = documents(spark, inbox / "*.xml", stream=True, record="*", log=tmp_path / "log")
    query = (
        frame.writeStream.format("memory")
        .queryName("globbed")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        query.processAllAvailable()
        (inbox / "a.part").write_text("<r><a/><b/></r>")
        (inbox / "a.part").rename(inbox / "a.xml")
        for _ in range(600):  # until it is seen; no pace is asked for
            query.processAllAvailable()
            if spark.table("globbed").count():
                break
            time.sleep(0.1)
        assert sorted(bytes(row.document) for row in spark.table("globbed").collect()) == [b"<a/>", b"<b/>"]
    finally:
        query.stop()
    assert not (inbox / ".treecast").exists()


def test_the_log_of_a_stream_keeps_any_path(tmp_path: Path) -> None:
    files = [ListedFile("/in/a.xml", 1, 2), ListedFile("/in/" + os.fsdecode(b"\xff.xml"), 3, 4)]
    log = SeenFiles(str(tmp_path), "log", new=True)
    log.append(list(log.new(iter(files))), 10)
    assert sorted(log.between(0, 1)) == sorted(files) and list(log.new(iter(files))) == []
    log.close()


def test_a_damaged_log_of_a_stream_is_told_in_one_sentence(tmp_path: Path) -> None:
    log = SeenFiles(str(tmp_path), "log", new=True)
    log.append([ListedFile(f"/in/{number}.xml", number, number) for number in range(20)], 5)
    log.close()
    path = tmp_path / "log.sqlite"
    whole = path.read_bytes()
    places = [at for at in range(len(whole)) if whole[at]]
    codes = set()
    for at in places[:: len(places) // 150]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            log = SeenFiles(str(tmp_path), "log", new=False)
            try:
                log.between(0, log.last())
                log.append(list(log.new(iter([ListedFile("/in/new.xml", 1, 1)]))), 5)
            finally:
                log.close()
        except PipelineError as error:
            codes.add(error.code)
    assert codes == {"TC717"}
