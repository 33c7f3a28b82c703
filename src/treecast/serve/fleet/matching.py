"""A worker's part of the work: take documents, match them, store the deliveries, then say that it is done.

All workers share one consumer of NATS, so each document goes to one of them. It is acknowledged when its deliveries are
stored. If a worker dies before that, another one takes the document and stores the same deliveries: they have the same
ids, so NATS drops what it has already.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import structlog
from nats.aio.msg import Msg
from nats.errors import Error

from treecast.catalog.delivery_ids import delivery_id
from treecast.errors import TreecastError
from treecast.index import Index
from treecast.serve.fleet.backbone import SEQUENCE, Backbone, Outgoing, end_tasks, number_in
from treecast.serve.fleet.catalog import Catalog
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.matches import Matches
from treecast.serve.fleet.parts import Parts
from treecast.serve.fleet.puller import ConsumerGoneError, Puller
from treecast.serve.fleet.records import (
    CATALOG,
    DOCUMENTS,
    NANOSECONDS,
    DeliveryRecord,
    DocumentRecord,
    decode,
    encode,
)

CONSUMER = "workers"
Deliveries = list[tuple[str, DeliveryRecord]]
"""The id of each delivery, and the delivery."""


class Matcher:
    """Takes documents until it is closed."""

    def __init__(
        self, backbone: Backbone, catalog: Catalog, parts: Parts, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self.documents = self.deliveries = self.copies = self.refused = self.returned = 0
        """What was done: documents matched, deliveries stored and found to be stored before, documents or deliveries
        refused, documents given back."""
        self._backbone = backbone
        self._settings = backbone.settings
        self._catalog = catalog
        self._parts = parts
        self._log = log
        self._puller: Puller | None = None
        self._taking = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Raises BackboneError."""
        await self._join()
        self._tasks = [asyncio.create_task(self._run()) for _ in range(self._settings.lanes)]
        self._tasks.append(asyncio.create_task(self._sweep()))

    async def close(self) -> None:
        await end_tasks(self._tasks)
        if self._puller is not None:
            await self._puller.close()

    async def _join(self) -> None:
        """Become one of those who share the documents."""
        stream = self._backbone.names.stream(DOCUMENTS)
        config = {
            "durable_name": CONSUMER,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": self._settings.document_ack_ms * NANOSECONDS,
            "max_ack_pending": self._settings.documents_taken_max,
            "max_deliver": -1,
        }
        body = {"stream_name": stream, "config": config}
        answer = await self._backbone.ask(f"CONSUMER.DURABLE.CREATE.{stream}.{CONSUMER}", body, retries=True)
        if "error" in answer:
            raise BackboneError(f"documents cannot be taken: {answer['error'].get('description', '')}")
        if self._puller is None:
            self._puller = Puller(self._backbone, DOCUMENTS, CONSUMER, self._settings.documents_per_batch_max)
            await self._puller.open()

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except ConsumerGoneError:
                await asyncio.sleep(self._settings.retry_ms / 1000)
                with suppress(BackboneError):
                    await self._join()
            except (BackboneError, Error, OSError) as error:  # what was taken comes again
                self._log.warning("documents were not matched, and come again", error=str(error))
                await asyncio.sleep(self._settings.retry_ms / 1000)
            except Exception as error:
                self._log.error("matching failed", error=repr(error), exc_info=True)
                await asyncio.sleep(self._settings.request_ms / 1000)

    async def _step(self) -> None:
        assert self._puller is not None
        async with self._taking:
            messages = await self._puller.take()
        # Asked after these documents were taken, so it includes all that was acknowledged before they were published.
        version = await self._backbone.last_sequence(CATALOG)
        if not await self._catalog.reach(version, self._settings.catalog_ms_max):
            self.returned += len(messages)
            # The worker waits, and not NATS: of what it is to bring later, nats-server 2.9 brings some twice, some far
            # too late. Whoever ends meanwhile gives back at once what it has taken.
            try:
                await asyncio.sleep(self._settings.retry_ms / 1000)
            finally:
                await self._answer(messages, b"-NAK")
            return
        waiting: list[Msg] = []
        documents: list[tuple[int, DocumentRecord]] = []
        size = 0
        for message in messages:
            waiting.append(message)
            document = await self._read(message)
            if document is not None:
                documents.append(document)
                size += len(document[1].body)
            if size >= self._settings.batch_bytes_max:
                await self._match(waiting, documents)
                waiting, documents, size = [], [], 0
        if waiting:
            await self._match(waiting, documents)

    async def _match(self, messages: list[Msg], documents: list[tuple[int, DocumentRecord]]) -> None:
        deliveries, refused_count = await asyncio.to_thread(self._render, self._catalog.index, documents)
        self.refused += refused_count
        outgoing = [await self._outgoing(id, delivery) for id, delivery in deliveries]
        receipts = await self._backbone.store(outgoing)
        copies = sum(one.is_copy for one in receipts)
        self.copies += copies
        self.deliveries += len(receipts) - copies
        self.documents += len(messages)
        await self._answer(messages, b"+ACK")

    async def _answer(self, messages: list[Msg], text: bytes) -> None:
        for message in messages:
            await self._backbone.client.publish(message.reply, text)

    async def _read(self, message: Msg) -> tuple[int, DocumentRecord] | None:
        """Its number and what was published; None if it is not one of ours, or gone."""
        try:
            record = decode(message.data, DocumentRecord)
            if record.parts:
                body = await self._parts.get(record.parts)
                record = DocumentRecord(record.source, record.id, record.published_ms, body)
            return number_in(message.reply, SEQUENCE), record
        except BackboneError as error:
            if error.code == "TC491" and not self._backbone.is_connected():
                raise
            self.refused += 1
            self._log.error("a document cannot be read", error=str(error))
            return None

    def _render(self, index: Index, documents: list[tuple[int, DocumentRecord]]) -> tuple[Deliveries, int]:
        """In a thread: what is delivered, and how much was refused."""
        deliveries: Deliveries = []
        refused_count = start = 0
        while start < len(documents):
            part = index.render_part([record.body for _, record in documents[start:]], report=True)
            rejected: dict[int, Any] = dict(part.rejected)
            matches = Matches(part.deliveries)
            for at in range(matches.documents):
                if at in rejected:
                    refused_count += 1
                    continue
                refused_count += self._deliver(*documents[start + at], matches, at, deliveries)
            start += matches.documents
        return deliveries, refused_count

    def _deliver(self, number: int, record: DocumentRecord, matches: Matches, at: int, deliveries: Deliveries) -> int:
        ids, choices, refusals = matches.of(at)
        contents = {choice: matches.payload(choice) for choice in dict.fromkeys(choices)}
        identity = self._backbone.identity
        for id, choice in zip(ids, choices, strict=True):
            delivery = DeliveryRecord(number, record.published_ms, id, contents[choice])
            deliveries.append((delivery_id(identity, number, id), delivery))
        for id, code in refusals:
            self._log.warning("a delivery is refused", subscription=id, document=number, code=code)
        return len(refusals)

    async def _outgoing(self, id: str, delivery: DeliveryRecord) -> Outgoing:
        if self._parts.is_large(delivery.payload):
            key = await self._parts.put(delivery.payload)
            delivery = DeliveryRecord(delivery.document, delivery.published_ms, delivery.subscription, b"", key)
        return Outgoing(self._backbone.names.delivery(delivery.subscription), encode(delivery), id)

    # --- dropping what is done ----------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._settings.sweep_ms / 1000)
            try:
                await self.drop_matched()
            except TreecastError as error:
                self._log.debug("documents were not dropped", error=str(error))

    async def drop_matched(self) -> None:
        """Drop the oldest documents that are matched, if more are kept than should be. All workers do, and may."""
        state = (await self._backbone.stream_info(DOCUMENTS))["state"]
        spare = int(state["bytes"]) - self._settings.documents_keep_bytes
        if spare <= 0:
            return
        stream = self._backbone.names.stream(DOCUMENTS)
        info = await self._backbone.ask(f"CONSUMER.INFO.{stream}.{CONSUMER}")
        matched_to = int(info.get("ack_floor", {}).get("stream_seq", 0))
        # By the average size: it need not be exact.
        count = -(-spare * int(state["messages"]) // max(int(state["bytes"]), 1))
        last = min(int(state["first_seq"]) + count - 1, matched_to)
        if last >= int(state["first_seq"]):
            await self._backbone.ask(f"STREAM.PURGE.{stream}", {"seq": last + 1})
