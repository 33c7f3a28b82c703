"""The progress of a running batch, for display only: it never fails a job.

    meter = Meter(spark, observation_name)
    progress = meter.read(progress_before, seconds)

The observed sums are those of the tasks that have ended. For running tasks there are Spark's own metrics, with the
executors' heartbeats: rows out of matching are documents, rows out of the explosion are matches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treecast.spark.internals import RunningQuery, jvm_errors
from treecast.spark.job.progress import Progress, progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT_SECONDS = 1.0
MATCHING, EXPLOSION = "ArrowEvalPython", "Generate"  # what Spark calls these operators


class Meter:
    """Reads the progress of the query that observes its rows under this name."""

    def __init__(self, spark: SparkSession, observation: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._query = RunningQuery(spark, observation)
        self._query_errors: tuple[type[BaseException], ...] = (*jvm_errors(), OSError, ValueError)
        self._counted_at = 0.0
        self._documents, self._rows = 0, 0

    def read(self, before: Progress, seconds: float) -> Progress:
        """The progress now, never less than before."""
        try:
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            tasks_done = sum(stage.numCompletedTasks for stage in stages if stage)
            tasks = sum(stage.numTasks for stage in stages if stage)
            sums = self._query.observed_sums()
            if sums is not None and seconds - self._counted_at >= COUNT_SECONDS:
                self._documents, self._rows = self._count()
                self._counted_at = seconds
        except self._query_errors:
            # It has just ended, or Spark is gone: then writing the result fails as well.
            return replace(before, seconds=seconds)
        now = before if sums is None else progress_of(sums, seconds)
        return replace(
            now,
            seconds=seconds,
            documents=max(before.documents, now.documents, self._documents),
            matches=max(before.matches, now.matches, self._rows - now.errors),
            errors=max(before.errors, now.errors),
            tasks_done=tasks_done,
            tasks=tasks,
        )

    def _count(self) -> tuple[int, int]:
        """(documents, rows) so far, of all tasks.

        Where documents are routed first, both operators are there twice: the lower ones see documents, the upper ones
        matches. The plan begins at the top.
        """
        rows = self._query.output_rows((MATCHING, EXPLOSION))
        return (rows[MATCHING] or [0])[-1], (rows[EXPLOSION] or [0])[0]
