"""The documents of a broker on Spark: `treecast.spark.broker_documents`, or the format "treecast" with a url.

An offset is the number of a document, and the id of the broker's data. What a broker answers for a number never
changes, so a batch that Spark repeats has the same rows: with a checkpoint, each document is processed exactly once.
Documents that are dropped before they were read are not passed over in silence (`on_gone`).

Columns: those of files, so that `match` and sinks take them (`file` names the broker's data, `offset` is the number of
the document), and `source`, `id` and `published`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from treecast.errors import PipelineError
from treecast.inputs.records import BATCH_BYTES
from treecast.spark.sources.admission import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from treecast.spark.sources.broker_client import BrokerClient, BrokerDocument, Extent, Gone, check_store
from treecast.spark.sources.broker_options import EARLIEST, FAIL, LATEST, BrokerOptions
from treecast.spark.sources.source_tasks import SCHEMA, TYPE

BROKER_TYPE = f"{TYPE}, source string, id string, published timestamp"
BROKER_SCHEMA = pa.schema(
    [*SCHEMA, ("source", pa.string()), ("id", pa.string()), ("published", pa.timestamp("us", tz="UTC"))]
)
ROWS_MAX = 10_000
"""Of one batch that is handed to Spark."""


class BrokerTask(InputPartition):
    """The documents with the numbers from `first` to `last`."""

    def __init__(self, store: str, first: int, last: int) -> None:
        super().__init__(None)
        self.store = store
        self.first = first
        self.last = last


def tasks_of(store: str, first: int, last: int, size: int) -> list[InputPartition]:
    return [BrokerTask(store, start, min(start + size - 1, last)) for start in range(first, last + 1, size)]


class BrokerReader(DataSourceReader):
    """What the broker has when the job is planned."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Runs on the driver, once a job."""
        extent = BrokerClient(self._options).extent()
        return tasks_of(extent.store, _begin(self._options, extent), extent.last, self._options.partition_documents)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in the tasks."""
        if isinstance(partition, BrokerTask):  # Spark makes up a partition where there is none
            yield from read_task(partition, self._options)


class BrokerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is published, in batches that a restart repeats exactly. An offset has the next number to read."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._client: BrokerClient | None = None
        self._initial: dict[str, Any] | None = None
        self._stops = False  # take what is there, then end
        self._stops_at: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}  # the tasks have connections of their own

    def _extent(self) -> Extent:
        if self._client is None:
            self._client = BrokerClient(self._options)
        return self._client.extent()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins. Spark asks more than once, and gets the same answer."""
        if self._initial is None:
            extent = self._extent()
            self._initial = {"store": extent.store, "next": _begin(self._options, extent)}
        return self._initial

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next batch."""
        extent = self._extent()
        if start is None:  # Spark 4.1 does not say where it stands; `partitions` does
            return {"store": extent.store, "next": extent.last + 1}
        check_store(extent, start["store"])
        following = extent.last + 1
        if self._stops:
            following = self._stops_at = following if self._stops_at is None else self._stops_at
        if isinstance(limit, ReadMaxRows):
            following = min(following, start["next"] + limit.max_rows)
        return {**start, "next": max(following, start["next"])}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `max_documents_per_batch` says."""
        return ReadMaxRows(self._options.max_documents_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there when the first batch is asked for is all that this query will read."""
        self._stops = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks for the documents from `start` on, before `end`."""
        if start["store"] != end["store"]:  # only Spark 4.1 can ask so, see `latestOffset`
            check_store(self._extent(), start["store"])
        return tasks_of(end["store"], start["next"], end["next"] - 1, self._options.partition_documents)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in the tasks."""
        if isinstance(partition, BrokerTask):
            yield from read_task(partition, self._options)

    def stop(self) -> None:
        """The query has ended."""
        if self._client is not None:
            self._client.close()


def _begin(options: BrokerOptions, extent: Extent) -> int:
    if options.starting == EARLIEST:
        return extent.first
    return extent.last + 1 if options.starting == LATEST else int(options.starting)


def read_task(task: BrokerTask, options: BrokerOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a task."""
    client = BrokerClient(options)
    rows: list[tuple[Any, ...]] = []
    size = 0
    try:
        for item in client.documents(task.store, task.first, task.last):
            rows.append(_row(task.store, item, options))
            size += len(rows[-1][0] or b"") + 100
            if size >= BATCH_BYTES or len(rows) == ROWS_MAX:
                yield _batch(rows)
                rows, size = [], 0
    finally:
        client.close()
    if rows:
        yield _batch(rows)


def _row(store: str, item: BrokerDocument | Gone, options: BrokerOptions) -> tuple[Any, ...]:
    file = f"treecast:{store}"
    if isinstance(item, Gone):
        text = f"documents {item.first} to {item.last} are no longer kept by the broker"
        error = PipelineError(text, code="TC758", hint='on_gone="report" makes this a row')
        if options.on_gone == FAIL:
            raise error
        return (None, file, item.first, None, {"code": "TC758", "message": text, "offset": 0}, None, None, None)
    names = (item.source, item.id or None, datetime.fromisoformat(item.published))
    if item.body is None:
        text = f"document {item.number} cannot be read by the broker"
        return (None, file, item.number, None, {"code": item.problem, "message": text, "offset": 0}, *names)
    return (item.body, file, item.number, 0, None, *names)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, BROKER_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=BROKER_SCHEMA)
