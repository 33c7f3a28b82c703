"""Files matched in one pass equal the documents that are read first and then matched."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from treecast import Index, QueryError
from treecast.spark import documents, match, match_files, render, split
from treecast.spark.internals import hadoop_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = [("any", "/*"), ("five", "//item[@n=5]"), ("x", "//x"), ("none", "/z")]
QUERIES.append(("long", "//item[string-length() > 80]"))


def index_of(queries: list[tuple[str, str]]) -> Index:
    index = Index()
    index.add_many(queries)
    return index


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("inbox")
    items = b"".join(
        b"<item n='%d'><!-- <item/> --><![CDATA[<item>]]>%s</item>" % (n, b"y" * (n % 90)) for n in range(900)
    )
    (home / "list.xml").write_bytes(b"<list>" + items + b"</list>")
    (home / "cut.xml").write_bytes(b"<list><item n='5'><x/></item><item>")
    (home / "small.xml.gz").write_bytes(gzip.compress(b"<list><item n='5'/><x>&uuml;</x></list>"))
    (home / "bad.xml").write_bytes(b"<list><item n='5'></itme></list>")
    return home


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    names = ("file", "offset", "ordinal", "subscription", *columns)
    found = [tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in frame.select(*names).collect()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("record", [None, "item", "*"])
def test_one_pass_equals_two(spark: SparkSession, inbox: Path, record: str | None) -> None:
    subscriptions = spark.createDataFrame(QUERIES, "id string, query string")
    more: dict[str, Any] = {"record": record, "partition_bytes": 4_000}
    two = match(documents(spark, inbox, **more), subscriptions, on_error="report")
    one = match_files(inbox, subscriptions, on_error="report", **more)
    assert one.columns == two.columns
    assert rows(one, "error") == rows(two, "error")
    assert len(rows(one)) > (900 if record else 2)
    delivered = render(documents(spark, inbox, **more), subscriptions, on_error="report")
    in_one_pass = match_files(inbox, subscriptions, render=True, on_error="report", **more)
    assert in_one_pass.columns == delivered.columns
    assert rows(in_one_pass, "payload", "error") == rows(delivered, "payload", "error")


def test_no_document_enters_the_jvm(spark: SparkSession, inbox: Path, tmp_path: Path) -> None:
    """The plan has parts of some hundred bytes in place of documents, and no exchange."""
    large = tmp_path / "large.xml"
    large.write_bytes(b"<list>" + b"<item>%s</item>" % (b"x" * 1_000) * 3_000 + b"<item n='5'/></list>")
    frame = match_files(large, index_of(QUERIES[1:4]), record="item", partition_bytes=500_000)
    assert rows(frame) == [(str(large), 3_039_006, 3_000, "five")]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "document" not in plan and "Exchange" not in plan


def test_a_bad_document_raises_with_its_name(spark: SparkSession, inbox: Path) -> None:
    with pytest.raises(Exception, match=r"TC2\d\d .*bad\.xml") as caught:
        match_files(inbox / "bad.xml", index_of([("a", "/a")])).collect()
    assert "match(…, on_error=" in str(caught.value)
    with pytest.raises(QueryError, match="TC1"):
        match_files(inbox, spark.createDataFrame([("a", "/a[")], "id string, query string"))
    good, bad = split(match_files(inbox, index_of([("a", "/*")]), on_error="report"))
    assert (good.count(), bad.count()) == (1, 3)


def test_entities_are_those_of_records_or_of_documents(spark: SparkSession, inbox: Path) -> None:
    small = inbox / "small.xml.gz"
    table = spark.createDataFrame([("u", "//x[. = 'ü']"), ("five", "//item[@n=5]")], "id string, query string")
    assert [row[3] for row in rows(match_files(small, table, entities="html"))] == ["five", "u"]
    assert sorted(row[3] for row in rows(match_files(small, table, record="*", entities="html"))) == ["five", "u"]
    index = index_of([("u", "//x[. = 'ü']")])
    assert [row[3] for row in rows(match_files(small, index, record="*", entities="html"))] == ["u"]


def test_a_stream_of_files(spark: SparkSession, inbox: Path, tmp_path: Path) -> None:
    index = index_of(QUERIES)
    frame = match_files(inbox, index, record="item", stream=True, log=tmp_path / "log", on_error="report")
    query = frame.writeStream.format("memory").queryName("matched").trigger(availableNow=True).start()
    query.awaitTermination()
    assert rows(spark.table("matched")) == rows(match_files(inbox, index, record="item", on_error="report"))


def test_settings_of_file_systems_are_those_of_the_session(spark: SparkSession) -> None:
    spark.conf.set("fs.s3a.access.key", "from-the-session")
    try:
        assert hadoop_settings(spark)["fs.s3a.access.key"] == "from-the-session"
    finally:
        spark.conf.unset("fs.s3a.access.key")
