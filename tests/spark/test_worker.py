"""The index on executors: loaded once per process, shared per host, and unharmed by workers that die."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import treecast
from treecast import PipelineError
from treecast.spark import match
from treecast.spark.batch import worker
from treecast.spark.batch.answer_form import MATCHES
from treecast.spark.batch.plan import index_function
from treecast.spark.batch.ship import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def index() -> treecast.Index:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("b", "//b")])
    return index


def loads(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """For each Python worker that answers: how many indexes it has loaded, and how many it keeps."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from treecast.spark.batch import worker

        for _ in batches:
            time.sleep(0.1)  # so that both get a task
            yield pa.RecordBatch.from_pydict(
                {"pid": [os.getpid()], "loads": [worker.loads], "kept": [len(worker._indexes)]}
            )

    rows = spark.range(0, 8, 1, 8).mapInArrow(ask, "pid long, loads long, kept long").collect()
    return {row.pid: (row.loads, row.kept) for row in rows}


def test_an_index_is_loaded_once_per_process(spark: SparkSession, index: treecast.Index) -> None:
    index.add("only here", "/once")
    documents = spark.range(0, 400, 1, 16).selectExpr("id", "cast('<a/>' as binary) as document")
    before = loads(spark)
    for _ in range(3):  # 48 tasks in three jobs
        assert match(documents, index).count() == 400
    after = loads(spark)
    assert sum(load_count for load_count, _ in after.values()) - sum(
        before.get(pid, (0, 0))[0] for pid in after
    ) <= len(after)
    for number in range(worker.INDEXES_MAX + 2):
        index.add(f"another {number}", "/another")
        assert match(documents, index).count() == 400
    assert max(kept_count for _, kept_count in loads(spark).values()) <= worker.INDEXES_MAX


def test_workers_that_are_killed_lose_nothing(spark: SparkSession, index: treecast.Index, tmp_path: Path) -> None:
    """The first attempt of a task kills the other workers while the documents are on their way."""
    marks = str(tmp_path)

    def deadly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.array([b"<a><b/></a>"] * len(batch), pa.binary())], names=["id", "document"]
            )
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            siblings = []
            for stat in Path("/proc").glob("[0-9]*/stat"):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getppid() and int(stat.parent.name) != os.getpid():
                    siblings.append(int(stat.parent.name))
            Path(marks, "killed").write_text(repr(siblings))
            for pid in siblings:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)

    documents = spark.range(0, 1000, 1, 4).mapInArrow(deadly, "id long, document binary")
    answer = match(documents, index)
    rows = answer.collect()
    assert Path(marks, "killed").exists()
    assert sorted((row.id, row.subscription) for row in rows) == [(n, s) for n in range(1000) for s in ("a", "b")]


def test_hosts_share_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: treecast.Index) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    directory = worker._shared_directory()
    assert directory is not None and directory.stat().st_mode & 0o777 == 0o700
    for number in range(worker.FILES_MAX + 3):
        source, place = tmp_path / f"source {number}.tcx", directory / f"{number}.tcx"
        index.save(source)
        os.utime(source, (1, 1))
        worker._promote(source, place)
        os.utime(place, (number, number))
    names = sorted(int(path.stem) for path in directory.iterdir())
    assert len(names) == worker.FILES_MAX and names[-1] == worker.FILES_MAX + 2
    assert treecast.Index.load(directory / f"{names[-1]}.tcx").match(b"<a/>") == ["a"]
    directory.chmod(0o777)  # others could put an index of theirs into it
    assert worker._shared_directory() is None


def test_a_damaged_shared_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: treecast.Index
) -> None:
    import pyspark

    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    source = tmp_path / "name.tcx"
    index.save(source)
    monkeypatch.setattr(pyspark.SparkFiles, "get", classmethod(lambda cls, name: str(tmp_path / name)))
    directory = worker._shared_directory()
    assert directory is not None
    size = source.stat().st_size
    (directory / "name.tcx").write_bytes(b"x" * size)
    ticket = worker.Ticket(treecast.__version__, "name.tcx", size, 1 << 20)
    assert worker._load(ticket).match(b"<a/>") == ["a"]
    (directory / "name.tcx").write_bytes(b"x")  # of another size: replaced
    assert worker._load(ticket).match(b"<a/>") == ["a"]
    assert (directory / "name.tcx").stat().st_size == size
    source.unlink()
    (directory / "name.tcx").unlink()
    with pytest.raises(PipelineError, match="TC705 the index did not reach this executor"):
        worker._load(ticket)


def test_versions_have_to_agree(spark: SparkSession, index: treecast.Index) -> None:
    ticket = ship(spark, index)._replace(version="0.0.1", file="another.tcx")
    with pytest.raises(
        PipelineError, match=r"the executor has treecast .*, the driver 0.0.1\n  hint: install the same"
    ):
        worker.index_of(ticket)


def test_an_executor_without_treecast_says_so(
    spark: SparkSession, index: treecast.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = index_function(spark, index, MATCHES, 1 << 20)
    monkeypatch.setitem(sys.modules, "treecast.spark.batch.worker", None)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(RuntimeError, match=r"TC707 treecast is not installed for .* on this executor"):
        list(function.func(iter([])))  # type: ignore[attr-defined]


def test_a_second_match_ships_nothing(spark: SparkSession, index: treecast.Index) -> None:
    first, second = ship(spark, index), ship(spark, index)
    assert first == second
