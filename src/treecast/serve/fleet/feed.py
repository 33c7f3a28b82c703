"""Event streams of a fleet: what subscriptions get, as server-sent events, from any worker.

Theory of operation. Deliveries have places in one stream of NATS, and the id of an event is that place: so a reader may
come back to any worker with its `Last-Event-ID`. A stream that is *behind* asks for what is stored, subscription by
subscription, merged by place. NATS announces every delivery that it has stored, with its place, and with the place of
the one before it for the same subscription; a worker listens to the announcements of those subscriptions that its
streams read. There is no gap between the two: announcements are collected first, then the last place that is stored is
asked for, everything up to it is read, and then the collected announcements beyond it follow. An announcement that does
not follow the last one, a new connection and a reader that is slow make a stream behind again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from treecast.errors import TreecastError
from treecast.serve.doors.envelopes import encode as encode_envelope
from treecast.serve.doors.envelopes import envelope
from treecast.serve.doors.event_text import HEARTBEAT, gap_event
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.backbone import STATUS, Backbone
from treecast.serve.fleet.catalog import Catalog
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.parts import Parts
from treecast.serve.fleet.pulls import consumer_of
from treecast.serve.fleet.records import DELIVERIES, DeliveryRecord, decode

IDENTITY_CHARS = 8
Item = tuple[int, DeliveryRecord]
"""A place, and the delivery there."""


def event_id(identity: str, place: int) -> str:
    """
    >>> event_id("5f1c0a2bcc", 17)
    '5f1c0a2b.17'
    """
    return f"{identity[:IDENTITY_CHARS]}.{place}"


def parse_event_id(text: str) -> tuple[str, int]:
    """The beginning of the fleet's identity, and the place. Raises DoorError TC434.

    >>> parse_event_id("5f1c0a2b.17")
    ('5f1c0a2b', 17)
    """
    identity, _, number = text.partition(".")
    if not (identity and number.isascii() and number.isdecimal() and len(number) < 19):
        raise DoorError(f"{text[:100]!r} is not the id of an event", code="TC434", hint="send the last one that came")
    return identity, int(number)


class FleetStream:
    """One reader. Everything up to `floor` was sent, and for each subscription everything up to `sent`."""

    def __init__(self, subscriptions: Sequence[str], floor: int, last_sent: dict[str, int], first: bytes) -> None:
        self.subscriptions = tuple(subscriptions)
        self.floor = floor
        self.sent = last_sent
        """At the beginning: what those who pull had acknowledged, which is left out."""
        self.first = first
        self.is_behind = True
        self.is_closed = False
        self.wake = asyncio.Event()
        self._buffer: deque[Item] = deque()
        self._buffer_bytes = 0

    def push(self, item: Item, bytes_max: int) -> None:
        """Something was stored."""
        if self.is_behind:
            return  # something before it was forgotten, and is sent first
        size = len(item[1].payload) + 500
        if self._buffer_bytes + size > bytes_max and self._buffer:
            self.fall_behind()
            return
        self._buffer.append(item)
        self._buffer_bytes += size
        self.wake.set()

    def fall_behind(self) -> None:
        """Forget what waits: it is stored."""
        self.take()
        self.is_behind = True
        self.wake.set()

    def take(self) -> list[Item]:
        """What waits, in order. Subscriptions are announced one beside the other, so it may have come in another."""
        items = sorted(self._buffer, key=lambda item: item[0])
        self._buffer.clear()
        self._buffer_bytes = 0
        self.wake.clear()
        return items

    def sent_to(self, subscription: str) -> int:
        return max(self.floor, self.sent.get(subscription, 0))

    def close(self) -> None:
        self.is_closed = True
        self.wake.set()


class _Channel:
    """The announcements of one subscription, for all streams that read it."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.streams: dict[FleetStream, None] = {}
        self.last = 0
        """The place of the last announcement; 0 if none came since the connection was made."""


