"""Every placement on Spark answers as the index in one process: in batch and in a stream, bad documents included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from support.placements import MAKERS
from test_match import Population, corpus, pairs_of, random_set, stream_of, stream_pairs  # noqa: F401  # two fixtures

import treecast
from treecast.spark import match, split
from treecast.spark.batch import place
from treecast.spark.batch.place import NAMES
from treecast.spark.batch.ship import give_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIVIDED = [name for name in NAMES if name not in ("data-sharing", "auto")]  # auto is one of them


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from treecast.spark import match

address, answer, documents, subscriptions, *names = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
documents, subscriptions = spark.read.parquet(documents), spark.read.parquet(subscriptions)
answers = {name: match(documents, subscriptions, placement=name, shards=3).collect() for name in names}
with open(answer, "w", encoding="utf-8") as file:
    json.dump({name: [[row.key, row.subscription] for row in rows] for name, rows in answers.items()}, file)
spark.stop()
"""


@pytest.mark.parametrize("name", DIVIDED)
def test_the_corpus(spark: SparkSession, corpus: Population, name: str) -> None:  # noqa: F811
    documents = spark.read.parquet(str(corpus.documents))
    subscriptions = spark.read.parquet(str(corpus.subscriptions))
    assert pairs_of(match(documents, subscriptions, placement=name, shards=5).collect()) == corpus.expected


@pytest.mark.parametrize("name", DIVIDED)
def test_random_queries_in_a_stream(
    spark: SparkSession,
    random_set: Population,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    subscriptions = spark.read.parquet(str(random_set.subscriptions))
    answer = match(stream_of(spark, random_set), subscriptions, placement=name, shards=3, on_error="report")
    assert answer.isStreaming
    assert stream_pairs(spark, answer, tmp_path) == random_set.expected


def test_over_connect(random_set: Population, connect_address: str, tmp_path: Path) -> None:  # noqa: F811
    answer = tmp_path / "answer.json"
    paths = [str(answer), str(random_set.documents), str(random_set.subscriptions)]
    arguments = [connect_address, *paths, "root-tag", "pep", "auto"]
    subprocess.run([sys.executable, "-c", CONNECT, *arguments], check=True, timeout=300, capture_output=True)
    for name, rows in json.loads(answer.read_text("utf-8")).items():
        assert {(key, id) for key, id in rows} == random_set.expected, name
        assert len(rows) == len(random_set.expected), name


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_placement_that_knows_documents_and_has_seen_changes(
    spark: SparkSession,
    random_set: Population,  # noqa: F811
    name: str,
) -> None:
    documents = spark.read.parquet(str(random_set.documents))
    table = spark.read.parquet(str(random_set.subscriptions)).toArrow()
    sample = [bytes(row.document) for row in documents.limit(40).collect()]
    random = Random(name)
    placement = MAKERS[name](4, sample)
    placement.add_many(table)
    index = treecast.Index()
    index.add_many(table)
    for id in random.sample(range(table.num_rows), 60):
        placement.remove(str(id))
        index.remove(str(id))
    for number in range(20):
        placement.add(f"new{number}", f"//a[{number % 5}]/b")
        index.add(f"new{number}", f"//a[{number % 5}]/b")
    expected = {(row.key, id) for row in documents.collect() for id in index.match(bytes(row.document))}
    assert pairs_of(match(documents, index, placement=placement).collect()) == expected


@pytest.mark.parametrize("name", DIVIDED)
def test_bad_documents_are_told_once(spark: SparkSession, name: str) -> None:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("b", "/b"), ("x", "//x"), ("v", '//a[@k = "1"]'), ("w", '//a[@k = "2"]')])
    rows = [
        (1, b"<a k='1'><x/></a>"),
        (2, b"<a k='1'><x/>"),
        (3, None),
        (4, b"<unwanted>"),
        (5, b"<unwanted/>"),
        (6, b""),
        (7, b"<b><x/></b>"),
    ]
    documents = spark.createDataFrame(rows, "n int, document binary")
    report = match(documents, index, placement=name, shards=3, on_error="report")
    assert report.columns == ["n", "subscription", "error"]
    good, bad = split(report)
    assert sorted((row.n, row.subscription) for row in good.collect()) == [
        (1, "a"),
        (1, "v"),
        (1, "x"),
        (7, "b"),
        (7, "x"),
    ]
    assert sorted((row.n, row.error.code) for row in bad.collect()) == [
        (2, "TC209"),
        (3, "TC210"),
        (4, "TC209"),
        (6, "TC209"),
    ]
    bad_one = documents.filter(f"n = {2 + NAMES.index(name) % 3}")
    with pytest.raises(Exception, match="DocumentError: TC2"):
        match(bad_one, index, placement=name, shards=3).collect()


