"""What the written rows say: matches per subscription, and refused documents; counted from the files of the result.

figures = with_details(spark.read.parquet("results/matches"), figures)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treecast.report.figures import Figures, RefusedDocument
from treecast.spark.job.progress import document_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

TOP_SHOWN = 20
REFUSED_SHOWN = 50


def with_details(rows: DataFrame, figures: Figures) -> Figures:
    """The figures with what two small jobs over the result count."""
    figures = _with_top(rows, figures)
    return _with_refused(rows, figures) if figures.errors + figures.refused_deliveries else figures


def _with_top(rows: DataFrame, figures: Figures) -> Figures:
    """How many subscriptions have how many matches, and which have most."""
    from pyspark.sql import functions

    counts = rows.where("subscription is not null").groupBy("subscription").count()
    bucket = functions.length(functions.bin("count")) - 1  # of the logarithm to base 2, exactly
    most = functions.max_by(
        functions.struct("subscription", "count"), functions.struct("count", "subscription"), TOP_SHOWN
    )
    by_bucket = counts.groupBy(bucket.alias("bucket"))
    buckets: dict[int, int] = {}
    top: list[tuple[str, int]] = []
    for row in by_bucket.agg(functions.count(functions.lit(1)).alias("n"), most.alias("most")).collect():
        buckets[row["bucket"]] = row["n"]
        top += [(pair["subscription"], pair["count"]) for pair in row["most"]]
    top.sort(key=lambda pair: (-pair[1], pair[0]))
    return replace(figures, buckets=buckets, top=tuple(top[:TOP_SHOWN]))


def _with_refused(rows: DataFrame, figures: Figures) -> Figures:
    """How many were refused for which reason, and the first of them."""
    from pyspark.sql import functions

    first = functions.min_by(
        functions.struct("file", "ordinal", "subscription", "error"), functions.struct("file", "ordinal"), REFUSED_SHOWN
    )
    by_code = rows.where("error is not null").groupBy("error.code")
    counts = by_code.agg(functions.count(functions.lit(1)).alias("n"), first.alias("first")).collect()
    listed = [
        RefusedDocument(_refused_name(refused), refused["error"]["code"], refused["error"]["message"])
        for row in counts
        for refused in row["first"]
    ]
    listed.sort(key=lambda document: (document.name, document.code))
    codes = sorted(((row["code"], row["n"]) for row in counts), key=lambda pair: (-pair[1], pair[0]))
    return replace(figures, refused=tuple(listed[:REFUSED_SHOWN]), refused_codes=tuple(codes))


def _refused_name(row: Row) -> str:
    name = document_name(row["file"], row["ordinal"])
    return name if row["subscription"] is None else f"{name}, for {row['subscription']}"
