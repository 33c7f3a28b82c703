"""Deliveries on request, in a fleet: pull some at one worker, acknowledge them by their ids at any.

Each subscription that is pulled from has a durable consumer of NATS, which counts attempts and times. A worker
remembers what was pulled from it, since NATS needs to know where an acknowledgement belongs. If it is given ids that it
does not hold, it asks the other workers to settle them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error

from treecast.names import subject_token
from treecast.serve.connection import steady_ms
from treecast.serve.doors.envelopes import Envelope, envelope
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.backbone import DELIVERED, STATUS, Backbone, number_in
from treecast.serve.fleet.catalog import Catalog
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.parts import Parts
from treecast.serve.fleet.records import DELIVERIES, NANOSECONDS, DeliveryRecord, SubscriptionRecord, decode

GRACE_MS = 1_000
"""NATS has so long to say that there is nothing, or no more."""
RETRY_MS, RETRY_MS_MAX = 1_000, 60_000
"""A delivery that failed is tried again after so long, then after twice as long, and so on; at the latest when the time
for its acknowledgement is over, since NATS brings it again then."""
FAILED_MAX = 10_000
"""Deliveries that failed and wait for that here. Of others NATS alone keeps the time."""


def consumer_of(subscription: str) -> str:
    return f"pull-{subject_token(subscription)}"


class Settle(msgspec.Struct, frozen=True, array_like=True):
    """From worker to worker: settle those of these deliveries that you hold. The answer is a list of them."""

    subscription: str
    deliveries: list[str]
    is_failed: bool


class _HeldDelivery(msgspec.Struct, frozen=True):
    """Where to acknowledge a delivery, how often it was tried, and until when it may be acknowledged."""

    reply: str
    attempt: int
    end_ms: int


class FleetPulls:
    """What was pulled from this worker."""

    def __init__(self, backbone: Backbone, catalog: Catalog, parts: Parts, settings: DoorSettings) -> None:
        self._backbone = backbone
        self._catalog = catalog
        self._parts = parts
        self._settings = settings
        self._held_deliveries: dict[str, dict[str, _HeldDelivery]] = {}
        self._record_at_change: dict[str, SubscriptionRecord] = {}
        """By subscription: as it was when its consumer was made or changed."""
        self._waiting = 0
        self._failed: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self._backbone.client.subscribe(self._backbone.names.settle, cb=self._on_settle_request)

    # --- pulling ------------------------------------------------------------------------------------------------------

    async def pull(self, subscription: str, count_max: int, wait_ms: int) -> list[Envelope]:
        """Raises DoorError if there is no such subscription, or too much is held already."""
        await self._catalog.catch_up()
        record = self._catalog.expect(subscription)
        self._forget_late()
        held_deliveries = self._held_deliveries.get(subscription, {})
        room = self._settings.pull_deliveries_max - len(held_deliveries)
        if room < 1:
            hint = "acknowledge some first"
            raise DoorError(f"{len(held_deliveries)} deliveries are not acknowledged", code="TC436", hint=hint)
        if len(self._held_deliveries) >= self._settings.pulls_max or self._waiting >= self._settings.pulls_max:
            raise DoorError("too many subscriptions are pulled from", code="TC417")
        self._waiting += 1
        try:
            await self._prepare(subscription, record)
            messages = await self._fetch(subscription, min(count_max, room), wait_ms)
        finally:
            self._waiting -= 1
        end_ms = steady_ms() + record.options.acknowledge_ms
        return [await self._hold(message, end_ms) for message in messages]

    async def _prepare(self, subscription: str, record: SubscriptionRecord) -> None:
        """Make the consumer, or change it."""
        if self._record_at_change.get(subscription) == record:
            return
        stream, name = self._backbone.names.stream(DELIVERIES), consumer_of(subscription)
        config = {
            "durable_name": name,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": max(record.options.acknowledge_ms, 1) * NANOSECONDS,
            "max_deliver": max(record.options.attempts_max, 1),
            "max_ack_pending": self._settings.pull_deliveries_max,
            "filter_subject": self._backbone.names.delivery(subscription),
        }
        body = {"stream_name": stream, "config": config}
        answer = await self._backbone.ask(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)
        if "error" in answer:
            raise BackboneError(f"nothing can be pulled: {answer['error'].get('description', '')}")
        if len(self._record_at_change) >= self._settings.pulls_max:
            self._record_at_change.clear()  # they are made again, which changes nothing
        self._record_at_change[subscription] = record

    async def _fetch(self, subscription: str, count: int, wait_ms: int) -> list[Msg]:
        """What is there at once; if that is nothing, wait for one, and take what came with it."""
        messages = await self._request(subscription, {"batch": count, "no_wait": True})
        if not messages and wait_ms:
            body = {"batch": 1, "expires": wait_ms * NANOSECONDS}
            messages = await self._request(subscription, body, wait_ms)
            if messages and count > 1:
                messages += await self._request(subscription, {"batch": count - 1, "no_wait": True})
        return messages

    async def _request(self, subscription: str, body: Mapping[str, int], wait_ms: int = 0) -> list[Msg]:
        """One request, until NATS says that there is no more."""
        client = self._backbone.client
        queue: asyncio.Queue[Msg] = asyncio.Queue()
        inbox = client.new_inbox()

        async def take(message: Msg) -> None:
            queue.put_nowait(message)

        messages: list[Msg] = []
        try:
            listening = await client.subscribe(inbox, cb=take)
            try:
                stream = self._backbone.names.stream(DELIVERIES)
                subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer_of(subscription)}"
                await client.publish(subject, msgspec.json.encode(body), inbox)
                async with asyncio.timeout((wait_ms + GRACE_MS) / 1000):
                    while len(messages) < body["batch"]:
                        message = await queue.get()
                        if message.headers and STATUS in message.headers and not message.reply:
                            if message.headers[STATUS] == "503":
                                self._record_at_change.pop(subscription, None)
                                raise BackboneError("NATS is not ready", hint="try again soon")
                            break
                        messages.append(message)
            finally:
                await listening.unsubscribe()
        except TimeoutError:  # NATS does not always say that there is no more
            if not client.is_connected:
                raise BackboneError("NATS is away", hint="try again soon") from None
        except (Error, OSError) as error:
            if not messages:
                raise BackboneError(f"nothing can be pulled: {error or type(error).__name__}") from None
        return messages

    async def _hold(self, message: Msg, end_ms: int) -> Envelope:
        delivery = decode(message.data, DeliveryRecord)
        payload = await self._parts.get(delivery.parts) if delivery.parts else delivery.payload
        attempt = number_in(message.reply, DELIVERED)
        held_envelope = envelope(
            self._backbone.identity, delivery.document, delivery.published_ms, delivery.subscription, payload, attempt
        )
        self._held_deliveries.setdefault(delivery.subscription, {})[held_envelope.delivery] = _HeldDelivery(
            message.reply, attempt, end_ms
        )
        return held_envelope

    def _forget_late(self) -> None:
        """What is not acknowledged in time comes again, NATS sees to that."""
        now = steady_ms()
        for subscription, held_deliveries in list(self._held_deliveries.items()):
            for id in [id for id, one in held_deliveries.items() if one.end_ms < now]:
                del held_deliveries[id]
            if not held_deliveries:
                del self._held_deliveries[subscription]

    # --- settling -----------------------------------------------------------------------------------------------------

    async def settle(self, subscription: str, ids: Sequence[str], is_failed: bool) -> list[str]:
        """Returns the ids that no worker holds: they were settled before, or come again."""
        await self._catalog.catch_up()
        self._catalog.expect(subscription)
        settled_ids = await self._settle_own(subscription, ids, is_failed)
        missing = [id for id in ids if id not in settled_ids]
        if missing:
            settled_ids |= await self._ask_others(Settle(subscription, missing, is_failed))
        return [id for id in missing if id not in settled_ids]

    async def _settle_own(self, subscription: str, ids: Sequence[str], is_failed: bool) -> set[str]:
        held_deliveries = self._held_deliveries.get(subscription, {})
        own = {id: held_deliveries.pop(id) for id in dict.fromkeys(ids) if id in held_deliveries}

        async def settle(one: _HeldDelivery) -> bool:
            if is_failed:
                self._fail_later(one)
                return True
            try:
                await self._backbone.request(one.reply, b"+ACK")
            except BackboneError:
                return False
            return True

        outcomes = await asyncio.gather(*(settle(one) for one in own.values()))
        return {id for id, is_settled in zip(own, outcomes, strict=True) if is_settled}

    def _fail_later(self, one: _HeldDelivery) -> None:
        """NATS is told when the delivery may come again. It could wait itself, but of two that are to come at the same
        time nats-server 2.9 then often brings one twice, and the other when its acknowledgement is overdue."""
        delay_ms = min(RETRY_MS * 2 ** (one.attempt - 1), RETRY_MS_MAX) if one.attempt < 32 else RETRY_MS_MAX
        if steady_ms() + delay_ms >= one.end_ms or len(self._failed) >= FAILED_MAX:
            return
        task = asyncio.create_task(self._fail_after(one.reply, delay_ms))
        self._failed.add(task)
        task.add_done_callback(self._failed.discard)

    async def _fail_after(self, reply: str, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        with suppress(BackboneError):  # then it comes when its acknowledgement is overdue
            await self._backbone.request(reply, b"-NAK")

    async def _ask_others(self, question: Settle) -> set[str]:
        """What other workers have settled, of those that hold it."""
        client = self._backbone.client
        settled_ids: set[str] = set()
        is_complete = asyncio.Event()

        async def take(message: Msg) -> None:
            settled_ids.update(msgspec.msgpack.decode(message.data, type=list[str]))
            if settled_ids.issuperset(question.deliveries):
                is_complete.set()

        inbox = client.new_inbox()
        try:
            listening = await client.subscribe(inbox, cb=take)
            try:
                await client.publish(self._backbone.names.settle, msgspec.msgpack.encode(question), inbox)
                async with asyncio.timeout(self._backbone.settings.settle_ms / 1000):
                    await is_complete.wait()
            finally:
                await listening.unsubscribe()
        except (TimeoutError, Error, OSError):
            pass
        return settled_ids

    async def _on_settle_request(self, message: Msg) -> None:
        try:
            question = msgspec.msgpack.decode(message.data, type=Settle)
        except (msgspec.MsgspecError, ValueError):  # ValueError: a text that is no UTF-8
            return
        settled_ids = await self._settle_own(question.subscription, question.deliveries, question.is_failed)
        if settled_ids and message.reply:
            await self._backbone.client.publish(message.reply, msgspec.msgpack.encode(sorted(settled_ids)))

    async def remove(self, subscription: str) -> None:
        """The subscription is gone: so is what waits for it."""
        self._held_deliveries.pop(subscription, None)
        self._record_at_change.pop(subscription, None)
        names = self._backbone.names
        stream = names.stream(DELIVERIES)
        await self._backbone.ask(f"CONSUMER.DELETE.{stream}.{consumer_of(subscription)}")
        await self._backbone.ask(f"STREAM.PURGE.{stream}", {"filter": names.delivery(subscription)})
