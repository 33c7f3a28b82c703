"""Populations on Spark: what is counted there is what one process counts; what is drawn does not depend on the tasks.

The twin of tests/long/test_full_population.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from generators.populations import (
    check_aggregate,
    check_same_pep,
    similar_documents,
    similar_table,
    valued_documents,
    valued_table,
)
from support.placements import draw_population

import treecast
from treecast import Subscription, placement, workload
from treecast.placement import Pep, survey
from treecast.spark import aggregate, generate_documents, generate_queries, match, pep
from treecast.spark.batch.population_worker import BLOCK, reduce
from treecast.workload import DocumentSettings, QuerySettings, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b (c)> <!ELEMENT c EMPTY>", name="small")

CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from treecast.spark import aggregate, generate_queries, pep
from treecast.workload import Schema

address, answer = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
queries = generate_queries(spark, Schema.records(), 500, seed=4)
documents = spark.createDataFrame([(b"<trades/>",), (b"<other/>",)], "document binary")
result = aggregate(queries, documents=documents, filters_max=5)
with open(answer, "w", encoding="utf-8") as file:
    json.dump([sorted(map(list, queries.collect())), sorted(result.filters), len(pep(queries, 3))], file)
spark.stop()
"""


def rows_of(subscriptions: list[Subscription]) -> list[tuple[str, str, dict[str, str], bool]]:
    return [(one.id, one.query, dict(one.namespaces), one.ordered) for one in subscriptions]


def frame_of(spark: SparkSession, documents: list[bytes]) -> DataFrame:
    return spark.createDataFrame([(document,) for document in documents], "document binary")


def test_pep_is_that_of_one_process(spark: SparkSession) -> None:
    table, documents = valued_table(3000, 100), valued_documents(40, 100)
    one = Pep(11, documents=documents)
    one.add_many(table)
    subscriptions: Any = spark.createDataFrame(table)
    for partitions, sample in ((1, documents), (4, frame_of(spark, documents))):
        on_spark = pep(subscriptions.repartition(partitions), 11, documents=sample)
        check_same_pep(on_spark, one, table.column("id").to_pylist())
    index = treecast.Index()
    index.add_many(table)
    frame = spark.createDataFrame(list(enumerate(documents)), "n int, document binary")
    answer = {(row.n, row.subscription) for row in match(frame, subscriptions, placement=on_spark).collect()}
    assert answer == {(n, id) for n, document in enumerate(documents) for id in index.match(document)}


def test_pep_of_the_whole_language(spark: SparkSession) -> None:
    subscriptions, documents = draw_population(Random(3), queries=300, documents=20)
    schema = "ID string, query string, namespaces map<string,string>, ordered boolean"
    subscribers = spark.createDataFrame(rows_of(subscriptions), schema).repartition(3)
    one = Pep(6, documents=documents, patterns_max=3)
    one.add_many(subscriptions)
    on_spark = pep(subscribers, 6, documents=documents, patterns_max=3)
    check_same_pep(on_spark, one, [one.id for one in subscriptions])
    assert on_spark.add("new", "/a[@b = 1]") == one.add("new", "/a[@b = 1]")
    empty = pep(spark.createDataFrame([], "id string, query string"), 4)
    assert (len(empty), empty.patterns) == (0, ())


def test_an_aggregate_is_that_of_one_process(spark: SparkSession) -> None:
    table, documents = similar_table(6000), similar_documents()
    one = placement.aggregate(table, documents=documents, filters_max=40)
    frame: Any = spark.createDataFrame(table)
    result = aggregate(frame.repartition(4), documents=frame_of(spark, documents), filters_max=40)
    assert set(result.filters) == set(one.filters)
    assert result.shrinkage >= 100
    check_aggregate(result, table, documents, table.column("query").to_pylist()[::20])
    assert f"{result.forwarded} forwarded" in result.describe()


def test_an_aggregate_of_the_whole_language(spark: SparkSession) -> None:
    subscriptions, documents = draw_population(Random(5), queries=200, documents=60)
    schema = "id string, query string, namespaces map<string,string>, ordered boolean"
    rows = rows_of(subscriptions)
    frame = spark.createDataFrame(rows, schema).repartition(3)
    result = aggregate(frame, documents=documents, filters_max=6)
    assert 1 <= len(result.filters) <= 6
    table = survey(subscriptions)
    for row in range(len(table)):
        for path in table.covers_of(row):
            assert treecast.parse(result.covering[path]).covers(treecast.parse(path))
    check_aggregate(result, subscriptions, documents, ())


def test_a_task_with_too_many_paths_shortens_them() -> None:
    queries = [f'/r{n % 50}/s{n}/t[@k = "{n % 7}"]' for n in range(21_000)]
    batch = pa.RecordBatch.from_pydict({"id": [str(n) for n in range(len(queries))], "query": queries})
    documents = [b"<r1><s1><t k='1'/></s1></r1>", b"<r1/>", b"<other/>", b"<r49><s49><t k='0'/></s49></r49>"]
    (partial,) = reduce(iter([batch]), {}, documents, None, None)
    totals, *rest = partial.to_pylist()
    assert (totals["cover"], totals["expressions"], totals["wanted"], totals["count"]) == (None, 21_000, b"\x09", 0)
    assert {row["cover"] for row in rest} == {f"/r{n}" for n in range(50)}


