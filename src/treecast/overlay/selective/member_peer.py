"""A member of a group in a network: it gets its letters and its view, sealed, and verifies what it shows.

It has two subscriptions: its mailbox, where the key of the group and its pass are, and what it wants of the group's
view. Whenever a newer view has been verified the application gets a `ViewChange`. What cannot be verified for a while
is fetched again, from another broker if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec

from treecast.errors import PeerError
from treecast.overlay.peer import Deliver, Effect
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.selective_messages import ElementState, OfTree, Presence, Want
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.subscriber_peer import Arrival, SubscriberPeer
from treecast.overlay.selective.tree_broker import of_tree
from treecast.selective.assembly import Assembly
from treecast.selective.parcels import body_id, seal_id, tree_name
from treecast.selective.subtrees import Subtree

UNKNOWN_RANK = 2**31
"""Until the first broker says what its rank is."""


class ViewChange(msgspec.Struct, frozen=True):
    """A newer version of the view has been verified."""

    version: int


class MemberState(msgspec.Struct, frozen=True, array_like=True):
    """What a member keeps while it is away."""

    wants: list[Want]
    elements: list[ElementState]
    mail_wants: list[Want]
    mail: list[ElementState]


class MemberPeer:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        random: Random,
        assembly: Assembly,
        mailbox: int,
        *,
        brokers: Iterable[str],
        settings: SelectiveSettings | None = None,
        edition: int = 0,
        state: MemberState | None = None,
    ) -> None:
        self.name = name
        self.assembly = assembly
        self._settings = settings or SelectiveSettings()
        self.neighbours = Neighbours(UNKNOWN_RANK, random.getrandbits(48), brokers, self._settings)
        self.mail_tree = tree_name(assembly.document, "")
        self.view_tree = tree_name(assembly.document, assembly.group)
        peers = (SubscriberPeer(name, 0, random, brokers=self.neighbours, settings=settings) for _ in range(2))
        self.mail, self.view = peers
        self.view.edition = edition
        self.refused = 0
        """Parcels that could not be opened, and times that everything was fetched again."""
        self._waiting_ms: int | None = None
        self._is_damaged = False
        """Something that cannot be opened has arrived: what it was meant to be is missing."""
        if state is not None:
            self._restore(state)
        self.mail.want([Subtree(mailbox)], 0)
        self.view.want([Subtree(body_id(root)) for root in assembly.roots], 0)

    # -- at rest

    def save(self) -> MemberState:
        return MemberState(*self.view.save(), *self.mail.save())

    def _restore(self, state: MemberState) -> None:
        """Everything is verified again."""
        self.view.restore(state.wants, state.elements)
        self.mail.restore(state.mail_wants, state.mail)
        self._read_mail(state.mail)
        self._take(state.elements)
        self.assembly.settle()

    # -- what arrives

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Presence):
            if self.neighbours.rank == UNKNOWN_RANK:
                self.neighbours.rank = message.rank + 1
                self.neighbours.say_soon()
            if not self.neighbours.hear(sender, message, now_ms):
                return []
            return [
                *of_tree(self.mail_tree, self.mail.hear_anew(sender, now_ms)),
                *of_tree(self.view_tree, self.view.hear_anew(sender, now_ms)),
            ]
        if not isinstance(message, OfTree):
            return []
        if message.tree == self.mail_tree:
            return self._take_mail(self.mail.receive(sender, message.message, now_ms), now_ms)
        if message.tree == self.view_tree:
            return self._take_parcels(self.view.receive(sender, message.message, now_ms), now_ms)
        return []

    def _take_mail(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        results: list[Effect] = []
        is_admitted = False
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.event, Arrival):
                is_admitted |= self._read_mail(effect.event.elements)
            else:
                results.append(effect)
        results = of_tree(self.mail_tree, results)
        if is_admitted:
            results += of_tree(self.view_tree, self.view.want(self.view.parts(), now_ms))
            results += self._settle(now_ms)
        return results

    def _read_mail(self, elements: Iterable[ElementState]) -> bool:
        is_admitted = False
        for one in elements:
            try:
                is_admitted |= self.assembly.admit(one.payload)
            except PeerError:
                self.refused += 1
        self.view.proof = self.assembly.proof
        return is_admitted

    def _take_parcels(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        results: list[Effect] = []
        has_arrived = False
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.event, Arrival):
                self._take(effect.event.elements)
                has_arrived = True
            else:
                results.append(effect)
        results = of_tree(self.view_tree, results)
        return [*results, *self._settle(now_ms)] if has_arrived else results

    def _take(self, elements: Iterable[ElementState]) -> None:
        for one in elements:
            try:
                self.assembly.take(one.id, one.payload)
            except PeerError:
                self.refused += 1
                self._is_damaged = True

    def _settle(self, now_ms: int) -> list[Effect]:
        is_new = self.assembly.settle()
        if self.assembly.is_waiting or self._is_damaged:
            if self._waiting_ms is None:
                self._waiting_ms = now_ms
        else:
            self._waiting_ms = None
            self.view.keep_only({*self.assembly.numbers(), *map(seal_id, self.assembly.roots)})
        return [Deliver(ViewChange(self.assembly.version))] if is_new else []

    # -- time

    def tick(self, now_ms: int) -> list[Effect]:
        effects = self.neighbours.tick(now_ms, needs_outline=False)
        if self.neighbours.rank == UNKNOWN_RANK:
            self.neighbours.ask_again()
        effects += of_tree(self.mail_tree, self.mail.tick(now_ms))
        if self._waiting_ms is not None and not 0 <= now_ms - self._waiting_ms < self._settings.verify_ms:
            self._waiting_ms = None
            self._is_damaged = False
            self.refused += 1
            self.assembly.start_over()
            effects += of_tree(self.view_tree, self.view.start_over(now_ms))
        return [*effects, *of_tree(self.view_tree, self.view.tick(now_ms))]

    def is_whole(self) -> bool:
        """Whether all that is wanted is there, as far as this peer knows."""
        return not self.assembly.is_waiting
