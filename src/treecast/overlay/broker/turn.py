"""What one call of a broker asks for: changes to store, and what to send once they are durable.

It also says what happened, to whoever extends the broker and finishes the turn: a broker of a network does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from treecast.document import AnyDocument
from treecast.overlay.broker.rows import Row, SubscriptionRow, encode
from treecast.overlay.peer import Effect, Send
from treecast.overlay.storage import Change, Delete, Put


class PublishedBatch(NamedTuple):
    """Documents that were accepted together, each of them by its number here."""

    sources: list[str]
    numbers: list[int]
    ids: list[str]
    """The publisher's own."""
    bodies: list[bytes]
    documents: list[AnyDocument | None]
    """What was read, or the body if it could not be; None: nobody has read it, but `prepared` has what is needed;"""
    prepared: Any = None
    """for whoever extends the broker: see `Intake.prepare`."""
    places: Sequence[int] = ()
    """Of each in what was prepared."""

    def rows(self) -> Iterator[tuple[int, str, str, bytes, AnyDocument | None]]:
        return zip(self.numbers, self.sources, self.ids, self.bodies, self.documents, strict=True)


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
        self.published: list[PublishedBatch] = []
        """What was accepted from publishers."""
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
