"""How the broker is doing, for people who look: rates, lag, queues and sizes, as `GET /v1/status`.

Counts are sampled once a second. Everything else is looked at when somebody asks, and no more often than it is cheap:
finding the longest queues among a million takes a while, so it rests in proportion.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import deque
from pathlib import Path
from typing import Any

from treecast.overlay.broker import Broker
from treecast.overlay.broker.tail import Depth, Published
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors import forms
from treecast.serve.doors.calls import NUMBER_MAX, Call, Reply, json_reply
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.events import Feed
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.meter import Meter
from treecast.serve.doors.refusals import Refusals
from treecast.serve.doors.settings import DoorSettings

SECONDS = 60
"""Of history."""


class StatusPages:
    """The status, and what was refused."""

    def __init__(
        self, client: LocalClient, feed: Feed, settings: DoorSettings, version: str, directory: str | None
    ) -> None:
        self._client = client
        self._feed = feed
        self._settings = settings
        self._version = version
        self._directory = directory
        self.refusals = Refusals(settings.refusals_max)
        self._meter = Meter(("published", "matched", "delivered", "streamed", "refused"), SECONDS)
        self._lags: deque[int] = deque([0] * SECONDS, SECONDS)
        self._published_count = self._matched_count = self._sent_count = 0
        self._started_ms, self._started_steady_ms = now_ms(), steady_ms()
        self._answer: Reply | None = None
        self._answered_ms = 0
        self._look = QueueLook(settings)
        self._disk = DiskLook(directory, settings.disk_ms)
        client.on_announced += [self._on_announced, self.refusals.announced]
        client.on_tick.append(self._tick)

    def _on_announced(self, event: Any) -> None:
        if isinstance(event, Published):
            self._published_count += 1
            self._matched_count += len(event.subscriptions)

    def _tick(self, _: int) -> None:
        now = steady_ms()
        if self._meter.is_due(now):
            self._sample(now)

    def _sample(self, now: int) -> None:
        broker = self._client.broker
        self._meter.sample(now, self._counts())
        self._lags.append(0 if broker is None else self._receivers_lag(broker))

    def _counts(self) -> tuple[int, ...]:
        if self._client.broker is not None:
            self._sent_count = self._client.broker.sizes()["sent"]
        return self._published_count, self._matched_count, self._sent_count, self._feed.delivered, self.refusals.total

    def _receivers_lag(self, broker: Broker) -> int:
        first = min(broker.tail.waiting_from(received=True), self._feed.sending_from())
        return _age(broker, first)

    # --- pages --------------------------------------------------------------------------------------------------------

    async def list_refusals(self, call: Call) -> Reply:
        count = call.number_parameter("count", 50, self._settings.page_rows_max)
        return json_reply(200, self.refusals.page(call.number_parameter("before", 0, NUMBER_MAX), count))

    async def status(self, call: Call) -> Reply:
        now = steady_ms()
        if self._answer is None or now - self._answered_ms >= self._settings.status_ms:
            await self._disk.look()
            self._answer = json_reply(200, self._status(await self._client.current_broker()))
            self._answered_ms = now
        return self._answer

    def _status(self, broker: Broker) -> forms.StatusAnswer:
        now = steady_ms()
        if self._meter.is_due(now):
            self._sample(now)
        first, last = broker.tail.first_document(), self._feed.last_document
        published, matched, sent, streamed, refused = self._meter.totals(self._counts())
        rows = self._meter.history(SECONDS)
        delivered = [round(one + other, 2) for one, other in zip(rows[2], rows[3], strict=True)]
        return forms.StatusAnswer(
            *(broker.name, self._version, broker.store_id, timestamp(now_ms()), timestamp(self._started_ms)),
            *(now - self._started_steady_ms, first, last),
            forms.Totals(published, matched, sent + streamed, refused),
            forms.RecentRates(self._rates(10), self._rates(SECONDS)),
            forms.History(rows[0], delivered, rows[4], list(self._lags)),
            self._lag(broker),
            [self._queue(broker, depth) for depth in self._look.longest(broker)],
            self._sizes(broker, max(last - first + 1, 0)),
        )

    def _rates(self, seconds: int) -> forms.Rates:
        published, _, sent, streamed, refused = self._meter.rates(seconds)
        return forms.Rates(published, round(sent + streamed, 2), refused)

    def _lag(self, broker: Broker) -> forms.Lag:
        first = self._look.waiting_from(broker)
        age = _age(broker, first)
        return forms.Lag(self._receivers_lag(broker), age, first if age else 0)

    def _queue(self, broker: Broker, depth: Depth) -> forms.QueueDepth:
        row = broker.tail.subscription(depth.subscription)
        return forms.QueueDepth(
            *(depth.subscription, depth.waiting, depth.sent),
            depth.receivers + self._feed.readers(depth.subscription),
            depth.is_parked,
            row is not None and row.paused,
            *(depth.first, _age(broker, depth.first)),
        )

    def _sizes(self, broker: Broker, documents: int) -> forms.Sizes:
        sizes = broker.sizes()
        return forms.Sizes(
            *(sizes["subscriptions"], sizes["sources"], documents, sizes["letters"], sizes["sessions"]),
            *(len(self._feed), sizes["body_bytes"], self._disk.store_bytes, self._disk.free_bytes),
        )


def _age(broker: Broker, first: int) -> int:
    """How long ago this document was published; 0 if there is none from it on."""
    if first > broker.tail.last_document():
        return 0
    published_ms = broker.tail.published_ms(first)
    return max(now_ms() - published_ms, 1) if published_ms else 0


class QueueLook:
    """At everything that waits, now and then."""

    def __init__(self, settings: DoorSettings) -> None:
        self._settings = settings
        self._longest: list[Depth] = []
        self._from = 0
        self._next = 0.0

    def _refresh(self, broker: Broker) -> None:
        begin = time.perf_counter()
        if begin < self._next:
            return
        self._longest = broker.tail.longest(self._settings.status_queues_max)
        self._from = broker.tail.waiting_from()
        end = time.perf_counter()
        self._next = end + (end - begin) * self._settings.status_rest

    def longest(self, broker: Broker) -> list[Depth]:
        self._refresh(broker)
        return self._longest

    def waiting_from(self, broker: Broker) -> int:
        self._refresh(broker)
        return self._from


class DiskLook:
    """The sizes of files, looked at in a thread, now and then."""

    def __init__(self, directory: str | None, every_ms: int) -> None:
        self._directory = directory
        self._every_ms = every_ms
        self._next_ms = 0
        self.store_bytes = self.free_bytes = 0

    async def look(self) -> None:
        if self._directory is None or steady_ms() < self._next_ms:
            return
        self._next_ms = steady_ms() + self._every_ms
        self.store_bytes, self.free_bytes = await asyncio.to_thread(_measure, Path(self._directory))


def _measure(directory: Path) -> tuple[int, int]:
    total = 0
    try:
        for path in directory.rglob("*"):
            try:
                total += path.stat().st_size if path.is_file() else 0
            except OSError:
                continue  # dropped just now
        return total, shutil.disk_usage(directory).free
    except OSError:
        return total, 0
