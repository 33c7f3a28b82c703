"""A table of Parquet that grows by one directory a batch, each there once, whole or not at all.

    out/batch=17/part-….parquet

Rows are written beside (a name with a leading dot, which Spark does not read), synced, and take their place by a
rename. A batch that has its place is never written again, so a batch that a restarted stream repeats changes nothing.
`spark.read.parquet("out")` reads it, with `batch` as one more column. A mark in the directory says whose it is: batches
of another stream have the same numbers.

Any file system that Spark reaches will do if its rename is atomic: local and mounted ones, HDFS. Object stores are not.

Codes: TC751 an output that is somebody else's.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.errors import PipelineError

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
        self._jvm: Any = spark._jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system: Any = self._at("").getFileSystem(configuration)
        self._claim(stream)

    def of(self, batch: int) -> str:
        """Where the rows of a batch are, or will be."""
        return f"{self.path}/{COLUMN}={batch}"

    def holds(self, batch: int) -> bool:
        """Whether they are there."""
        return bool(self._system.exists(self._at(f"{COLUMN}={batch}")))

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch, unless they are there."""
        if self.holds(batch):
            return
        name = f".{COLUMN}-{batch}-{uuid.uuid4().hex}"
        rows.write.parquet(f"{self.path}/{name}")
        self._sync(name)
        if not self._system.rename(self._at(name), self._at(f"{COLUMN}={batch}")):
            raise PipelineError(f"{self.of(batch)} cannot be written", code="TC751", hint="see whether it is there")
        self._sync("")

    def clear(self) -> None:
        """Remove what a killed process left half-written."""
        for status in self._found(f".{COLUMN}-*"):
            self._system.delete(status.getPath(), True)

    def _claim(self, stream: str) -> None:
        marks = [status.getPath().getName() for status in self._found(f"{MARK}*")]
        if marks == [MARK + stream]:
            return
        if marks or self._found("[!._]*"):
            raise PipelineError(
                f"{self.path} holds the results of something else",
                code="TC751",
                hint="name another output, or the checkpoint that belongs to this one",
            )
        self._system.mkdirs(self._at(MARK + stream))

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}" if name else self.path)

    def _found(self, pattern: str) -> list[Any]:
        return list(self._system.globStatus(self._at(pattern)) or [])

    def _sync(self, name: str) -> None:
        """On this machine, let what was written survive a loss of power too; elsewhere that is the file system's."""
        if self._system.getScheme() != "file":
            return
        directory = Path(self.path.removeprefix("file://"), name)
        for path in (*directory.iterdir(), directory) if name else (directory,):
            if path.is_file() or path == directory:
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


def remove(spark: SparkSession, path: str) -> None:
    """Remove whatever is at a path that Spark reaches."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(place, True)
