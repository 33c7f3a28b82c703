"""A job over documents that are all there: one query, watched while it runs. A rename puts the result in place.

account = run_batch(spark, pipeline, index, placement, tell)
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from treecast.index import Index
from treecast.spark.batch.place import SparkPlacement
from treecast.spark.batch.sampling import first_documents
from treecast.spark.job.meter import Meter
from treecast.spark.job.output_directory import replacing_directory
from treecast.spark.job.pipeline import Pipeline
from treecast.spark.job.plan import result_rows, source_of
from treecast.spark.job.progress import Account, progress_of, slow_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from treecast.spark.job.progress import Progress

POLL_SECONDS = 0.25
_numbers = itertools.count(1)


def observation_name() -> str:
    """A name that no other observation of this driver has."""
    return f"treecast-{next(_numbers)}"


def run_batch(
    spark: SparkSession, pipeline: Pipeline, index: Index, placement: SparkPlacement, tell: Callable[[Progress], None]
) -> Account:
    """Write the rows of all documents; KeyboardInterrupt ends it without a result."""
    from pyspark.sql import Observation

    account, began = Account(), time.monotonic()
    name = observation_name()
    observation = Observation(name)
    source = source_of(spark, pipeline, placement)
    shards = None if placement.everywhere else placement.ship(spark, index, lambda: first_documents(source.frame))
    rows = result_rows(source, pipeline, index, shards, observation)
    meter = Meter(spark, name)

    def watch() -> None:
        account.see(meter.read(account.progress, time.monotonic() - began))
        tell(account.progress)

    with replacing_directory(pipeline.sinks.matches_path, overwrite=pipeline.sinks.overwrite) as target:
        _run_watched(spark, name, lambda: rows.write.mode(target.mode).parquet(target.path), watch)
    sums = observation.get
    account.see(progress_of(sums, time.monotonic() - began))
    account.slowest = slow_documents(sums["slowest"])
    account.take_examples(sums)
    return account


def _run_watched(spark: SparkSession, group: str, write: Callable[[], None], watch: Callable[[], None]) -> None:
    """Call `write` in a new thread, and `watch` a few times a second until it is done.

    What `watch` raises, and KeyboardInterrupt, cancels the jobs of the group.
    """
    from pyspark import InheritableThread

    failures: list[BaseException] = []
    end = threading.Event()

    def work() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "treecast run", interruptOnCancel=True)
            write()
        except BaseException as error:  # raised again below, in the caller's thread
            failures.append(error)
        finally:
            end.set()

    writer = InheritableThread(target=work, session=spark)
    writer.start()
    try:
        while not end.wait(POLL_SECONDS):
            watch()
    except BaseException:
        has_ended = False
        while not has_ended:  # again, should the job not have begun when it was cancelled first
            spark.sparkContext.cancelJobGroup(group)
            has_ended = end.wait(POLL_SECONDS)
        raise
    writer.join()
    if failures:
        raise failures[0]
