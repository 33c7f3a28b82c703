"""A broker of selective publishing, of some level between the source of a document and its subscribers.

Brokers have ranks: 1 is next to the source. Requests go to the next lower rank, updates to the next higher, so nothing
goes in circles. A broker keeps everything in memory: after a restart its neighbours tell it again what they want, and
those above what has changed. It knows the structure of the document and the elements that are wanted below it, as bytes
that mean nothing to it.

    >>> from random import Random
    >>> from treecast.overlay.selective.selective_broker import SelectiveBroker
    >>> broker = SelectiveBroker("b1", 1, Random(1), neighbours=["source"])
    >>> [effect.to for effect in broker.tick(0)]
    ['source']

`check` decides what a subscriber may have, at the brokers that subscribers connect to (`faces_subscribers`). Only the
others merge: what merging adds must not come near subscribers.

Source: Selective, sections IV-D and V. We differ: wants are repeated and replaced as a whole, so that no lost message
has to be mourned; the paper's protocol rounds (inquire, request, reply) are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.downward import Check, Downward
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.selective_messages import (
    ElementState,
    Grant,
    Inquiry,
    Offer,
    OutlineParents,
    Presence,
    Receipt,
    Update,
    Wants,
)
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.upward import Upward
from treecast.selective.outline import Outline


class SelectiveBroker:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        rank: int,
        random: Random,
        *,
        neighbours: Iterable[str] | Neighbours,
        settings: SelectiveSettings | None = None,
        faces_subscribers: bool = False,
        check: Check | None = None,
    ) -> None:
        assert rank > 0, "the source has rank 0"
        self.name = name
        self.rank = rank
        self._settings = settings or SelectiveSettings()
        self._random = random
        self._faces_subscribers = faces_subscribers
        self._check = check
        self._has_own_neighbours = not isinstance(neighbours, Neighbours)
        """Not so if it is one of several inside a peer, which speaks for all of them (`tree_broker`)."""
        self.neighbours = (
            neighbours
            if isinstance(neighbours, Neighbours)
            else Neighbours(rank, random.getrandbits(48), neighbours, self._settings)
        )
        self.elements: dict[int, ElementState] = {}
        self.outline: Outline | None = None
        self.edition = 0
        """Of the outline: how often it has changed."""
        self._parents: list[int] = []
        self.upward: Upward | None = None
        self.downward: Downward | None = None
        self._merged_ms: int | None = None

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Presence):
            return self._meet(sender, message, now_ms)
        if isinstance(message, OutlineParents):
            return self._take_outline(sender, message)
        if self.upward is None or self.downward is None:
            return []
        if isinstance(message, Inquiry | Wants | Receipt):
            if not self.neighbours.is_below(sender):
                return []
            return self._serve(sender, message, self.upward, self.downward, now_ms)
        if not self.neighbours.is_above(sender):
            return []
        if isinstance(message, Offer):
            return self.upward.take_offer(sender, message, now_ms)
        if isinstance(message, Grant):
            self.upward.take_grant(sender, message)
            return self.downward.send(now_ms)
        if isinstance(message, Update):
            changed_ids, receipts = self.upward.take_update(sender, message)
            self.downward.note_changes(changed_ids)
            return [*receipts, *self.downward.send(now_ms)]
        return []

    def _meet(self, sender: str, message: Presence, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.neighbours.hear(sender, message, now_ms) and self.upward is not None:
            self.upward.ask_again(sender)
        if message.asks:
            needs = self.upward is None
            effects.append(Send(sender, Presence(self.rank, self.neighbours.incarnation, False, needs)))
        if message.needs_outline and self._parents:
            effects.append(Send(sender, OutlineParents(self._parents)))
        return effects

    def _take_outline(self, sender: str, message: OutlineParents) -> list[Effect]:
        if self._parents or not self.neighbours.is_above(sender) or not is_tree(message.parents):
            return []
        self._parents = message.parents
        self.take_outline(Outline(message.parents))
        return []

    def take_outline(self, outline: Outline) -> None:
        """Begin to serve a document with this structure."""
        self.outline = outline
        self.upward = Upward(outline, self.elements, self.neighbours, self._settings)
        self.downward = Downward(
            outline, self.elements, self.upward.position, self._settings, self._random, self._check
        )

    def change_outline(self, removed: Iterable[int], inserted: Iterable[tuple[int, int, int]], edition: int) -> None:
        """The structure changes: subtrees go, and elements (id, parent, position) come. Wants of what goes end."""
        assert self.outline is not None and self.upward is not None and self.downward is not None
        for top in removed:
            removed_ids = set(self.outline.subtree(top))
            self.upward.change_wants((), self.downward.drop(removed_ids))
            self.upward.drop(removed_ids)
            for id in removed_ids:
                self.elements.pop(id, None)
            self.outline.remove(top)
        for id, parent, position in inserted:
            self.outline.insert(parent, position, id)
        self.edition = self.upward.edition = self.downward.edition = edition

    def _serve(
        self, sender: str, message: Inquiry | Wants | Receipt, upward: Upward, downward: Downward, now_ms: int
    ) -> list[Effect]:
        if isinstance(message, Inquiry):
            if self.outline is None or message.root not in self.outline:
                return []
            return [Send(sender, Offer(message.round, upward.distance(message.root)))]
        if isinstance(message, Receipt):
            downward.take_receipt(sender, message)
            return downward.send(now_ms)
        grants = downward.grant_again(sender) if self._is_repeated(sender, message, downward) else []
        upward.change_wants(*downward.set_wants(sender, message))
        return [*grants, *upward.tick(now_ms), *downward.send(now_ms)]

    def _is_repeated(self, sender: str, message: Wants, downward: Downward) -> bool:
        client = downward.clients.get(sender)
        return client is not None and (client.incarnation, client.serial) == (message.incarnation, message.serial)

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._has_own_neighbours:
            effects = self.neighbours.tick(now_ms, needs_outline=self.upward is None)
        if self.upward is None or self.downward is None:
            return effects
        for name in list(self.downward.clients):
            if self.neighbours.silence_ms(name, now_ms) >= self._settings.lease_ms:
                self.upward.change_wants((), self.downward.forget(name))
        if not self._faces_subscribers and self._is_time_to_merge(now_ms):
            self.upward.merge()
        return [*effects, *self.upward.tick(now_ms), *self.downward.send(now_ms)]

    def _is_time_to_merge(self, now_ms: int) -> bool:
        if self._merged_ms is not None and 0 <= now_ms - self._merged_ms < self._settings.merge_ms:
            return False
        self._merged_ms = now_ms
        return True


def is_tree(parents: list[int]) -> bool:
    """Whether these are the parents of the elements of a document, in document order."""
    if not parents or parents[0] != -1:
        return False
    open_elements = [0]
    for number, parent in enumerate(parents[1:], 1):
        while open_elements and open_elements[-1] != parent:
            open_elements.pop()
        if not open_elements:
            return False
        open_elements.append(number)
    return True