def test_errors_of_the_source_and_other_columns_come_along(spark: SparkSession) -> None:
    index = treecast.Index(entities={"who": "world"}, limits=treecast.Limits(depth_max=3))
    index.add_many([("a", '/a[. = "hello world"]'), ("any", "//b")])
    schema = "list array<int>, document string, error struct<code:string,message:string,offset:bigint>"
    rows = [
        ([1], '<?xml version="1.0" encoding="latin1"?><a>hello &who;</a>', None),
        ([2], None, ("TC777", "unreadable", 3)),
        ([3], "<a><a><a><a/></a></a></a>", None),
        ([4], "<a>hello &who;<b/></a>", None),
    ]
    documents = spark.createDataFrame(rows, schema)
    for name in NAMES:
        answer = match(documents, index, placement=name, shards=2, on_error="report").collect()
        assert {(row.list[0], row.subscription, row.error and row.error.code) for row in answer} == {
            (1, "a", None),
            (2, None, "TC777"),
            (3, None, "TC302"),
            (4, "a", None),
            (4, "any", None),
        }
        assert len(answer) == 5


def test_the_choice_is_made_and_told(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [place.worker_bytes(text) for text in ("512", "3g", " 10 MB", "")] == [512 << 20, 3 << 30, 10 << 20, 2 << 30]
    index = treecast.Index()
    index.add_many([(f"q{number}", f"/r{number % 5}/x{number}") for number in range(200)])
    documents = spark.createDataFrame([("d", b"<r3><x3/><x8/></r3>")], "key string, document binary")
    with caplog.at_level("INFO", "treecast"):
        assert pairs_of(match(documents, index, placement="auto").collect()) == {("d", "q3"), ("d", "q8")}
        monkeypatch.setattr(place, "worker_bytes", lambda setting: 100_000)
        rows = match(documents, index, placement="auto", shards=4)
    assert pairs_of(rows.collect()) == {("d", "q3"), ("d", "q8")}
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[1] for message in messages] == [" data-sharing", " root-tag"], messages


def test_the_choice_looks_at_documents(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where there is no room for all; those of a stream cannot be looked at."""
    index = treecast.Index()
    index.add_many([(f"q{number}", f"//a[position() = {number}]") for number in range(200)])
    monkeypatch.setattr(place, "worker_bytes", lambda setting: 10_000)
    rows = [("d", b"<a><a/></a>"), ("e", None), ("f", b"<a>")]
    documents = spark.createDataFrame(rows, "key string, document binary")
    stream = spark.readStream.format("rate").load().selectExpr("'<a/>' as document")
    with caplog.at_level("INFO", "treecast"):
        answer = match(documents, index, placement="auto", shards=12, on_error="report")
        match(stream, index, placement="auto", shards=12)
    good, bad = split(answer)
    assert pairs_of(good.collect()) == {("d", "q1")}
    assert sorted(row.key for row in bad.collect()) == ["e", "f"]
    with_sample, without_sample = (record.getMessage() for record in caplog.records)
    assert "would still send a document to 12.0 of 12 shards" in with_sample
    assert "without a sample of documents" in without_sample


def test_a_layout_that_a_set_has_outgrown_is_made_anew(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "LAYOUT_SIZE_MIN", 1)
    spark_placement = place.SparkPlacement("root-tag", 4, 0)
    index = treecast.Index()
    index.add("first", "/r0")
    tickets = [spark_placement.ship(spark, index, lambda: (), lasting=False)]
    for number in range(3):
        index.add(f"second{number}", f"/r{number}")
    tickets.append(spark_placement.ship(spark, index, lambda: (), lasting=False))
    for number in range(30):
        index.add(f"third{number}", f"/r{number % 10}")
    tickets.append(spark_placement.ship(spark, index, lambda: (), lasting=False))
    # Three shards hold the same, as long as there is one root; and the one for what has none is empty.
    assert [len(set(each.tickets)) for each in tickets if each] == [2, 2, 4]
    give_back(spark, spark_placement._asker)


def test_what_is_asked_wrongly_is_said(spark: SparkSession) -> None:
    index = treecast.Index()
    index.add("a", "/a")
    documents = spark.createDataFrame([(b"<a/>",)], "document binary")
    with pytest.raises(ValueError, match=r"placement must be 'data-sharing', .*, not 'random'"):
        match(documents, index, placement="random")
    with pytest.raises(TypeError, match="a Placement, not int"):
        match(documents, index, placement=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shards must be"):
        match(documents, index, placement="root-tag", shards=0)
    other = MAKERS["root-tag"](2, [])
    other.add("b", "/b")
    with pytest.raises(treecast.PipelineError, match="TC709 the placement does not know"):
        match(documents, index, placement=other)
    other.add("a", "/a")
    with pytest.raises(treecast.PipelineError, match="TC709 the placement has 2"):
        match(documents, index, placement=other)
    with pytest.raises(ValueError, match="has 2 shards already"):
        match(documents, index, placement=other, shards=3)


def test_each_document_is_routed_and_matched_once(spark: SparkSession) -> None:
    index = treecast.Index()
    index.add("a", "/a")
    documents = spark.createDataFrame([(1, b"<a/>")], "n int, document binary")
    good, bad = split(match(documents, index, placement="root-tag", shards=2, on_error="report"))
    for frame in (good, bad, good.filter("n = 1 and subscription = 'a'")):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("treecast_match(") == 1 and plan.count("treecast_route(") == 1, plan
