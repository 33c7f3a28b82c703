"""Run a pipeline: documents in, matches out, and accounts of both, in one pass over the data.

    with open_session(pipeline, log) as spark:
        figures = run(spark, pipeline, index, tell=print)

A row per document comes back from matching: ids, error, time and size (`treecast.spark.job.plan`). While it runs,
it reports progress (`progress`, `meter`). A batch and a stream run differently (`batch_run`, `stream_run`). The details
of the result are counted from the written files (`result_details`), and some documents are read
again for the report (`example_documents`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from treecast.index import Index
from treecast.report.figures import Figures
from treecast.report.subscription_counts import COUNTS_FILE, join_counts, with_counts, write_counts
from treecast.spark import session
from treecast.spark.batch.match import without_errors
from treecast.spark.batch.place import SparkPlacement
from treecast.spark.batch.plan import subscription_table
from treecast.spark.batch.row_limit import check_room
from treecast.spark.batch.sinks import write_directories
from treecast.spark.job.batch_run import run_batch
from treecast.spark.job.example_documents import example_details
from treecast.spark.job.output_directory import replacing_directory
from treecast.spark.job.pipeline import Pipeline
from treecast.spark.job.plan import row_type
from treecast.spark.job.progress import Account, Progress
from treecast.spark.job.result_details import with_refused
from treecast.spark.job.stream_run import run_stream
from treecast.spark.sources.documents import storage_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from treecast.catalog.versions import Supplier


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    index: Index,
    tell: Callable[[Progress], None],
    supplier: Supplier | None = None,
) -> Figures:
    """Run it to its end, or a stream until it is interrupted; the answer is its figures.

    A stream asks `supplier` before each batch for the subscriptions as they are then; without one they are always
    those of the index.

    `tell` is called a few times a second. KeyboardInterrupt ends a batch without a result, and a stream with what it
    has done.
    """
    placement = SparkPlacement(pipeline.placement, pipeline.shards, pipeline.cache_bytes_max)
    if pipeline.sinks.render:
        check_room(index)
    began = time.time()
    if pipeline.source.stream:
        account = run_stream(spark, pipeline, index, placement, tell, supplier)
    else:
        account = run_batch(spark, pipeline, index, placement, tell)
    figures = _figures(pipeline, account, len(index), _settings(pipeline, placement))
    figures = _with_phases(figures, account, began)

    # A stream that ended before its first batch has written no file that shows its columns.
    reader = spark.read.schema(row_type(pipeline)) if pipeline.source.stream else spark.read
    rows = reader.parquet(pipeline.sinks.matches_path)
    if pipeline.sinks.by_subscription:
        tell(replace(account.progress, stage="writing the matches by subscription"))
        _write_by_subscription(rows, pipeline, len(index))
    tell(replace(account.progress, stage="counting the matches of each subscription"))
    # The index is on the driver, and what Spark counts is no larger than it.
    counts_table = rows.where("subscription is not null").groupBy("subscription").count().toArrow()
    counts = join_counts(index.subscriptions(), counts_table["subscription"], counts_table["count"])
    figures = with_counts(figures, counts)
    if figures.errors + figures.refused_deliveries:
        figures = with_refused(rows, figures)
    if pipeline.sinks.report:
        tell(replace(account.progress, stage="writing the report"))
        write_counts(counts, Path(pipeline.sinks.output, COUNTS_FILE))
        storage = storage_of(spark, pipeline.source.path)
        figures = replace(figures, details=example_details(account.examples.values(), pipeline, index, storage))
    return figures


@contextmanager
def open_session(pipeline: Pipeline, log: Path) -> Iterator[SparkSession]:
    """A session for the job: a new one, stopped after it, unless a session runs already."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    spark = session.start(pipeline.master, name=pipeline.name, log=log, settings=pipeline.spark)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


def subscriptions_at(spark: SparkSession, path: str) -> pa.Table:
    """The subscriptions of a Parquet file or directory that Spark can reach; ids may be numbers."""
    from pyspark.sql import functions

    table = spark.read.parquet(path)
    names = [name for name in table.columns if name.lower() == "id"]
    return subscription_table(table.withColumns({name: functions.col(name).cast("string") for name in names}))


def _figures(
    pipeline: Pipeline, account: Account, subscriptions: int, settings: tuple[tuple[str, str], ...]
) -> Figures:
    progress = account.progress
    return Figures(
        title=pipeline.name,
        began=time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(time.time() - progress.seconds)),
        documents=progress.documents,
        matches=progress.matches,
        errors=progress.errors,
        size_bytes=progress.size_bytes,
        busy_nanoseconds=progress.nanoseconds,
        seconds=progress.seconds,
        subscriptions=subscriptions,
        moments=tuple(account.moments),
        slowest=tuple(account.slowest),
        settings=settings,
        payload_bytes=progress.payload_bytes if pipeline.sinks.render else None,
        refused_deliveries=progress.refused_deliveries,
    )


def _with_phases(figures: Figures, account: Account, began: float) -> Figures:
    """What the workers' clocks say: when the first document was begun, and how long documents took until the last.

    Clocks of other machines may be wrong by more than a small job takes, so no phase is longer than the whole.
    """
    matching = min(account.progress.matching_nanoseconds / 1e9, figures.seconds)
    if matching <= 0:
        return figures
    planning = min(max(0.0, account.first_began / 1e9 - began), figures.seconds - matching)
    writing = figures.seconds - planning - matching
    return replace(
        figures,
        matching_seconds=matching,
        startup=(("planning, and starting workers", planning),),
        ending=(("waiting, and writing the result", writing),),
    )


def _settings(pipeline: Pipeline, placement: SparkPlacement) -> tuple[tuple[str, str], ...]:
    """The settings of the pipeline; for "auto", also the chosen placement and why."""
    return tuple((name, placement.why or text if name == "placement" else text) for name, text in pipeline.describe())


def _write_by_subscription(rows: DataFrame, pipeline: Pipeline, subscriptions: int) -> None:
    """The matches again, by subscription: from the written rows, so nothing is matched twice."""
    sinks = pipeline.sinks
    with replacing_directory(sinks.by_subscription_path) as target:
        write_directories(
            without_errors(rows), target.path, subscriptions, directories_max=sinks.directories_max, mode=target.mode
        )
