"""Whole populations on Spark: PEP patterns and partitions of millions of subscriptions, and filters that cover them.

    from treecast.spark import aggregate, match, pep

    placement = pep(subscriptions, shards=200, documents=sample)      # a treecast.placement.Pep, with all of them in it
    matches = match(documents, subscriptions, placement=placement)
    print(aggregate(subscriptions, documents=sample, filters_max=500).describe())

What is done a million times is done by Spark: reading queries natively, counting what they compare with values, and
reducing them to paths, a part of the subscriptions in each task. What is chosen once is chosen on the driver, from
small tables, by the same code as in one process (`treecast.placement`): so the patterns and partitions are the same.

How an aggregate is made: each task keeps the distinct paths of its subscriptions, shortened where there are too many,
and finds out which documents of the sample match one of them. Paths are merged by Spark, matches by OR; the driver
chooses filters that cover the paths. A path that covers a subscription is covered by its filter in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treecast.document import Bytes, EntityTexts, Limits
from treecast.errors import QueryError
from treecast.index.subscription_forms import LISTED_MAX, all_refused
from treecast.placement import Aggregate, Pair, Pep
from treecast.placement.aggregate import FILTERS_MAX, Selectivity, of_paths
from treecast.placement.pep import PATTERNS_MAX
from treecast.spark.batch.answer_form import MATCHES
from treecast.spark.batch.plan import document_columns, subscription_columns
from treecast.spark.batch.population_worker import FACTS_TYPE, PARTIAL_TYPE
from treecast.spark.batch.sampling import sample_documents
from treecast.spark.batch.worker_function import map_population

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def pep(
    subscriptions: DataFrame,
    shards: int,
    *,
    documents: DataFrame | Sequence[Bytes] = (),
    once: Collection[str] = (),
    patterns_max: int = PATTERNS_MAX,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> Pep:
    """The placement that `Pep(…).add_many` would make of these subscriptions, counted on Spark.

    `subscriptions` has the columns that `match` takes. `documents` is a sample: a DataFrame with a column `document`,
    or a sequence. The other arguments are those of `treecast.placement.Pep`. Runs at once; raises a QueryError where
    subscriptions are refused or an id is there twice.
    """
    from pyspark.sql import functions

    sample = _sample(documents)
    placement = Pep(
        shards,
        documents=sample,
        once=once,
        patterns_max=patterns_max,
        namespaces=namespaces,
        limits=limits,
        entities=entities,
    )
    columns = subscription_columns(subscriptions)
    facts = map_population(columns, "facts", (dict(namespaces or {}),), FACTS_TYPE).persist()
    try:
        signature = functions.array_sort(functions.array_distinct(functions.col("pairs.pattern")))
        queries = functions.count("id").alias("queries")
        refusals_column = functions.flatten(functions.collect_list("refused")).alias("refused")
        signature_rows = facts.groupBy(signature.alias("patterns")).agg(queries, refusals_column).collect()
        refusals = [one for row in signature_rows for one in row["refused"]]
        if refusals:
            raise _refusal_error(len(refusals), refusals)
        patterns = placement.choose({frozenset(row["patterns"] or ()): row["queries"] for row in signature_rows})
        pairs = facts.select("id", _pair_column(patterns).alias("pair"))
        pair_counts = pairs.where("pair is not null").groupBy("pair").count().collect()
        placement.cut({Pair(row["pair"]["pattern"], row["pair"]["literal"]): row["count"] for row in pair_counts})
        table = pairs.select("id", "pair.pattern", "pair.literal").toArrow()
    finally:
        facts.unpersist()
    ids = table.column("id").to_pylist()
    rows = zip(table.column("pattern").to_pylist(), table.column("literal").to_pylist(), strict=True)
    placement.place(ids, [None if pattern is None else Pair(pattern, literal) for pattern, literal in rows])
    return placement


def _sample(documents: DataFrame | Sequence[Bytes]) -> list[bytes]:
    if not hasattr(documents, "sparkSession"):
        return [bytes(document) for document in documents]
    return sample_documents(documents, document_columns(documents, MATCHES, ())[0])  # type: ignore[arg-type]


def _pair_column(patterns: Sequence[str]) -> Column:
    """The pair that a query goes by, as `Pep.place` wants it."""
    from pyspark.sql import functions

    fitting = functions.filter("pairs", lambda pair: pair["pattern"].isin(list(patterns)))
    count = functions.greatest(functions.size(fitting), functions.lit(1))
    return functions.get(fitting, functions.pmod("checksum", count).cast("int"))


def aggregate(
    subscriptions: DataFrame,
    *,
    documents: DataFrame | Sequence[Bytes] = (),
    filters_max: int = FILTERS_MAX,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> Aggregate:
    """At most `filters_max` expressions that together cover all subscriptions, with size and precision.

    As `treecast.placement.aggregate`, over a DataFrame. `documents` is a sample: a DataFrame with a column `document`,
    of which at most 256 are taken, by a hash of their content, or a sequence. `covering` has the filter of each path
    that the tasks reduced their subscriptions to. Runs at once; ids are ignored.
    """
    from pyspark.sql import functions

    if filters_max < 1:
        raise ValueError(f"filters_max must be 1 or more, not {filters_max}")
    selectivity = Selectivity(_sample(documents), limits=limits, entities=entities)
    sample = [bytes(document) for document in selectivity.documents]
    arguments = (dict(namespaces or {}), sample, limits, entities)
    partial = map_population(subscription_columns(subscriptions), "reduce", arguments, PARTIAL_TYPE)
    rows_by_cover = partial.groupBy("cover").agg(
        functions.sum("expressions").alias("expressions"),
        functions.collect_list("wanted").alias("wanted"),
        functions.sum("count").alias("count"),
        functions.flatten(functions.collect_list("refused")).alias("refused"),
    )
    paths: list[str] = []
    expressions = matching_bits = 0
    for row in rows_by_cover.toLocalIterator():
        if row["cover"] is not None:
            paths.append(row["cover"])
            continue
        if row["count"]:
            raise _refusal_error(row["count"], row["refused"])
        expressions = row["expressions"]
        for bits in row["wanted"]:
            matching_bits |= int.from_bytes(bits, "little")
    paths.sort()
    return of_paths(paths, selectivity, filters_max, expressions=expressions, wanted=matching_bits.bit_count())


def _refusal_error(count: int, refusals: Sequence[Any]) -> QueryError:
    rows = []
    for row in sorted(refusals, key=lambda row: (row["id"] or "", row["message"]))[:LISTED_MAX]:
        error = QueryError("", code=row["code"])
        error.args = (row["message"],)
        rows.append((0, row["id"] or "", error))
    return all_refused(count, rows)
