"""From files to matches in one pass: a Python worker reads its part of a file, splits it and matches.

    from treecast.spark import match_files

    matches = match_files("s3a://bucket/dblp.xml", subscriptions, record="article", entities="html")

`match(documents(spark, …), …)` has the same rows. But there each document goes from the worker that reads it through
the JVM to one that matches it, which costs more than both do. Here only names and answers leave the worker. Where
other columns are to stay with the documents, or a placement divides the subscriptions, use `documents` and `match`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from treecast.catalog.index_settings import IndexSettings
from treecast.document import EntityTexts, Limits
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.inputs.subscriptions import is_saved
from treecast.model import DeliveryLimits
from treecast.spark.batch.answer_form import ANSWER, AnswerForm, answer_form
from treecast.spark.batch.match import active_session
from treecast.spark.batch.plan import answers_as_rows, index_of
from treecast.spark.batch.row_limit import check_room
from treecast.spark.batch.ship import ship
from treecast.spark.batch.worker_function import worker_function
from treecast.spark.sources.documents import source_frame

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from treecast.spark.batch.plan import Subscriptions
    from treecast.spark.sources.documents import Paths


def match_files(
    path: Paths,
    subscriptions: Subscriptions,
    *,
    record: str | Sequence[str] | None = None,
    entities: EntityTexts = None,
    pattern: str | None = None,
    render: bool = False,
    on_error: Literal["raise", "report"] = "raise",
    on_refused: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    delivery_limits: DeliveryLimits | None = None,
    partition_bytes: int | None = None,
    document_bytes_max: int | None = None,
    record_bytes_max: int | None = None,
    ratio_max: int | None = None,
    stream: bool = False,
    max_files_per_batch: int | None = None,
    log: str | os.PathLike[str] | None = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    session: SparkSession | None = None,
) -> DataFrame:
    """One row for each match: `file`, `offset`, `ordinal`, `subscription`; with `render` also `payload`.

    What is read, and how it is split, is said at `documents`; what the subscriptions may be, and what becomes of bad
    documents and refused subscriptions, at `match`. `entities` are those of the records, or without `record` of the
    documents. The session is the active one, unless another is given.
    """
    spark = active_session(session)
    given = {
        "record": record,
        "entities": None if record is None else entities,
        "pattern": pattern,
        "partition_bytes": partition_bytes,
        "document_bytes_max": document_bytes_max,
        "record_bytes_max": record_bytes_max,
        "ratio_max": ratio_max,
        "max_files_per_batch": max_files_per_batch,
        "log": log,
    }
    form = answer_form(payloads=render, on_error=on_error)
    has_own_settings = isinstance(subscriptions, Index) or is_saved(subscriptions)
    # Entities of records are replaced by who splits them; an index that has settings keeps those.
    of_index = None if has_own_settings and record is not None else entities
    settings = IndexSettings(namespaces, limits, of_index, delivery_limits)
    index = index_of(subscriptions, settings, on_refused)
    if form.has_payloads:
        check_room(index)
    parts, options = source_frame(spark, path, given, stream=stream, parts=True)
    return answers_as_rows(file_answers(parts, options, index, form, cache_bytes_max), form)


def file_answers(
    parts: DataFrame, options: Mapping[str, Any], index: Index | str | Path, form: AnswerForm, cache_bytes_max: int
) -> DataFrame:
    """The answers of the documents in these parts of files: `file`, `offset`, `ordinal` and ANSWER."""
    ticket = tuple(ship(parts.sparkSession, index, cache_bytes_max=cache_bytes_max))
    function = worker_function("treecast.spark.batch.worker", "answer_files", (dict(options), ticket, form.fields))
    schema = f"file string, offset long, ordinal long, {ANSWER} {form.spark_type}"
    return parts.mapInArrow(function, schema)
