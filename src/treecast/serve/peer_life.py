"""A peer that runs, from the opening of its store to its end, and what it waits for. `Runtime` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from treecast.index import Index
from treecast.overlay.messages import Deliveries, payload_bytes
from treecast.overlay.peer import Effect, Outbox, Peer, Send
from treecast.overlay.storage import Storage


class PeerStore(Storage, Protocol):
    """A storage that is closed in the end, and may keep an index."""

    def save_index(self, index: Index, version: int, before: Callable[[], None] | None = None) -> None: ...

    def close(self) -> None: ...


class PeerLife:
    """A peer from the opening of its store to its end."""

    def __init__(self, peer: Peer, store: PeerStore) -> None:
        self.peer = peer
        self.store = store
        self.outbox = Outbox()
        self.wake = asyncio.Event()
        self.error: Exception | None = None
        self.waiting_bytes = 0  # of messages that came, or are to leave, since the last group was taken
        self.writing_bytes = 0
        self.lazy_until_ms = 0  # changes that nobody waits for may wait until then
        self.saving: asyncio.Task[None] | None = None
        self.save_version = 0  # that is to be saved next
        self.is_over = False
        self.is_writing = self.is_hurrying = False  # a group is written; what is urgent will leave meanwhile
        self.marks: set[Future[None]] = set()  # waiting for changes to be durable

    def add(self, effects: list[Effect]) -> None:
        """Effects of the peer, which wait for their turn."""
        self.outbox.add(effects)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Deliveries):
                self.waiting_bytes += payload_bytes(effect.message)
