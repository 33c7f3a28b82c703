"""A broker that carries many trees: for each of them a `SelectiveBroker`, and one presence for all.

A tree is the view that a group has of a document, as parcels (`treecast.selective.parcels`), or the mail of its
members. The broker sees numbers and boxes. A tree is carried as long as somebody below wants something of it; its
outline is asked of those above, and so are the changes of it: an update, or wants, that speak of a later edition than
this broker knows wait until it knows it.

    >>> from random import Random
    >>> from treecast.overlay.selective.tree_broker import TreeBroker
    >>> broker = TreeBroker("b1", 1, Random(1), neighbours=["source"])
    >>> [effect.to for effect in broker.tick(0)]
    ['source']

Brokers that face subscribers ask for a pass, which the publisher has signed for a member, a tree and an epoch. A
subscriber's name may be that of the member, or that and `#` and something more, for one who has two.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.outline_editions import Editions, change_to, is_possible, outline_of
from treecast.overlay.selective.selective_broker import SelectiveBroker
from treecast.overlay.selective.selective_messages import (
    Inquiry,
    OfTree,
    OutlineAsk,
    OutlineChange,
    OutlineChanges,
    OutlineRows,
    Presence,
    Rights,
    TreeMessage,
    Update,
    Wants,
)
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.parcels import pass_digest, pass_epoch, pass_signature
from treecast.selective.subtrees import Subtree


def of_tree(tree: str, effects: Iterable[Effect]) -> list[Effect]:
    """What a peer of one tree says, as it travels."""
    return [Send(one.to, OfTree(tree, one.message), one.is_urgent) if isinstance(one, Send) else one for one in effects]


class CarriedTree:
    """One tree, as far as a broker has it."""

    def __init__(self, name: str, broker: SelectiveBroker, editions: Editions) -> None:
        self.name = name
        self.broker = broker
        self.editions = editions
        self.latest = 1
        """An edition that is known to exist."""
        self.asked_ms: int | None = None
        self.used_ms = 0
        """When somebody below last said something about it."""
        self.wants: dict[str, Wants] = {}
        """Of neighbours below, before the outline is here."""
        self.updates: dict[int, tuple[str, Update]] = {}
        """Of later editions, by root."""

    @property
    def has_outline(self) -> bool:
        return self.broker.outline is not None

    def is_behind(self) -> bool:
        return not self.has_outline or self.latest > self.editions.edition


class TreeBroker:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        rank: int,
        random: Random,
        *,
        neighbours: Iterable[str],
        settings: SelectiveSettings | None = None,
        faces_subscribers: bool = False,
    ) -> None:
        assert rank > 0, "the source has rank 0"
        self.name = name
        self.rank = rank
        self._settings = settings or SelectiveSettings()
        self._random = random
        self._faces_subscribers = faces_subscribers
        self.neighbours = Neighbours(rank, random.getrandbits(48), neighbours, self._settings)
        self.trees: dict[str, CarriedTree] = {}
        self.passes_refused = 0
        self._serial_base = 0

    # -- what arrives

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Presence):
            return self._meet(sender, message, now_ms)
        if not isinstance(message, OfTree):
            return []
        inner = message.message
        tree = self.trees.get(message.tree)
        if tree is None and isinstance(inner, Update) and self.neighbours.is_above(sender):
            return of_tree(message.tree, [self._decline(sender)])
        if tree is None:
            is_asked = isinstance(inner, OutlineAsk | Inquiry) or (isinstance(inner, Wants) and inner.wants)
            if not is_asked or not self.neighbours.is_below(sender):
                return []
            if len(self.trees) >= self._settings.trees_max:
                return []
            tree = self._begin(message.tree)
        if self.neighbours.is_below(sender):
            tree.used_ms = now_ms
        return of_tree(tree.name, self._handle(tree, sender, inner, now_ms))

    def _decline(self, sender: str) -> Send:
        """Nothing of a tree is wanted here any more: without this, one who missed that would send it for ever."""
        self._serial_base += 1
        return Send(sender, Wants(self.neighbours.incarnation, self._serial_base, [], 0))

    def _meet(self, sender: str, message: Presence, now_ms: int) -> list[Effect]:
        if self.neighbours.hear(sender, message, now_ms):
            for tree in self.trees.values():
                if tree.broker.upward is not None:
                    tree.broker.upward.ask_again(sender)
        if not message.asks:
            return []
        neighbours = self.neighbours
        return [Send(sender, Presence(self.rank, neighbours.incarnation, False, False, neighbours.address))]

    def _begin(self, name: str) -> CarriedTree:
        broker = SelectiveBroker(
            *(self.name, self.rank, self._random),
            neighbours=self.neighbours,
            settings=self._settings,
            faces_subscribers=self._faces_subscribers,
            check=partial(self._may_have, name) if self._faces_subscribers else None,
        )
        tree = CarriedTree(name, broker, Editions(0, Rights(), self._settings.changes_max))
        self.trees[name] = tree
        return tree

    def _handle(self, tree: CarriedTree, sender: str, message: TreeMessage, now_ms: int) -> list[Effect]:
        if isinstance(message, OutlineAsk):
            if not self.neighbours.is_below(sender):
                return []
            if tree.broker.outline is None:  # it will ask again, and then it is here
                return self._ask_outline(tree, now_ms)
            answer = tree.editions.answer(message, tree.broker.outline)
            return [Send(sender, answer)] if answer is not None else []
        if isinstance(message, OutlineRows | OutlineChanges):
            return self._take_outline(tree, message, now_ms) if self.neighbours.is_above(sender) else []
        if isinstance(message, Update) and message.edition > tree.editions.edition:
            upward = tree.broker.upward
            if upward is None or message.root not in upward.links or not self.neighbours.is_above(sender):
                return []
            tree.updates[message.root] = (sender, message)
            return self._hurry(tree, message.edition, now_ms)
        if isinstance(message, Wants) and self.neighbours.is_below(sender):
            if not tree.has_outline:
                if sender in tree.wants or len(tree.wants) < self._settings.clients_max:
                    tree.wants[sender] = message
                return self._hurry(tree, max(1, message.edition), now_ms)
            effects = tree.broker.receive(sender, message, now_ms)
            if message.edition > tree.editions.edition:
                effects += self._hurry(tree, message.edition, now_ms)
            return effects
        if not tree.has_outline and self.neighbours.is_below(sender):  # it will inquire again
            return self._ask_outline(tree, now_ms)
        return tree.broker.receive(sender, message, now_ms)

    # -- outlines

    def _hurry(self, tree: CarriedTree, edition: int, now_ms: int) -> list[Effect]:
        """An edition exists that is not here: ask for it, at once if that has not been done for this one."""
        if edition > tree.latest:
            tree.latest = edition
            tree.asked_ms = None
        return self._ask_outline(tree, now_ms)

    def _ask_outline(self, tree: CarriedTree, now_ms: int) -> list[Effect]:
        if not tree.is_behind():
            return []
        if tree.asked_ms is not None and 0 <= now_ms - tree.asked_ms < self._settings.inquiry_ms:
            return []
        above = self.neighbours.above(now_ms)
        if above:
            tree.asked_ms = now_ms
        return [Send(name, OutlineAsk(tree.editions.edition)) for name in above]

    def _take_outline(self, tree: CarriedTree, message: OutlineRows | OutlineChanges, now_ms: int) -> list[Effect]:
        broker = tree.broker
        if isinstance(message, OutlineRows):
            if message.edition <= tree.editions.edition:
                return []
            if broker.outline is None:
                outline = outline_of(message.rows)
                if outline is None:
                    return []
                broker.take_outline(outline)
                assert broker.upward is not None
                broker.upward.serial_base = self._serial_base
                change = OutlineChange([], [])
            else:
                difference = change_to(broker.outline, message.rows) if outline_of(message.rows) is not None else None
                if difference is None:
                    return []
                change = difference
            tree.editions.jump(message.edition, message.rights)
            broker.change_outline(change.removed, change.inserted, message.edition)
        else:
            if broker.outline is None or message.base > tree.editions.edition:
                return []
            for change in message.changes[tree.editions.edition - message.base :]:
                if not is_possible(broker.outline, change):
                    return []
                tree.editions.add(change, message.rights)
                broker.change_outline(change.removed, change.inserted, tree.editions.edition)
        return self._go_on(tree, now_ms)

    def _go_on(self, tree: CarriedTree, now_ms: int) -> list[Effect]:
        """What has waited for this edition."""
        broker = tree.broker
        assert broker.upward is not None and broker.downward is not None
        broker.upward.change_wants((), broker.downward.check_again())
        effects: list[Effect] = []
        wants, tree.wants = tree.wants, {}
        for sender, message in wants.items():
            effects += broker.receive(sender, message, now_ms)
        updates, tree.updates = tree.updates, {}
        for sender, update in updates.values():
            effects += self._handle(tree, sender, update, now_ms)
        return [*effects, *broker.downward.send(now_ms)]

    # -- rights

    def _may_have(self, tree: str, name: str, part: Subtree, proof: bytes) -> bool:
        """Whether a subscriber may have this; the broker asks, and not only for the sake of secrecy."""
        carried_tree = self.trees[tree]
        rights = carried_tree.editions.rights
        if not rights.key:
            outline = carried_tree.broker.outline
            is_allowed = outline is not None and part.root != outline.root
        else:
            is_allowed = pass_epoch(proof) >= rights.epoch and _is_signed(rights.key, tree, name, proof)
        self.passes_refused += not is_allowed
        return is_allowed

    # -- time

    def tick(self, now_ms: int) -> list[Effect]:
        effects = self.neighbours.tick(now_ms, needs_outline=False)
        self.neighbours.forget(now_ms, 2 * self._settings.lease_ms)
        for tree in list(self.trees.values()):
            effects += of_tree(tree.name, self._ask_outline(tree, now_ms))
            effects += of_tree(tree.name, tree.broker.tick(now_ms))
            for name in list(tree.wants):
                if self.neighbours.silence_ms(name, now_ms) >= self._settings.lease_ms:
                    del tree.wants[name]
            if self._is_over(tree, now_ms):
                upward = tree.broker.upward
                self._serial_base = max(self._serial_base, upward.serial_max() if upward is not None else 0)
                del self.trees[tree.name]
        return effects

    def _is_over(self, tree: CarriedTree, now_ms: int) -> bool:
        """For a while nobody below has asked for anything of it, and those above have been told."""
        broker = tree.broker
        if 0 <= now_ms - tree.used_ms < self._settings.lease_ms:
            return False
        if broker.upward is None or broker.downward is None:
            return not tree.wants
        return not broker.downward.clients and not broker.upward.links

    def stats(self) -> dict[str, int]:
        """Counts, for metrics."""
        return {name: value for name, value in self.status().items() if isinstance(value, int)}

    def status(self) -> dict[str, Any]:
        """For people."""
        downward = [tree.broker.downward for tree in self.trees.values() if tree.broker.downward is not None]
        upward = [tree.broker.upward for tree in self.trees.values() if tree.broker.upward is not None]
        return {
            "name": self.name,
            "rank": self.rank,
            "neighbours": {name: self.neighbours.rank_of(name) for name in self.neighbours.names()},
            "trees": len(self.trees),
            "links": sum(len(one.links) for one in upward),
            "clients": sum(len(one.clients) for one in downward),
            "elements": sum(len(tree.broker.elements) for tree in self.trees.values()),
            "elements_sent": sum(one.elements_sent for one in downward),
            "passes_refused": self.passes_refused,
        }


def _is_signed(key: bytes, tree: str, name: str, proof: bytes) -> bool:
    member = name.rpartition("#")[0] or name
    try:
        digest = pass_digest(tree, member, pass_epoch(proof))
        Ed25519PublicKey.from_public_bytes(key).verify(pass_signature(proof), digest)
    except (InvalidSignature, ValueError):
        return False
    return True
