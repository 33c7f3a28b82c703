"""A network whose subscriptions move from broker to broker while documents come and brokers fail.

A script asks hosts to hand over what they have, to any other broker, at any time; it stands for the registry, or speaks
in its name where that decides about replicas. Clients look for a subscription at every broker, and receive where it is.
In the end each subscription is at one broker, and everything was delivered, once, in order, with ids that do not tell
where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from treecast.sim.onyx.replicated_scenario import ReplicatedNetworkScenario, ReplicatedRun
from treecast.sim.onyx.scripted_registry import REGISTRY, STEP_MS, ScriptedRegistry
from treecast.sim.scenario import Outcome, outcome_of

BROKERS_MAX = 4
MOVE_MS_MAX = 2_000
NEVER_MS = 1_000_000


def without_receivers(network: NetworkWorkload) -> NetworkWorkload:
    """Clients subscribe, and publish. Others look for the subscriptions, at every broker."""
    clients = [msgspec.structs.replace(client, received=[]) for client in network.clients.clients]
    workload = msgspec.structs.replace(network.clients, clients=clients, weights={"publish": 10})
    return msgspec.structs.replace(network, clients=workload)


class MovingNetworkScenario(NetworkScenario):
    """A seed draws brokers, clients, settings, moves and faults."""

    name = "network-moves"

    def network(self, seed: int) -> NetworkWorkload:
        network = without_receivers(draw_network(seed, BROKERS_MAX))
        duration_ms = Random(f"{seed}/moving").choice([1_500, 3_000])
        return msgspec.structs.replace(
            network, clients=msgspec.structs.replace(network.clients, duration_ms=duration_ms)
        )

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = MovingRun(seed, self.network(seed), faults, self._make_broker, self._routing)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class Mover:
    """Asks hosts to hand over subscriptions, and repeats that for a while. `places` says where subscriptions are, as
    (id, broker), `brokers` where one may go, and `ask` tells a broker, later."""

    def __init__(
        self,
        random: Random,
        places: Callable[[], list[tuple[str, str]]],
        brokers: Callable[[], Iterable[str]],
        ask: Callable[[int, str, list[tuple[str, str]]], None],
    ) -> None:
        self.asked = 0
        self._random = random
        self._places, self._brokers, self._ask = places, brokers, ask
        self._rate = random.choice([0.2, 0.5, 1.0])
        self._open: dict[str, tuple[str, str, int]] = {}

    def step(self, now_ms: int) -> None:
        places = self._places()
        if places and self._random.random() < self._rate:
            id, source = self._random.choice(places)
            others = [name for name in self._brokers() if name != source]
            if others and id not in self._open:
                self._open[id] = (source, self._random.choice(others), now_ms)
                self.asked += 1
        for id, (source, to, since_ms) in list(self._open.items()):
            if now_ms - since_ms > MOVE_MS_MAX or (id, source) not in places:
                del self._open[id]
            elif self._random.random() < 0.5:
                self._ask(self._random.randrange(100_000), source, [(id, to)])


class MovingRegistry(ScriptedRegistry):
    """It also asks for moves."""

    def begin(self) -> None:
        self.mover = Mover(self._random, self._places, lambda: self.view.brokers, self._ask_later)
        super().begin()

    def _step(self) -> None:
        super()._step()
        if not self.is_calm:
            self.mover.step(self._world.now_us // 1000)

    def _places(self) -> list[tuple[str, str]]:
        return [(id, name) for name in self._brokers for id in _ids(self._world.hosts[name].storage)]

    def _ask_later(self, delay_us: int, name: str, moves: list[tuple[str, str]]) -> None:
        self._world.after(delay_us, self._ask, name, Migrate(moves, self.view.epoch))

    def _ask(self, name: str, migrate: Migrate) -> None:
        def receive(peer: Any, now_ms: int) -> list[Effect]:
            effects: list[Effect] = peer.receive(REGISTRY, migrate, now_ms)
            return effects

        if not self.is_calm:
            self._world.hosts[name].call(receive)


def _ids(data: Any) -> list[str]:
    """The subscriptions that a broker has on its disk."""
    return [id for id, _ in data.scan(SUBSCRIPTIONS, "", 1_000)]


class _Receiver(Application):
    """Looks for a subscription at a broker to which it may move at any time."""

    def _exists(self, id: str) -> bool:
        """It may have been made although nobody was told so, and may come here later."""
        commands = (operation.command for operation in self._history.operations)
        return any(isinstance(command, Subscribe) and command.id == id for command in commands)


class Moves(NetworkRun):
    """The part of a run in which somebody receives at every broker. `mover` is set when the run begins."""

    mover: Mover

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

    def places(self) -> list[tuple[str, str]]:
        """Where each subscription is: its id, and a broker."""
        return [(id, name) for name in self.network.brokers for id in _ids(self._data(name))]

    def _letters(self) -> list[Letter]:
        """Less those that are on their way to a subscriber."""
        return [letter for letter in super()._letters() if letter.reason != REASON]

    def _is_quiet(self) -> bool:
        return super()._is_quiet() and not any(peer.stats()["moving"] for _, peer in self._peers())

    def _mistakes(self) -> list[str]:
        names: dict[str, list[str]] = {}
        for id, name in self.places():
            names.setdefault(id, []).append(name)
        twice = [f"{id} is at {brokers}" for id, brokers in names.items() if len(brokers) > 1]
        return twice or super()._mistakes()

    def counts(self) -> dict[str, int]:
        moves = sum(peer.migration.moved for _, peer in self._peers())
        return {**super().counts(), "asked": self.mover.asked, "moved": moves}


class MovingRun(Moves):
    """With a script instead of a registry."""

    registry: MovingRegistry

    def _add_brokers(self, sync_us: tuple[int, int], batches: bool) -> None:
        super()._add_brokers(sync_us, batches)
        self.registry = MovingRegistry(self.world, self.network.brokers, self.network.roots)

    def _begin(self) -> None:
        super()._begin()
        self.mover = self.registry.mover


class MovingReplicatedScenario(ReplicatedNetworkScenario):
    """Moves in a network with replicas: either of the two hosts may change, or lose its disk, at any time."""

    name = "network-replicas-moves"

    def network(self, seed: int) -> NetworkWorkload:
        return without_receivers(super().network(seed))

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = MovingReplicatedRun(seed, self.network(seed), faults, self._make_broker, self._make_network_host)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class MovingReplicatedRun(Moves, ReplicatedRun):
    """With a registry that decides about roles, and a script that asks for moves in its name."""

    def _begin(self) -> None:
        super()._begin()
        random = self.world.random_of("mover")
        self.mover = Mover(random, self.places, lambda: self.network.brokers, self._ask_later)
        self.is_calm = False
        self._step()

    def _step(self) -> None:
        if not self.is_calm:
            self.mover.step(self.world.now_us // 1000)
            self.world.after(STEP_MS * 1000, self._step)

    def _ask_later(self, delay_us: int, name: str, moves: list[tuple[str, str]]) -> None:
        registry = self._registry()
        if registry is not None:
            self.world.after(delay_us, self._ask, name, Migrate(moves, registry.view.epoch))

    def _ask(self, name: str, migrate: Migrate) -> None:
        def receive(host: Any, now_ms: int) -> list[Effect]:
            effects: list[Effect] = host.receive_for(name, REGISTRY, migrate, now_ms)
            return effects

        machine = self._holder(name)
        if machine is not None and not self.is_calm:
            self.world.hosts[machine].call(receive)

    def _calm_down(self) -> None:
        self.is_calm = True
        super()._calm_down()


def with_broker(kind: Callable[..., NetworkBroker]) -> MovingNetworkScenario:
    """For tests that plant a bug."""
    return MovingNetworkScenario(kind)
