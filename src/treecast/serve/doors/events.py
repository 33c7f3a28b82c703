"""Event streams: what subscriptions match, as server-sent events, to any number of readers.

Theory of operation. A stream has a *position*: the last event that it has sent, as (document, subscription). Everything
it sends is in that order, so the id of an event says all about where to go on: `Last-Event-ID` is a position. A stream
that is *behind* reads stored documents, step by step, up to the last one that is durable, and then takes what is
published, which all streams get at once from one `Feed`. A stream whose reader is slow forgets what waits for it, and
is behind again: it costs a bounded amount of memory. When the broker is rebuilt, all streams are behind, and stay so
until it is known what is durable (`LocalClient.is_current`).

Without a position, a stream begins with what its subscriptions have not been delivered yet, and says at once where that
is. What streams have sent is settled with the broker (`Advance`), so that it is not waiting any more. It can still be
read, by its position, as long as documents are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote

from treecast.errors import TreecastError
from treecast.overlay.broker import Broker
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import Advance
from treecast.overlay.onyx.migration import Left
from treecast.serve.doors.envelopes import encode, envelope
from treecast.serve.doors.event_text import HEARTBEAT, gap_event
from treecast.serve.doors.local import LocalClient, not_ready
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings

STORE_CHARS = 8
"""Of the id of the broker's data, in ids of events: documents of other data have the same numbers."""
Place = tuple[int, str]
"""A document and a subscription. `(n, "")` is before all events of document n."""


def event_id(store: str, place: Place) -> str:
    """
    >>> event_id("5f1c0a2bcc", (17, "sport news"))
    '5f1c0a2b.17.sport%20news'
    """
    return f"{store[:STORE_CHARS]}.{place[0]}.{quote(place[1], safe='')}"


def parse_event_id(text: str) -> tuple[str, Place]:
    """The beginning of the store's id, and the place. Raises DoorError TC434.

    >>> parse_event_id("5f1c0a2b.17.sport%20news")
    ('5f1c0a2b', (17, 'sport news'))
    """
    store, _, rest = text.partition(".")
    number, _, quoted = rest.partition(".")
    try:
        subscription = unquote(quoted, errors="strict")
        if store and number.isascii() and number.isdecimal() and len(number) < 19:
            return store, (int(number), subscription)
    except UnicodeDecodeError:
        pass
    raise DoorError(f"{text[:100]!r} is not the id of an event", code="TC434", hint="send the last one that came")


class Connection(Protocol):
    """To a reader; `GuardedProtocol` is one."""

    def write_now(self, data: bytes) -> bool:
        """Write a chunk of an answer, if it has chunks and nothing waits to be written before."""


class Stream:
    """One reader. `subscriptions` is what it reads, `place` how far it got."""

    __slots__ = (
        "_buffer",
        "_buffer_bytes",
        "connection",
        "first",
        "is_behind",
        "is_closed",
        "is_settled",
        "place",
        "starts",
        "subscriptions",
        "wake",
    )

    def __init__(self, subscriptions: Sequence[str], place: Place, starts: dict[str, Progress], first: bytes) -> None:
        self.subscriptions = frozenset(subscriptions)
        self.place = place
        self.starts = starts
        """Where subscriptions stood when the stream began: what they had been delivered before is left out."""
        self.first = first
        """What is sent at the beginning."""
        self.is_behind = True
        self.is_closed = False
        self.is_settled = False
        """Everything was sent, and nothing else is being written."""
        self.connection: Connection | None = None
        self.wake = asyncio.Event()
        self._buffer: deque[tuple[Place, bytes]] = deque()
        self._buffer_bytes = 0

    def write_now(self, place: Place, chunk: bytes) -> bool:
        """Send an event without waking the task of the stream. False if that cannot be done now.

        PERF: bench/http_streams.py; to wake 10,000 tasks costs several times as much.
        """
        if not self.is_settled or self.is_behind or self.wake.is_set() or not self.wants(place):
            return False
        if self.connection is None or not self.connection.write_now(chunk):
            return False
        self.place = place
        return True

    def push(self, place: Place, event: bytes, bytes_max: int) -> None:
        """Something was published."""
        if self.is_behind or not self.wants(place):
            return
        if self._buffer_bytes + len(event) > bytes_max and self._buffer:
            self.fall_behind()
            return
        self._buffer.append((place, event))
        self._buffer_bytes += len(event)
        self.wake.set()

    def wants(self, place: Place) -> bool:
        if place <= self.place:
            return False
        start = self.starts.get(place[1])
        return start is None or not start.is_done(place[0])

    def is_waiting(self) -> bool:
        """There is something to send, or may be."""
        return self.is_behind or bool(self._buffer)

    def fall_behind(self) -> None:
        """Forget what waits: it is on disk."""
        self._buffer.clear()
        self._buffer_bytes = 0
        self.is_behind = True
        self.wake.set()

    def take(self) -> list[tuple[Place, bytes]]:
        events = list(self._buffer)
        self._buffer.clear()
        self._buffer_bytes = 0
        self.wake.clear()
        return events

    def close(self) -> None:
        self.is_closed = True
        self.wake.set()


