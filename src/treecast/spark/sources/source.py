"""The format "treecast" of Spark, for batches and streams; `treecast.spark.documents` is the easy way to use it.

    spark.dataSource.register(DocumentSource)
    spark.read.format("treecast").option("record", "article").option("entities", "html").load("dblp.xml")

It runs in Spark's Python workers, on the driver (which files, which tasks) and on the executors (reading), so treecast
has to be installed there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from treecast.errors import PipelineError
from treecast.inputs.listing import check_exists, list_files, local_path
from treecast.spark.internals import is_python_worker
from treecast.spark.sources.broker_options import BrokerOptions
from treecast.spark.sources.broker_stream import BROKER_TYPE, BrokerReader, BrokerStream
from treecast.spark.sources.source_options import Options
from treecast.spark.sources.source_stream import DocumentStream
from treecast.spark.sources.source_tasks import PARTS_TYPE, TYPE, Task, make, source_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "treecast"


class DocumentSource(DataSource):
    """The data source of the format "treecast"; `documents` is the easy way to use it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.broker: BrokerOptions | None = None
        with _error_in_one_sentence():
            if "url" in {name.lower() for name in options}:
                self.broker = BrokerOptions.parse(options)
                return
            self.settings = Options.parse(options)
            with naming_the_directory(self.settings.paths):
                for path in self.settings.paths:
                    check_exists(path, may_be_empty=True)

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` calls it."""
        return FORMAT

    def schema(self) -> str:
        """The columns: those of files, or those of a broker's documents."""
        if self.broker is not None:
            return BROKER_TYPE
        return PARTS_TYPE if self.settings.parts else TYPE

    def reader(self, schema: StructType) -> DataSourceReader:
        """For batches."""
        if self.broker is not None:
            return BrokerReader(self.broker)
        with _error_in_one_sentence():
            for name in {name.lower() for name in self.options} & {"log", "max_files_per_batch"}:
                raise PipelineError(
                    f"the option {name} is for streams", code="TC711", hint="leave it out, or use spark.readStream"
                )
        return DocumentReader(self.settings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For streams."""
        if self.broker is not None:
            return BrokerStream(self.broker)
        with _error_in_one_sentence():
            return DocumentStream(self.settings)


class DocumentReader(DataSourceReader):
    """Reads all files that there are when the job is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Runs on the driver, once a job."""
        with _error_in_one_sentence():
            paths = [local_path(path) for path in self._options.paths]
            with naming_the_directory(self._options.paths):
                tasks: list[InputPartition] = list(
                    make(list_files(paths, self._options.pattern, storage=self._options.storage_secrets), self._options)
                )
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in the tasks."""
        if isinstance(partition, Task):  # Spark makes up a partition where there is none
            yield from source_rows(partition, self._options)


@contextmanager
def naming_the_directory(paths: Sequence[str]) -> Iterator[None]:
    """Say whose working directory is meant where a relative path leads nowhere.

    `documents()` of a classic session has made paths absolute. Of a Connect client they come as they were written, and
    mean something here, on the server.
    """
    try:
        yield
    except PipelineError as error:
        relative = [path for path in paths if not Path(path).expanduser().is_absolute() and ":" not in path]
        if not relative or error.code != "TC710":
            raise
        message = str(error).partition("\n")[0].removeprefix(f"{error.code} ")
        raise PipelineError(
            f"{message}: {relative[0]} is meant in the working directory of the Spark server, {Path.cwd()}",
            code=error.code,
            hint="give the absolute path that the server has; a Connect client's own files are not there",
        ) from None


@contextmanager
def _error_in_one_sentence() -> Iterator[Any]:
    """Keep Python's frames out of what Spark's driver says about a PipelineError of one of its workers."""
    try:
        yield
    except PipelineError:
        if is_python_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # this process ends with the exception
        raise
