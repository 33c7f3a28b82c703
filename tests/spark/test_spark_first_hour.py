"""What a new user of Spark meets: errors that name the file, hints that fit, SQL, subscriptions of any form."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from treecast import Index, PipelineError
from treecast.spark import documents, match, refused, register, render

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
SUBSCRIPTIONS = [("a", "/a"), ("b", "//b")]


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("inbox")
    (directory / "good.xml").write_bytes(b"<a><b/></a>")
    (directory / "bad one.xml").write_bytes(b"<a><b></a>")
    return directory


@pytest.mark.parametrize("form", ["documents", "binaryFile", "render", "shards"])
def test_an_error_names_the_file(spark: SparkSession, inbox: Path, form: str) -> None:
    from pyspark.errors import PythonException

    files = spark.read.format("binaryFile").load(str(inbox)).withColumnRenamed("content", "document")
    rows: dict[str, Any] = {
        "documents": lambda: match(documents(spark, inbox), SUBSCRIPTIONS),
        "binaryFile": lambda: match(files, SUBSCRIPTIONS),
        "render": lambda: render(files, SUBSCRIPTIONS),
        "shards": lambda: match(files, SUBSCRIPTIONS, placement="filter-sharing", shards=1),
    }
    with pytest.raises(PythonException) as error_info:
        rows[form]().collect()
    (line,) = [line for line in str(error_info.value).splitlines() if "TC202" in line]
    assert line.endswith(("bad one.xml", "bad%20one.xml"))


def test_a_missing_document_is_named_too(spark: SparkSession) -> None:
    from pyspark.errors import PythonException

    frame = spark.createDataFrame([("x.xml", b"<a/>"), ("y.xml", None)], "file string, document binary")
    with pytest.raises(PythonException, match=r"TC210 the document is null, in y\.xml"):
        match(frame.coalesce(1), SUBSCRIPTIONS).collect()


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("path string, modificationTime timestamp, length long, content binary", "content"),
        ("name string, text string, data binary", "data"),
        ("key long, documnet string, data binary", "documnet"),
        ("key string, xml string", "xml"),
        ("key string, blob string", "key"),
        ("key long", "key"),
    ],
)
def test_the_hint_names_the_column_that_holds_documents(spark: SparkSession, schema: str, column: str) -> None:
    frame = spark.createDataFrame([], schema)
    with pytest.raises(PipelineError, match="no column document") as error_info:
        match(frame, Index())
    assert f'documents.withColumnRenamed("{column}", "document")' in error_info.value.hint


def test_a_function_of_sql(spark: SparkSession, good: DataFrame) -> None:
    good.createOrReplaceTempView("inbox")
    register(spark, "wanted_by", SUBSCRIPTIONS)
    rows = spark.sql("SELECT key, explode(wanted_by(document)) AS subscription FROM inbox ORDER BY ALL").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (1, "b")]
    register(spark, "wanted_by", [("other", "/a")], on_error="report")
    (row,) = spark.sql("SELECT wanted_by(document) AS answer FROM inbox").collect()
    assert [(one.subscription, one.error) for one in row.answer] == [("other", None)]
    with pytest.raises(PipelineError, match="is no name of a function"):
        register(spark, "wanted by", SUBSCRIPTIONS)


@pytest.fixture
def good(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, b"<a><b/></a>")], "key long, document binary")


def test_subscriptions_come_as_json_lines_and_from_pandas(good: DataFrame, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a", "query": "/a"}\n{"id": "b", "query": "//b"}\n')
    (tmp_path / "s.json").write_text('[{"id": "a", "query": "/a"}, {"id": "b", "query": "//b"}]')
    frame = pd.DataFrame(SUBSCRIPTIONS, columns=["id", "query"])
    rows = [match(good, form) for form in (tmp_path / "s.jsonl", tmp_path / "s.json", frame)]
    answers = rows[0].unionAll(rows[1]).unionAll(rows[2]).collect()
    assert sorted(row.subscription for row in answers) == ["a"] * 3 + ["b"] * 3


def test_an_idle_stream_looks_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from treecast.spark.sources import source_stream
    from treecast.spark.sources.source_options import Options

    pauses: list[float] = []
    # Its own clock: other threads of Spark's driver sleep too.
    monkeypatch.setattr(source_stream, "time", SimpleNamespace(sleep=pauses.append))
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    reader = source_stream.DocumentStream(Options.parse({"paths": str(inbox), "log": str(tmp_path / "log")}))
    start = reader.initialOffset()
    for _ in range(40):
        assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert pauses[:2] == [0.02, 0.04] and max(pauses) == 0.5 and len(pauses) == 40
    (inbox / "new.xml").write_bytes(b"<a/>")
    assert reader.latestOffset(start, ReadAllAvailable()) != start
    assert len(pauses) == 40
    reader.stop()


def test_what_is_refused_is_one_line_each(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "/a["), ("b", "a/b")], "id string, query string")
    messages = [row.message for row in refused(frame).collect()]
    assert messages[0] == "TC101 expected an expression, but the query ends here"
    assert not any("\n" in message for message in messages)


CLIENT = """
import sys
from pyspark.sql import SparkSession
from treecast.spark import documents
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    documents(spark, "no-such-inbox").schema
except Exception as error:
    print(error)
"""


def test_connect_says_whose_directory_is_meant(connect_address: str, tmp_path: Path) -> None:
    """The server runs in this process, so its working directory is ours; the client has another."""
    command = [sys.executable, "-c", CLIENT, connect_address]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    text = process.stdout.replace("\n", " ")
    assert "TC710" in text, process.stderr
    assert "no-such-inbox is meant in the working directory of the Spark server" in text
    assert str(tmp_path) not in text


def test_the_declarative_pipeline(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The definitions of examples/pipelines, on the session of the tests: Spark's own runner would start another."""
    from pyspark import pipelines

    frame_by_name: dict[str, DataFrame] = {}

    def define(function: Callable[[], DataFrame]) -> Callable[[], DataFrame]:
        frame_by_name[function.__name__] = function()
        frame_by_name[function.__name__].createOrReplaceTempView(function.__name__)
        return function

    monkeypatch.chdir(ROOT / "examples" / "pipelines")
    monkeypatch.setattr(pipelines, "temporary_view", define)
    monkeypatch.setattr(pipelines, "materialized_view", define)
    runpy.run_path("transformations/matches.py")
    rows = {(Path(row.file).name, row.subscription) for row in frame_by_name["matched"].collect()}
    assert rows == {("first.xml", "fx"), ("second.xml", "large")}
    assert [(Path(row.file).name, row.code) for row in frame_by_name["rejected"].collect()] == [("third.xml", "TC209")]