class Feed:
    """All event streams of a door, and what was published for them."""

    def __init__(self, client: LocalClient, settings: DoorSettings) -> None:
        self._client = client
        self._settings = settings
        self._streams: dict[Stream, None] = {}
        self._by_subscription: dict[str, dict[Stream, None]] = {}
        self._store = ""
        self._last_sent: dict[str, int] = {}  # by subscription: the last document that was sent, and not yet settled
        self.is_reserved: Callable[[str], bool] = lambda subscription: False
        """Somebody else settles the deliveries of this subscription."""
        self._settling: asyncio.Future[Any] | None = None
        self._settled_ms = 0
        self.delivered = 0
        """Events that were sent, to all streams."""
        client.on_opened.append(self._on_opened)
        client.on_current.append(self._all_behind)
        client.on_announced.append(self._on_announced)
        client.on_tick.append(self._tick)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def last_document(self) -> int:
        """The last one that is durable."""
        return self._client.last_document

    def readers(self, subscription: str) -> int:
        """How many streams read this one."""
        return len(self._by_subscription.get(subscription, ()))

    def sending_from(self) -> int:
        """The first document that some stream still has to send."""
        return min((stream.place[0] for stream in self._streams if stream.is_waiting()), default=self.last_document + 1)

    # --- what the broker says -----------------------------------------------------------------------------------------

    def _on_opened(self, broker: Broker) -> None:
        self._store = broker.store_id
        self._all_behind()

    def _all_behind(self) -> None:
        for stream in self._streams:
            stream.fall_behind()

    def _on_announced(self, event: Any) -> None:
        if isinstance(event, Left):
            # Its streams end here; they go on where it is now.
            for stream in list(self._by_subscription.get(event.id, ())):
                stream.close()
        if not isinstance(event, Published):
            return
        if not self._by_subscription:
            return
        pairs = [
            pair for pair in zip(event.subscriptions, event.payloads, strict=True) if pair[0] in self._by_subscription
        ]
        for subscription, payload in sorted(pairs):
            place = (event.document, subscription)
            text = self._event(place, event.published_ms, payload, event.origin)
            chunk = b"%x\r\n%s\r\n" % (len(text), text)
            write_count = 0
            for stream in self._by_subscription[subscription]:
                if stream.write_now(place, chunk):
                    write_count += 1
                else:
                    stream.push(place, text, self._settings.stream_bytes_max)
            if write_count:
                self.delivered += write_count
                self._last_sent[subscription] = max(place[0], self._last_sent.get(subscription, 0))

    def _event(self, place: Place, published_ms: int, payload: bytes, origin: tuple[str, int]) -> bytes:
        data = encode(envelope(self._store, place[0], published_ms, place[1], payload, origin=origin))
        return b"id: %s\nevent: delivery\ndata: %s\n\n" % (event_id(self._store, place).encode(), data)

    # --- streams ------------------------------------------------------------------------------------------------------

    def open(self, subscriptions: Sequence[str], last_event_id: str) -> Stream:
        """Begin after this event, or with what is not delivered yet. Raises DoorError."""
        broker = self._client.expect_broker()
        if not self._client.is_current():
            raise not_ready()
        settings = self._settings
        if not 1 <= len(subscriptions) <= settings.subscriptions_per_stream_max:
            hint = f"add ?subscription=… 1 to {settings.subscriptions_per_stream_max} times"
            raise DoorError(f"{len(subscriptions)} subscriptions for one stream", code="TC434", hint=hint)
        for id in subscriptions:
            if broker.tail.subscription(id) is None:
                raise DoorError(f"no subscription has the id {id!r}", code="TC412")
        if len(self._streams) >= settings.streams_max:
            raise DoorError("there are too many event streams", code="TC417")
        stream = self._begin(broker, subscriptions, last_event_id)
        self._streams[stream] = None
        for id in stream.subscriptions:
            self._by_subscription.setdefault(id, {})[stream] = None
        return stream

    def _begin(self, broker: Broker, subscriptions: Sequence[str], last_event_id: str) -> Stream:
        gap = b""
        if last_event_id:
            store, place = parse_event_id(last_event_id)
            first = broker.tail.first_document()
            if store == self._store[:STORE_CHARS] and place[0] <= self.last_document + 1:
                if place[0] + bool(place[1]) < first:
                    gap = gap_event(place[0], first - 1)
                return Stream(subscriptions, place, {}, gap)
            gap = gap_event(0, 0)
        starts = {id: broker.tail.progress(id) for id in subscriptions}
        # A subscription that waits for nothing is beyond documents that are not durable. A crash may take those back,
        # and then others get their numbers.
        starts = {id: start._replace(floor=min(start.floor, self.last_document)) for id, start in starts.items()}
        place = (min(start.floor for start in starts.values()) + 1, "")
        # An event without data is none, but its id is remembered: who comes back has a position from the start.
        return Stream(subscriptions, place, starts, gap + self._mark(place))

    def _mark(self, place: Place) -> bytes:
        return b"id: %s\n\n" % event_id(self._store, place).encode()

    def close(self, stream: Stream) -> None:
        stream.close()
        self._streams.pop(stream, None)
        for id in stream.subscriptions:
            streams = self._by_subscription.get(id, {})
            streams.pop(stream, None)
            if not streams:
                self._by_subscription.pop(id, None)

    def close_all(self) -> None:
        for stream in list(self._streams):
            stream.close()

    async def run(self, stream: Stream, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write events until the stream is closed."""
        await write(stream.first or HEARTBEAT)
        while not stream.is_closed:
            if stream.is_behind and self._client.broker is not None and self._client.is_current():
                events, place = self._read(self._client.broker, stream)
            else:
                await self._wait(stream)
                events = stream.take()
                place = events[-1][0] if events else stream.place
                if not events and not stream.is_behind and not stream.is_closed:
                    place = (self.last_document + 1, "")  # there was nothing up to here
                    await write(self._mark(place))
            if events:
                await write(b"".join(event for _, event in events))
                self.delivered += len(events)
                for (document, subscription), _ in events:
                    if self.is_reserved(subscription):
                        continue
                    self._last_sent[subscription] = max(document, self._last_sent.get(subscription, 0))
            elif stream.is_behind:
                await asyncio.sleep(0)
            stream.place = max(stream.place, place)

    def _read(self, broker: Broker, stream: Stream) -> tuple[list[tuple[Place, bytes]], Place]:
        """One step of what is stored; at its end the stream is behind no more."""
        stream.wake.clear()
        after = stream.place[0] - 1
        last = self.last_document
        if after >= last:
            stream.is_behind = False
            return [], stream.place
        items, read_to = broker.tail.read(stream.subscriptions, after, last, self._settings.stream_bytes_max)
        events = []
        for item in sorted(items, key=lambda item: (item.document, item.subscription)):
            place = (item.document, item.subscription)
            if stream.wants(place):
                events.append((place, self._event(place, item.published_ms, item.payload, item.origin)))
        if read_to >= last:
            stream.is_behind = False
        return events, (read_to + 1, "")

    async def _wait(self, stream: Stream) -> None:
        """For something to send, the end of the stream, or the time for a heartbeat."""
        if stream.wake.is_set():
            return
        stream.is_settled = True
        try:
            async with asyncio.timeout(self._settings.heartbeat_ms / 1000):
                await stream.wake.wait()
        except TimeoutError:
            pass
        finally:
            stream.is_settled = False

    # --- settling -----------------------------------------------------------------------------------------------------

    def replaying(self, id: str) -> None:
        """What was sent of this subscription so far is to be delivered again: the broker need not be told of it."""
        self._last_sent.pop(id, None)

    def _tick(self, now_ms: int) -> None:
        """Tell the broker what was sent, now and then. If that is lost with a crash, it is delivered again."""
        is_early = 0 <= now_ms - self._settled_ms < self._settings.advance_ms
        if not self._last_sent or is_early or (self._settling is not None and not self._settling.done()):
            return
        self._settled_ms = now_ms
        last_sent, self._last_sent = self._last_sent, {}
        try:
            self._settling = self._client.send(Advance(list(last_sent.items())))
        except TreecastError:
            for id, document in last_sent.items():
                self._last_sent.setdefault(id, document)
