"""treecast.spark.match on local[2], compared with lxml in mapInArrow and with a mapInArrow that does nothing.

Documents are read from Parquet and the answers discarded by Spark's noop sink. CPU time is that of this process and
all its descendants: the JVM and the Python workers. Wall-clock time on two cores is given too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.inputs import as_table, draw_queries, load_schema
from bench.measure import Report, Seconds, finish, median, options_of, run
from treecast import Index, PipelineError
from treecast.measure.seconds import tree_clock
from treecast.workload import DocumentSettings, Schema, generate_documents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MATCHES_MAX = 100  # a document, in the large population


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def floor(documents: DataFrame) -> DataFrame:
    """The cost of a mapInArrow that does nothing: 12 bytes out for each document."""

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            row = pa.array(range(batch.num_rows), pa.int64())
            yield pa.RecordBatch.from_arrays([row, row.cast(pa.int32())], names=["row", "match"])

    return documents.select("document").mapInArrow(nothing, "row long, match int")


def by_lxml(documents: DataFrame, queries: list[str]) -> DataFrame:
    """What a user would write: compiled XPaths, one after the other."""

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lxml import etree

        compiled = [etree.XPath(f"boolean({query})") for query in queries]
        for batch in batches:
            found = []
            for document in batch.column(0):
                tree = etree.fromstring(document.as_py())
                found += [number for number, query in enumerate(compiled) if query(tree)]
            yield pa.RecordBatch.from_arrays([pa.array(found, pa.int32())], names=["match"])

    return documents.select("document").mapInArrow(evaluate, "match int")


def rare_queries(schema: Schema, count: int, documents: list[bytes]) -> list[str]:
    """Of three times as many, those with the most matches that stay well below MATCHES_MAX a document."""
    drawn = draw_queries(schema, 3 * count)
    index = Index()
    index.add_many(as_table(drawn))
    counts = [0] * len(drawn)
    found = index.match_many(documents, threads=1).column("subscription").combine_chunks()
    for entry in found.indices.value_counts().to_pylist():
        counts[entry["values"]] = entry["counts"]
    order = sorted(range(len(drawn)), key=counts.__getitem__)
    first, total = 0, sum(counts[number] for number in order[:count])
    while first + count < len(order):
        moved = total - counts[order[first]] + counts[order[first + count]]
        if moved > 0.8 * MATCHES_MAX * len(documents):
            break
        first, total = first + 1, moved
    return [drawn[number] for number in order[first : first + count]]


def loads(spark: SparkSession) -> list[tuple[int, int]]:
    """For every Python worker process that answers: how many indexes it has loaded."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from treecast.spark.batch import worker

        for _ in batches:
            time.sleep(0.2)  # so that every worker gets a task
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "loads": [worker.loads]})

    rows = spark.range(0, 8, 1, 8).mapInArrow(ask, "pid long, loads long").collect()
    return sorted({(int(row.pid), int(row.loads)) for row in rows})


def rate(report: Report, name: str, frame: DataFrame, documents: int, passes: int, matches: float | None) -> Seconds:
    drain(frame)
    spent = median([tree_clock(lambda: drain(frame)) for _ in range(passes)])
    report.add(
        name,
        f"{documents / spent.wall:,.0f}",
        "docs/s (wall)",
        cpu=f"{documents / spent.cpu:,.0f}/CPU s",
        matches="" if matches is None else f"{matches:.0f}",
    )
    return Seconds(spent.wall / documents, spent.cpu / documents)


def compare(report: Report, name: str, ours: Seconds, peer: Seconds, bar: float) -> None:
    cpu, wall = peer.cpu / ours.cpu, peer.wall / ours.wall
    report.add(name, f"{cpu:.2f}", "x", cpu=f"{cpu:.2f}x", wall=f"{wall:.2f}x", bar=f">= {bar:g}x", met=cpu >= bar)


def measure(spark: SparkSession, schema: Schema, directory: str, quick: bool, report: Report) -> None:
    from treecast.spark import match

    count, few, passes = (4_000, 200, 2) if quick else (40_000, 1_000, 5)
    settings = DocumentSettings(bytes_target=5_000)
    drawn = list(generate_documents(schema, 2_000, settings, seed=3))
    report.note(f"{count:,} documents of {sum(map(len, drawn)) / len(drawn):,.0f} bytes, 2,000 of them distinct")
    for part in range(4):
        rows = [drawn[(part + 4 * row) % len(drawn)] for row in range(count // 4)]
        table = pa.table({"document": rows, "file": [f"{row}.xml" for row in range(len(rows))]})
        pq.write_table(table, f"{directory}/{part}.parquet")
    documents: Any = spark.read.parquet(directory)
    bare = rate(report, "mapInArrow, 12 bytes out", floor(documents), count, passes, None)

    queries = draw_queries(schema, 100_000)[::100]  # the first that are drawn are shorter than most
    thousand = Index()
    thousand.add_many(as_table(queries))
    matches = thousand.match_many(drawn, threads=1).num_rows / len(drawn)
    ours = rate(report, "1,000 queries: treecast", match(documents, thousand), count, passes, matches)
    sample = documents.limit(few).repartition(2).cache()
    lxml = rate(report, "1,000 queries: lxml in mapInArrow", by_lxml(sample, queries), few, 1, matches)
    compare(report, "1,000 queries: treecast against lxml", ours, lxml, 50)

    rare = rare_queries(schema, 20_000 if quick else 100_000, drawn)
    large = Index()
    large.add_many(as_table(rare))
    matches = large.match_many(drawn, threads=1).num_rows / len(drawn)
    ours = rate(report, f"{len(rare):,} queries: treecast", match(documents, large), count, passes, matches)
    compare(report, f"{len(rare):,} queries: treecast against the floor", ours, bare, 0.4)
    for pid, loaded in loads(spark):
        report.add(f"indexes loaded by worker {pid}, of 2", str(loaded), "loads", bar="<= 2", met=loaded <= 2)


def main(arguments: list[str]) -> int:
    options, report = options_of("on_spark", __doc__.partition("\n")[0], arguments)
    from treecast.spark.session import check, start

    try:
        check()
    except PipelineError as error:
        print(f"on_spark: {error}", file=sys.stderr)
        return 2
    schema = load_schema(options.data, report)
    with tempfile.TemporaryDirectory() as directory:
        spark = start("local[2]", name="treecast bench", settings={"spark.driver.memory": "4g"})
        try:
            measure(spark, schema, f"{directory}", options.quick, report)
        finally:
            spark.stop()
    return finish(options, report)


if __name__ == "__main__":
    run(main)