class FleetFeed:
    """All event streams of a worker."""

    def __init__(self, backbone: Backbone, catalog: Catalog, parts: Parts, settings: DoorSettings) -> None:
        self._backbone = backbone
        self._catalog = catalog
        self._parts = parts
        self._settings = settings
        self._streams: dict[FleetStream, None] = {}
        self._channels: dict[str, _Channel] = {}
        self._opening = asyncio.Lock()
        backbone.on_reconnected.append(self._all_behind)
        backbone.on_dropped.append(self._all_behind)

    def __len__(self) -> int:
        return len(self._streams)

    def _all_behind(self) -> None:
        for channel in self._channels.values():
            channel.last = 0
        for stream in self._streams:
            stream.fall_behind()

    # --- streams ------------------------------------------------------------------------------------------------------

    async def open(self, subscriptions: Sequence[str], last_event_id: str) -> FleetStream:
        """Begin after this event, or with what is not acknowledged by those who pull. Raises DoorError."""
        settings = self._settings
        if not 1 <= len(subscriptions) <= settings.subscriptions_per_stream_max:
            hint = f"add ?subscription=… 1 to {settings.subscriptions_per_stream_max} times"
            raise DoorError(f"{len(subscriptions)} subscriptions for one stream", code="TC434", hint=hint)
        position = parse_event_id(last_event_id) if last_event_id else None
        await self._catalog.catch_up()
        for id in subscriptions:
            self._catalog.expect(id)
        if len(self._streams) >= settings.streams_max:
            raise DoorError("there are too many event streams", code="TC417")
        stream = await self._begin(subscriptions, position)
        self._streams[stream] = None
        try:
            async with self._opening:
                for id in stream.subscriptions:
                    await self._listen(id, stream)
        except BaseException:
            await self.close(stream)
            raise
        return stream

    async def _begin(self, subscriptions: Sequence[str], position: tuple[str, int] | None) -> FleetStream:
        state = (await self._backbone.stream_info(DELIVERIES))["state"]
        gap = b""
        if position is not None:
            identity, place = position
            if identity == self._backbone.identity[:IDENTITY_CHARS] and place <= int(state["last_seq"]):
                if place + 1 < int(state["first_seq"]):
                    gap = gap_event(place + 1, int(state["first_seq"]) - 1)
                return FleetStream(subscriptions, place, {}, gap)
            gap = gap_event(0, 0)
        last_acknowledged = {}
        for id in subscriptions:
            last_acknowledged[id] = await self._acknowledged_to(id)
        place = min(last_acknowledged.values())
        # An event without data is none, but its id is remembered: who comes back has a position from the start.
        mark = b"id: %s\n\n" % event_id(self._backbone.identity, place).encode()
        return FleetStream(subscriptions, place, last_acknowledged, gap + mark)

    async def _acknowledged_to(self, id: str) -> int:
        """The place up to which those who pull have acknowledged everything; 0 if nobody pulls."""
        stream = self._backbone.names.stream(DELIVERIES)
        info = await self._backbone.ask(f"CONSUMER.INFO.{stream}.{consumer_of(id)}")
        return int(info.get("ack_floor", {}).get("stream_seq", 0))

    async def _listen(self, id: str, stream: FleetStream) -> None:
        channel = self._channels.get(id)
        if channel is None:
            limit = self._backbone.settings.live_messages_max

            async def on_message(message: Msg) -> None:
                self._on_announced(id, message)

            subject = self._backbone.names.live_delivery(id)
            listening = await self._backbone.client.subscribe(subject, cb=on_message, pending_msgs_limit=limit)
            channel = self._channels[id] = _Channel(listening)
        channel.streams[stream] = None

    async def close(self, stream: FleetStream) -> None:
        stream.close()
        self._streams.pop(stream, None)
        async with self._opening:
            for id in stream.subscriptions:
                channel = self._channels.get(id)
                if channel is None:
                    continue
                channel.streams.pop(stream, None)
                if not channel.streams:
                    del self._channels[id]
                    with suppress(Error, OSError):
                        await channel.subscription.unsubscribe()

    def close_all(self) -> None:
        for stream in list(self._streams):
            stream.close()

    # --- what is stored now -------------------------------------------------------------------------------------------

    def _on_announced(self, id: str, message: Msg) -> None:
        channel = self._channels.get(id)
        headers = message.headers or {}
        if channel is None or "Nats-Sequence" not in headers:
            return
        place = int(headers["Nats-Sequence"])
        is_next = not channel.last or int(headers.get("Nats-Last-Sequence", 0)) == channel.last
        channel.last = place
        try:
            delivery = decode(message.data, DeliveryRecord)
        except BackboneError:
            return  # a stranger writes to our streams; those who read it say so
        for stream in list(channel.streams):
            if is_next:
                stream.push((place, delivery), self._settings.stream_bytes_max)
            else:
                stream.fall_behind()

    # --- sending ------------------------------------------------------------------------------------------------------

    async def run(self, stream: FleetStream, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write events until the stream is closed."""
        await write(stream.first or HEARTBEAT)
        while not stream.is_closed:
            if stream.is_behind:
                try:
                    await self._catch_up(stream, write)
                except TreecastError:  # NATS is away: it is tried again
                    await asyncio.sleep(self._backbone.settings.retry_ms / 1000)
                continue
            if not stream.wake.is_set() and not await self._wait(stream):
                await write(HEARTBEAT)
            await asyncio.sleep(0)  # what came with it, for other subscriptions
            try:
                await self._send(stream, stream.take(), write)
            except TreecastError:
                stream.fall_behind()

    async def _wait(self, stream: FleetStream) -> bool:
        try:
            async with asyncio.timeout(self._settings.heartbeat_ms / 1000):
                await stream.wake.wait()
        except TimeoutError:
            return False
        return True

    async def _catch_up(self, stream: FleetStream, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is stored; then the stream is behind no more, unless too much was announced meanwhile."""
        stream.take()
        stream.is_behind = False  # from here on announcements are collected
        try:
            # The subscription to announcements has to be with NATS before the last place is asked for.
            await self._backbone.client.flush(timeout=max(self._backbone.settings.request_ms // 1000, 1))
            last = await self._backbone.last_sequence(DELIVERIES)
            items: list[Item] = []
            size = 0
            async for item in self._read_stored(stream, last):
                items.append(item)
                size += len(item[1].payload)
                if size > self._settings.stream_bytes_max or len(items) == 100:
                    await self._send(stream, items, write)
                    items, size = [], 0
                if stream.is_closed:
                    return
            await self._send(stream, items, write)
            stream.floor = max(stream.floor, last)
        except (TimeoutError, Error, OSError, BackboneError) as error:
            stream.is_behind = True
            raise BackboneError(f"deliveries cannot be read: {error}") from None
        except BaseException:
            stream.is_behind = True
            raise

    async def _read_stored(self, stream: FleetStream, last: int) -> AsyncIterator[Item]:
        """What is stored for a stream and was not sent, up to `last`, in order."""
        free = asyncio.Semaphore(self._backbone.settings.reads_max)

        async def next_of(id: str, after: int) -> tuple[int, str, DeliveryRecord] | None:
            async with free:
                item = await self._next(id, after)
            return None if item is None or item[0] > last else (item[0], id, item[1])

        reads = [next_of(id, stream.sent_to(id)) for id in stream.subscriptions]
        heads = [head for head in await asyncio.gather(*reads) if head is not None]
        heapq.heapify(heads)
        while heads:
            place, id, delivery = heads[0]
            follower = asyncio.create_task(next_of(id, place))
            try:
                yield place, delivery
                head = await follower
            finally:
                follower.cancel()
            if head is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, head)

    async def _next(self, id: str, after: int) -> Item | None:
        """The first delivery of a subscription after a place."""
        names = self._backbone.names
        body = msgspec.json.encode({"next_by_subj": names.delivery(id), "seq": after + 1})
        message = await self._backbone.request(f"$JS.API.DIRECT.GET.{names.stream(DELIVERIES)}", body)
        headers = message.headers or {}
        if "Nats-Sequence" in headers:
            return int(headers["Nats-Sequence"]), decode(message.data, DeliveryRecord)
        if headers.get(STATUS) == "404":
            return None
        raise BackboneError("NATS does not give what it has stored")

    async def _send(self, stream: FleetStream, items: list[Item], write: Callable[[bytes], Awaitable[None]]) -> None:
        fresh = [item for item in items if item[0] > stream.sent_to(item[1].subscription)]
        if not fresh:
            return
        await write(b"".join([await self._event(item) for item in fresh]))
        for place, delivery in fresh:
            stream.sent[delivery.subscription] = place

    async def _event(self, item: Item) -> bytes:
        place, delivery = item
        identity = self._backbone.identity
        payload = delivery.payload
        if delivery.parts:
            try:
                payload = await self._parts.get(delivery.parts)
            except BackboneError as error:
                if error.code == "TC491":
                    raise
                return gap_event(place, place)
        event_envelope = envelope(identity, delivery.document, delivery.published_ms, delivery.subscription, payload)
        return b"id: %s\nevent: delivery\ndata: %s\n\n" % (
            event_id(identity, place).encode(),
            encode_envelope(event_envelope),
        )
