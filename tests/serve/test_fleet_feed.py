"""Event streams of a worker, without NATS: what is announced while a stream is behind, too much of it, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest

from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.feed import FleetFeed, FleetStream, _Channel
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.records import DeliveryRecord, encode
from treecast.serve.fleet.settings import FleetSettings

pytestmark = pytest.mark.house

Write = Callable[[bytes], Awaitable[None]]


def item(place: int, size: int = 10) -> tuple[int, DeliveryRecord]:
    return place, DeliveryRecord(place, 1, "a", b"x" * size)


def stream_of(is_behind: bool) -> FleetStream:
    stream = FleetStream(["a"], 0, {}, b"")
    stream.is_behind = is_behind
    return stream


def feed_of(kind: type[FleetFeed], **settings: Any) -> FleetFeed:
    backbone = Mock(on_reconnected=[], on_dropped=[], identity="0123456789abcdef", settings=FleetSettings(retry_ms=1))
    return kind(backbone, Mock(), Mock(), DoorSettings(**settings))


def test_what_is_announced_to_a_stream_that_is_behind_is_read_later() -> None:
    """Were it kept, it would be sent before what comes before it, and that would then count as sent."""
    stream = stream_of(is_behind=True)
    stream.push(item(5), 1_000)
    assert not stream.wake.is_set() and stream.take() == []


def test_too_much_is_forgotten_and_read_later() -> None:
    stream = stream_of(is_behind=False)
    stream.push(item(1, size=5_000), 1_000)
    assert not stream.is_behind, "one alone may be larger than the limit"
    stream.push(item(2), 1_000)
    assert stream.is_behind and stream.wake.is_set()
    stream.push(item(3), 1_000)
    assert stream.take() == []


def test_announcements_that_are_missing_are_read() -> None:
    feed = feed_of(FleetFeed)
    stream = stream_of(is_behind=False)
    channel = feed._channels["a"] = _Channel(Mock())
    channel.streams[stream] = None

    def announce(place: int, before: int) -> None:
        headers = {"Nats-Sequence": str(place), "Nats-Last-Sequence": str(before)}
        feed._on_announced("a", Mock(headers=headers, data=encode(item(place)[1])))

    announce(3, 1)
    announce(4, 3)
    assert not stream.is_behind and [place for place, _ in stream.take()] == [3, 4]
    announce(8, 6)
    assert stream.is_behind and stream.take() == []


class Failing(FleetFeed):
    """NATS is away twice; then it has two deliveries, and the stream ends."""

    tries = 0

    async def _catch_up(self, stream: FleetStream, write: Write) -> None:
        self.tries += 1
        if self.tries < 3:
            raise BackboneError("NATS is away")
        stream.is_behind = False
        await self._send(stream, [item(1), item(2)], write)
        stream.close()


def test_a_stream_outlives_failures() -> None:
    feed = feed_of(Failing, heartbeat_ms=10)
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)

    async def run() -> None:
        async with asyncio.timeout(20):
            await feed.run(stream_of(is_behind=True), write)

    asyncio.run(run())
    assert isinstance(feed, Failing) and feed.tries == 3
    assert b"".join(sent).count(b"event: delivery") == 2


class Interrupted(Failing):
    """What was announced cannot be sent, as a part of it is not there: all is read again."""

    async def _event(self, item: tuple[int, DeliveryRecord]) -> bytes:
        if not self.tries:
            raise BackboneError("NATS is away")
        return await super()._event(item)


def test_what_could_not_be_sent_is_read_again() -> None:
    feed = feed_of(Interrupted, heartbeat_ms=10)
    stream = stream_of(is_behind=False)
    stream.push(item(1), 1_000)
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)

    async def run() -> None:
        async with asyncio.timeout(20):
            await feed.run(stream, write)

    asyncio.run(run())
    assert b"".join(sent).count(b"event: delivery") == 2 and stream.sent == {"a": 2}
