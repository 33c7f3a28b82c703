"""A network whose subscriptions move from broker to broker while documents come and brokers fail.

A script stands for the registry: it asks hosts to hand over what they have, to any other broker, at any time. Clients
look for a subscription at every broker, and receive where it is. In the end each subscription is at one broker, and
everything was delivered, once, in order, with ids that do not tell where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

import msgspec

from treecast.overlay.broker.rows import SUBSCRIPTIONS
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.control_messages import Migrate
from treecast.overlay.onyx.migration import REASON
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.peer import Effect
from treecast.sim.broker.application import Application
from treecast.sim.broker.checks import Letter
from treecast.sim.broker.workload import ClientPlan
from treecast.sim.faults import Fault
from treecast.sim.onyx.network_checks import NUMBERS_PER_ROOT
from treecast.sim.onyx.network_scenario import NetworkRun, NetworkScenario
from treecast.sim.onyx.network_workload import NetworkWorkload, draw_network
from treecast.sim.onyx.scripted_registry import REGISTRY, ScriptedRegistry
from treecast.sim.scenario import Outcome, outcome_of

BROKERS_MAX = 4
MOVE_MS_MAX = 2_000
NEVER_MS = 1_000_000


class MovingNetworkScenario(NetworkScenario):
    """A seed draws brokers, clients, settings, moves and faults."""

    name = "network-moves"

    def network(self, seed: int) -> NetworkWorkload:
        network, random = draw_network(seed, BROKERS_MAX), Random(f"{seed}/moving")
        clients = [msgspec.structs.replace(client, received=[]) for client in network.clients.clients]
        workload = msgspec.structs.replace(
            *(network.clients,), clients=clients, weights={"publish": 10}, duration_ms=random.choice([1_500, 3_000])
        )
        return msgspec.structs.replace(network, clients=workload)

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = MovingRun(seed, self.network(seed), faults, self._make_broker, self._routing)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class MovingRegistry(ScriptedRegistry):
    """It also asks for moves, and repeats that for a while."""

    asked = 0

    def begin(self) -> None:
        self._rate = self._random.choice([0.2, 0.5, 1.0])
        self._open: dict[str, tuple[str, str, int]] = {}
        super().begin()

    def _step(self) -> None:
        super()._step()
        now_ms = self._world.now_us // 1000
        if self.is_calm:
            return
        places = [(id, name) for name in self._brokers for id in self.held_by(name)]
        if places and self._random.random() < self._rate:
            id, source = self._random.choice(places)
            others = [name for name in self.view.brokers if name != source]
            if others and id not in self._open:
                self._open[id] = (source, self._random.choice(others), now_ms)
                self.asked += 1
        for id, (source, to, since_ms) in list(self._open.items()):
            if now_ms - since_ms > MOVE_MS_MAX or id not in self.held_by(source):
                del self._open[id]
            elif self._random.random() < 0.5:
                migrate = Migrate([(id, to)], self.view.epoch)
                delay_us = self._random.randrange(100_000)
                self._world.after(delay_us, self._ask, source, migrate)

    def held_by(self, name: str) -> list[str]:
        return [id for id, _ in self._world.hosts[name].storage.scan(SUBSCRIPTIONS, "", 1_000)]

    def _ask(self, name: str, migrate: Migrate) -> None:
        def receive(peer: Any, now_ms: int) -> list[Effect]:
            effects: list[Effect] = peer.receive(REGISTRY, migrate, now_ms)
            return effects

        if not self.is_calm:
            self._world.hosts[name].call(receive)


class _Receiver(Application):
    """Looks for a subscription at a broker to which it may move at any time."""

    def _exists(self, id: str) -> bool:
        """It may have been made although nobody was told so, and may come here later."""
        commands = (operation.command for operation in self._history.operations)
        return any(isinstance(command, Subscribe) and command.id == id for command in commands)


class MovingRun(NetworkRun):
    """A run in which somebody receives at every broker."""

    registry: MovingRegistry

    def _add_brokers(self, sync_us: tuple[int, int], batches: bool) -> None:
        super()._add_brokers(sync_us, batches)
        self.registry = MovingRegistry(self.world, self.network.brokers, self.network.roots)

    def _begin(self) -> None:
        super()._begin()
        receivers = [
            self._receiver(client, id, broker)
            for client in self.network.clients.clients
            for id in client.owned
            for broker in self.network.brokers
        ]
        self.applications = [*self.applications, *receivers]

    def _receiver(self, client: ClientPlan, id: str, broker: str) -> Application:
        name = f"{id}-at-{broker}"
        plan = msgspec.structs.replace(
            client, name=name, owned=[], received=[id], sources=[], action_ms=NEVER_MS, fail_rate=0.0, forget_rate=0.0
        )
        self.network.homes[name] = broker
        application = _Receiver(
            *(self.world, plan, self.network.clients, self.history, self._client_settings, list, count(1).__next__),
            broker=broker,
            identify=self._identifier(broker),
            first_number=self._place(broker) * NUMBERS_PER_ROOT,
        )
        application.attach()
        return application

    def _letters(self) -> list[Letter]:
        """Less those that are on their way to a subscriber."""
        return [letter for letter in super()._letters() if letter.reason != REASON]

    def _is_quiet(self, required: list[tuple[str, int]]) -> bool:
        return super()._is_quiet(required) and not any(peer.stats()["moving"] for _, peer in self._peers())

    def _mistakes(self) -> list[str]:
        places: dict[str, list[str]] = {}
        for name in self.network.brokers:
            for id in self.registry.held_by(name):
                places.setdefault(id, []).append(name)
        twice = [f"{id} is at {names}" for id, names in places.items() if len(names) > 1]
        return twice or super()._mistakes()

    def counts(self) -> dict[str, int]:
        moved = sum(peer.migration.moved for _, peer in self._peers())
        return {**super().counts(), "asked": self.registry.asked, "moved": moved}


def with_broker(kind: Callable[..., NetworkBroker]) -> MovingNetworkScenario:
    """For tests that plant a bug."""
    return MovingNetworkScenario(kind)
