"""Match a stream of documents for as long as you like: the subscriptions may change, and processes may die.

    from treecast.spark import documents, match_stream

    query = match_stream(
        documents(spark, "inbox/", stream=True),
        "subscriptions.parquet",          # or a function that gives a DataFrame; asked again before each batch
        "matches",                        # spark.read.parquet("matches")
        checkpoint="checkpoint",
    )
    query.awaitTermination()

Before each batch the subscriptions are asked for; what has changed goes into the live index, which becomes the next
version (`treecast.catalog.versions`). The batch is bound to that version, durably, then matched, then put into its
place by a rename (`treecast.spark.stream.batches`), then handed to the functions in `after`, then committed by Spark.
Whatever dies between two of these steps, the restarted stream repeats the batch with the same documents and the same
version, and skips what is done: every match is in the output once. Functions in `after` are called at least
once for a batch.

Use `match` on a streaming DataFrame where the subscriptions stay as they are and Spark's own sinks will do.

Codes: TC750 a stream that cannot be run here, TC754 subscriptions that change while they are read.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treecast.catalog.index_settings import DEFAULTS, IndexSettings
from treecast.catalog.versions import VERSIONS_MAX, Version, Versions
from treecast.document import Bytes, EntityTexts, Limits
from treecast.errors import PipelineError, QueryError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.inputs.subscriptions import is_path, is_saved, load_saved, read_subscriptions
from treecast.model import DeliveryLimits
from treecast.placement import Placement
from treecast.spark.batch.answer_form import AnswerForm
from treecast.spark.batch.place import ShardTickets, SparkPlacement
from treecast.spark.batch.plan import document_columns, index_rows
from treecast.spark.batch.sampling import first_documents
from treecast.spark.batch.ship import withdraw
from treecast.spark.internals import is_connect
from treecast.spark.stream.batches import COLUMN, BatchDirectories, is_elsewhere

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Supply: TypeAlias = DataFrame | pa.Table | Index | None

log = logging.getLogger("treecast.spark.stream.match_stream")


@dataclass(frozen=True)
class Batch:
    """A batch with its rows in place."""

    stream: str
    """The id of the stream, which its checkpoint keeps."""
    number: int
    version: Version
    path: str


After: TypeAlias = "Callable[[DataFrame, Batch], None]"


def match_stream(
    documents: DataFrame,
    subscriptions: Callable[[], Supply] | Index | str | Path,
    output: str | Path,
    *,
    checkpoint: str | Path,
    placement: str | Placement = "data-sharing",
    shards: int | None = None,
    trigger: Mapping[str, Any] | None = None,
    after: Sequence[After] = (),
    render: bool = False,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    delivery_limits: DeliveryLimits | None = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    versions_max: int = VERSIONS_MAX,
    name: str | None = None,
) -> StreamingQuery:
    """Start a query that writes the matches of a stream to `output`, as Parquet, each once; see above.

    `subscriptions` is a function without arguments that gives the whole set as it is now, in any form that `match`
    takes, or None where nothing has changed. It is called before each batch. Or it is the path of a file of them, or of
    a directory of Parquet, of this machine: read again when files have changed (replace them by renaming). Or it is an
    `Index`. Subscriptions that are refused are left out, counted and logged.

    The rows are those of `match(…, on_error="report")` and `batch`; with `render=True` those of `render`, with their
    payloads, which `delivery_limits` bound. `checkpoint` is a directory of this machine, or mounted; `trigger` has the
    arguments of Spark's `trigger`, such as `{"availableNow": True}`. The functions in `after` get the rows of a batch,
    read from the output, and the `Batch`: at least once each.

    `placement` and `shards` are those of `match`; a placement follows the changes of the set. "auto" looks at documents
    of the first batch, where it needs to. A `Placement` has to be empty: it takes the subscriptions that hold.
    """
    supplier = supplier_of(subscriptions)
    where = SparkPlacement(placement, shards, cache_bytes_max)
    ship = shipping(where)
    form = AnswerForm(has_payloads=render, has_errors=True)
    document_column = document_columns(documents, form)[0]

    def plan(frame: DataFrame, version: Version, batch: int) -> DataFrame:
        tickets = ship(frame, version, lambda: first_documents(frame, document_column))
        return index_rows(frame, version.path, tickets, form, cache_bytes_max)

    return start(
        documents,
        plan,
        supplier,
        str(output),
        checkpoint=checkpoint,
        trigger=trigger,
        after=after,
        versions_max=versions_max,
        name=name,
        settings=IndexSettings(namespaces, limits, entities, delivery_limits),
        close=where.close,
    )


Ship: TypeAlias = "Callable[[DataFrame, Version, Callable[[], Sequence[Bytes]]], ShardTickets | None]"


def shipping(placement: SparkPlacement) -> Ship:
    """A function that brings the shards of a version to the executors, for a batch: see `SparkPlacement.ship`."""
    placement.check_empty()
    last: list[tuple[str, ShardTickets | None]] = []

    def ship(frame: DataFrame, version: Version, sample: Callable[[], Sequence[Bytes]]) -> ShardTickets | None:
        if placement.everywhere:
            return None
        if not last or last[0][0] != version.content:
            tickets = placement.ship(frame.sparkSession, Index.load(version.path), sample, lasting=False)
            last[:] = [(version.content, tickets)]
        return last[0][1]

    return ship


def start(
    documents: DataFrame,
    plan: Callable[[DataFrame, Version, int], DataFrame],
    supplier: Callable[[], pa.Table | Index | None],
    output: str,
    *,
    checkpoint: str | Path,
    trigger: Mapping[str, Any] | None = None,
    after: Sequence[After] = (),
    versions_max: int = VERSIONS_MAX,
    name: str | None = None,
    settings: IndexSettings = DEFAULTS,
    close: Callable[[], None] = lambda: None,
) -> StreamingQuery:
    """The same with a plan of your own: from the documents of a batch and a version to the rows to be written.

    `close` is called when the query has ended, to release what the plan holds.
    """
    spark = documents.sparkSession
    _check(documents, spark, str(checkpoint), after)
    place = Path(checkpoint).absolute()
    target = output if is_elsewhere(output) else str(Path(output.removeprefix("file://")).absolute())
    versions = Versions(place / "treecast", supplier, settings, versions_max=versions_max)
    shipped_paths: list[Path] = []

    def work(frame: DataFrame, number: int) -> None:
        version = versions.of_batch(number)
        if version.path not in shipped_paths:
            shipped_paths.append(version.path)
        for old in [path for path in shipped_paths if not path.exists()]:  # no batch will use them again
            withdraw(spark, old)
            shipped_paths.remove(old)
        if not directories.holds(number):
            directories.write(plan(frame, version, number), number)
        batch = Batch(versions.stream, number, version, directories.of(number))
        for function in after:
            function(frame.sparkSession.read.parquet(batch.path), batch)

    try:
        versions.begin()
        directories = BatchDirectories(spark, target, versions.stream)
        directories.clear()
        writer = documents.writeStream.foreachBatch(work).option("checkpointLocation", str(place))
        if name is not None:
            writer = writer.queryName(name)
        if trigger:
            writer = writer.trigger(**trigger)
        query = writer.start()
    except BaseException:
        versions.close()
        raise
    threading.Thread(target=_close_behind, args=(query, versions, close), daemon=True, name="treecast-stream").start()
    return query


def _close_behind(query: StreamingQuery, versions: Versions, close: Callable[[], None]) -> None:
    try:
        query.awaitTermination()
    except Exception as error:  # whoever waits for the query hears of it
        log.debug("the stream has ended: %s", type(error).__name__)
    finally:
        versions.close()
        close()


def _check(documents: DataFrame, spark: SparkSession, checkpoint: str, after: Sequence[After]) -> None:
    if not all(callable(function) for function in after):
        raise TypeError("after is a list of functions of the rows of a batch and the Batch")
    if not documents.isStreaming:
        hint = "call match() for a batch, or read with stream=True"
        raise PipelineError("the documents are no stream", code="TC750", hint=hint)
    if is_connect(spark):
        hint = "run it where Spark's driver is, or call match() on the streaming DataFrame"
        raise PipelineError("a stream with changing subscriptions needs the driver", code="TC750", hint=hint)
    if is_elsewhere(checkpoint):
        hint = "name a directory of this machine, or one that is mounted on it"
        raise PipelineError(f"the checkpoint {checkpoint} is not on this machine", code="TC750", hint=hint)
    if any(column.lower() == COLUMN for column in documents.columns):
        hint = f'rename it: documents.withColumnRenamed("{COLUMN}", "…")'
        raise PipelineError(f"the documents have a column {COLUMN} already", code="TC750", hint=hint)


# -- where subscriptions come from


def supplier_of(
    subscriptions: Callable[[], Supply] | Index | str | Path,
) -> Callable[[], pa.Table | Index | None]:
    """A function that gives the subscriptions as a table or an index; None where they are as before."""
    if isinstance(subscriptions, Index):
        return lambda: subscriptions
    if not is_path(subscriptions):
        if not callable(subscriptions):
            raise TypeError(
                f"subscriptions must be a function that gives them, an Index or a path, got "
                f"{type(subscriptions).__name__}: write lambda: … around what reads them"
            )
        supply: Callable[[], Supply] = subscriptions
        return lambda: _as_table(supply())
    path = Path(subscriptions).absolute()
    if is_saved(path):
        return when_changed([path], lambda: load_saved(path))
    return when_changed([path], lambda: read_subscriptions(path))


def _as_table(supply: Supply) -> pa.Table | Index | None:
    return supply if supply is None or isinstance(supply, Index) else read_subscriptions(supply)


def when_changed(
    paths: Sequence[Path], read: Callable[[], pa.Table | Index | None]
) -> Callable[[], pa.Table | Index | None]:
    """`read`, when files at these paths have changed since it was last called, and None otherwise.

    Files that change while they are read raise: what was read may be half of one state and half of another.
    """
    last_read: list[object] = []

    def supply() -> pa.Table | Index | None:
        before = [_state(path) for path in paths]
        if last_read == before:
            return None
        subscriptions = read()
        if [_state(path) for path in paths] != before:
            raise PipelineError(
                f"{paths[0]} was changed while it was read", code="TC754", hint="replace it by renaming"
            )
        last_read[:] = before
        return subscriptions

    return supply


def _state(path: Path) -> object:
    """Names, sizes and times of the files at a path; raises where a writer of Spark is at work in it."""
    if not path.exists():
        raise QueryError(f"{path}: cannot be read: the file does not exist", code="TC190", hint="check the name")
    if not path.is_dir():
        status = path.stat()
        return (status.st_ino, status.st_size, status.st_mtime_ns)
    files_seen = []
    for directory, names, files in os.walk(path):
        if "_temporary" in names:
            raise PipelineError(f"{path} is being written", code="TC754", hint="replace it by renaming")
        for name in files:
            status = Path(directory, name).stat()
            files_seen.append((directory, name, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(files_seen)
