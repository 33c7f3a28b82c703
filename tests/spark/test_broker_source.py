"""A broker's documents on Spark: each once, across restarts of the query and kills of the broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from support.served_http import Service, eventually

from treecast import PipelineError
from treecast.spark import broker_documents
from treecast.spark.sources.broker_options import BrokerOptions
from treecast.spark.sources.broker_stream import BrokerReader, BrokerStream, BrokerTask, read_task
from treecast.spark.sources.source_options import to_strings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", read_documents_max=4) as running:
        yield running


def options(broker: Service, **settings: Any) -> BrokerOptions:
    return BrokerOptions.parse(to_strings({"url": f"http://127.0.0.1:{broker.port}", **settings}))


def numbers(stream: BrokerStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    tasks = stream.partitions(start, end)
    return [row["offset"] for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]


def test_batches_are_repeated_exactly(broker: Service) -> None:
    for number in range(10):
        broker.publish(f"<n>{number}</n>", Treecast_Document_Id=f"id{number}")
    stream = BrokerStream(options(broker, partition_documents=3))
    start = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxRows(10_000)
    one = stream.latestOffset(start, ReadMaxRows(7))
    broker.publish("<late/>")
    two = stream.latestOffset(one, ReadAllAvailable())
    assert len(stream.partitions(start, one)) == 3
    for repeated_stream in (stream, BrokerStream(options(broker))):
        assert numbers(repeated_stream, start, one) == [1, 2, 3, 4, 5, 6, 7]
        assert numbers(repeated_stream, one, two) == [8, 9, 10, 11]
    assert stream.latestOffset(two, ReadMaxRows(5)) == two and stream.partitions(two, two) == []
    (task,) = BrokerStream(options(broker)).partitions({"store": start["store"], "next": 2}, {**start, "next": 3})
    assert isinstance(task, BrokerTask)
    (row,) = [row for batch in read_task(task, options(broker)) for row in batch.to_pylist()]
    assert (row["document"], row["source"], row["id"], row["file"]) == (
        b"<n>1</n>",
        "default",
        "id1",
        f"treecast:{start['store']}",
    )
    assert row["published"] is not None and row["error"] is None
    assert BrokerStream(options(broker, starting="latest")).initialOffset()["next"] == 12
    assert BrokerStream(options(broker, starting=5)).initialOffset()["next"] == 5
    now = BrokerStream(options(broker))
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(start, ReadMaxRows(100))["next"] == 12
    broker.publish("<later/>")
    assert now.latestOffset(two, ReadMaxRows(100)) == two
    stream.stop()
    reader = BrokerReader(options(broker, starting=10))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [10, 11, 12]


def test_a_broker_that_is_away_or_another_is_said(broker: Service) -> None:
    broker.publish("<a/>")
    stream = BrokerStream(options(broker, timeout_seconds=1))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(PipelineError, match="TC758 the broker has other data"):
        numbers(stream, {**start, "store": "other"}, {**end, "store": "other"})
    with pytest.raises(PipelineError, match="TC758 the broker has other data"):
        stream.latestOffset({**start, "store": "other"}, ReadAllAvailable())
    with pytest.raises(PipelineError, match="TC758 the broker has no document 2"):
        numbers(stream, start, {**end, "next": 5})
    with pytest.raises(PipelineError, match="TC757 the broker answers with 404"):
        BrokerStream(options(broker, url=f"http://127.0.0.1:{broker.port}/elsewhere")).initialOffset()
    broker.end(signal.SIGKILL)
    with pytest.raises(PipelineError, match="TC757 no broker answers at http://127"):
        numbers(stream, start, end)
    broker.start()
    assert numbers(stream, start, end) == [1]


def test_documents_that_are_gone(tmp_path: Path) -> None:
    settings = {"keep_ms": 1, "retention_step_ms": 50, "keep_bytes": 0}
    with Service(tmp_path / "data", broker=settings) as broker:
        for _ in range(3):
            broker.publish("<a/>")
        store = BrokerStream(options(broker)).initialOffset()["store"]

        def is_gone() -> bool:
            return '"gone"' in broker.ask("GET", "/v1/documents:read?until_document=3").body.decode()

        eventually(is_gone)
        start, end = {"store": store, "next": 1}, {"store": store, "next": 4}
        with pytest.raises(PipelineError, match=r"TC758 documents 1 to [123] are no longer kept"):
            numbers(BrokerStream(options(broker)), start, end)
        (task,) = BrokerStream(options(broker)).partitions(start, end)
        assert isinstance(task, BrokerTask)
        rows = [row for batch in read_task(task, options(broker, on_gone="report")) for row in batch.to_pylist()]
        assert (rows[0]["document"], rows[0]["error"]["code"]) == (None, "TC758")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"urls": "x"}, "no option urls for a broker"),
        ({"url": "ftp://x"}, "url='ftp://x' is wrong"),
        ({"url": "http://x:99999"}, "url="),
        ({"url": "http://name:secret@x"}, "url='x' is wrong"),
        ({"starting": "now"}, "starting='now' is wrong"),
        ({"on_gone": "ignore"}, "on_gone='ignore' is wrong"),
        ({"timeout_seconds": "0"}, "timeout_seconds='0' is wrong"),
    ],
)
def test_options_are_checked(given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match="TC711") as error_info:
        BrokerOptions.parse({"url": "http://127.0.0.1:1", **given})
    assert message in str(error_info.value)


def test_a_query_that_is_restarted_while_the_broker_is_killed(
    spark: SparkSession, broker: Service, tmp_path: Path
) -> None:
    """What the output holds at the end is every document once."""

    def run(**trigger: Any) -> None:
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        if "availableNow" in trigger:
            query.awaitTermination()
            return
        broker.end(signal.SIGKILL)
        broker.start()
        numbers_published.append(broker.publish("<n>live</n>"))
        query.processAllAvailable()
        query.stop()

    numbers_published = [broker.publish(f"<n>{number}</n>") for number in range(12)]
    url = f"http://127.0.0.1:{broker.port}"
    frame = broker_documents(spark, url, stream=True).select("offset", "source")
    run(processingTime="100 milliseconds")
    numbers_published += [broker.publish(f"<n>{number}</n>") for number in range(12, 20)]
    run(availableNow=True)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == numbers_published == list(range(1, 22))
    assert {row.source for row in rows} == {"default"}
