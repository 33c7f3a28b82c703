"""The source of a document in a network of selective publishing: rank 0, where versions are made.

    >>> from random import Random
    >>> from treecast.overlay.selective.source import Source
    >>> source = Source("source", Random(1), [-1, 0, 0])
    >>> source.publish({0: b"root", 1: b"first", 2: b"second"}, now_ms=0)
    []
    >>> source.version
    1

Payloads are bytes: elements that are folded, or sealed. The structure of a document is fixed as long as it is in a
network; another structure is another document. The publisher keeps the document: a source that is made again must be
given its elements again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.downward import Downward
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.selective_messages import (
    ElementState,
    Inquiry,
    Offer,
    OutlineParents,
    Presence,
    Receipt,
    Wants,
)
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.outline import Outline


class Source:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        random: Random,
        parents: list[int] | Outline,
        *,
        neighbours: Iterable[str] | Neighbours = (),
        settings: SelectiveSettings | None = None,
    ) -> None:
        self.name = name
        self.version = 0
        self.elements: dict[int, ElementState] = {}
        self.outline = parents if isinstance(parents, Outline) else Outline(parents)
        self._parents = [] if isinstance(parents, Outline) else parents
        self._settings = settings or SelectiveSettings()
        self._has_own_neighbours = not isinstance(neighbours, Neighbours)
        self.neighbours = (
            neighbours
            if isinstance(neighbours, Neighbours)
            else Neighbours(0, random.getrandbits(48), neighbours, self._settings)
        )
        self.downward = Downward(self.outline, self.elements, lambda root: self.version, self._settings, random)

    def publish(self, payloads: Mapping[int, bytes], now_ms: int) -> list[Effect]:
        """A new version: these elements have changed. Those who want them are sent them."""
        self.version += 1
        for id, payload in payloads.items():
            self.elements[id] = ElementState(id, self.version, payload)
        self.downward.note_changes(payloads)
        return self.downward.send(now_ms)

    def publish_states(self, version: int, states: Mapping[int, tuple[int, bytes]], now_ms: int) -> list[Effect]:
        """The same for a publisher that counts versions itself: (version, payload) of what has changed."""
        self.version = max(self.version, version)
        for id, (changed_in, payload) in states.items():
            self.elements[id] = ElementState(id, changed_in, payload)
        self.downward.note_changes(states)
        return self.downward.send(now_ms)

    def change_outline(self, removed: Iterable[int], inserted: Iterable[tuple[int, int, int]], edition: int) -> None:
        """The structure changes, before `publish_states`."""
        for top in removed:
            removed_ids = set(self.outline.subtree(top))
            self.downward.drop(removed_ids)
            for id in removed_ids:
                self.elements.pop(id, None)
            self.outline.remove(top)
        for id, parent, position in inserted:
            self.outline.insert(parent, position, id)
        self.downward.edition = edition

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Presence):
            self.neighbours.hear(sender, message, now_ms)
            effects: list[Effect] = []
            if message.asks:
                effects.append(Send(sender, Presence(0, self.neighbours.incarnation, False)))
            if message.needs_outline:
                effects.append(Send(sender, OutlineParents(self._parents)))
            return effects
        if not self.neighbours.is_below(sender):
            return []
        if isinstance(message, Inquiry):
            return [Send(sender, Offer(message.round, 0))]
        if isinstance(message, Wants):
            client = self.downward.clients.get(sender)
            is_repeated = client is not None and client.serial == message.serial
            self.downward.set_wants(sender, message)
            grants = self.downward.grant_again(sender) if is_repeated else []
            return [*grants, *self.downward.send(now_ms)]
        if isinstance(message, Receipt):
            self.downward.take_receipt(sender, message)
            return self.downward.send(now_ms)
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        for name in list(self.downward.clients):
            if self.neighbours.silence_ms(name, now_ms) >= self._settings.lease_ms:
                self.downward.forget(name)
        presence = self.neighbours.tick(now_ms, needs_outline=False) if self._has_own_neighbours else []
        return [*presence, *self.downward.send(now_ms)]
