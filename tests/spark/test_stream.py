"""Streams with changing subscriptions: what each batch is matched with, and what a failure at any step leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treecast import Index, PipelineError, QueryError
from treecast.catalog.versions import Versions
from treecast.placement import Hierarchical
from treecast.spark import documents, match_stream
from treecast.spark.batch import place, ship
from treecast.spark.stream.batches import BatchDirectories
from treecast.spark.stream.match_stream import Batch, supplier_of, when_changed
from treecast.spark.stream.rates import StreamRates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = {"availableNow": True}


def put(directory: Path, **contents: str) -> None:
    directory.mkdir(exist_ok=True)
    for name, content in contents.items():
        temporary = directory.parent / f"{name}.new"
        temporary.write_text(content)
        temporary.rename(directory / f"{name}.xml")


def subscribe(directory: Path, **queries: str) -> Path:
    path = directory / "subscriptions.parquet"
    pq.write_table(pa.table({"id": list(queries), "query": list(queries.values())}), directory / "subscriptions.new")
    (directory / "subscriptions.new").rename(path)
    return path


def stream(spark: SparkSession, directory: Path, files: int = 1) -> DataFrame:
    read = documents(spark, directory / "docs", stream=True, max_files_per_batch=files, log=directory / "log")
    return read.select("document", "file", "ordinal", "error")


def run(spark: SparkSession, directory: Path, subscriptions: Any, **settings: Any) -> None:
    query = match_stream(
        stream(spark, directory),
        subscriptions,
        directory / "out",
        checkpoint=directory / "checkpoint",
        trigger=NOW,
        **settings,
    )
    query.awaitTermination()


def output_rows(spark: SparkSession, directory: Path) -> list[tuple[str, str, int]]:
    rows = spark.read.parquet(str(directory / "out")).collect()
    return sorted((Path(row.file).stem, row.subscription or row.error.code, row.batch) for row in rows)


def test_changes_are_picked_up_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    """One query: the set changes after its first batch, and again after its second."""
    put(tmp_path / "docs", one="<a><b/></a>", two="<a><b/></a>", three="<a><b/></a>")
    path = subscribe(tmp_path, same="/a", goes="//b", changes="/z")
    batches: list[Batch] = []

    def after(rows: DataFrame, batch: Batch) -> None:
        batches.append(batch)
        subscribe(tmp_path, same="/a", changes="/a/b", **({"bad": "]["} if len(batches) == 1 else {"comes": "//b"}))

    rates = StreamRates(log=tmp_path / "log")
    spark.streams.addListener(rates)
    try:
        run(spark, tmp_path, path, after=[after], versions_max=2)
        while rates.now().batch is None or rates.now().running:  # events come when they come
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(rates)
    figures = rates.now()
    assert (figures.batches, figures.documents, figures.batch, figures.files_waiting, figures.error) == (
        3,
        3,
        2,
        0,
        None,
    )
    assert figures.batch_seconds > 0
    assert figures.documents_per_second > 0
    assert figures.lag_seconds is not None
    assert figures.lag_seconds > figures.batch_seconds / 2
    assert [(batch.number, batch.version.number) for batch in batches] == [(0, 1), (1, 2), (2, 3)]
    assert [(batch.version.subscriptions, batch.version.refused) for batch in batches] == [(3, 0), (2, 1), (3, 0)]
    by_batch: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for _, subscription, number in output_rows(spark, tmp_path):
        by_batch[number].append(subscription)
    assert by_batch == {0: ["goes", "same"], 1: ["changes", "same"], 2: ["changes", "comes", "same"]}
    context: Any = spark.sparkContext._jsc
    files = context.sc().addedFiles().get("default").get().toString()
    # Files that no batch will use again are withdrawn.
    assert [batch.version.content[:32] in files for batch in batches] == [False, True, True]
    assert [batch.version.path.exists() for batch in batches] == [False, True, True]


def test_subscriptions_come_in_many_forms(spark: SparkSession, tmp_path: Path) -> None:
    index = Index()
    index.add("index", "/a")
    index.save(tmp_path / "saved.tcx")
    assert supplier_of(index)() is index
    supplier = supplier_of(tmp_path / "saved.tcx")
    loaded_index = supplier()
    assert isinstance(loaded_index, Index)
    assert ("index" in loaded_index, supplier()) == (True, None)
    frame = spark.createDataFrame([("frame", "/a", "x")], "ID string, query string, other string")
    frame.write.parquet(str(tmp_path / "table"))
    columns = {"id": ["frame"], "query": ["/a"]}
    for form in (lambda: frame, lambda: pa.table(columns), tmp_path / "table"):
        table = supplier_of(form)()
        assert isinstance(table, pa.Table)
        assert table.to_pydict() == columns
    assert supplier_of(lambda: None)() is None


class StopError(Exception):
    """The process dies here."""


def _before(original: Callable[..., Any], dead: list[str], name: str) -> Callable[..., Any]:
    def stops(*arguments: Any, **keywords: Any) -> Any:
        if name not in dead:
            dead.append(name)
            raise StopError
        return original(*arguments, **keywords)

    return stops


def _behind(original: Callable[..., Any], dead: list[str], name: str) -> Callable[..., Any]:
    def stops(*arguments: Any, **keywords: Any) -> Any:
        answer = original(*arguments, **keywords)
        if name not in dead:
            dead.append(name)
            raise StopError
        return answer

    return stops


def test_a_failure_between_any_two_steps_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "docs", one="<a><b/></a>", two="<a/>", three="<a><b/></a>")
    dead: list[str] = []
    batch_numbers: list[int] = []
    monkeypatch.setattr(Versions, "_save", _behind(Versions._save, dead, "the version is saved"))
    monkeypatch.setattr(Versions, "of_batch", _behind(Versions.of_batch, dead, "the batch is bound"))
    monkeypatch.setattr(BatchDirectories, "_sync", _before(BatchDirectories._sync, dead, "the rows are written"))
    monkeypatch.setattr(BatchDirectories, "write", _behind(BatchDirectories.write, dead, "the rows are in place"))

    def after(rows: DataFrame, batch: Batch) -> None:
        batch_numbers.append(batch.number)
        if "the batch is handed on" not in dead:
            dead.append("the batch is handed on")
            raise StopError

    for generation in range(6):
        path = subscribe(tmp_path, **{f"generation-{generation}": "/a", "b": "//b"})
        try:
            run(spark, tmp_path, path, after=[after])
        except Exception as error:
            assert "StopError" in f"{error!r} {error}"
    assert len(dead) == 5
    assert batch_numbers == [0, 0, 1, 2]
    # Bound when the second generation was in force, and repeated with it four times.
    assert [name for _, name, batch in output_rows(spark, tmp_path) if batch == 0 and name != "b"] == ["generation-1"]
    rows = [(file, name.partition("-")[0]) for file, name, _ in output_rows(spark, tmp_path)]
    assert rows == [("one", "b"), ("one", "generation"), ("three", "b"), ("three", "generation"), ("two", "generation")]
    assert [path.name for path in (tmp_path / "out").glob(".batch*")] == []


def test_what_cannot_be_run_is_said(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "docs", one="<a/>")
    path = subscribe(tmp_path, a="/a")
    BatchDirectories(spark, str(tmp_path / "out"), "another")
    batch = spark.createDataFrame([("<a/>",)], "document string")
    with pytest.raises(PipelineError, match="TC750 the documents are no stream"):
        match_stream(batch, path, tmp_path / "x", checkpoint=tmp_path / "y")
    with pytest.raises(PipelineError, match=r"TC751 .*something else"):
        match_stream(stream(spark, tmp_path), path, tmp_path / "out", checkpoint=tmp_path / "y")
    with pytest.raises(PipelineError, match="TC750 the checkpoint hdfs://x/y"):
        match_stream(stream(spark, tmp_path), path, tmp_path / "x", checkpoint="hdfs://x/y")
    with pytest.raises(QueryError, match="TC190"):
        match_stream(stream(spark, tmp_path), tmp_path / "absent", tmp_path / "x", checkpoint=tmp_path / "new")
    lines = tmp_path / "lines.csv"
    lines.write_text("id,path\na,/a\n")
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lines, QueryError, "TC191 .*lines.csv: no column query"),
        (batch, TypeError, "an Index or a path, got DataFrame"),
        (lambda: pa.table({"id": ["a"]}), QueryError, "TC144 the table has no column 'query'"),
    ]
    for source, kind, message in wrong:
        with pytest.raises(kind, match=message):
            match_stream(stream(spark, tmp_path), source, tmp_path / "x", checkpoint=tmp_path / "new")
    with pytest.raises(TypeError, match="after is a list of functions"):
        match_stream(stream(spark, tmp_path), path, tmp_path / "x", checkpoint=tmp_path / "y", after="x")  # type: ignore[arg-type]
    with_batch_column = stream(spark, tmp_path).withColumnRenamed("ordinal", "batch")
    with pytest.raises(PipelineError, match="TC750 the documents have a column batch"):
        match_stream(with_batch_column, path, tmp_path / "x", checkpoint=tmp_path / "y")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").write_text("")
    with pytest.raises(PipelineError, match="TC751"):
        match_stream(stream(spark, tmp_path), path, tmp_path / "mine", checkpoint=tmp_path / "z")


def test_files_that_change_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.mkdir()
    (path / "part").write_text("1")
    answers = iter([pa.table({"id": ["1"]}), pa.table({"id": ["2"]}), pa.table({"id": ["3"]})])
    writes = iter(["12", "", ""])

    def read() -> pa.Table:
        more = next(writes)
        if more:
            (path / "part").write_text(more)
        return next(answers)

    supply = when_changed([path], read)
    with pytest.raises(PipelineError, match=r"TC754 .* was changed while it was read"):
        supply()
    table = supply()
    assert isinstance(table, pa.Table)
    assert table.to_pydict() == {"id": ["2"]}
    assert supply() is None
    (path / "_temporary").mkdir()
    with pytest.raises(PipelineError, match=r"TC754 .* is being written"):
        supply()


def generation(number: int) -> dict[str, str]:
    """A set of subscriptions that has much in common with the one before: some come, some change, some go."""
    queries = {f"s{n}": f'/d[@k = "{n % 5}"]//x{n % 7}' for n in range(number * 5, 40 + number * 5)}
    queries |= {f"c{n}": f"/d/x{(n + number) % 9}" for n in range(6)}
    return queries | {"all": "//*", f"e{number}": "/e"}


@pytest.mark.parametrize("name", ["pep", "root-tag", "a Hierarchical", "auto", "auto, short of room"])
def test_placements_follow_the_set(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The matches of each batch are those of one index, whatever the placement, as the set changes between batches."""
    texts = [f"<d k='{n % 5}'><x{n}/><y><x{n + 2}/></y></d>" for n in range(2)]
    put(tmp_path / "docs", **{f"d{n}": text for n, text in enumerate([*texts, "<e/>"])})
    path = subscribe(tmp_path, **generation(0))
    if name == "auto, short of room":
        monkeypatch.setattr(place, "worker_bytes", lambda setting: 1)
    placement: Any = {"a Hierarchical": Hierarchical(3), "auto, short of room": "auto"}.get(name, name)
    batches: list[Batch] = []
    before = set(ship._askers_by_file)
    counts: list[int] = []

    def after(rows: DataFrame, batch: Batch) -> None:
        batches.append(batch)
        askers = [askers for file, askers in ship._askers_by_file.items() if file not in before]
        counts.append(sum(any(type(one) is object for one in each) for each in askers))  # by the placement
        subscribe(tmp_path, **generation(len(batches)))

    with caplog.at_level("INFO", "treecast"):
        run(spark, tmp_path, path, after=[after], placement=placement, shards=3)
    assert [batch.number for batch in batches] == [0, 1, 2]
    by_batch: dict[int, list[tuple[str, str]]] = {number: [] for number in range(3)}
    for document, subscription, number in output_rows(spark, tmp_path):
        by_batch[number].append((document, subscription))
    documents = set()
    for number, rows in by_batch.items():
        index = Index()
        index.add_many(list(generation(number).items()))
        (document,) = {document for document, _ in rows}
        content = (tmp_path / "docs" / f"{document}.xml").read_bytes()
        assert sorted(rows) == sorted((document, id) for id in index.match(content))
        documents.add(document)
    assert len(documents) == 3
    messages = [record.getMessage() for record in caplog.records if record.getMessage().startswith("placement: ")]
    assert len(messages) == name.startswith("auto")
    # Three shards, one that is empty and a router: what older sets had is gone.
    assert all(count <= 5 for count in counts)
    assert (max(counts) > 0) == (name != "auto")


def test_a_placement_of_a_stream_is_empty_at_first(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "docs", one="<a/>")
    placement = Hierarchical(2)
    placement.add("x", "/x")
    with pytest.raises(PipelineError, match="TC709 the placement has 1 subscriptions already"):
        run(spark, tmp_path, subscribe(tmp_path, a="/a"), placement=placement)
    with pytest.raises(ValueError, match="placement must be"):
        run(spark, tmp_path, subscribe(tmp_path, a="/a"), placement="random")
    assert not (tmp_path / "checkpoint").exists()
