"""`explain`, `check` and `describe_matches` say on Spark what the library says in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.mixed_documents import draw_mixed_document
from pyspark.errors import PythonException
from support.rounds_conditions import condition_words

import treecast
from treecast.errors import PipelineError, QueryError
from treecast.index.findings import contradictions
from treecast.spark import check, describe_matches, explain, match, render

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from treecast.spark import check, describe_matches, explain, match

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
documents = spark.createDataFrame([(1, "<a><b/></a>"), (2, "<c/>")], "n int, document string")
subscriptions = spark.createDataFrame([("b", "/a/b"), ("any", "//*"), ("no", "/a[")], "id string, query string")
good = subscriptions.filter("id != 'no'")
print(json.dumps([
    sorted([row.n, row.subscription, row.matched] for row in explain(documents, good).collect()),
    [[row.id, row.code] for row in check(subscriptions).collect()],
    sorted([row.subscription, row.matches, row.first.n] for row in describe_matches(match(documents, good)).collect()),
]))
spark.stop()
"""


def test_all_three_over_connect(connect_address: str) -> None:
    command = [sys.executable, "-c", CONNECT, connect_address]
    done = subprocess.run(command, capture_output=True, timeout=300, text=True, check=False)
    assert done.returncode == 0, done.stderr
    explained, findings, counts = json.loads(done.stdout)
    assert explained == [[1, "any", True], [1, "b", True], [2, "any", True], [2, "b", False]]
    assert findings == [["no", "TC101"]]
    assert counts == [["any", 2, 1], ["b", 1, 1]]


# -- explain


def test_each_explanation_is_that_of_the_index(spark: SparkSession) -> None:
    random = Random(20261120)
    drawer = ConditionDrawer(random, condition_words(random, namespaces=True), depth_max=3)
    index = treecast.Index()
    for number in range(40):
        query = drawer.query()
        index.add(str(number), query.text, namespaces=dict(query.namespaces or ()), ordered=query.ordered)
    documents = [draw_valued_document(random, namespaces=True) for _ in range(10)]
    documents += [draw_mixed_document(random) for _ in range(10)]
    frame = spark.createDataFrame(list(enumerate(documents)), "n int, document binary")
    rows = explain(frame, index).collect()
    assert len(rows) == len(documents) * len(index)
    for row in rows:
        explanation = index.explain(documents[row.n], row.subscription)
        assert row.matched == explanation.matched
        _, *lines = explanation.lines()
        assert [line.strip() for line in row.reason.splitlines()] == [line.strip() for line in lines]
        assert [(e.step, e.path, e.line) for e in row.elements] == [
            (step.text, step.place.path, step.place.line) for step in explanation.steps
        ]
    assert {row.matched for row in rows} >= {True, False}


def test_explain_takes_what_match_takes(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        ("x", "<a xmlns='urn:n'>&who;</a>", None),
        ("bad", "<a>", None),
        ("cut", None, ("TC711", "TC711 cut off", 7)),
    ]
    documents = spark.createDataFrame(
        rows, "file string, Document string, error struct<code:string,message:string,offset:bigint>"
    )
    subscriptions = [("one", '/n:a[. = "world"]'), ("two", "//n:b"), ("three", "/*")]
    settings: dict[str, Any] = {"namespaces": {"n": "urn:n"}, "entities": {"who": "world"}}
    answer = explain(documents, subscriptions, ids=["two", "one", "two"], on_error="report", **settings)
    assert answer.columns == ["file", "subscription", "matched", "reason", "elements", "error"]
    assert [(row.file, row.subscription, row.matched, row.error and row.error.code) for row in answer.collect()] == [
        ("x", "two", False, None),
        ("x", "one", True, None),
        ("bad", None, None, "TC209"),
        ("cut", None, None, "TC711"),
    ]
    documents = documents.drop("error").filter("file = 'bad'")
    with pytest.raises(PythonException, match=r'TC209 (?s:.)*explain\(…, on_error="report"\)'):
        explain(documents, subscriptions, **settings).collect()

    index = treecast.Index()
    index.add("all", "/*")
    index.save(tmp_path / "saved.tcx")
    assert explain(documents.filter("false"), tmp_path / "saved.tcx").collect() == []
    with pytest.raises(PipelineError, match="TC703 no subscription has the id 'none'"):
        explain(documents, tmp_path / "saved.tcx", ids=["none"])
    with pytest.raises(TypeError, match="write ids="):
        explain(documents, index, ids="all")
    index.add_many([(str(number), "/*") for number in range(10_000)])
    with pytest.raises(PipelineError, match="10,001 subscriptions are to be explained"):
        explain(documents, index)
    with pytest.raises(PipelineError, match="have a column reason already"):
        explain(spark.createDataFrame([], "document string, reason string"), index, ids=["all"])


