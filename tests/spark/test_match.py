"""treecast.spark.match says what the index says in one process: in batch, in a stream and over Connect.

The common corpus of cases goes through Spark as one population over all its documents; drawn queries and documents
with lxml as the oracle.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.expressions import draw_expressions
from generators.mixed_documents import draw_mixed_document
from oracles.differential import lxml_matches
from support.rounds_conditions import condition_words
from test_cases import CASES

import treecast
from treecast.spark import match, matches, register, split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pairs = set[tuple[str, str]]
SUBSCRIPTION_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("query", pa.string()),
        ("namespaces", pa.map_(pa.string(), pa.string())),
        ("ordered", pa.bool_()),
    ]
)

CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from treecast.spark import match, split

address, answer, *paths = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
answers = []
for documents, subscriptions in zip(paths[::2], paths[1::2]):
    documents, subscriptions = spark.read.parquet(documents), spark.read.parquet(subscriptions)
    good, bad = split(match(documents, subscriptions, on_error="report"))
    rows = {"good": [[row.key, row.subscription] for row in good.collect()], "bad": [row.key for row in bad.collect()]}
    try:
        match(documents, subscriptions).collect()
        rows["raised"] = ""
    except Exception as error:
        rows["raised"] = str(error)
    answers.append(rows)
with open(answer, "w", encoding="utf-8") as file:
    json.dump(answers, file)
spark.stop()
"""


class Population:
    """Documents and subscriptions as Parquet, and what the index says of them in this process."""

    def __init__(self, directory: Path, documents: dict[str, bytes], subscriptions: list[dict[str, Any]]) -> None:
        table = pa.Table.from_pylist(subscriptions, schema=SUBSCRIPTION_SCHEMA)
        index = treecast.Index()
        index.add_many(table)
        self.expected = {(key, id) for key, document in documents.items() for id in index.match(document)}
        self.documents, self.subscriptions = directory / "documents", directory / "subscriptions"
        for path in (self.documents, self.subscriptions):
            path.mkdir()
        pq.write_table(table, self.subscriptions / "all.parquet")
        keys = list(documents)
        for part in range(3):  # several files: several tasks, and several steps of a stream
            rows = keys[part::3]
            columns = {"key": rows, "document": pa.array([documents[key] for key in rows], pa.binary())}
            pq.write_table(pa.table(columns), self.documents / f"{part}.parquet")


def pairs_of(rows: Iterable[Any]) -> Pairs:
    pair_list = [(row.key, row.subscription) for row in rows]
    assert len(pair_list) == len(set(pair_list))
    return set(pair_list)


def stream_pairs(spark: SparkSession, frame: DataFrame, directory: Path) -> Pairs:
    """What a stream of the frame writes to Parquet, one file of the source at a time."""
    out = directory / "streamed"
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out))
    )
    try:
        query.awaitTermination(300)
        assert query.exception() is None and not query.isActive
    finally:
        query.stop()
    return pairs_of(spark.read.parquet(str(out)).collect())


def stream_of(spark: SparkSession, population: Population) -> DataFrame:
    reader = spark.readStream.schema("key string, document binary").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(population.documents))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Population:
    """All cases at once: every subscription of the corpus over every document of it."""
    documents = {f"{case.topic}: {case.name}": case.document for case in CASES}
    subscriptions = [
        {
            "id": f"{case.topic}: {case.name} # {s.id}",
            "query": s.query,
            "namespaces": list((s.namespaces or {}).items()),
            "ordered": case.ordered,
        }
        for case in CASES
        for s in case.subscriptions
    ]
    population = Population(tmp_path_factory.mktemp("corpus"), documents, subscriptions)
    for case in CASES:
        key = f"{case.topic}: {case.name}"
        own = {id.removeprefix(f"{key} # ") for k, id in population.expected if k == key and id.startswith(f"{key} # ")}
        assert own == set(case.expected), key
    return population


