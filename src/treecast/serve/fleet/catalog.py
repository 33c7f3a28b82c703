"""The subscriptions and sources of a fleet, as every worker holds them.

Theory of operation. One stream of NATS has the last state of each subscription and source; every change has a place in
it, its *version*. A worker reads the stream from its beginning when it starts, then follows it, and so holds the whole
index. A change is acknowledged when NATS has stored it.

What is promised: a document that is published after a subscription was acknowledged is matched by it, whichever workers
both went through. A worker that has taken documents asks NATS for the version that is current then, which includes all
that was acknowledged before these documents were published, and waits until its index has it.

What was removed is a message as well, without a query. These are dropped after a day; so a worker that was cut off for
long cannot know what was removed meanwhile, and reads everything again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable

import structlog
from nats.aio.msg import Msg

from treecast.durable import unused_name
from treecast.errors import TreecastError
from treecast.index import Index
from treecast.model import Subscription
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.fleet.backbone import SEQUENCE, TIME, Backbone, Outgoing, end_tasks, number_in
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.puller import ConsumerGoneError, Puller
from treecast.serve.fleet.records import (
    CATALOG,
    NANOSECONDS,
    SourceRecord,
    SubscriptionRecord,
    decode,
    encode,
)

INACTIVE_MS = 60_000
"""NATS forgets a reader that is away for so long; it then begins where it stopped."""


class Catalog:
    """`open` reads all of it, and goes on following."""

    def __init__(self, backbone: Backbone, log: structlog.typing.FilteringBoundLogger) -> None:
        self.index = Index()
        self.version = 0
        """Everything up to this place of the stream is in the index."""
        self.subscriptions: dict[str, SubscriptionRecord] = {}
        self.sources: dict[str, SourceRecord] = {}
        self._backbone = backbone
        self._settings = backbone.settings
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._change = asyncio.Condition()
        self._error_by_id: dict[str, TreecastError] = {}
        """By id: what the index does not take, though the door did."""
        self._removed_ms: dict[str, int] = {}
        """By subject: when it was removed, as read when the worker started."""

    async def open(self) -> None:
        """Raises BackboneError."""
        last = await self._backbone.last_sequence(CATALOG)
        self._task = asyncio.create_task(self._follow())
        while not await self.reach(last, self._settings.catalog_ms_max):
            self._log.info("reading subscriptions", version=self.version, last=last)
        await self._forget_removed(last)

    async def close(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])

    # --- following ----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                puller = await self._connect()
                try:
                    while True:
                        contact_ms = puller.contact_ms
                        messages = await puller.take()
                        if puller.contact_ms - contact_ms > self._settings.removed_ms // 2:
                            self._begin_anew()
                            break
                        await self._apply(messages)
                finally:
                    await puller.close()
            except (ConsumerGoneError, BackboneError):
                await asyncio.sleep(self._settings.retry_ms / 1000)

    async def _connect(self) -> Puller:
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.version + 1,
            "ack_policy": "none",
            "inactive_threshold": INACTIVE_MS * NANOSECONDS,
            "mem_storage": True,
        }
        stream = self._backbone.names.stream(CATALOG)
        answer = await self._backbone.ask(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        if "error" in answer:
            raise BackboneError(str(answer["error"].get("description", "")))
        puller = Puller(self._backbone, CATALOG, answer["name"], self._settings.catalog_batch_max)
        await puller.open()
        return puller

    def _begin_anew(self) -> None:
        self._log.warning("the backbone was away for long: all subscriptions are read again")
        self.index = Index()
        self.version = 0
        self.subscriptions.clear()
        self.sources.clear()

    async def _apply(self, messages: list[Msg]) -> None:
        changed_records: dict[str, SubscriptionRecord] = {}
        version = self.version
        for message in messages:
            place = number_in(message.reply, SEQUENCE)
            if place <= version:
                continue  # asked for twice
            version = place
            try:
                self._note(message, changed_records)
            except BackboneError as error:
                self._log.error("a subscription cannot be read", error=str(error), place=place)
        for id in changed_records:
            if id in self.index:
                self.index.remove(id)
        self._add_all(record for record in changed_records.values() if record.query)
        async with self._change:
            self.version = version
            self._change.notify_all()

    def _note(self, message: Msg, changed_records: dict[str, SubscriptionRecord]) -> None:
        if self._backbone.names.is_source(message.subject):
            source = decode(message.data, SourceRecord)
            self.sources.pop(source.id, None)
            if not source.is_removed:
                self.sources[source.id] = source
            is_removed = source.is_removed
        else:
            record = changed_records[decode(message.data, SubscriptionRecord).id] = decode(
                message.data, SubscriptionRecord
            )
            self.subscriptions.pop(record.id, None)
            self._error_by_id.pop(record.id, None)
            if record.query:
                self.subscriptions[record.id] = record
            is_removed = not record.query
        self._removed_ms.pop(message.subject, None)
        if is_removed and len(self._removed_ms) < self._settings.removed_at_once_max:
            self._removed_ms[message.subject] = number_in(message.reply, TIME) // NANOSECONDS

    def _add_all(self, records: Iterable[SubscriptionRecord]) -> None:
        subscriptions = [_subscription(record) for record in records]
        try:
            self.index.add_many(subscriptions)
        except TreecastError:  # one of them: all or none were added
            for subscription in subscriptions:
                try:
                    self.index.add_many([subscription])
                except TreecastError as error:
                    self._error_by_id[subscription.id] = error
                    self._log.error("a subscription cannot be added", id=subscription.id, error=str(error))

    async def _forget_removed(self, last: int) -> None:
        """What was removed long ago need not be known any more. The last message stays: its place is the version."""
        limit = now_ms() - self._settings.removed_ms
        stream = self._backbone.names.stream(CATALOG)
        for subject, removed_ms in self._removed_ms.items():
            if removed_ms < limit:
                await self._backbone.ask(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": last})
        self._removed_ms.clear()

    # --- versions -----------------------------------------------------------------------------------------------------

    async def reach(self, version: int, wait_ms: int) -> bool:
        """Wait until the index has this version; False if it takes too long."""
        end = steady_ms() + wait_ms
        async with self._change:
            while self.version < version:
                try:
                    async with asyncio.timeout(max(end - steady_ms(), 0) / 1000):
                        await self._change.wait()
                except TimeoutError:
                    return False
        return True

    async def catch_up(self) -> None:
        """Wait until all that was acknowledged before is in the index. Raises BackboneError."""
        version = await self._backbone.last_sequence(CATALOG)
        if not await self.reach(version, self._settings.catalog_ms_max):
            raise BackboneError("the subscriptions of this worker are not up to date", hint="try again soon")

    # --- changes ------------------------------------------------------------------------------------------------------

    async def subscribe(self, record: SubscriptionRecord) -> bool:
        """Add a subscription or change it; True if it is new. Raises TreecastError if it is refused."""
        await self.catch_up()
        is_new = record.id not in self.subscriptions
        if is_new and len(self.subscriptions) >= self._settings.subscriptions_max:
            raise DoorError(f"there are {self._settings.subscriptions_max} subscriptions already", code="TC413")
        trial = Index(limits=self.index.limits)  # raises what is wrong with it
        trial.add(record.id, record.query, namespaces=record.namespaces, ordered=record.ordered, deliver=record.deliver)  # type: ignore[arg-type]
        await self._put(self._backbone.names.subscription(record.id), encode(record))
        refusal = self._error_by_id.get(record.id)
        if refusal is not None:
            await self.unsubscribe(record.id)
            raise refusal
        return is_new

    async def unsubscribe(self, id: str) -> None:
        await self.catch_up()
        self.expect(id)
        await self._put(self._backbone.names.subscription(id), encode(SubscriptionRecord(id)))

    async def put_source(self, record: SourceRecord) -> bool:
        """Add or change a source; True if it is new."""
        await self.catch_up()
        is_new = record.id not in self.sources
        if is_new and len(self.sources) >= self._settings.sources_max:
            raise DoorError(f"there are {self._settings.sources_max} sources already", code="TC413")
        await self._put(self._backbone.names.source(record.id), encode(record))
        return is_new

    async def remove_source(self, id: str) -> None:
        await self.catch_up()
        self.expect_source(id)
        await self._put(self._backbone.names.source(id), encode(SourceRecord(id, is_removed=True)))

    async def _put(self, subject: str, data: bytes) -> None:
        # Each change is one of its own, also if it says what an earlier one said: so it has its own id.
        (receipt,) = await self._backbone.store([Outgoing(subject, data, unused_name())])
        if not await self.reach(receipt.sequence, self._settings.catalog_ms_max):
            raise BackboneError("the change is stored, but not known here yet", hint="ask again")

    # --- looking ------------------------------------------------------------------------------------------------------

    def expect(self, id: str) -> SubscriptionRecord:
        record = self.subscriptions.get(id)
        if record is None:
            raise DoorError(f"no subscription has the id {id!r}", code="TC412")
        return record

    def expect_source(self, id: str) -> SourceRecord:
        record = self.sources.get(id)
        if record is None:
            raise DoorError(f"no source is called {id!r}", code="TC410", hint="register it first")
        return record

    def subscriptions_after(
        self, after: str, count: int, is_visible: Callable[[str], bool]
    ) -> list[SubscriptionRecord]:
        """By their ids, from the next one on."""
        ids = heapq.nsmallest(count, (id for id in self.subscriptions if id > after and is_visible(id)))
        return [self.subscriptions[id] for id in ids]


def _subscription(record: SubscriptionRecord) -> Subscription:
    return Subscription(record.id, record.query, record.namespaces, record.ordered, record.deliver)  # type: ignore[arg-type]
