"""A table of Parquet that grows by one directory a batch, each there once, whole or not at all.

    out/batch=17/part-….parquet

Rows are written under a name with a leading dot, which Spark does not read, synced, and renamed into place. A batch
that is in place is never written again, so a batch that a restarted stream repeats changes nothing.
`spark.read.parquet("out")` reads it, with `batch` as one more column. A mark in the directory says which stream owns
it: batches of another stream have the same numbers.

Any file system that Spark reaches will do if its rename is atomic: local and mounted ones, HDFS. Object stores are not.

Codes: TC751 an output that belongs to another stream.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from treecast import durable
from treecast.errors import PipelineError
from treecast.spark.internals import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARK = "_treecast-stream-"
COLUMN = "batch"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_elsewhere(path: str) -> bool:
    """Whether a path names a file system by its scheme, so that only Spark can look there."""
    return _SCHEME.match(path) is not None and not path.startswith("file://")


class BatchDirectories:
    """The output of the stream with this id. Makes the directory and its mark, or raises PipelineError."""

    def __init__(self, spark: SparkSession, path: str, stream: str) -> None:
        self.path = path.rstrip("/")
        self._files = FileSystem(spark, self.path)
        self._claim(stream)

    def of(self, batch: int) -> str:
        """Where the rows of a batch are, or will be."""
        return f"{self.path}/{COLUMN}={batch}"

    def holds(self, batch: int) -> bool:
        """Whether they are there."""
        return self._files.exists(f"{COLUMN}={batch}")

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch, unless they are there."""
        if self.holds(batch):
            return
        name = durable.unused_name(f".{COLUMN}-{batch}-")
        rows.write.parquet(f"{self.path}/{name}")
        self._sync(name)
        if not self._files.rename(name, f"{COLUMN}={batch}"):
            raise PipelineError(f"{self.of(batch)} cannot be written", code="TC751", hint="see whether it is there")
        self._sync("")

    def clear(self) -> None:
        """Remove what a killed process left half-written."""
        for name in self._files.names(f".{COLUMN}-*"):
            self._files.remove(name)

    def _claim(self, stream: str) -> None:
        marks = self._files.names(f"{MARK}*")
        if marks == [MARK + stream]:
            return
        if marks or self._files.names("[!._]*"):
            raise PipelineError(
                f"{self.path} holds the results of something else",
                code="TC751",
                hint="name another output, or the checkpoint that belongs to this one",
            )
        self._files.make_directory(MARK + stream)

    def _sync(self, name: str) -> None:
        """On this machine, let what was written survive a loss of power too; elsewhere that is the file system's."""
        if not self._files.is_local:
            return
        directory = Path(self.path.removeprefix("file://"), name)
        if name:
            for path in directory.iterdir():
                if path.is_file():
                    durable.sync(path)
        durable.sync(directory)


def remove(spark: SparkSession, path: str) -> None:
    """Remove whatever is at a path that Spark reaches."""
    FileSystem(spark, path).remove("")