@pytest.fixture(scope="module")
def random_set(tmp_path_factory: pytest.TempPathFactory) -> Population:
    """Queries of the whole language on drawn documents; lxml is the oracle."""
    random = Random(20261115)
    drawer = ConditionDrawer(random, condition_words(random, namespaces=True), depth_max=3)
    queries = [*(drawer.query() for _ in range(150)), *draw_expressions(random, 100)]
    documents = {str(number): draw_valued_document(random, namespaces=True) for number in range(60)}
    documents |= {f"mixed {number}": draw_mixed_document(random) for number in range(60)}
    subscriptions = [
        {"id": str(number), "query": query.text, "namespaces": query.namespaces, "ordered": query.ordered}
        for number, query in enumerate(queries)
    ]
    population = Population(tmp_path_factory.mktemp("drawn"), documents, subscriptions)
    answers = {(key, str(number)) for key, document in documents.items() for number in lxml_matches(queries, document)}
    assert population.expected == answers
    return population


def test_the_corpus_in_batch(spark: SparkSession, corpus: Population) -> None:
    documents = spark.read.parquet(str(corpus.documents))
    subscriptions = spark.read.parquet(str(corpus.subscriptions))
    assert pairs_of(match(documents, subscriptions).collect()) == corpus.expected
    assert pairs_of(documents.transform(match, subscriptions, on_error="report").collect()) == corpus.expected


def test_the_corpus_in_a_stream(spark: SparkSession, corpus: Population, tmp_path: Path) -> None:
    stream = stream_of(spark, corpus)
    answer = match(stream, spark.read.parquet(str(corpus.subscriptions)))
    assert answer.isStreaming
    assert stream_pairs(spark, answer, tmp_path) == corpus.expected


def test_drawn_queries_and_documents(spark: SparkSession, random_set: Population, tmp_path: Path) -> None:
    subscriptions = spark.read.parquet(str(random_set.subscriptions))
    assert (
        pairs_of(match(spark.read.parquet(str(random_set.documents)), subscriptions).collect()) == random_set.expected
    )
    assert stream_pairs(spark, match(stream_of(spark, random_set), subscriptions), tmp_path) == random_set.expected


def test_both_over_connect(corpus: Population, random_set: Population, connect_address: str, tmp_path: Path) -> None:
    """The client is a separate process. The corpus gets a broken document, the random set has none."""
    directory = tmp_path / "documents"
    directory.mkdir()
    for path in corpus.documents.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    pq.write_table(pa.table({"key": ["broken"], "document": pa.array([b"<a>"], pa.binary())}), directory / "b.parquet")
    answer = tmp_path / "answer.json"
    paths = [directory, corpus.subscriptions, random_set.documents, random_set.subscriptions]
    command = [sys.executable, "-c", CONNECT, connect_address, str(answer), *map(str, paths)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    first, second = json.loads(answer.read_text("utf-8"))
    for rows, expected in ((first, corpus.expected), (second, random_set.expected)):
        assert {(key, id) for key, id in rows["good"]} == expected and len(rows["good"]) == len(expected)
    assert first["bad"] == ["broken"] and second["bad"] == [] and second["raised"] == ""
    assert "DocumentError: TC2" in first["raised"] and "Traceback" not in first["raised"]


def test_the_column_for_plans_of_ones_own(spark: SparkSession) -> None:
    from pyspark.sql import functions

    index = treecast.Index()
    index.add_many([("a", "/a"), ("b", "//b")])
    documents = spark.createDataFrame([(1, "<a><b/></a>"), (2, "<c/>"), (3, "<b")], "n int, document string")
    good = documents.filter("n < 3").select("n", matches("document", index, session=spark).alias("ids"))
    assert {row.n: row.ids for row in good.collect()} == {1: ["a", "b"], 2: []}
    column = matches(functions.col("document"), index, on_error="report", session=spark)
    rows = {row.n: row.all for row in documents.select("n", column.alias("all")).collect()}
    assert [item.subscription for item in rows[1]] == ["a", "b"]
    assert rows[2] == [] and [(item.subscription, item.error.code) for item in rows[3]] == [(None, "TC209")]


def test_column_and_function_take_the_settings_of_an_index(spark: SparkSession) -> None:
    subscriptions = [("greeting", '/n:a[. = "hello world"]'), ("deep", "//n:b")]
    settings: dict[str, Any] = {
        "namespaces": {"n": "urn:n"},
        "limits": treecast.Limits(depth_max=2),
        "entities": {"who": "world"},
    }
    texts = ["<a xmlns='urn:n'>hello &who;</a>", "<a xmlns='urn:n'><b><c/></b></a>", "<a>hello &other;</a>"]
    documents = spark.createDataFrame(list(enumerate(texts)), "n int, document string")
    expected = {
        (row.n, row.subscription, row.error and row.error.code)
        for row in match(documents, subscriptions, on_error="report", **settings).collect()
    }
    assert {code for _, _, code in expected} == {None, "TC302", "TC206"}

    column = matches("document", subscriptions, on_error="report", session=spark, **settings)
    register(spark, "wanted_with_settings", subscriptions, on_error="report", **settings)
    documents.createOrReplaceTempView("inbox_with_settings")
    for rows in (
        documents.select("n", column.alias("ids")),
        spark.sql("SELECT n, wanted_with_settings(document) AS ids FROM inbox_with_settings"),
    ):
        assert {
            (row.n, item.subscription, item.error and item.error.code) for row in rows.collect() for item in row.ids
        } == expected
    with pytest.raises(ValueError, match="give them to it"):
        matches("document", treecast.Index(), session=spark, **settings)
    with pytest.raises(ValueError, match="give them to it"):
        register(spark, "wanted_with_settings", treecast.Index(), **settings)


def test_an_index_and_a_saved_one_do_as_well(spark: SparkSession, tmp_path: Path) -> None:
    index = treecast.Index(entities={"who": "world"})
    index.add("greeting", '/a[. = "hello world"]')
    index.save(tmp_path / "saved.tcx")
    documents = spark.createDataFrame([("x", b"<a>hello &who;</a>")], "key string, document binary")
    for subscriptions in (index, tmp_path / "saved.tcx", str(tmp_path / "saved.tcx")):
        assert pairs_of(match(documents, subscriptions).collect()) == {("x", "greeting")}
    index.add("all", "/*")  # the index may change; a match keeps the set that it was made with
    assert pairs_of(match(documents, index).collect()) == {("x", "greeting"), ("x", "all")}


def test_other_columns_are_carried_and_equal_documents_stay_apart(spark: SparkSession) -> None:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("any", "//*")])
    rows = [(1, "x", [1.5], {"k": 1}, b"<a/>"), (1, "x", [1.5], {"k": 1}, b"<a/>"), (2, None, [], {}, b"<b/>")]
    schema = "n int, `odd.name` string, list array<double>, map map<string,int>, Document binary"
    answer = match(spark.createDataFrame(rows, schema), index)
    assert answer.columns == ["n", "odd.name", "list", "map", "subscription"]
    assert sorted((row.n, row["odd.name"], row.subscription) for row in answer.collect() if row.n == 1) == [
        (1, "x", "a"),
        (1, "x", "a"),
        (1, "x", "any"),
        (1, "x", "any"),
    ]
    assert [(row.n, row.list, row.map) for row in answer.collect() if row.n == 2] == [(2, [], {})]


