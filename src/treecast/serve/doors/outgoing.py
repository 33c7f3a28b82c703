"""What the service sends to others by itself: web hooks, and content for WebSub subscribers. One client, one sender."""

from __future__ import annotations

import asyncio
from random import Random

import structlog

from treecast.serve.doors.events import Feed
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.hooks.hooks import Hooks
from treecast.serve.hooks.pages import HookPages
from treecast.serve.hooks.sender import Sender
from treecast.serve.hooks.sending import Sending
from treecast.serve.local_peers import LocalRuntime
from treecast.serve.websub.hub import Hub
from treecast.serve.websub.pages import WebSubPages
from treecast.serve.websub.topics import Topics

NAME = "hooks"
"""Of their client."""


class Outgoing:
    """`start` once the broker runs, `close` before it stops."""

    def __init__(
        self,
        runtime: LocalRuntime,
        feed: Feed,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: DoorSettings,
    ) -> None:
        self._client = client = LocalClient(runtime, random, settings.answer_ms, NAME)
        self._sender = sender = Sender(settings.hooks)
        sending = Sending(client, sender, settings.hooks, random, log, runtime.metrics)
        self._hooks = Hooks(sending)
        self._topics = Topics(client, settings.websub)
        self._hub = Hub(sending, self._topics, settings.websub)
        # What a hook has to send is not done because somebody else has read it.
        self._hub.is_reserved = feed.is_reserved = self._hooks.owns
        self.pages = (
            HookPages(client, self._hooks, sender, settings),
            WebSubPages(self._hub, self._topics, settings),
        )

    async def start(self) -> None:
        await self._sender.open()
        self._hooks.start()
        self._topics.start()
        self._hub.start()

    async def close(self) -> None:
        """Let what is being sent end, and store what became of it."""
        await asyncio.gather(self._hooks.close(), self._hub.close())
        self._client.stop()
        await self._sender.close()
