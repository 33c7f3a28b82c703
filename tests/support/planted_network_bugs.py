"""Bugs planted into brokers of a network, each of which the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.link_formats import Arrival
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import NO_DOCUMENTS, Forward
from treecast.overlay.onyx.routing import Delta, RoutingQuery
from treecast.overlay.onyx.routing_protocol import LOCAL
from treecast.overlay.onyx.tree import Tree
from treecast.overlay.onyx.wants import Waiting, Wants
from treecast.overlay.peer import Effect
from treecast.sim.onyx.network_scenario import CheckedBroker, NetworkScenario


class ForgetfulTree(Tree):
    """What is removed had covered something else, which the parent is not told."""

    def _changed(self, delta: Any) -> None:
        super()._changed(Delta(RoutingQuery(), delta.removed) if delta.removed else delta)


class OwnRoutesTree(Tree):
    """After a move, the new parent is told of the own subscriptions only."""

    def announce_all(self) -> None:
        whole, own = self.table, self._routing.table()
        own.update(LOCAL, whole.collect(LOCAL), self._routing.empty())  # type: ignore[attr-defined]
        self.table = own
        try:
            super().announce_all()
        finally:
            self.table = whole


class HastyChildTree(Tree):
    """A child is covered as soon as this broker knows what it wants."""

    def _await(self, name: str, child: Any) -> None:
        child.waiting.append((child.version, 0))
        self._cover(name, child, self._last_document() if self.is_root else self.passed)

    def _cover(self, name: str, child: Any, since: int) -> None:
        first, old_covered = self._first, self.covered
        self._first, self.covered = 0, 1 << 40
        try:
            super()._cover(name, child, since)
        finally:
            self._first, self.covered = first, old_covered


class HastyWants(Wants):
    """A subscription is acknowledged before the network knows of it."""

    def _is_ready(self, waiting: Waiting) -> bool:
        return True


class UnloadedWants(Wants):
    """After a restart others are told what the broker wants before it has put all of that together."""

    @property
    def is_loaded(self) -> bool:
        return True

    def _load_some(self) -> None:
        while self._unloaded:
            self.table.update_many(LOCAL, self._routing.parts([self._map(self._unloaded.popleft())]), [])


class ForgetfulPlans(Wants):
    """What may be done early is told when subscriptions go, and not when they come."""

    def _add(self, items: Any, queries: list[Any]) -> None:
        plan = self.early.plan
        super()._add(items, queries)
        if plan.steps:
            for tree in self._trees.values():
                tree.change_plan(plan)


class LatePlans(Wants):
    """A plan is told some time after the routing query, so it is not waited for: links above may still leave out what
    only a new subscription needs."""

    _late = 0

    def _spread_plan(self, has_changed: bool) -> None:
        self._late += has_changed

    def refine(self) -> None:
        super().refine()
        self._late += bool(self._late)
        if self._late > 3:
            self._late = 0
            super()._spread_plan(True)


class DoubleSteps(CheckedBroker):
    """What was done before a link is done again behind it."""

    def _take_fresh(self, root: str, arrivals: Sequence[Arrival], turn: Turn) -> bool:
        self.broker.take(self.positions.store_of(root), arrivals, turn)
        return True


class LatePositions(CheckedBroker):
    """Documents are stored, and their position some time later: after a crash they come again."""

    def _finish(self, turn: Turn) -> list[Effect]:
        changed_positions, self.positions._changed = self.positions._changed, {}
        try:
            return super()._finish(turn)
        finally:
            self.positions._changed = {**changed_positions, **self.positions._changed}


class EarlyPositions(CheckedBroker):
    """A position is stored first, and the documents with the next turn: a crash between loses them."""

    def _take_parcels(self, root: str, upto: int, parcels: Sequence[Arrival], turn: Turn) -> None:
        before = self.positions.number(root)
        NetworkBroker._take_parcels(self, root, upto, [], turn)
        self.positions.store(turn)
        fresh = [parcel for parcel in parcels if parcel.number > before]
        self.__dict__.setdefault("late", []).append((root, fresh))
        if self.on_range is not None:  # nothing is missing, as it seems
            self.on_range(self, root, before, upto, parcels)

    def tick(self, now_ms: int) -> list[Effect]:
        effects = super().tick(now_ms)
        late = self.__dict__.pop("late", [])
        if late:
            turn = Turn(now_ms)
            for root, parcels in late:
                self.broker.take(self.positions.store_of(root), parcels, turn)
            effects += self.broker.finish(turn)
        return effects


class UnstoredForwards(CheckedBroker):
    """A root passes documents on before they are durable: after a crash, their numbers are used again."""

    def send(self, to: str, message: Any) -> None:
        if isinstance(message, Forward):
            self._turn.send_at_once(to, message)
        else:
            super().send(to, message)


class ForgottenVersions(CheckedBroker):
    """When a root is back, its tree begins with the first version: whoever slept takes it for an old one."""

    def _new_tree(self, root: str) -> Tree:
        self._last_version = 0
        return super()._new_tree(root)


class FirstOfRuns(CheckedBroker):
    """Of messages that continue each other, the range of all is taken, and the documents of the first."""

    def _take_forwards(self, tree: Tree, sender: str, run: Sequence[Forward], turn: Turn) -> None:
        later = [msgspec.structs.replace(message, documents=NO_DOCUMENTS) for message in run[1:]]
        super()._take_forwards(tree, sender, [run[0], *later], turn)


def _with_tree(kind: type[Tree]) -> Callable[..., CheckedBroker]:
    class Broker(CheckedBroker):
        tree_class = kind

    return Broker


def _with_wants(kind: type[Wants]) -> Callable[..., CheckedBroker]:
    class Broker(CheckedBroker):
        wants_class = kind

    return Broker


PLANTED: dict[str, tuple[NetworkScenario, int]] = {
    "a delta that forgets what was covered": (NetworkScenario(_with_tree(ForgetfulTree)), 0),
    "a route lost on repair": (NetworkScenario(_with_tree(OwnRoutesTree)), 0),
    "versions that begin anew with a tree": (NetworkScenario(ForgottenVersions), 1000),
    "a child covered too early": (NetworkScenario(_with_tree(HastyChildTree)), 0),
    "coverage acknowledged too early": (NetworkScenario(_with_wants(HastyWants)), 0),
    "told before it is loaded": (NetworkScenario(_with_wants(UnloadedWants)), 89),
    "a plan that forgets a new subscription": (NetworkScenario(_with_wants(ForgetfulPlans)), 0),
    "a plan that is not waited for": (NetworkScenario(_with_wants(LatePlans)), 2),
    "a step that is done twice": (NetworkScenario(DoubleSteps), 7),
    "a duplicate after fail-over": (NetworkScenario(LatePositions), 36),
    "a position stored before its documents": (NetworkScenario(EarlyPositions), 0),
    "the documents of later messages of a run": (NetworkScenario(FirstOfRuns), 0),
    "documents passed on before they are durable": (NetworkScenario(UnstoredForwards), 0),
}
"""With the seed to begin with: one that finds it soon."""
