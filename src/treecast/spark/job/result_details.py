"""What the written rows say of refused documents and deliveries; counted from the files of the result.

figures = with_refused(spark.read.parquet("results/matches"), figures)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treecast.report.figures import Figures, RefusedDocument
from treecast.spark.job.progress import document_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

REFUSED_SHOWN = 50


def with_refused(rows: DataFrame, figures: Figures) -> Figures:
    """How many were refused for which reason, and the first of them."""
    from pyspark.sql import functions

    first = functions.min_by(
        functions.struct("file", "ordinal", "subscription", "error"), functions.struct("file", "ordinal"), REFUSED_SHOWN
    )
    by_code = rows.where("error is not null").groupBy("error.code")
    counts = by_code.agg(functions.count(functions.lit(1)).alias("n"), first.alias("first")).collect()
    documents = [
        RefusedDocument(_refused_name(first_row), first_row["error"]["code"], first_row["error"]["message"])
        for row in counts
        for first_row in row["first"]
    ]
    documents.sort(key=lambda document: (document.name, document.code))
    codes = sorted(((row["code"], row["n"]) for row in counts), key=lambda pair: (-pair[1], pair[0]))
    return replace(figures, refused=tuple(documents[:REFUSED_SHOWN]), refused_codes=tuple(codes))


def _refused_name(row: Row) -> str:
    name = document_name(row["file"], row["ordinal"])
    return name if row["subscription"] is None else f"{name}, for {row['subscription']}"
