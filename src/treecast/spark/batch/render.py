"""Render a DataFrame of documents: what each subscriber gets of each document, one row per delivery.

    from treecast.spark import render, split

    deliveries = render(documents, subscriptions)                    # … as match, and payload (binary)
    good, refused = split(render(documents, subscriptions, on_error="report"))

Without a transformation a payload is the document as given, or with deliver="elements" what the query selects.

How it works: as `match` does, with the same plan (`treecast.spark.batch.plan`). But equal payloads of a document cross
the border from Python once, whoever gets them: the function answers with the different payloads of the document and,
for each delivery, the number of its payload; Spark explodes the deliveries and looks the number up. So a document of
ten megabytes for a thousand subscribers is ten megabytes until its rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from treecast.catalog.index_settings import IndexSettings
from treecast.document import EntityTexts, Limits
from treecast.index import CACHE_BYTES_MAX
from treecast.model import DeliveryLimits
from treecast.placement import Placement
from treecast.spark.batch.answer_form import answer_form
from treecast.spark.batch.place import SparkPlacement
from treecast.spark.batch.plan import answer_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from treecast.spark.batch.plan import Subscriptions


def render(
    documents: DataFrame,
    subscriptions: Subscriptions,
    *,
    placement: str | Placement = "data-sharing",
    shards: int | None = None,
    on_error: Literal["raise", "report"] = "raise",
    on_refused: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    delivery_limits: DeliveryLimits | None = None,
) -> DataFrame:
    """The columns of `documents` without `document`, `subscription` and `payload`: one row per delivery, lazily.

    There are as many rows as `match` gives, and the arguments are those of `match`. `delivery_limits` bound the
    payloads, as those of an `Index` do.

    A bad document or a delivery that is refused fails the job. With `on_error="report"` both give a row whose `error`
    says why and whose `payload` is null; that of a bad document has no `subscription` either.
    """
    form = answer_form(payloads=True, on_error=on_error)
    settings = IndexSettings(namespaces, limits, entities, delivery_limits)
    where = SparkPlacement(placement, shards, cache_bytes_max)
    return answer_rows(documents, subscriptions, form, where, settings, on_refused)
