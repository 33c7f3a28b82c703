"""Matches on NATS JetStream: what is published, under which ids, and what happens where it cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.nats_server import LEFT_OUT, consume, make_stream

from treecast import PipelineError
from treecast.catalog.versions import Version
from treecast.names import hashed, subject_token
from treecast.spark.stream.jetstream import ROW_HEADER, JetStream, Message, publish
from treecast.spark.stream.match_stream import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = Batch("stream", 7, Version(3, "content", Path("nowhere"), 2, 0), "nowhere")
SCHEMA = (
    "file string, offset long, ordinal long, subscription string, error struct<code:string,message:string,offset:long>"
)
ROWS: list[Any] = [
    ("a.xml", 0, 0, "sport", None),
    ("a.xml", 0, 0, "with a blank", None),
    ("a.xml", 90, 1, "sport", None),
    (None, None, None, "sport", None),
    ("bad.xml", 0, 0, None, ("TC201", "bad", 3)),
]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def messages(sink: JetStream, rows: DataFrame) -> list[Message]:
    return [Message.of_row(row) for row in sink.messages(rows, BATCH).collect()]


def test_every_match_is_a_message_with_an_id_of_its_own(rows: DataFrame) -> None:
    sink = JetStream("nats://127.0.0.1:1", "m")
    all_messages = messages(sink, rows)
    assert [message.subject for message in all_messages] == [
        "m.sport",
        f"m.{subject_token('with a blank')}",
        "m.sport",
        "m.sport",
    ]
    assert json.loads(all_messages[2].payload) == {
        "file": "a.xml",
        "offset": 90,
        "ordinal": 1,
        "subscription": "sport",
        "batch": 7,
        "version": 3,
    }
    assert len({message.id for message in all_messages}) == 4
    # What consumers remember stays: the hash of this text, as Spark itself would make it.
    keys = sink.messages(rows, BATCH).selectExpr("key", "sha2(key, 256) as id").collect()
    assert keys[0].key == '{"stream":"stream","batch":7,"file":"a.xml","offset":0,"ordinal":0,"subscription":"sport"}'
    assert '"file":null,"offset":null' in keys[3].key
    assert [row.id for row in keys] == [message.id for message in all_messages]
    assert all_messages[0].id == "8d12aec2da9ff7f97b798cc6eca620f89d2a72103f07084a57f6190d1ed1c82f"
    same_messages = messages(sink, rows.repartition(3))
    assert sorted(same_messages) == sorted(all_messages)  # ids are stable
    other = Batch("stream", 8, BATCH.version, "nowhere")
    assert not {Message.of_row(row).id for row in sink.messages(rows, other).collect()} & {m.id for m in all_messages}
    with pytest.raises(PipelineError, match="TC756 the rows have no column file"):
        sink(rows.drop("file"), BATCH)


def test_no_two_ids_share_a_subject(spark: SparkSession) -> None:
    ids = ["a.b", hashed("a.b"), "a", "a\n", "sha256-a", "x" * 129, "ü", "a\u2028", "-"]
    frame = spark.createDataFrame([("a.xml", 0, 0, id, None) for id in ids], SCHEMA)
    subjects = [message.subject for message in messages(JetStream("nats://127.0.0.1:1", "m"), frame)]
    assert subjects == [f"m.{subject_token(id)}" for id in ids] and len(set(subjects)) == len(ids)


def test_deliveries_arrive(rows: DataFrame, nats_address: str | None, leave_out: Callable[[str], None]) -> None:
    if nats_address is None:
        leave_out(LEFT_OUT)
        return
    make_stream(nats_address, "arrive", "arrive")
    sink = JetStream(nats_address, "arrive", in_flight_max=2)
    sink(rows, BATCH)
    expected = sorted(messages(sink, rows))
    arrivals = [Message(one.subject, one.id, one.payload) for one in consume(nats_address, "arrive")]
    assert sorted(set(arrivals)) == expected
    many = [Message("arrive.many", f"id-{number}", b"%d" % number) for number in range(1000)]
    publish(sink, iter(many))
    assert len({one.id for one in consume(nats_address, "arrive") if one.subject == "arrive.many"}) == 1000
    nobody = JetStream(nats_address, "nobody", attempts_max=2)
    with pytest.raises(PipelineError, match=r"TC755 JetStream does not take messages on nobody\.x"):
        publish(nobody, [Message("nobody.x", "1", b"{}")])


def test_deliveries_carry_their_payloads(
    rows: DataFrame, nats_address: str | None, leave_out: Callable[[str], None]
) -> None:
    """The message is the payload; the row is a header, in ASCII. Ids are those of matches."""
    from pyspark.sql import functions

    sink = JetStream(nats_address or "nats://127.0.0.1:1", "payloads")
    payload = functions.encode(functions.concat(functions.lit("<ä>"), "subscription", functions.lit("</ä>")), "utf-8")
    deliveries = rows.withColumn("file", functions.concat(functions.lit("ü/"), "file")).select(
        "file", "offset", "ordinal", "subscription", payload.alias("payload"), "error"
    )
    all_messages = messages(sink, deliveries)
    assert [message.payload.decode() for message in all_messages] == [
        f"<ä>{name}</ä>" for name in ("sport", "with a blank", "sport", "sport")
    ]
    assert json.loads(all_messages[2].row) == {
        "file": "ü/a.xml",
        "offset": 90,
        "ordinal": 1,
        "subscription": "sport",
        "batch": 7,
        "version": 3,
    }
    if nats_address is None:
        leave_out(LEFT_OUT)
        return
    make_stream(nats_address, "payloads", "payloads")
    sink(deliveries, BATCH)
    arrivals = {one.id: one for one in consume(nats_address, "payloads")}
    assert {id: one.payload for id, one in arrivals.items()} == {
        message.id: message.payload for message in all_messages
    }
    assert {id: json.loads(one.headers[ROW_HEADER]) for id, one in arrivals.items()} == {
        message.id: json.loads(message.row) for message in all_messages
    }


def test_a_server_that_is_away_is_said() -> None:
    away = JetStream("nats://127.0.0.1:1", attempts_max=1, timeout_seconds=1)
    with pytest.raises(PipelineError, match="TC755 no NATS server answers at nats://127"):
        publish(away, [Message("x", "1", b"{}")])
    publish(away, [])  # nothing to publish, so no server is needed


@pytest.mark.parametrize(
    "given",
    [
        {"subject": "a..b"},
        {"subject": "a.*"},
        {"in_flight_max": 0},
        {"attempts_max": 0},
        {"timeout_seconds": 0},
        {"identity": ()},
    ],
)
def test_settings_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        JetStream("nats://127.0.0.1:1", **given)
