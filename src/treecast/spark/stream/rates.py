"""How fast a stream is, and how far behind: numbers to read while it runs, and a line of log a batch.

    from treecast.spark.stream.rates import StreamRates

    rates = StreamRates(log="inbox/.treecast")      # the log of the source; without one, no lag
    spark.streams.addListener(rates)
    …
    rates.now().documents_per_second, rates.now().lag_seconds

The lag of a batch is the time from the last change of its oldest file to the end of the batch: how old a document is
when its matches are there. It comes from the log that `documents(…, stream=True)` keeps. Other
sources report to Spark themselves how far behind they are. One listener is for one query, or for all together.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger("treecast.spark.stream.rates")


@dataclass(frozen=True)
class Rates:
    """The numbers of a stream, as of its last batch."""

    batches: int = 0
    documents: int = 0
    """Over all batches seen."""
    batch: int | None = None
    """The number of the last batch."""
    batch_documents: int = 0
    batch_seconds: float = 0.0
    """From its trigger to its end."""
    documents_per_second: float = 0.0
    """Of the last batch that had any."""
    lag_seconds: float | None = None
    """How old its oldest document was at its end; None where unknown."""
    files_waiting: int | None = None
    """Files that the source has noted for later batches; None where unknown."""
    running: bool = False
    error: str | None = None
    """Why the query ended, if it failed."""


class StreamRates(StreamingQueryListener):
    """Add it with `spark.streams.addListener`; `now` may be called from any thread."""

    def __init__(self, *, log: str | Path | None = None) -> None:
        self._log = None if log is None else Path(log)
        self._lock = threading.Lock()
        self._rates = Rates()

    def now(self) -> Rates:
        """The numbers as of the last batch."""
        with self._lock:
            return self._rates

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._set(running=True, error=None)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        lag, waiting = self._behind(progress.sources)
        before = self.now()
        self._set(
            batches=before.batches + 1,
            documents=before.documents + progress.numInputRows,
            batch=progress.batchId,
            batch_documents=progress.numInputRows,
            batch_seconds=seconds,
            documents_per_second=progress.numInputRows / seconds
            if seconds and progress.numInputRows
            else before.documents_per_second,
            lag_seconds=before.lag_seconds if lag is None else lag,
            files_waiting=waiting,
        )
        now = self.now()
        log.info(
            "batch %d: %d documents in %.2f s, %.0f a second; lag %s s, %s files wait",
            progress.batchId,
            now.batch_documents,
            now.batch_seconds,
            now.documents_per_second,
            "?" if now.lag_seconds is None else f"{now.lag_seconds:.1f}",
            "?" if now.files_waiting is None else now.files_waiting,
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has come: no file waits, and no document is old."""
        self._set(lag_seconds=None if self.now().lag_seconds is None else 0.0)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        error = event.exception
        self._set(running=False, error=None if error is None else error.strip().splitlines()[0])

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._rates = Rates(**{**vars(self._rates), **changes})

    def _behind(self, sources: list[Any]) -> tuple[float | None, int | None]:
        """(seconds, files): from the log of a treecast source, if this is one and we know where it is."""
        if self._log is None or len(sources) != 1:
            return None, None
        try:
            begin, end = (json.loads(offset or "null") for offset in (sources[0].startOffset, sources[0].endOffset))
            first = begin["batch"] if begin else 0
            path = (self._log / f"{end['log']}.sqlite").absolute()
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
                oldest = "SELECT min(mtime_ns) FROM files WHERE batch > ? AND batch <= ?"
                (mtime,) = database.execute(oldest, (first, end["batch"])).fetchone()
                (waiting,) = database.execute("SELECT count(*) FROM files WHERE batch > ?", (end["batch"],)).fetchone()
        except (sqlite3.Error, ValueError, TypeError, KeyError):  # another source, or no log there: for show only
            return None, None
        return None if mtime is None else max(0.0, time.time() - mtime / 1e9), waiting