def test_what_is_refused_is_said(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "/a"), ("b", "]["), (None, "/a")], "id string, query string")
    for attempt in (lambda: pep(frame, 3), lambda: aggregate(frame)):
        with pytest.raises(treecast.QueryError, match="2 subscriptions were refused") as error_info:
            attempt()
        assert [id for id, _ in error_info.value.refused] == ["", "b"]
    bad = spark.createDataFrame([("a", "/a", "nonsense")], "id string, query string, namespaces string")
    with pytest.raises(treecast.QueryError, match="TC144 these namespaces cannot be read"):
        aggregate(bad)
    positions = spark.createDataFrame([("a", "/a[2]", True)], "id string, query string, ordered boolean")
    with pytest.raises(treecast.QueryError, match="'a'"):
        aggregate(positions, documents=[b"<a/>"])
    with pytest.raises(treecast.QueryError, match="TC141 the id 'a' is placed already"):
        pep(spark.createDataFrame([("a", "/a"), ("a", "/b")], "id string, query string"), 3)
    with pytest.raises(treecast.PipelineError, match="TC703 the subscriptions have no column query"):
        pep(spark.createDataFrame([], "id string, xpath string"), 3)
    for attempt in (lambda: pep(frame, 3, documents=frame), lambda: aggregate(frame, documents=frame)):
        with pytest.raises(treecast.PipelineError, match="TC703 the documents have no column document"):
            attempt()
    with pytest.raises(ValueError, match="filters_max"):
        aggregate(frame, filters_max=0)


def test_documents_are_those_of_one_process(spark: SparkSession) -> None:
    schemas, settings = [Schema.news(), Schema.records()], DocumentSettings(bytes_target=2_000)
    expected = list(workload.generate_documents(schemas, 40, settings, seed=3, weights=[3, 1]))
    for partitions in (1, 3):
        documents = generate_documents(spark, schemas, 40, settings, seed=3, weights=[3, 1], partitions=partitions)
        rows = documents.orderBy("number").collect()
        assert [(row.number, bytes(row.document)) for row in rows] == list(enumerate(expected))
    assert generate_documents(spark, SMALL, 0).count() == 0
    with pytest.raises(ValueError, match="one weight for every schema"):
        generate_documents(spark, schemas, 5, weights=[1])


def test_queries_are_distinct_and_the_same_whatever_the_tasks(spark: SparkSession) -> None:
    count = BLOCK + 500
    several = [Schema.news(), Schema.records()]
    first, second = (
        sorted(map(tuple, generate_queries(spark, several, count, seed=3, partitions=partitions).collect()))
        for partitions in (1, 3)
    )
    assert first == second
    assert len(first) == len({id for id, _ in first}) == len({query for _, query in first}) == count
    index = treecast.Index()
    index.add_many(first)
    (document,) = workload.generate_documents(Schema.news(), 1, seed=1)
    assert len(index.match(document)) > 10
    other = generate_queries(spark, several, 50, seed=4).collect()
    assert {row.query for row in other} != {query for _, query in first[:50]}
    fewer = {tuple(row) for row in generate_queries(spark, several, 700, seed=3).collect()}
    assert len(fewer) == 700
    assert fewer <= set(first)  # a shorter workload is the beginning of a longer one


def test_queries_come_to_an_end(spark: SparkSession) -> None:
    plain = QuerySettings(wildcard=0, descendant=0)
    assert {row.query for row in generate_queries(spark, SMALL, 3, plain).collect()} == {"/a", "/a/b", "/a/b/c"}
    with pytest.raises(treecast.QueryError, match="TC381 small gave only 3 distinct queries of the 4 asked for"):
        generate_queries(spark, SMALL, 4, plain)
    with_repeats = QuerySettings(wildcard=0, descendant=0, distinct=False)
    assert generate_queries(spark, SMALL, 40, with_repeats).select("query").distinct().count() == 3
    assert generate_queries(spark, SMALL, 0).count() == 0
    with pytest.raises(ValueError, match="count is from 0"):
        generate_queries(spark, SMALL, -1)
    with pytest.raises(ValueError, match="partitions must be 1 or more, not 0"):
        generate_queries(spark, SMALL, 1, partitions=0)
    prefixed_schema = Schema.from_text("<!ELEMENT p:a (p:b)> <!ELEMENT p:b EMPTY>")
    rows = generate_queries(spark, prefixed_schema, 2, plain).collect()
    assert [row.namespaces for row in rows] == [{"p": "urn:treecast:p"}] * 2
    assert pep(generate_queries(spark, prefixed_schema, 2, plain), 2).uncovered == 1


def test_over_connect(spark: SparkSession, connect_address: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    command = [sys.executable, "-c", CONNECT, connect_address, str(answer)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    queries, filters, placement_size = json.loads(answer.read_text("utf-8"))
    expected = sorted(map(list, generate_queries(spark, Schema.records(), 500, seed=4).collect()))
    assert queries == expected
    one = placement.aggregate([tuple(row) for row in expected], documents=[b"<trades/>", b"<other/>"], filters_max=5)
    assert filters == sorted(one.filters)
    assert placement_size == 500
