"""A subscriber in a network of selective publishing: it has one broker at a time, and finds another if that fails.

It names the subtrees that it wants by their roots. It never learns the structure of the document, only elements that it
may see. What arrives is handed to the application (`Deliver`), each state of an element once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from random import Random
from typing import Any

import msgspec

from treecast.overlay.peer import Deliver, Effect, Send
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.selective_messages import (
    ElementState,
    Grant,
    Presence,
    Receipt,
    Update,
    Want,
    Wants,
)
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.subtrees import Subtree


class Arrival(msgspec.Struct, frozen=True):
    """Elements that have changed."""

    elements: tuple[ElementState, ...]


class SubscriberPeer:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        rank: int,
        random: Random,
        *,
        brokers: Iterable[str] | Neighbours,
        settings: SelectiveSettings | None = None,
    ) -> None:
        self.name = name
        self._settings = settings or SelectiveSettings()
        self._random = random
        self._has_own_neighbours = not isinstance(brokers, Neighbours)
        self.neighbours = (
            brokers
            if isinstance(brokers, Neighbours)
            else Neighbours(rank, random.getrandbits(48), brokers, self._settings)
        )
        self.elements: dict[int, ElementState] = {}
        self.broker = ""
        self.is_granted = False
        self.refused: list[Subtree] = []
        """What the broker does not give, because it may not or because there is no such subtree."""
        self._positions: dict[Subtree, int] = {}
        self._serial = 0
        self._said_ms: int | None = None
        self.edition = 0
        """Of the outline that has what is wanted."""
        self.proof = b""

    def want(self, parts: Iterable[Subtree], now_ms: int) -> list[Effect]:
        """Ask for these subtrees, in place of those before."""
        self._positions = {part: self._positions.get(part, 0) for part in parts}
        return self._say_wants(now_ms, is_new=True)

    def _say_wants(self, now_ms: int, is_new: bool) -> list[Effect]:
        if is_new:
            self._serial += 1
            self.is_granted = False
        if not self.broker:
            return []
        self._said_ms = now_ms
        wants = [Want(part.root, list(part.without), position) for part, position in self._positions.items()]
        return [Send(self.broker, Wants(self.neighbours.incarnation, self._serial, wants, self.edition, self.proof))]

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Presence):
            is_new = self.neighbours.hear(sender, message, now_ms)
            return self._say_wants(now_ms, is_new=True) if is_new and sender == self.broker else []
        if not self.neighbours.is_above(sender):
            return []
        if isinstance(message, Grant) and sender == self.broker and message.serial == self._serial:
            self.is_granted = True
            self.refused = [Subtree(want.root, tuple(want.without)) for want in message.refused]
        if isinstance(message, Update):
            return self._take_update(sender, message, now_ms)
        return []

    def _take_update(self, sender: str, message: Update, now_ms: int) -> list[Effect]:
        part = Subtree(message.root, tuple(message.without))
        if sender != self.broker:  # it has not heard that it is asked no longer
            return [Send(sender, Wants(self.neighbours.incarnation, self._serial, []))]
        if part not in self._positions:
            return self._say_wants(now_ms, is_new=True)
        if message.base > self._positions[part]:
            return self._say_wants(now_ms, is_new=True)  # the broker believes that more is here
        new = []
        for one in message.elements:
            old = self.elements.get(one.id)
            if old is None or old.version < one.version:
                self.elements[one.id] = one
                new.append(one)
        self._positions[part] = max(self._positions[part], message.upto)
        receipt = Send(sender, Receipt(message.root, message.without, self._positions[part]))
        return [receipt, Deliver(Arrival(tuple(new)))] if new else [receipt]

    def tick(self, now_ms: int) -> list[Effect]:
        effects = self.neighbours.tick(now_ms, needs_outline=False) if self._has_own_neighbours else []
        if self.broker and not self.neighbours.is_alive(self.broker, now_ms):
            self.broker = ""
        if not self.broker:
            alive = self.neighbours.above(now_ms)
            if not alive:
                return effects
            self.broker = self._random.choice(alive)
            return [*effects, *self._say_wants(now_ms, is_new=True)]
        is_time = self._said_ms is None or not 0 <= now_ms - self._said_ms < self._settings.refresh_ms
        # What was refused may be there by now, or a newer pass has come: it is asked for again.
        return [*effects, *self._say_wants(now_ms, is_new=bool(self.refused))] if is_time else effects

    def hear_anew(self, sender: str, now_ms: int) -> list[Effect]:
        """The broker has been restarted: it must be told again."""
        return self._say_wants(now_ms, is_new=True) if sender == self.broker else []

    def parts(self) -> list[Subtree]:
        """What is wanted."""
        return list(self._positions)

    def save(self) -> tuple[list[Want], list[ElementState]]:
        """What has arrived, and how much of it: for a subscriber that goes away and comes back."""
        wants = [Want(part.root, list(part.without), position) for part, position in self._positions.items()]
        return wants, list(self.elements.values())

    def restore(self, wants: Iterable[Want], elements: Iterable[ElementState]) -> None:
        """Go on from what was saved, before `want`."""
        self._positions = {Subtree(want.root, tuple(want.without)): want.position for want in wants}
        self.elements = {one.id: one for one in elements}

    def keep_only(self, ids: Container[int]) -> None:
        """Forget elements that have been removed from the document."""
        self.elements = {id: one for id, one in self.elements.items() if id in ids}

    def start_over(self, now_ms: int) -> list[Effect]:
        """Fetch everything again, from another broker if there is one: what came from this one was not right."""
        old_broker = self.broker
        self._positions = dict.fromkeys(self._positions, 0)
        self.elements.clear()
        others = [name for name in self.neighbours.above(now_ms) if name != old_broker]
        goodbye = (
            [Send(old_broker, Wants(self.neighbours.incarnation, self._serial + 1, []))]
            if old_broker and others
            else []
        )
        self._serial += bool(goodbye)
        self.broker = self._random.choice(others) if others else old_broker
        return [*goodbye, *self._say_wants(now_ms, is_new=True)]
