"""Render a DataFrame of documents: what each subscriber gets of each document, one row per delivery.

    from treecast.spark import render, split

    deliveries = render(documents, subscriptions)                    # … as match, and payload (binary)
    good, refused = split(render(documents, subscriptions, on_error="report"))

Without a transformation a payload is the document as given, or with deliver="elements" what the query selects.

How it works: as `match` does. But equal payloads of a document cross the border from Python once, whoever gets them:
the function answers with the different payloads of the document and, for each delivery, the number of its own; Spark
explodes the deliveries and looks the number up. So a document of ten megabytes for a thousand subscribers is ten
megabytes until its rows are written.

Codes: TC718 a limit that allows payloads which no row of Spark can hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from treecast.catalog.index_settings import IndexSettings
from treecast.document import EntityTexts, Limits
from treecast.errors import PipelineError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.model import DeliveryLimits
from treecast.placement import Placement
from treecast.spark.batch.place import Placed, Shipped
from treecast.spark.batch.plan import FOUND, PLACE, document_columns, found, index_of, reports, shipped_for, with_found

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from treecast.spark.batch.plan import Subscriptions

ANSWERS = ("subscription", "payload")
ROW_BYTES_MAX = 1 << 30
_DELIVERY = "__treecast_delivery"
_FORMS = {False: "payloads", True: "payload report"}


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
    placed = Placed(placement, shards, cache_bytes_max)
    columns = document_columns(documents, _FORMS[reports(on_error)], ANSWERS)
    index = index_of(subscriptions, IndexSettings(namespaces, limits, entities, delivery_limits), on_refused)
    index, shipped = shipped_for(documents, columns[0], index, placed)
    return rendered(documents, index, shipped, on_error, cache_bytes_max)


def rendered(
    documents: DataFrame,
    index: Index | str | Path,
    shipped: Shipped | None,
    on_error: str,
    cache_bytes_max: int,
) -> DataFrame:
    """The rows of `render`, of an index that every worker holds or of the shards that were shipped."""
    form = _FORMS[reports(on_error)]
    columns = document_columns(documents, form, ANSWERS)
    check_room(index)
    return _exploded(with_found(documents, columns, index, shipped, form, cache_bytes_max), form)


def check_room(index: Index | str | Path) -> None:
    """Raise where the payloads of one document may be more than fits into a row."""
    loaded = index if isinstance(index, Index) else Index.load(index, verify=False)
    limit = loaded.delivery_limits.document_payload_bytes_max
    if limit > ROW_BYTES_MAX:
        raise PipelineError(
            f"document_payload_bytes_max is {limit:,}, and a row of Spark holds {ROW_BYTES_MAX:,} bytes",
            code="TC718",
            hint=f"make the index with DeliveryLimits(document_payload_bytes_max={ROW_BYTES_MAX}) or less",
        )


def _exploded(answered: DataFrame, form: str) -> DataFrame:
    from pyspark.sql import functions

    array = found(lambda column: column["deliveries"])
    rows = answered.withColumn(_DELIVERY, functions.explode(array))
    delivery = functions.col(_DELIVERY)
    rows = rows.withColumn("subscription", delivery["subscription"])
    # Null where the number is: what was refused has no payload.
    payloads = found(lambda column: column["payloads"])
    rows = rows.withColumn("payload", functions.get(payloads, delivery["number"]))
    if form == "payload report":
        rows = rows.withColumn("error", delivery["error"])
    return rows.drop(FOUND, PLACE, _DELIVERY)
