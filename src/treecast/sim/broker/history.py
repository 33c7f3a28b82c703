"""What clients of a broker did and saw in a run: the only thing that the checkers look at.

Times are those of the world, which no client knows. An operation took effect at some time between `sent_us` and
`answered_us`, or, if its answer never came, perhaps at some time after `sent_us`, or never.
"""

from __future__ import annotations

import msgspec

from treecast.overlay.messages import Answer, Command

NEVER_US = 1 << 62


class Operation(msgspec.Struct):
    """A request of a client, and its answer."""

    place: int
    """In the history: later operations have higher places."""
    client: str
    command: Command
    sent_us: int
    answered_us: int | None = None
    answer: Answer | None = None
    effect_until_us: int = NEVER_US
    """If it took effect at all, it was before this time."""

    @property
    def is_done(self) -> bool:
        """It was answered, and not refused as a whole."""
        return self.answer is not None and not (self.answer.refusals and not self.answer.documents)

    @property
    def is_refused(self) -> bool:
        return self.answer is not None and not self.is_done

    @property
    def is_in_doubt(self) -> bool:
        """Nobody knows whether it was done."""
        return self.answer is None


class Receipt(msgspec.Struct, frozen=True):
    """A delivery that reached an application."""

    time_us: int
    client: str
    incarnation: int
    """Of the client's host."""
    subscription: str
    document: int
    attempt: int
    payload: bytes


class Confirmed(msgspec.Struct, frozen=True):
    """A client was told that its acknowledgement is stored."""

    time_us: int
    client: str
    subscription: str
    document: int


class Postponement(msgspec.Struct, frozen=True):
    """A client has failed to deal with a delivery, and wants it again after a while."""

    time_us: int
    client: str
    subscription: str
    document: int
    wait_ms: int


class History:
    """All operations and receipts, in order of time."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.receipts: list[Receipt] = []
        self.received: set[tuple[str, int]] = set()
        """Pairs of subscription and document."""
        self.acknowledged: set[tuple[str, int]] = set()
        """Those of them that their client has acknowledged, and neither failed nor forgotten."""
        self.confirmed: list[Confirmed] = []
        self.attached: dict[str, set[str]] = {}
        """By subscription: the clients that ever wanted to receive from it."""
        self.redelivered: set[tuple[str, int]] = set()
        """Dead letters that a client asked for, as pairs of subscription and document,"""
        self.redelivered_letters: set[int] = set()
        """and their numbers. A document that is replayed may become a second letter."""
        self.postponed: list[Postponement] = []
        self.session_ends: list[tuple[int, str]] = []
        """When which client has ended a session."""

    def send(self, client: str, command: Command, time_us: int) -> Operation:
        operation = Operation(len(self.operations), client, command, time_us)
        self.operations.append(operation)
        return operation

    def answer(self, operation: Operation, answer: Answer, time_us: int) -> None:
        assert operation.answer is None
        operation.answer = answer
        operation.answered_us = time_us
        operation.effect_until_us = min(operation.effect_until_us, time_us)
        # A client's requests are done in order: earlier ones without an answer were done before this one, or never.
        for other in self.operations[: operation.place]:
            if other.client == operation.client and other.is_in_doubt:
                other.effect_until_us = min(other.effect_until_us, time_us)

    def receive(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self.received.add((receipt.subscription, receipt.document))

    def attach(self, client: str, subscriptions: list[str]) -> None:
        for id in subscriptions:
            self.attached.setdefault(id, set()).add(client)
