"""What one call of a broker asks for: changes to store, and what to send once they are durable.

It also says what happened, to whoever extends the broker and finishes the turn: a broker of a network does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from treecast.document import AnyDocument
from treecast.overlay.broker.rows import Row, SubscriptionRow, encode
from treecast.overlay.peer import Effect, Send
from treecast.overlay.storage import Change, Delete, Put


class Prepared(NamedTuple):
    """A document of which somebody who extends the broker has all that he needs: see `Intake.prepare`."""

    publication: Any
    place: int


PublishedDocument = tuple[int, str, str, bytes, AnyDocument | Prepared]


class Turn:
    """Collects the effects of one call. Its changes are stored together, and what it sends leaves after that."""

    __slots__ = (
        "applied",
        "changed_subscriptions",
        "changes",
        "events",
        "group",
        "now_ms",
        "published",
        "sends",
        "urgent",
    )

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.changes: list[Change] = []
        self.applied = self.group = 0
        """How many changes the broker can read already, and the last group of these: see `Shadow`."""
        self.sends: list[Effect] = []
        self.events: list[Any] = []
        """For whoever runs the broker, once the changes are durable."""
        self.urgent: list[Effect] = []
        """What depends on nothing that is stored, and waits for no disk."""
        self.published: list[PublishedDocument] = []
        """What was accepted from publishers: number, source, id, body; and the document, where somebody needs it, or
        what was prepared of it."""
        self.changed_subscriptions: list[tuple[SubscriptionRow | None, SubscriptionRow | None]] = []
        """As they were, and as they are; None: not at all."""

    def put(self, table: str, key: int | str, row: Row) -> None:
        self.changes.append(Put(table, key, encode(row)))

    def delete(self, table: str, key: int | str) -> None:
        self.changes.append(Delete(table, key))

    def send(self, to: str, message: Any) -> None:
        self.sends.append(Send(to, message))

    def send_at_once(self, to: str, message: Any) -> None:
        self.urgent.append(Send(to, message, is_urgent=True))
