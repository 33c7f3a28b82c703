"""What one call of a broker asks for: changes to store, and what to send once they are durable."""

from __future__ import annotations

from typing import Any

from treecast.overlay.broker.rows import Row, encode
from treecast.overlay.peer import Effect, Send
from treecast.overlay.storage import Change, Delete, Put


class Turn:
    """Collects the effects of one call. Its changes are stored together, and what it sends leaves after that."""

    __slots__ = ("changes", "events", "now_ms", "sends")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.changes: list[Change] = []
        self.sends: list[Effect] = []
        self.events: list[Any] = []
        """For whoever runs the broker, once the changes are durable."""

    def put(self, table: str, key: int | str, row: Row) -> None:
        self.changes.append(Put(table, key, encode(row)))

    def delete(self, table: str, key: int | str) -> None:
        self.changes.append(Delete(table, key))

    def send(self, to: str, message: Any) -> None:
        self.sends.append(Send(to, message))
