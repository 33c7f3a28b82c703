"""A job whose documents keep coming: a directory a batch, until it is interrupted or all is read.

    account = run_stream(spark, pipeline, index, placement, tell, supplier)

The subscriptions are looked at before each batch (`treecast.spark.stream.match_stream`); totals come batch by batch.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treecast.catalog.index_settings import IndexSettings
from treecast.catalog.versions import Version
from treecast.index import Index
from treecast.spark.batch.place import SparkPlacement
from treecast.spark.batch.sampling import first_documents
from treecast.spark.job.batch_run import POLL_SECONDS, observation_name
from treecast.spark.job.output_directory import checkpoint_path
from treecast.spark.job.pipeline import AVAILABLE_NOW, Pipeline
from treecast.spark.job.plan import result_rows, source_of
from treecast.spark.job.progress import Account
from treecast.spark.stream.batches import remove
from treecast.spark.stream.match_stream import Batch, shipping, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from treecast.catalog.versions import Supplier
    from treecast.spark.job.progress import Progress


def run_stream(
    spark: SparkSession,
    pipeline: Pipeline,
    index: Index,
    placement: SparkPlacement,
    tell: Callable[[Progress], None],
    supplier: Supplier | None,
) -> Account:
    """Run it to its end, or until KeyboardInterrupt; what is done stays."""
    account, began = Account(), time.monotonic()
    sums_of_batches: list[dict[str, Any]] = []
    if pipeline.sinks.overwrite and not checkpoint_path(pipeline).exists():
        remove(spark, pipeline.sinks.matches_path)
    query = _start(spark, pipeline, placement, supplier or _once(index), sums_of_batches)
    try:
        with _interruptions() as is_interrupted:
            while query.isActive and not is_interrupted():
                time.sleep(POLL_SECONDS)
                account.add_batches(sums_of_batches, time.monotonic() - began)
                tell(account.progress)
            if not is_interrupted():
                query.awaitTermination()  # raises what ended it, if anything did
    except KeyboardInterrupt:
        query.stop()
    finally:
        if query.isActive:
            query.stop()
    account.add_batches(sums_of_batches, time.monotonic() - began)
    return account


@contextmanager
def _interruptions() -> Iterator[Callable[[], bool]]:
    """Note signals instead of raising KeyboardInterrupt: in a call to the JVM it breaks the connection."""
    numbers: list[int] = []
    # One that would end the process, or is ignored, stays as it is.
    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    before: dict[signal.Signals, Any] = {}
    try:
        with suppress(ValueError):  # only the main thread gets signals
            for number in signals:
                before[number] = signal.signal(number, lambda signal_number, _: numbers.append(signal_number))
        yield lambda: bool(numbers)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(
    spark: SparkSession,
    pipeline: Pipeline,
    placement: SparkPlacement,
    supplier: Supplier,
    sums_of_batches: list[dict[str, Any]],
) -> StreamingQuery:
    """Start the query, which adds to the list what was observed of each batch when it has ended."""
    from pyspark.sql import Observation

    under_way: list[Observation] = []
    ship = shipping(placement)

    source = source_of(spark, pipeline, placement)

    def plan(frame: DataFrame, version: Version, number: int) -> DataFrame:
        shards = ship(frame, version, lambda: first_documents(frame))
        under_way[:] = [Observation(observation_name())]
        return result_rows(replace(source, frame=frame), pipeline, version.path, shards, under_way[0])

    def after(rows: DataFrame, batch: Batch) -> None:
        if under_way:  # else it was written before, and is only noted as done now
            sums_of_batches.append(under_way.pop().get)

    return start(
        source.frame,
        plan,
        supplier,
        pipeline.sinks.matches_path,
        checkpoint=checkpoint_path(pipeline),
        trigger=_trigger(pipeline.source.trigger),
        after=[after],
        settings=IndexSettings(
            pipeline.subscriptions.namespaces, pipeline.limits, pipeline.source.entities, pipeline.delivery_limits
        ),
        close=placement.close,
    )


def _trigger(trigger: str) -> dict[str, Any] | None:
    """The arguments of Spark's `trigger`."""
    if trigger == AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": trigger} if trigger else None


def _once(index: Index) -> Supplier:
    """The index, then nothing new."""
    rest = iter([index])
    return lambda: next(rest, None)
