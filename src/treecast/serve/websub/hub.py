"""The hub: who wants a topic is asked whether that is so, gets it until the lease ends, and may go at any time.

Section 5 of the Recommendation: a request is answered at once with 202. The callback is then asked with a challenge
that only its owner can answer; until it has, nothing changes. So a renewal does not interrupt, and nobody can
subscribe or unsubscribe somebody else. Of several requests for the same topic and callback the last one counts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter as Multiset
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
from prometheus_client import Counter, Gauge
from yarl import URL

from treecast.errors import TreecastError
from treecast.overlay.broker import Broker
from treecast.overlay.broker.tail import Published, TailItem
from treecast.overlay.messages import Advance, Command, RemoveRecord, SetRecord
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.hooks.schedule import wait_ms
from treecast.serve.hooks.sending import Sending
from treecast.serve.websub.rows import (
    POSITIONS,
    SUBSCRIBERS,
    PositionRow,
    SubscriberRow,
    decode_position,
    decode_subscriber,
    encode,
    subscriber_key,
)
from treecast.serve.websub.settings import WebSubSettings
from treecast.serve.websub.subscriber import Subscriber
from treecast.serve.websub.topics import Topics

STORED_BEHIND = 10_000
"""Positions that only pass documents of other topics are stored after so many of them."""
SERVER_ERROR = 500


class Intent(msgspec.Struct, frozen=True):
    """What somebody claims to want."""

    mode: str
    topic: str
    topic_url: str
    callback: str
    secret: bytes
    lease_s: int

    @property
    def key(self) -> str:
        return subscriber_key(self.topic_url, self.callback)


def with_parameters(url: str, **parameters: str | int) -> URL:
    """The URL with `hub.…` parameters behind those that it has, which stay as they are (section 5.3).

    >>> str(with_parameters("https://a.example/c?x=%7Ey", mode="denied"))
    'https://a.example/c?x=%7Ey&hub.mode=denied'
    """
    query = urlencode({f"hub.{name}": value for name, value in parameters.items()})
    return URL(f"{url}{'&' if '?' in url else '?'}{query}", encoded=True)


class Hub:
    """`start` once the broker runs, `close` before it stops."""

    def __init__(self, sending: Sending, topics: Topics, settings: WebSubSettings) -> None:
        client, self._sender, self._retries, self._random, self._log, metrics = sending
        self._client = client
        self._topics = topics
        self._settings = settings
        self._subscribers: dict[str, Subscriber] = {}
        self._by_topic: dict[str, dict[str, Subscriber]] = {}
        self._intents: dict[str, Intent] = {}  # the last one for each topic and callback, while it is verified
        self._hosts: Multiset[str] = Multiset()
        self._tasks: set[asyncio.Task[None]] = set()
        self._floors: dict[str, int] = {}  # by topic: what the broker was told
        self.is_reserved: Callable[[str], bool] = lambda topic: False
        """Somebody else settles the deliveries of this subscription."""
        self._stored_ms = self._checked_ms = 0
        self._requests = Counter(
            "treecast_websub_requests", "Content sent to subscribers, by result", ["result"], registry=metrics.registry
        )
        gauge = Gauge("treecast_websub_subscribers", "WebSub subscribers", registry=metrics.registry)
        gauge.set_function(lambda: len(self._subscribers))
        client.on_opened.append(self._on_opened)
        client.on_current.append(self._on_current)
        client.on_announced.append(self._on_announced)
        client.on_tick.append(self._tick)

    # --- from start to end --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Go on with what is kept."""
        broker = self._client.expect_broker()
        for key, data in broker.records(SUBSCRIBERS):
            row = decode_subscriber(data)
            position = broker.record(POSITIONS, key)
            self._add(key, row, decode_position(position).document if position else row.position)

    def _add(self, key: str, row: SubscriberRow, position: int) -> None:
        subscriber = Subscriber(
            key,
            row,
            position,
            self._sender,
            self._settings,
            self._retries,
            self._random,
            lambda: self._client.broker if self._client.is_current() else None,
            lambda: self._client.last_document,
            self._on_gone,
            lambda result: self._requests.labels(result).inc(),
        )
        self._subscribers[key] = subscriber
        self._by_topic.setdefault(row.topic, {})[key] = subscriber
        subscriber.pump()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(subscriber.close() for subscriber in self._subscribers.values()))
        answers = [*self._store_positions(), *self._topics.store()]
        if answers:
            await asyncio.wait(answers, timeout=self._settings.stop_ms / 1000)

    def _on_opened(self, broker: Broker) -> None:
        for subscriber in self._subscribers.values():
            subscriber.opened()

    def _on_current(self) -> None:
        for subscriber in self._subscribers.values():
            subscriber.pump()

    def _on_announced(self, event: Any) -> None:
        if not isinstance(event, Published):
            return
        for topic, payload in zip(event.subscriptions, event.payloads, strict=True):
            for subscriber in list(self._by_topic.get(topic, {}).values()):
                subscriber.on_published(TailItem(event.document, event.published_ms, topic, payload))

    # --- intents ------------------------------------------------------------------------------------------------------

    async def request(self, intent: Intent) -> None:
        """Begin to verify an intent. Raises DoorError or AccessError: no such topic, too many, an internal address."""
        if self._client.expect_broker().tail.subscription(intent.topic) is None:
            raise DoorError(f"no subscription has the id {intent.topic!r}", code="TC412")
        url = URL(intent.callback)
        await self._sender.check_host(url)
        host = url.host or ""
        settings = self._settings
        if len(self._tasks) >= settings.verifications_max or self._hosts[host] >= settings.verifications_per_host_max:
            raise DoorError("too many requests are being verified", code="TC436", hint="try again soon")
        if intent.mode == "subscribe" and intent.key not in self._subscribers:
            if len(self._subscribers) >= settings.subscribers_max:
                raise DoorError(f"there are {settings.subscribers_max} subscribers already", code="TC413")
            await self._topics.know(intent.topic)
        self._intents[intent.key] = intent
        self._hosts[host] += 1
        self._begin(self._verify(intent), host)

    def _begin(self, work: Any, host: str = "") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def on_end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if host:
                self._hosts[host] -= 1
                if not self._hosts[host]:
                    del self._hosts[host]
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log.error("a WebSub request failed", error=repr(error))

        task.add_done_callback(on_end)

    async def _verify(self, intent: Intent) -> None:
        """Ask the callback; if it agrees, do what it wants."""
        challenge = secrets.token_urlsafe(32)
        parameters: dict[str, str | int] = {"mode": intent.mode, "topic": intent.topic_url, "challenge": challenge}
        if intent.mode == "subscribe":
            parameters["lease_seconds"] = intent.lease_s
        url = with_parameters(intent.callback, **parameters)
        for attempt in range(1, self._settings.verify_attempts_max + 1):
            outcome = await self._sender.send("GET", url, {})
            if 0 < outcome.status < SERVER_ERROR or attempt == self._settings.verify_attempts_max:
                break
            await asyncio.sleep(wait_ms(attempt, outcome.retry_after_ms, self._retries, self._random) / 1000)
        if self._intents.get(intent.key) is not intent:
            return  # another one has come since
        del self._intents[intent.key]
        if not outcome.is_success or outcome.body != challenge.encode():
            self._log.info("a WebSub intent is not verified", topic=intent.topic, error=outcome.error)
        elif intent.mode == "subscribe":
            await self._subscribe(intent)
        else:
            await self._remove(intent.key)

    async def _subscribe(self, intent: Intent) -> None:
        """Verified: a new subscriber gets what is published from now on, a known one misses nothing."""
        before = self._subscribers.get(intent.key)
        position = before.row.position if before else self._client.last_document
        until = now_ms() + intent.lease_s * 1000
        row = SubscriberRow(intent.topic, intent.topic_url, intent.callback, intent.secret, until, position)
        try:
            if self._client.expect_broker().tail.subscription(intent.topic) is None:
                raise DoorError("the topic does not exist any more", code="TC412")
            if before is None and len(self._subscribers) >= self._settings.subscribers_max:
                raise DoorError("there are too many subscribers", code="TC413")
            await self._client.request(SetRecord(SUBSCRIBERS, intent.key, encode(row)))
        except TreecastError as error:
            await self._deny(row, str(error))
            return
        if (subscriber := self._subscribers.get(intent.key)) is not None:
            subscriber.renew(row)
        else:
            self._add(intent.key, row, position)

    async def _deny(self, row: SubscriberRow, reason: str) -> None:
        """Tell a callback that it gets nothing, or nothing more (section 5.2)."""
        url = with_parameters(row.callback, mode="denied", topic=row.topic_url, reason=reason[:200])
        await self._sender.send("GET", url, {})

    # --- the end of subscribers ---------------------------------------------------------------------------------------

    async def _remove(self, key: str) -> None:
        subscriber = self._subscribers.pop(key, None)
        if subscriber is None:
            return
        others = self._by_topic[subscriber.row.topic]
        others.pop(key)
        if not others:
            del self._by_topic[subscriber.row.topic]
            self._floors.pop(subscriber.row.topic, None)
        for kind in (SUBSCRIBERS, POSITIONS):
            self._send(RemoveRecord(kind, key))
        await subscriber.close()

    def _on_gone(self, subscriber: Subscriber) -> None:
        self._begin(self._remove(subscriber.key))

    def _check(self) -> None:
        """Leases that have ended, topics that have gone."""
        broker, now = self._client.broker, now_ms()
        if broker is None:
            return
        missing_topics = {topic for topic in self._by_topic if broker.tail.subscription(topic) is None}
        for subscriber in list(self._subscribers.values()):
            if subscriber.row.topic in missing_topics:
                self._begin(self._deny(subscriber.row, "the topic does not exist any more"))
                self._on_gone(subscriber)
            elif now >= subscriber.row.until_ms:
                self._log.info("a WebSub lease has ended", topic=subscriber.row.topic)
                self._on_gone(subscriber)
            else:
                subscriber.catch_up(STORED_BEHIND)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _tick(self, _: int) -> None:
        now = steady_ms()
        if now - self._stored_ms >= self._settings.store_ms:
            self._stored_ms = now
            self._store_positions()
        if now - self._checked_ms >= self._settings.check_ms:
            self._checked_ms = now
            self._check()

    def _store_positions(self) -> list[asyncio.Future[Any]]:
        """Keep how far subscribers got, and tell the broker what nobody waits for."""
        answers: list[asyncio.Future[Any]] = []
        for subscriber in self._subscribers.values():
            if subscriber.has_moved:
                answer = self._send(SetRecord(POSITIONS, subscriber.key, encode(PositionRow(subscriber.position))))
                if answer is None:
                    return answers
                subscriber.has_moved = False
                answers.append(answer)
        floors = {topic: min(one.floor for one in some.values()) for topic, some in self._by_topic.items()}
        advances = [
            (topic, floor)
            for topic, floor in floors.items()
            if floor > self._floors.get(topic, 0) and not self.is_reserved(topic)
        ]
        if advances and (answer := self._send(Advance(advances))) is not None:
            self._floors |= dict(advances)
            answers.append(answer)
        return answers

    def _send(self, command: Command) -> asyncio.Future[Any] | None:
        try:
            return self._client.send(command)
        except TreecastError as error:  # too much waits
            self._log.warning("what the hub knows is not stored", code=error.code)
            return None
