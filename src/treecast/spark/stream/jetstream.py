"""Publish the matches of a stream to NATS JetStream, each under an id by which a consumer knows it again.

    from treecast.spark import match_stream
    from treecast.spark.stream.jetstream import JetStream

    match_stream(documents, "subscriptions", "matches", checkpoint="checkpoint",
                 after=[JetStream("nats://127.0.0.1:4222", "matches")])

A match of the subscription `sport` is a message on the subject `matches.sport`: JSON of its row. (An id that is no
token of a subject, such as one with a dot, becomes `sha256-…`: see `treecast.names.subject_token`.) Create
a JetStream stream that takes `matches.>` first. With `match_stream(…, render=True)` the message is the payload as
it is, and the header Treecast-Row has the JSON of the other columns; a payload has to fit into the server's
`max_payload`. Messages are published by the executors, from the rows that are durable in the output, and each is
acknowledged before the batch counts as done.

So every match is published at least once: a batch that is repeated publishes its messages again, under the same ids.
The id is a hash of stream, batch, document (file, offset, ordinal) and subscription, in the header Nats-Msg-Id.
JetStream drops what it has seen within its window (two minutes, unless set otherwise); a consumer that drops ids that
it has seen gets each match once, whatever the time between.

Codes: TC755 deliveries that JetStream does not take, TC756 rows without an identity.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from treecast.catalog.delivery_ids import message_id, message_key_fields
from treecast.errors import PipelineError
from treecast.names import HASHED, TOKEN
from treecast.spark.batch.match import has_payloads, without_errors

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from pyspark.sql import Column, DataFrame, Row

    from treecast.spark.stream.match_stream import Batch

IDENTITY = ("file", "offset", "ordinal")
ID_HEADER = "Nats-Msg-Id"
ROW_HEADER = "Treecast-Row"
RETRY_SECONDS = 0.2  # doubled with each attempt


class Message(NamedTuple):
    """What is published."""

    subject: str
    id: str
    payload: bytes
    row: str = ""
    """Of a delivery: what else is known of it, as JSON."""

    @classmethod
    def of_row(cls, row: Row) -> Message:
        """A row of `JetStream.messages`."""
        return cls(row.subject, message_id(row.key), bytes(row.payload), row.row or "")


@dataclass(frozen=True)
class JetStream:
    """A sink for `match_stream(after=[…])`."""

    servers: str | tuple[str, ...]
    """Addresses, such as nats://host:4222."""
    subject: str = "treecast.matches"
    """Where messages go: tokens with dots between."""
    identity: tuple[str, ...] = IDENTITY
    """The columns that identify a document in its batch."""
    in_flight_max: int = 256
    """Messages of a task that are not acknowledged yet."""
    attempts_max: int = 5
    """How often a message is tried."""
    timeout_seconds: float = 5.0
    """Of one attempt."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", self.subject):
            raise ValueError(f"subject must be tokens with dots between, not {self.subject!r}")
        if self.in_flight_max < 1 or self.attempts_max < 1 or self.timeout_seconds <= 0:
            raise ValueError("in_flight_max and attempts_max must be 1 or more, timeout_seconds more than 0")
        if not self.identity:
            raise ValueError("identity must name at least one column")

    def __call__(self, rows: DataFrame, batch: Batch) -> None:
        """Publish a batch, and return when all of it is acknowledged."""
        absent = [name for name in self.identity if name not in rows.columns]
        if absent:
            raise PipelineError(
                f"the rows have no column {absent[0]}, which is part of a document's identity",
                code="TC756",
                hint="name the columns that do: JetStream(…, identity=(…,))",
            )
        messages = self.messages(rows, batch)
        # Bound to a name: what travels is this object alone.
        sink = self

        def send(part: Iterator[Row]) -> None:
            from treecast.spark.stream.jetstream import Message, publish

            publish(sink, (Message.of_row(row) for row in part))

        send.__annotations__ = {}
        messages.foreachPartition(send)

    def messages(self, rows: DataFrame, batch: Batch) -> DataFrame:
        """subject, key (which the id is made of), payload and row of each match."""
        from pyspark.sql import functions

        good = without_errors(rows)
        constants = {"stream": functions.lit(batch.stream), "batch": functions.lit(batch.number)}
        fields = [constants.get(name, functions.col(name)).alias(name) for name in message_key_fields(self.identity)]
        key = functions.to_json(functions.struct(*fields), {"ignoreNullFields": "false"})

        is_delivery = has_payloads(good)
        columns = functions.struct(
            *[name for name in good.columns if not is_delivery or name != "payload"],
            functions.lit(batch.number).alias("batch"),
            functions.lit(batch.version.number).alias("version"),
        )
        row = functions.to_json(columns)
        return good.select(
            functions.concat(functions.lit(f"{self.subject}."), _token(functions.col("subscription"))).alias("subject"),
            key.alias("key"),
            (functions.col("payload") if is_delivery else row.cast("binary")).alias("payload"),
            (row if is_delivery else functions.lit("")).alias("row"),
        )


def _token(subscription: Column) -> Column:
    """`treecast.names.subject_token`, in Spark. (In Java, too, `$` would allow a line feed at the end.)"""
    from pyspark.sql import functions

    digest = functions.concat(functions.lit(HASHED), functions.sha2(subscription.cast("binary"), 256))
    plain = subscription.rlike(rf"\A{TOKEN}\z") & ~subscription.startswith(HASHED)
    return functions.when(plain, subscription).otherwise(digest)


# -- in the tasks


def publish(sink: JetStream, messages: Iterable[Message]) -> None:
    """Publish all of them, and return when all are acknowledged. Raises PipelineError if that fails."""
    first = next(iterator := iter(messages), None)
    if first is not None:
        asyncio.run(_publish(sink, first, iterator))


async def _publish(sink: JetStream, first: Message, rest: Iterator[Message]) -> None:
    import nats
    from nats.errors import Error

    servers = [sink.servers] if isinstance(sink.servers, str) else list(sink.servers)
    try:
        client = await nats.connect(
            servers,
            connect_timeout=max(1, round(sink.timeout_seconds)),
            max_reconnect_attempts=sink.attempts_max,
            reconnect_time_wait=RETRY_SECONDS,
            error_cb=_silence,
        )
    except (TimeoutError, Error, OSError) as error:
        raise _refuse(f"no NATS server answers at {', '.join(servers)}", error) from None
    try:
        context = client.jetstream(timeout=sink.timeout_seconds)
        free = asyncio.Semaphore(sink.in_flight_max)
        async with asyncio.TaskGroup() as group:
            message: Message | None = first
            while message is not None:
                await free.acquire()
                group.create_task(_deliver(sink, context, message, free))
                message = next(rest, None)
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        await client.close()


async def _deliver(sink: JetStream, context: JetStreamContext, message: Message, free: asyncio.Semaphore) -> None:
    from nats.errors import Error

    headers = {ID_HEADER: message.id}
    if message.row:
        headers[ROW_HEADER] = json.dumps(json.loads(message.row))  # in ASCII, as headers have to be
    try:
        for attempt in range(1, sink.attempts_max + 1):
            try:
                await context.publish(message.subject, message.payload, headers=headers)
                return
            except (TimeoutError, Error, OSError) as error:
                if attempt == sink.attempts_max:
                    raise _refuse(f"JetStream does not take messages on {message.subject}", error) from None
            await asyncio.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
    finally:
        free.release()


async def _silence(error: Exception) -> None:
    """What goes wrong shows in what was asked for; the client would print it as well."""


def _refuse(problem: str, error: Exception) -> PipelineError:
    reason = str(error) or type(error).__name__
    hint = "see whether nats-server runs with JetStream, and has a stream for the subject"
    return PipelineError(f"{problem}: {reason}", code="TC755", hint=hint)
