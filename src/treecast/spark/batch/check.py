"""What is wrong, or worth a look, in a DataFrame of subscriptions, each judged by itself, by the executors.

    from treecast.spark import check

    check(subscriptions).show(truncate=False)

`treecast check` also compares subscriptions with each other, with a schema and with sample documents; that takes all of
them in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from treecast.document import Limits
from treecast.index import Index
from treecast.index.findings import contradictions
from treecast.spark.batch.match import one_line
from treecast.spark.batch.plan import subscription_columns
from treecast.spark.batch.worker_function import worker_function
from treecast.spark.internals import one_sentence_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FINDING_TYPE = "id string, query string, kind string, code string, message string, position long"
DUPLICATE_CODE = "TC141"


def check(
    subscriptions: DataFrame, *, namespaces: Mapping[str, str] | None = None, limits: Limits | None = None
) -> DataFrame:
    """What is to be said of the subscriptions: `id`, `query`, `kind`, `code`, `message`, `position`, lazily.

    `kind` is "refused" where `match` would refuse the subscription, "impossible" where no document can match it, and
    "never" for each test in it that is never true, whatever a document says. An id that is there more than once has
    one row, without a query, which gives the number. `code` and `position` (in the query) are of what is refused.
    `namespaces` and `limits` are those of `match`.
    """
    from pyspark.sql import functions

    rows = subscription_columns(subscriptions)
    Index().add_many(rows.limit(0).toArrow())  # raises where a column has a wrong type
    judge = worker_function(__name__, "judge", (dict(namespaces or {}), limits))
    findings = rows.mapInArrow(judge, FINDING_TYPE)
    id = functions.col("id").cast("string")
    several = rows.groupBy(id.alias("id")).count().filter("id IS NOT NULL AND count > 1")
    message = functions.format_string(
        f"{DUPLICATE_CODE} the id '%s' is given %d times; hint: use replace() to change a subscription, or another id",
        "id",
        "count",
    )
    null = functions.lit(None)
    duplicates = several.select(
        "id",
        null.cast("string").alias("query"),
        functions.lit("refused").alias("kind"),
        functions.lit(DUPLICATE_CODE).alias("code"),
        message.alias("message"),
        null.cast("long").alias("position"),
    )
    return findings.unionByName(duplicates)


# -- in workers


def judge(
    batches: Iterator[pa.RecordBatch], namespaces: Mapping[str, str], limits: Limits | None
) -> Iterator[pa.RecordBatch]:
    """The findings of each batch of subscriptions, by no others than themselves."""
    import pyarrow as pa

    fields = ("id", "query", "kind", "code", "message")
    schema = pa.schema([*((name, pa.string()) for name in fields), ("position", pa.int64())])
    with one_sentence_errors():
        for batch in batches:
            rows = list(_findings(pa.Table.from_batches([batch]), namespaces, limits))
            yield pa.RecordBatch.from_pylist(rows, schema)


def _findings(table: pa.Table, namespaces: Mapping[str, str], limits: Limits | None) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    # The index knows rows by their numbers, so that the same id in two batches, or in one, is no matter here.
    ids, queries = table.column("id"), table.column("query")
    numbers = pa.array(range(len(table)), pa.int64()).cast(pa.string())
    own_ids = pc.if_else(pc.is_valid(ids), numbers, pa.scalar(None, pa.string()))
    index = Index(namespaces=namespaces, limits=limits)
    numbered = table.set_column(table.schema.get_field_index("id"), "id", own_ids)
    for refusal in index.add_many(numbered, on_refused="report").to_pylist():
        row = refusal["row"]
        yield {
            "id": ids[row].as_py(),
            "query": queries[row].as_py(),
            "kind": "refused",
            "code": refusal["code"],
            "message": one_line(refusal["message"]),
            "position": refusal["position"],
        }
    for finding in contradictions(index):
        row = int(finding.subscription)
        yield {
            "id": ids[row].as_py(),
            "query": queries[row].as_py(),
            "kind": finding.kind,
            "message": finding.message,
        }
