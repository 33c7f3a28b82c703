"""Who gets how many: the matches of each subscription, counted.

from treecast.spark import describe_matches, match

describe_matches(match(documents, subscriptions)).orderBy("matches", ascending=False).show()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treecast.errors import PipelineError
from treecast.spark.batch.match import has_payloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOT_ORDERED = ("map<", "variant", "interval")
"""Parts of the names of types that Spark does not order."""


def describe_matches(matches: DataFrame, *, key: Sequence[str] | None = None) -> DataFrame:
    """One row for each subscription that matched: `subscription`, `matches`, `share`, `first`.

    `matches` is what `match`, `render` or `match_files` gave, or what was written of it; rows of errors are left out.
    `share` is the part of all matches. `first` is the document that comes first by the columns `key`, as a struct of
    them: all that came with the documents, unless given, but for those that have no order. A subscription that matched
    nothing has no row.
    """
    from pyspark.sql import Window, functions

    if "subscription" not in matches.columns:
        raise PipelineError(
            f"the matches have no column subscription, only {', '.join(matches.columns)}",
            code="TC703",
            hint="give what match(…) gave",
        )
    if matches.isStreaming:
        raise PipelineError(
            "shares of a stream are never known", code="TC703", hint="describe the matches that the stream has written"
        )
    rows = matches.filter(matches["error"].isNull()) if "error" in matches.columns else matches
    names = _carried_columns(matches) if key is None else list(key)
    first = functions.min(functions.struct(*[rows[f"`{name}`"] for name in names])) if names else functions.lit(None)
    counts = rows.groupBy("subscription").agg(functions.count("*").alias("matches"), first.alias("first"))
    total = functions.sum("matches").over(Window.partitionBy())
    return counts.select("subscription", "matches", (functions.col("matches") / total).alias("share"), "first")


def _carried_columns(matches: DataFrame) -> list[str]:
    answers = {"subscription", "error"} | ({"payload"} if has_payloads(matches) else set())
    fields = [field for field in matches.schema.fields if field.name not in answers]
    return [field.name for field in fields if not any(kind in field.dataType.simpleString() for kind in NOT_ORDERED)]