# -- check


def test_each_finding_is_that_of_the_library(spark: SparkSession) -> None:
    odd = [
        '//x[@day > "2026-01-01" or @n]',
        "//item[@a = 1 and @a = 2]",
        "/a[position() = 0]",
        "/b[",
        "/n:b",
        "//ok",
        None,
    ]
    rows: list[tuple[str | None, str | None]]
    rows = [(f"{number}-{place}", query) for number in range(50) for place, query in enumerate(odd)]
    rows += [(None, "/a"), ("twice", "/a"), ("twice", "/b"), ("twice", "/a[")]
    frame = spark.createDataFrame(rows, "id string, query string").repartition(3)
    singles = [row for row in rows if row[0] != "twice"]
    index = treecast.Index(namespaces={"p": "urn:p"})
    columns = [list(column) for column in zip(*singles, strict=True)]
    refusals = index.add_many(pa.table({"id": columns[0], "query": columns[1]}), on_refused="report").to_pylist()
    expected = Counter(
        (row["id"], row["query"], "refused", row["code"], row["message"].splitlines()[0], row["position"])
        for row in refusals
    )
    queries = dict(singles)
    expected.update(
        (finding.subscription, queries[finding.subscription], finding.kind, None, finding.message, None)
        for finding in contradictions(index)
    )
    answer = check(frame, namespaces={"p": "urn:p"})
    findings = answer.collect()
    by_itself = [row for row in findings if row.id != "twice"]
    assert (
        Counter(
            (
                row.id,
                row.query,
                row.kind,
                row.code,
                row.message.partition("; hint: ")[0],
                row.position,
            )
            for row in by_itself
        )
        == expected
    )
    assert {kind for _, _, kind, *_ in expected} == {"refused", "impossible", "never"}
    twice = sorted((row.code, row.query) for row in findings if row.id == "twice")
    assert [code for code, _ in twice] == ["TC101", "TC141"]
    assert "given 3 times" in next(row.message for row in findings if row.code == "TC141")


def test_check_refuses_what_is_no_subscription(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="'id' holds double"):
        check(spark.createDataFrame([(1.5, "/a")], "id double, query string"))
    with pytest.raises(PipelineError, match="no column query"):
        check(spark.createDataFrame([], "id string, xpath string"))
    ordered = spark.createDataFrame(
        [("a", "/a", {"p": "urn:p"}, True)], "id string, query string, namespaces map<string,string>, ordered boolean"
    )
    assert check(ordered).collect() == []


# -- describe_matches


def test_counts_are_those_of_the_matches(spark: SparkSession) -> None:
    index = treecast.Index()
    index.add_many([("a", "/a"), ("any", "//*"), ("none", "/none")])
    rows = [("2.xml", 1, {"k": 1}, "<a/>"), ("1.xml", 2, {}, "<b/>"), ("1.xml", 1, {}, "<a/>"), ("0.xml", 0, {}, "<")]
    documents = spark.createDataFrame(rows, "file string, `odd.n` int, map map<string,int>, document string")
    for matches in (match(documents, index, on_error="report"), render(documents, index, on_error="report")):
        described = describe_matches(matches)
        assert described.columns == ["subscription", "matches", "share", "first"]
        assert {row.subscription: (row.matches, row.share, tuple(row.first)) for row in described.collect()} == {
            "a": (2, 0.4, ("1.xml", 1)),
            "any": (3, 0.6, ("1.xml", 1)),
        }
    by_number = describe_matches(match(documents.filter("file != '0.xml'"), index), key=["odd.n"]).collect()
    assert {(row.subscription, row.first[0]) for row in by_number} == {("a", 1), ("any", 1)}
    alone = describe_matches(match(documents.select("document").filter("document != '<'"), index))
    assert {(row.subscription, row.first) for row in alone.collect()} == {("a", None), ("any", None)}
    with pytest.raises(PipelineError, match="TC703 the matches have no column subscription"):
        describe_matches(documents)
    with pytest.raises(PipelineError, match="describe the matches that the stream has written"):
        describe_matches(spark.readStream.format("rate").load().withColumnRenamed("value", "subscription"))
