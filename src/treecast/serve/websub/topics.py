"""The last payload of each topic, byte for byte, for whoever asks for it.

A topic is known once somebody has asked for it, or has subscribed. From then on its last payload is kept, also when
documents are dropped after a while. One that is larger than a record may be lasts as long as its document.
"""

from __future__ import annotations

import asyncio
from typing import Any

from treecast.errors import TreecastError
from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import RemoveRecord, SetRecord
from treecast.serve.connection import steady_ms
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError
from treecast.serve.websub.rows import TOPICS, TopicRow, decode_topic, encode
from treecast.serve.websub.settings import WebSubSettings

ROWS_AT_ONCE = 200
PAYLOADS_BYTES_MAX = 8 << 20
"""Payloads that wait to be stored. Beyond it, they are stored at once."""


class Topics:
    """All topics that are known."""

    def __init__(self, client: LocalClient, settings: WebSubSettings) -> None:
        self._client = client
        self._settings = settings
        self._topic_ids: set[str] = set()
        self._news: dict[str, TopicRow] = {}  # not stored yet
        self._news_bytes = 0
        self._stored_ms = 0
        client.on_announced.append(self._on_announced)
        client.on_tick.append(self._tick)

    def start(self) -> None:
        """Go on with what is kept."""
        for id, _ in self._client.expect_broker().records(TOPICS):
            self._topic_ids.add(id)

    # --- what is published --------------------------------------------------------------------------------------------

    def _on_announced(self, event: Any) -> None:
        if not isinstance(event, Published):
            return
        for id, payload in zip(event.subscriptions, event.payloads, strict=True):
            if id in self._topic_ids:
                self._set(id, event.document, payload)
        if self._news_bytes > PAYLOADS_BYTES_MAX:
            self.store()

    def _set(self, id: str, document: int, payload: bytes) -> None:
        broker = self._client.broker
        is_small = broker is not None and len(payload) + 100 <= broker.settings.record_bytes_max
        self._news[id] = TopicRow(document, payload if is_small else None)
        self._news_bytes += len(payload)

    def _tick(self, _: int) -> None:
        now = steady_ms()
        if now - self._stored_ms >= self._settings.store_ms:
            self._stored_ms = now
            self.store()

    def store(self) -> list[asyncio.Future[Any]]:
        """Keep what has come; returns what to wait for."""
        answers: list[asyncio.Future[Any]] = []
        while self._news:
            id, row = self._news.popitem()
            try:
                answers.append(self._client.send(SetRecord(TOPICS, id, encode(row))))
            except TreecastError:  # too much waits: later
                self._news.setdefault(id, row)
                return answers
        self._news_bytes = 0
        return answers

    # --- whoever asks -------------------------------------------------------------------------------------------------

    async def last(self, id: str) -> bytes | None:
        """The last payload of a topic, or None. Raises DoorError: TC412 there is no such topic, TC413 too many."""
        broker = self._client.expect_broker()
        subscription = broker.tail.subscription(id)
        if subscription is None:
            self.forget(id)
            raise DoorError(f"no subscription has the id {id!r}", code="TC412")
        await self.know(id)
        row = self._news.get(id)
        if row is None and (data := broker.record(TOPICS, id)) is not None:
            row = decode_topic(data)
        if row is None or row.document <= subscription.since:  # nothing, or of another subscription with this id
            return None
        if row.payload is not None:
            return row.payload
        items, _ = broker.tail.read({id}, row.document - 1, row.document, 1)
        return items[0].payload if items else None

    async def know(self, id: str) -> None:
        """From now on, remember its last payload; and find the one that there is."""
        if id in self._topic_ids:
            return
        if len(self._topic_ids) >= self._settings.topics_max:
            tail = self._client.expect_broker().tail
            for missing_id in [one for one in self._topic_ids if tail.subscription(one) is None]:
                self.forget(missing_id)
        if len(self._topic_ids) >= self._settings.topics_max:
            raise DoorError(f"there are {self._settings.topics_max} topics already", code="TC413")
        self._topic_ids.add(id)
        try:
            await self._find(id)
            row = self._news.get(id, TopicRow())
            await self._client.request(SetRecord(TOPICS, id, encode(row)))
        except BaseException:
            self._topic_ids.discard(id)
            raise

    async def _find(self, id: str) -> None:
        """Look through the documents that are kept, the newest first. Others have their turn meanwhile."""
        broker = self._client.expect_broker()
        until = self._client.last_document
        end = max(0, until - self._settings.last_rows_max)
        while until > end and id not in self._news:
            after = max(end, until - ROWS_AT_ONCE)
            if number := broker.tail.last_match(id, after, until):
                for item in broker.tail.read({id}, number - 1, number, 1)[0]:
                    self._set(id, item.document, item.payload)
                return
            until = after
            await asyncio.sleep(0)

    def forget(self, id: str) -> None:
        """The subscription is gone."""
        if id in self._topic_ids:
            self._topic_ids.discard(id)
            self._news.pop(id, None)
            try:
                self._client.send(RemoveRecord(TOPICS, id))
            except TreecastError:
                self._topic_ids.add(id)  # the next one who asks tries again
