"""A million subscriptions on Spark, local[2]: drawn, partitioned by PEP, aggregated; compared with one process.

CPU time is that of this process and all its descendants: the JVM and the Python workers. The target is five minutes
of wall-clock time for PEP and aggregation together. Answers are compared with those of one process. An aggregate
of very few filters is compared with one of many, to show how much is then forwarded in vain.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.measure import Report, Seconds, finish, options_of, run
from treecast import PipelineError, placement
from treecast.measure.seconds import clock, tree_clock
from treecast.workload import DocumentSettings, QuerySettings, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Clock = Callable[[Callable[[], object]], Seconds]

SHARDS = 200
PARTITIONS = 8
FEW = 5
MINUTES = 5
SHRINKAGE_MIN = 100
ONE_DOCUMENT = DocumentSettings(bytes_target=1_500)
# Much alike, and most of them compare something with a value.
SIMILAR = QuerySettings(wildcard=0, descendant=0.05, predicates=1, depth_min=2, distinct=False)


def timed(report: Report, name: str, action: Callable[[], Any], by: Clock = tree_clock) -> tuple[Any, Seconds]:
    kept: list[Any] = []
    spent = by(lambda: kept.append(action()))
    report.add(name, f"{spent.wall:.1f}", "s (wall)", cpu=f"{spent.cpu:.1f} CPU s")
    return kept[0], spent


def stored(frame: DataFrame, path: str) -> DataFrame:
    frame.write.parquet(path)
    return frame.sparkSession.read.parquet(path)


def measure(spark: SparkSession, directory: str, quick: bool, report: Report) -> None:
    from treecast.spark import aggregate, generate_documents, generate_queries, pep

    count = 50_000 if quick else 1_000_000
    schema = Schema.records()
    given, _ = timed(
        report,
        f"drawing {count:,} similar subscriptions",
        lambda: stored(
            generate_queries(spark, schema, count, SIMILAR, seed=1, partitions=PARTITIONS), f"{directory}/q"
        ),
    )
    timed(
        report,
        f"drawing {count // 10:,} distinct queries, twice",
        lambda: generate_queries(spark, Schema.news(), count // 10, seed=1, partitions=PARTITIONS).count(),
    )
    both = [schema, Schema.news()]
    documents, _ = timed(
        report,
        "drawing 2,000 documents of two schemas",
        lambda: stored(generate_documents(spark, both, 2_000, ONE_DOCUMENT, seed=2, weights=[3, 1]), f"{directory}/d"),
    )
    placed, by_spark = timed(report, "pep on Spark", lambda: pep(given, SHARDS, documents=documents))
    found, aggregated = timed(
        report, "aggregate on Spark", lambda: aggregate(given, documents=documents, filters_max=count // 1000)
    )
    total = by_spark + aggregated
    bar = 60 * MINUTES
    met = total.wall < bar
    name = "pep and aggregate together"
    report.add(
        name, f"{total.wall:.1f}", "s (wall)", cpu=f"{total.cpu:.1f} CPU s", bar=f"< {bar} s on 2 cores", met=met
    )
    shrinkage = found.shrinkage
    report.add("shrinkage", f"{shrinkage:,.0f}", "to 1", bar=f">= {SHRINKAGE_MIN}", met=shrinkage >= SHRINKAGE_MIN)
    report.add(
        "false forwards",
        f"{found.false_forwards:.1%}",
        f"of {found.documents} documents; precision {found.precision:.1%}",
    )
    few, _ = timed(
        report, f"aggregate on Spark, {FEW} filters", lambda: aggregate(given, documents=documents, filters_max=FEW)
    )
    report.add(
        f"false forwards of {len(few.filters)} filters", f"{few.false_forwards:.1%}", f"precision {few.precision:.1%}"
    )
    report.note(placed.describe())
    report.note(few.describe())
    report.note(found.describe())
    compare(report, given, documents, placed, found)


def compare(
    report: Report, given: DataFrame, documents: DataFrame, placed: placement.Pep, found: placement.Aggregate
) -> None:
    """The cost of the same in one process, and whether the answers are equal."""
    from treecast.spark.batch.sampling import sample_documents

    table, sample = given.toArrow(), sample_documents(documents)
    one = placement.Pep(SHARDS, documents=sample)
    timed(report, "pep in one process", lambda: one.add_many(table), clock)
    alone, _ = timed(
        report,
        "aggregate in one process",
        lambda: placement.aggregate(table, documents=sample, filters_max=table.num_rows // 1000),
        clock,
    )
    same = one.patterns == placed.patterns and one.describe() == placed.describe()
    report.add("the same patterns and sizes", str(same), "", bar="True", met=same)
    same = set(alone.filters) == set(found.filters) and alone.describe() == found.describe()
    report.add("the same filters, size and precision", str(same), "", bar="True", met=same)


def main(arguments: list[str]) -> int:
    options, report = options_of("populations", __doc__.partition("\n")[0], arguments)
    from treecast.spark.session import check, start

    try:
        check()
    except PipelineError as error:
        print(f"populations: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        spark = start("local[2]", name="treecast bench")
        try:
            measure(spark, directory, options.quick, report)
        finally:
            spark.stop()
    return finish(options, report)


if __name__ == "__main__":
    run(main)
