"""Bad input on Spark ends as a row, as a counted refusal or as one clear sentence, and the rest goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import treecast
from treecast import PipelineError, QueryError
from treecast.spark import match, refused, split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEEP = b"<a>" * 600 + b"</a>" * 600
BOMB = b'<!DOCTYPE a [<!ENTITY x "xxxxxxxx"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>'
BROKEN: dict[str, bytes | None] = {
    "cut off": b"<a><b>",
    "null": None,
    "empty": b"",
    "two roots": b"<a/><a/>",
    "too deep": DEEP,
    "an entity bomb": BOMB,
    "no XML": b"\x00\x01\x02",
    "not UTF-8": b"<a>\xff</a>",
    "an unknown entity": b"<a>&nbsp;</a>",
}


@pytest.fixture(scope="module")
def index() -> treecast.Index:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("any", "//*")])
    return index


@pytest.fixture
def broken(spark: SparkSession) -> DataFrame:
    rows = [("good", b"<a/>"), *BROKEN.items(), ("good too", b"<b/>")]
    return spark.createDataFrame(rows, "key string, document binary")


def test_every_bad_document_has_a_row_of_its_own(broken: DataFrame, index: treecast.Index) -> None:
    good, bad = split(match(broken, index, on_error="report"))
    assert good.columns == ["key", "subscription"] and bad.columns == ["key", "error"]
    assert {(row.key, row.subscription) for row in good.collect()} == {
        ("good", "a"),
        ("good", "any"),
        ("good too", "any"),
    }
    errors = {row.key: row.error for row in bad.collect()}
    assert errors.keys() == BROKEN.keys() and bad.count() == len(BROKEN)
    for key, document in BROKEN.items():
        if document is None:
            assert errors[key].code == "TC210"
            continue
        with pytest.raises(treecast.DocumentError) as error_info:
            index.match(document)
        assert errors[key].asDict() == {
            "code": error_info.value.code,
            "message": str(error_info.value),
            "offset": error_info.value.offset,
        }


def test_a_batch_of_nothing_but_bad_documents(spark: SparkSession, index: treecast.Index) -> None:
    documents = spark.createDataFrame([(None,), (b"<",)] * 50, "document binary")
    _, bad = split(match(documents, index, on_error="report"))
    assert sorted(row.error.code for row in bad.collect()) == ["TC209"] * 50 + ["TC210"] * 50


@pytest.mark.parametrize("key", ["cut off", "null"])
def test_otherwise_it_fails_in_one_sentence(broken: DataFrame, index: treecast.Index, key: str) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(PythonException) as error_info:
        match(broken.filter(broken.key == key), index).collect()
    text = str(error_info.value)
    assert "treecast.errors.DocumentError: TC2" in text and 'on_error="report"' in text
    assert "Traceback" not in text and "worker.py" not in text and len(text.splitlines()) <= 5, text


def test_what_the_source_could_not_read_is_reported_as_it_said(spark: SparkSession, index: treecast.Index) -> None:
    from pyspark.errors import PythonException

    error = "error struct<code:string,message:string,offset:bigint>"
    cut_off = ("TC711", "TC711 the archive is cut off", 7)
    rows: list[Any] = [("x", b"<a/>", None), ("y", None, cut_off), ("z", b"<a/>", cut_off)]
    documents = spark.createDataFrame(rows, f"key string, document binary, {error}")
    good, bad = split(match(documents, index, on_error="report"))
    assert good.columns == ["key", "subscription"] and good.count() == 2
    errors = [(row.key, row.error.code, row.error.offset) for row in bad.collect()]
    assert sorted(errors) == [("y", "TC711", 7), ("z", "TC711", 7)]
    assert match(documents.filter("key = 'x'"), index).columns == ["key", "subscription"]
    with pytest.raises(PythonException, match="TC711 the archive is cut off"):
        match(documents, index).collect()


def test_text_that_names_an_encoding_is_read_as_the_text_it_is(spark: SparkSession) -> None:
    index = treecast.Index()
    index.add("umlaut", '/a[. = "ü"]')
    texts = [
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>ü</a>',
        '<?xml version="1.0" encoding="UTF-16"?>\n<a>ü</a>',
        '<?xml version="1.0"?><a>ü</a>',
        "<a>ü</a>",
    ]
    documents = spark.createDataFrame([(text,) for text in texts], "document string collate UNICODE_CI")
    assert match(documents, index).count() == len(texts)
    # As bytes, the declaration counts.
    latin = spark.createDataFrame([(texts[0].encode("latin-1"),)], "document binary")
    assert match(latin, index).count() == 1


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("documents binary", "have no column document, only documents\n  hint: rename one: .*documents"),
        ("document int", "column document holds int, not documents"),
        ("document binary, subscription string", "have a column subscription already"),
        ("document binary, error string", "have a column error already, of string"),
    ],
)
def test_wrong_columns(spark: SparkSession, index: treecast.Index, schema: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as error_info:
        match(spark.createDataFrame([], schema), index, on_error="report")
    assert error_info.value.code == "TC703"


def test_wrong_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    documents = spark.createDataFrame([], "document binary")
    with pytest.raises(PipelineError, match="subscriptions have no column query, only id, xpath"):
        match(documents, spark.createDataFrame([], "id string, xpath string"))
    null = spark.createDataFrame([("a", "/a", {"p": None})], "id string, query string, namespaces map<string,string>")
    with pytest.raises(QueryError, match="prefixes and namespaces are strings, not null"):
        match(documents, null)
    with pytest.raises(QueryError, match="'id' holds double"):
        match(documents, spark.createDataFrame([(1.5, "/a")], "id double, query string"))
    with pytest.raises(QueryError, match=r"TC190 .*none\.tcx: cannot be read"):
        match(documents, tmp_path / "none.tcx")
    (tmp_path / "text.tcx").write_text("no index")
    with pytest.raises(treecast.SnapshotError):
        match(documents, tmp_path / "text.tcx")
    with pytest.raises(PipelineError, match="the subscriptions are a stream"):
        match(documents, spark.readStream.format("rate").load())
    with pytest.raises(QueryError, match="TC194 cannot infer the format of an object of the type int"):
        match(documents, 7)
    with pytest.raises(TypeError, match="documents are a DataFrame, not list"):
        match([b"<a/>"], treecast.Index())  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="split\\(\\) needs the column error"):
        split(documents)


def test_wrong_settings(spark: SparkSession, index: treecast.Index) -> None:
    documents = spark.createDataFrame([], "document binary")
    for settings in ({"on_error": "ignore"}, {"on_refused": "ignore"}, {"placement": "moon"}, {"cache_bytes_max": -1}):
        with pytest.raises(ValueError, match="must be"):
            match(documents, index, **settings)
    with pytest.raises(TypeError, match="shards must be an integer, not '3'"):
        match(documents, index, placement="pep", shards="3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="settings of the Index"):
        match(documents, index, entities="html")


def test_refused_subscriptions_are_listed_and_counted(spark: SparkSession) -> None:
    documents = spark.createDataFrame([(b"<a/>",)], "document binary")
    rows: list[Any] = [("good", "/a"), ("good", "//b"), *[(f"bad {number}", "a/b") for number in range(30)]]
    subscriptions = spark.createDataFrame(rows, "id string, query string").coalesce(1)
    with pytest.raises(QueryError, match="31 subscriptions were refused") as error_info:
        match(documents, subscriptions)
    assert len(error_info.value.refused) == 20
    with pytest.warns(UserWarning, match="31 of 32 subscriptions were refused and left out") as warnings:
        answer = match(documents, subscriptions, on_refused="report")
    assert len(str(warnings[0].message).splitlines()) == 21
    assert [row.subscription for row in answer.collect()] == ["good"]
    refusals = refused(subscriptions).collect()
    assert len(refusals) == 31
    assert {row.code for row in refusals} == {"TC141", "TC104"}
    nulls = spark.createDataFrame([(None, "/a"), ("a", None), ("b", "/a")], "id string, query string")
    with pytest.raises(QueryError, match="2 subscriptions were refused"):
        match(documents, nulls)
    with pytest.warns(UserWarning, match="2 of 3"):
        assert match(documents, nulls, on_refused="report").count() == 1


def test_settings_of_the_index_that_is_made(spark: SparkSession) -> None:
    subscriptions = spark.createDataFrame([("x", "/p:a[. = 'é']")], "id string, query string")
    documents = spark.createDataFrame(
        [(b'<a xmlns="urn:p">&eacute;</a>',), (b"<a><b><c/></b></a>",)], "document binary"
    )
    good, bad = split(
        match(
            documents,
            subscriptions,
            on_error="report",
            namespaces={"p": "urn:p"},
            entities="html",
            limits=treecast.Limits(depth_max=2),
        )
    )
    assert [row.subscription for row in good.collect()] == ["x"]
    assert [row.error.code for row in bad.collect()] == ["TC302"]
