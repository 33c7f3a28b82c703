"""Bugs of a control plane, planted to show that the simulation finds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.control_messages import Heartbeat, NewView
from treecast.overlay.onyx.membership import Event, Membership
from treecast.overlay.onyx.registry import Registry
from treecast.overlay.onyx.registry.pair import Pair
from treecast.overlay.onyx.registry.rows import ViewRow
from treecast.overlay.onyx.view import View
from treecast.overlay.peer import Effect
from treecast.overlay.storage import Put
from treecast.sim.onyx.control import ControlScenario


class ForgetsEpoch(Registry):
    """A view is not stored: after a restart its epoch is used for another one."""

    def _put_view(self, brokers: Any, previous: Any, turn: Turn) -> None:
        super()._put_view(brokers, previous, turn)
        turn.changes[:] = [change for change in turn.changes if not (isinstance(change, Put) and change.key == "view")]


class TellsOnce(Registry):
    """A view is sent when it is made, and never again."""

    def _hear(self, broker: str, beat: Heartbeat, turn: Turn) -> None:
        super()._hear(broker, beat, turn)
        turn.sends[:] = [send for send in turn.sends if not isinstance(send.message, NewView)]  # type: ignore[union-attr]


class AsksNobody(Membership):
    """Gossip of a newer view is ignored."""

    def hear_epoch(self, sender: str, epoch: int, turn: Turn) -> None:
        return


class UnvotedPair(Pair):
    """Takes charge without the promises of brokers."""

    def _count(self, view: ViewRow, now_ms: int) -> None:
        super()._count(ViewRow(View(view.view.epoch)), now_ms)


class HastyPair(Pair):
    """Answers are sent before the other registry has what they tell."""

    def release(self, sends: Iterable[Effect]) -> list[Effect]:
        return list(sends)


def registry_with(kind: type[Pair]) -> type[Registry]:
    """A registry whose pair is of this kind."""

    class Planted(Registry):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            name, _, random, settings, registries = arguments
            self.pair = kind(name, registries, self._shadow, random, settings)

    return Planted


class AdoptsAll(Membership):
    """Any view is adopted, also an older one."""

    def _adopt(self, view: View, turn: Turn) -> list[Event]:
        old_view, self._view = self._view, View()
        events = super()._adopt(view, turn)
        if not events:
            self._view = old_view
        return events


PLANTED: dict[str, ControlScenario] = {
    "epoch reused": ControlScenario(ForgetsEpoch),
    "view lost": ControlScenario(TellsOnce, AsksNobody),
    "two in charge": ControlScenario(registry_with(UnvotedPair)),
    "answer before the copy": ControlScenario(registry_with(HastyPair)),
    "older view adopted": ControlScenario(Registry, AdoptsAll),
}
