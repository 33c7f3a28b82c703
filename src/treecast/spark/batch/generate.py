"""Workloads as DataFrames: documents and queries drawn from schemas by all tasks at once.

    from treecast.spark import generate_documents, generate_queries
    from treecast.workload import Schema

    documents = generate_documents(spark, Schema.news(), 1_000_000, seed=1)       # number, document
    subscriptions = generate_queries(spark, Schema.news(), 1_000_000, seed=1)     # id, query

Equal settings and seeds give the same rows, whatever the number of partitions. A document is the one that
`treecast.workload.generate_documents` gives under the same number. Queries are drawn in blocks of ten thousand, each
with its own seed, and of equal ones the first is kept; so they are not the same ones as those of
`treecast.workload.generate_queries`, but of the same kind.

Both are drawn when they are used, and again when they are used again: write them, or cache them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from treecast.spark.batch.population_worker import BLOCK, DOCUMENTS_TYPE, QUERIES_TYPE
from treecast.spark.batch.worker_function import map_population
from treecast.workload import DocumentSettings, QuerySettings, Schema
from treecast.workload import generate_documents as documents_in_one_process
from treecast.workload import generate_queries as queries_in_one_process
from treecast.workload.queries import exhaustion_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES_MAX = 100_000_000
DRAWS_PER_QUERY_MAX = 50
STALE_BLOCKS = 2  # without a new query: the schemas have no more of them


def generate_documents(
    spark: SparkSession,
    schema: Schema | Sequence[Schema],
    count: int,
    settings: DocumentSettings | None = None,
    *,
    seed: int = 0,
    weights: Sequence[float] | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Documents number 0 to `count` - 1 of these schemas, settings and seed: `number` and `document`, lazily."""
    _check_partitions(partitions)
    settings = settings or DocumentSettings()
    schemas = _list(schema)
    # Raises for settings that make no sense.
    documents_in_one_process(schemas, count, settings, seed=seed, weights=weights)
    numbers = spark.range(0, count, 1, partitions)
    return map_population(numbers, "draw_documents", (schemas, settings, seed, weights), DOCUMENTS_TYPE)


def generate_queries(
    spark: SparkSession,
    schema: Schema | Sequence[Schema],
    count: int,
    settings: QuerySettings | None = None,
    *,
    seed: int = 0,
    weights: Sequence[float] | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """`count` queries as subscriptions: `id`, `query`, and `namespaces` where the schemas have prefixes.

    Unless the settings allow repetitions, all are distinct; a QueryLimitError says so when the schemas do not have that
    many. To find out, they are drawn once now. The ids are numbers of draws, with gaps where a query came again.
    `weights` are the shares that several schemas have in the draws.
    """
    if not 0 <= count <= QUERIES_MAX:
        raise ValueError(f"count is from 0 to {QUERIES_MAX:,}")
    _check_partitions(partitions)
    settings = settings or QuerySettings()
    schemas = _list(schema)
    for _ in queries_in_one_process(schemas, min(count, 1), replace(settings, distinct=False), weights=weights):
        pass  # raises for settings that make no sense, and where no path of the schemas serves
    blocks = -(-count // BLOCK)

    def draw(blocks: int) -> DataFrame:
        numbers = spark.range(0, blocks, 1, None if partitions is None else min(partitions, max(1, blocks)))
        return map_population(numbers, "draw_queries", (schemas, settings, seed, weights), QUERIES_TYPE)

    if settings.distinct and count:
        blocks, end = _enough(draw, count, blocks, ", ".join(one.name for one in schemas))
        rows = _firsts(draw(blocks)).where(f"number <= {end}")
    else:
        rows = draw(blocks).where(f"number < {count}")
    return _subscriptions(rows, _namespaces(schemas))


def _firsts(queries: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return queries.groupBy("query").agg(functions.min("number").alias("number"))


def _enough(draw: Callable[[int], DataFrame], count: int, blocks: int, name: str) -> tuple[int, int]:
    """How many blocks have `count` distinct queries, and the number of the last one of these.

    Later blocks never change what is first in earlier ones, so the answer does not depend on how it is found.
    """
    blocks_max = STALE_BLOCKS + blocks * DRAWS_PER_QUERY_MAX
    distinct = 0
    while True:
        numbers = _firsts(draw(blocks)).select("number").toArrow().column("number")
        if len(numbers) >= count:
            end = int(numbers.combine_chunks().sort()[count - 1].as_py())
            return end // BLOCK + 1, end
        if len(numbers) == distinct or blocks >= blocks_max:
            raise exhaustion_error(name, len(numbers), count)
        distinct = len(numbers)
        growth = min(4.0, 1.1 * count / distinct)
        blocks = min(blocks_max, max(blocks + STALE_BLOCKS, int(blocks * growth)))


def _subscriptions(rows: DataFrame, namespaces: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions

    subscriptions = rows.select(functions.concat(functions.lit("q"), functions.col("number") + 1).alias("id"), "query")
    if not namespaces:
        return subscriptions
    parts = [functions.lit(text) for binding in sorted(namespaces.items()) for text in binding]
    return subscriptions.withColumn("namespaces", functions.create_map(*parts))


def _namespaces(schemas: Sequence[Schema]) -> dict[str, str]:
    """What the prefixes of the queries stand for; a ValueError where two schemas do not agree."""
    uris: dict[str, str] = {}
    for schema in schemas:
        for prefix, uri in schema.namespaces.items():
            if uris.setdefault(prefix, uri) != uri:
                raise ValueError(f"the prefix {prefix} stands for {uris[prefix]} and, in {schema.name}, for {uri}")
    return uris


def _check_partitions(partitions: int | None) -> None:
    if partitions is not None and partitions < 1:
        raise ValueError(f"partitions must be 1 or more, not {partitions}")


def _list(schema: Schema | Sequence[Schema]) -> list[Schema]:
    return [schema] if isinstance(schema, Schema) else list(schema)