def test_the_function_runs_once_a_document_whatever_is_asked(spark: SparkSession) -> None:
    """Spark likes to push filters below an explosion, and would call the function for them again."""
    index = treecast.Index()
    index.add("a", "/a")
    documents = spark.createDataFrame([(1, b"<a/>")], "n int, document binary")
    report = match(documents, index, on_error="report")
    good, bad = split(report)
    plain = match(documents, index)
    for frame in (plain, plain.filter("subscription = 'a' and n > 0"), report, good, bad, bad.filter("n = 1")):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("treecast_match(") == 1, plan


def test_many_matches_of_a_batch_come_in_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Arrow array has two gigabytes at most, and a task little memory: a batch is answered in pieces."""
    from treecast.spark.batch import answers
    from treecast.spark.batch.answer_form import MATCHES

    index = treecast.Index()
    index.add_many([(f"q{number}", "//a") for number in range(100)])
    monkeypatch.setattr(answers, "MATCHES_MAX", 250)
    documents = pa.array([b"<a/>", None, b"<b/>", b"<a><"] + [b"<a/>"] * 1_500)
    for form in (MATCHES.with_errors(), MATCHES.with_accounts()):
        pieces = list(answers.answer(index, documents, None, form))
        assert len(pieces) > 2 and sum(map(len, pieces)) == len(documents)
        rows = [row for piece in pieces for row in piece.to_pylist()]
        lists = [row["matches"] for row in rows] if form.has_accounts else rows
        errors = [r["error"] for r in rows] if form.has_accounts else [row[0]["error"] if row else None for row in rows]
        assert [len(row) for row in lists][4:] == [100] * 1_500
        assert [error["code"] if error else None for error in errors[:5]] == [None, "TC210", None, "TC209", None]
