"""Messages of a stream as they come: a consumer of NATS, from which a bounded number is asked for in advance."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from treecast.serve.connection import steady_ms
from treecast.serve.fleet.backbone import STATUS, Backbone
from treecast.serve.fleet.records import NANOSECONDS

EXPIRES_MS = 10_000
"""A request for messages is repeated after so long."""


class ConsumerGoneError(Exception):
    """NATS does not know the consumer (any more), or is not ready."""


class Puller:
    """Asks a consumer for messages. `count_max` of them wait here or are asked for."""

    def __init__(self, backbone: Backbone, kind: str, consumer: str, count_max: int) -> None:
        self.contact_ms = steady_ms()
        """When something was last heard from NATS."""
        self._backbone = backbone
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{backbone.names.stream(kind)}.{consumer}"
        self._count_max = count_max
        self._inbox = backbone.client.new_inbox()
        self._subscription: Subscription | None = None
        self._messages: list[Msg] = []
        self._messages_asked = 0
        self._is_gone = False
        self._news = asyncio.Event()

    async def open(self) -> None:
        self._subscription = await self._backbone.client.subscribe(
            self._inbox, cb=self._take, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._backbone.on_reconnected.append(self._forget)

    async def close(self) -> None:
        with suppress(ValueError):
            self._backbone.on_reconnected.remove(self._forget)
        if self._subscription is not None:
            with suppress(Error):
                await self._subscription.unsubscribe()

    def _forget(self) -> None:
        """What was asked for over a connection that is gone does not come."""
        self._messages_asked = 0
        self._news.set()

    async def _take(self, message: Msg) -> None:
        self.contact_ms = steady_ms()
        headers = message.headers
        if headers and STATUS in headers and not message.reply:
            if headers[STATUS] == "503":
                self._is_gone = True
            self._messages_asked -= min(
                int(headers.get("Nats-Pending-Messages", self._messages_asked)), self._messages_asked
            )
        else:
            self._messages_asked = max(self._messages_asked - 1, 0)
            self._messages.append(message)
        self._news.set()

    async def take(self) -> list[Msg]:
        """Wait for messages, and take all that have come. Raises ConsumerGoneError."""
        while not self._messages:
            if self._is_gone:
                self._is_gone = False
                raise ConsumerGoneError
            self._news.clear()  # before asking: what comes meanwhile is news
            await self._ask()
            if self._messages:
                break
            try:
                async with asyncio.timeout(EXPIRES_MS / 1000 + 1):
                    await self._news.wait()
            except TimeoutError:
                self._messages_asked = 0
        messages, self._messages = self._messages, []
        await self._ask()
        return messages

    async def _ask(self) -> None:
        """For as many as there is room for, unless half of that is asked for already."""
        if self._messages_asked * 2 > self._count_max or not self._backbone.is_connected():
            return
        count = self._count_max - self._messages_asked
        body = msgspec.json.encode({"batch": count, "expires": EXPIRES_MS * NANOSECONDS})
        with suppress(Error, OSError):
            await self._backbone.client.publish(self._next, body, self._inbox)
            self._messages_asked += count
