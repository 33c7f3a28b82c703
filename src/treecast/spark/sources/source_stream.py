"""The stream of files that come into a directory: each is read once, also across restarts.

Spark's checkpoint keeps one small offset, here the number of a batch of files and the id of a log; which files these
are is in the log, one SQLite file for each query, in a directory that outlives the query. A file is identified by path,
size and time of change: one that changes is read again. A batch is written to the log before Spark hears of it and
never changes, so a restarted query reads the same files again, in the same batches. No list is kept in memory.

Move files into place when they are complete: one that is read while it is being written is a row with an error, and
is read again when it has changed.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from treecast import durable
from treecast.catalog.sqlite_errors import translate_sqlite_errors
from treecast.errors import PipelineError
from treecast.inputs.listing import ListedFile, local_path, pattern_base, walk
from treecast.names import text_of
from treecast.spark.sources.admission import IS_ADMITTED, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from treecast.spark.sources.source_options import Options
from treecast.spark.sources.source_tasks import Task, make, source_rows

if TYPE_CHECKING:
    import pyarrow as pa

LOG_DIRECTORY = ".treecast"
IDLE_SECONDS_STEP = 0.02
IDLE_SECONDS_MAX = 0.5


class SeenFiles:
    """Which files were found, and in which batch, on disk. Batches count from 1."""

    def __init__(self, directory: str, name: str, *, new: bool) -> None:
        path = Path(directory, f"{name}.sqlite")
        self._path = path
        if not new and not path.exists():
            raise self.loss_error()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._storage_error(error) from None
        with self._translate_errors():
            self._database = sqlite3.connect(path, isolation_level=None)
            try:
                self._database.execute("PRAGMA synchronous=FULL")
                self._database.execute(
                    "CREATE TABLE IF NOT EXISTS files (path TEXT, bytes INTEGER, mtime_ns INTEGER, batch INTEGER,"
                    " PRIMARY KEY (path, bytes, mtime_ns)) WITHOUT ROWID"
                )
                self._database.execute("CREATE INDEX IF NOT EXISTS batches ON files (batch)")
            except BaseException:
                self._database.close()
                raise

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_sqlite_errors(self._storage_error, self._damage_error)

    def loss_error(self) -> PipelineError:
        """What to say when the query has read more than the log knows of."""
        return PipelineError(
            f"the log of files that this query has read, {self._path}, is gone",
            code="TC716",
            hint="restore it, or start again with another checkpoint directory",
        )

    def _storage_error(self, error: object) -> PipelineError:
        return PipelineError(
            f"the log of files cannot be kept in {self._path.parent}: {error}",
            code="TC717",
            hint="give log= a directory that can be written to, and that outlives the query",
        )

    def _damage_error(self, reason: object) -> PipelineError:
        return PipelineError(
            f"the log of files that this query has read, {self._path}, is damaged: {reason}",
            code="TC717",
            hint="restore it from a copy, or start again with another checkpoint directory",
        )

    def last(self) -> int:
        """The number of the last batch; 0 where there is none."""
        with self._translate_errors():
            (number,) = self._database.execute("SELECT max(batch) FROM files").fetchone()
        if not isinstance(number, int | None):
            raise self._damage_error("a batch has no number")
        return number or 0

    def new(self, files: Iterator[ListedFile]) -> Iterator[ListedFile]:
        """Those that are in no batch yet."""
        statement = "SELECT 1 FROM files WHERE path = ? AND bytes = ? AND mtime_ns = ?"
        for file in files:
            with self._translate_errors():
                row = self._database.execute(
                    statement, (_path_for_log(file.path), file.bytes, file.mtime_ns)
                ).fetchone()
            if row is None:
                yield file

    def append(self, files: Sequence[ListedFile], files_max: int | None) -> None:
        """Add batches of at most so many files, all or nothing."""
        number = self.last()
        size = files_max or len(files) or 1
        rows = (
            (_path_for_log(file.path), file.bytes, file.mtime_ns, number + 1 + index // size)
            for index, file in enumerate(files)
        )
        with self._translate_errors():
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?)", rows)
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def between(self, after: int, last: int) -> list[ListedFile]:
        """The files of the batches after `after`, up to `last`."""
        statement = "SELECT path, bytes, mtime_ns FROM files WHERE batch > ? AND batch <= ? ORDER BY batch, path"
        with self._translate_errors():
            rows = self._database.execute(statement, (after, last)).fetchall()
        return [ListedFile(path if isinstance(path, str) else os.fsdecode(path), *rest) for path, *rest in rows]

    def close(self) -> None:
        self._database.close()


def _path_for_log(path: str) -> str | bytes:
    """A path as the log has it: text, or the bytes of one that is not UTF-8."""
    return path if text_of(path) == path else os.fsencode(path)


class DocumentStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes into directories, in batches that a restart repeats exactly."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._directory = options.log or str(Path(pattern_base(options.paths[0]), LOG_DIRECTORY))
        self._new_log = durable.unused_name() if IS_ADMITTED else self._only_log()
        self._logs: dict[str, SeenFiles] = {}
        self._stops = False  # take what is there, then end
        self._stops_at: int | None = None
        self._idle_looks = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_logs": {}}  # the tasks need the options alone

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins. Spark asks more than once, and also when it goes on from a checkpoint."""
        return {"log": self._new_log, "batch": 0}

    def _only_log(self) -> str:
        """The log of a stream on Spark 4.1, which does not say where a stream stands: its directory has no other."""
        if self._options.log is None:
            raise PipelineError(
                "on Spark 4.1 a stream of files needs a directory of its own for its log",
                code="TC711",
                hint='give log="directory", which no other stream uses; from Spark 4.2 on it is not needed',
            )
        return "files"

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The next batch: one that the log has already, or else of the files that have come."""
        if start is None:  # Spark 4.1: everything that has come is the next batch
            log = self._log({"log": self._new_log, "batch": 0})
            before = log.last()
            self._take(log, None)
            self._pause(is_idle=log.last() == before)
            return {"log": self._new_log, "batch": log.last()}
        log = self._log(start)
        files_max = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        if self._stops_at is None and log.last() <= start["batch"]:
            self._take(log, files_max)
        last = log.last()
        self._pause(is_idle=last <= start["batch"])
        if self._stops:
            last = self._stops_at = last if self._stops_at is None else self._stops_at
        batch = min(start["batch"] + 1, last) if files_max else last
        return {**start, "batch": max(batch, start["batch"])}

    def _pause(self, *, is_idle: bool) -> None:
        """Wait a little if nothing has come: without a trigger Spark asks again after 10 ms, and each time all
        directories are listed. The first few waits are shorter, so that a short pause of the source costs little."""
        self._idle_looks = self._idle_looks + 1 if is_idle and not self._stops else 0
        if self._idle_looks:
            time.sleep(min(IDLE_SECONDS_MAX, IDLE_SECONDS_STEP * self._idle_looks))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `max_files_per_batch` says."""
        return ReadMaxFiles(self._options.max_files_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there when the first batch is asked for is all that this query will read."""
        self._stops = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks for the batches after `start`, up to `end`."""
        if end["batch"] == start["batch"]:
            return []
        log = self._log(end)
        if not start["batch"] < end["batch"] <= log.last():  # only Spark 4.1 can ask so, see `_only_log`
            raise log.loss_error()
        return list(make(log.between(start["batch"], end["batch"]), self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in the tasks."""
        if isinstance(partition, Task):
            yield from source_rows(partition, self._options)

    def stop(self) -> None:
        """The query has ended."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def _log(self, offset: dict[str, Any]) -> SeenFiles:
        name = offset["log"]
        if name not in self._logs:
            self._logs[name] = SeenFiles(self._directory, name, new=offset["batch"] == 0)
        return self._logs[name]

    def _take(self, log: SeenFiles, files_max: int | None) -> None:
        new = log.new(
            file
            for path in self._options.paths
            for file in walk(
                local_path(path), self._options.pattern, may_be_empty=True, storage=self._options.storage_secrets
            )
        )

        def age(file: ListedFile) -> tuple[int, str]:
            return (file.mtime_ns, file.path)

        # A query that goes on looks again: the oldest will do, and no more of the list is kept than that.
        oldest = heapq.nsmallest(files_max, new, age) if files_max and not self._stops else sorted(new, key=age)
        log.append(oldest, files_max)
