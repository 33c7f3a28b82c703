"""A broker that takes part in a network and does nothing else: `Membership` as a peer, for simulations and tests."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Durable
from treecast.overlay.onyx.membership import Membership, MembershipSettings, MovesAsked, ViewAdopted
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Storage


class Member:
    """A `Peer`. To hand a subscription over takes it no time: it has none."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        registries: tuple[str, ...],
        settings: MembershipSettings | None = None,
        info: Callable[[], BrokerInfo] = BrokerInfo,
        make: Callable[..., Membership] = Membership,
    ) -> None:
        self.name = name
        self._shadow = Shadow(storage)
        self.membership = make(name, registries, self._shadow, random, settings, info)

    @property
    def view(self) -> View:
        return self.membership.view

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Durable):
            if sender == self.name:
                self._shadow.durable(message.group)
            return []
        turn = Turn(now_ms)
        for event in self.membership.receive(sender, message, turn):
            if isinstance(event, MovesAsked):
                self.membership.migrated(event.moves, turn)
            elif isinstance(event, ViewAdopted):
                turn.events.append(event)
        return self._finish(turn)

    def tick(self, now_ms: int) -> list[Effect]:
        turn = Turn(now_ms)
        self.membership.tick(turn)
        return self._finish(turn)

    def leave(self, now_ms: int, *, is_restarting: bool = False) -> list[Effect]:
        turn = Turn(now_ms)
        self.membership.leave(turn, is_restarting=is_restarting)
        return self._finish(turn)

    def _finish(self, turn: Turn) -> list[Effect]:
        effects: list[Effect] = []
        if turn.changes:
            group = self._shadow.apply(turn.changes)
            effects += (Store(tuple(turn.changes)), Send(self.name, Durable(group)))
        return [*effects, *turn.sends, *map(Deliver, turn.events)]
