"""A network of brokers with replicas, a real registry that decides who serves them, and hosts that lose their disks.

The registry loses its disk only while every broker is served and has a backup: only hosts can tell it who serves.
A host loses its disk only while another one has all that was acknowledged, as far as the registry's last decision goes:
whoever serves alone and loses its disk loses data, and no checker can ask for it back. In the end every broker is at
its own host, and its backup has the same as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import RegisterSource
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_host import NETWORK_TABLES, NetworkHost
from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry.relearning import EPOCHS
from treecast.overlay.onyx.registry.rows import RoleRow
from treecast.overlay.onyx.view import HOST, host_name
from treecast.overlay.peer import Effect, Peer
from treecast.overlay.replica.member import MemberRow, read_members
from treecast.overlay.replica.snapshot import KEY_MIN
from treecast.overlay.replica.space import Space
from treecast.sim.faults import Crash, Fault, FaultRates, LinkFault, Partition, draw_faults
from treecast.sim.onyx.network_scenario import MakeBroker, NetworkRun, NetworkScenario
from treecast.sim.onyx.network_workload import NetworkWorkload, draw_network
from treecast.sim.onyx.scripted_registry import REGISTRY
from treecast.sim.replica.routed_world import RoutedWorld, draw_crash
from treecast.sim.replica.scenario import draw_replica_settings
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

BROKERS_MAX = 5
CLIENT_LAG_MS_MAX = 1_500
"""So long after a decision clients may look for a broker at the wrong host."""
MakeHost = Callable[..., NetworkHost]


class ReplicatedNetworkScenario(NetworkScenario):
    """A seed draws brokers, clients, settings and faults."""

    name = "network-replicas"

    def __init__(self, make_network_host: MakeHost = NetworkHost, make_broker: MakeBroker | None = None) -> None:
        """Tests that plant a bug make hosts or brokers themselves."""
        super().__init__(make_broker)
        self._make_network_host = make_network_host

    def network(self, seed: int) -> NetworkWorkload:
        """Long enough for a host to be missed."""
        network, random = draw_network(seed, BROKERS_MAX), Random(f"{seed}/replicated")
        clients = msgspec.structs.replace(network.clients, duration_ms=random.choice([2_000, 3_000]))
        return msgspec.structs.replace(network, clients=clients)

    def faults(self, seed: int) -> list[Fault]:
        network = self.network(seed)
        machines = [host_name(broker) for broker in network.brokers]
        rates = FaultRates(
            crashing=(*machines, *machines, REGISTRY, *network.homes),
            restarting=(*machines, REGISTRY),
            storing=tuple(machines),
            loses_disk=True,
        )
        random = Random(f"{seed}/replicated faults")
        duration_ms = network.clients.duration_ms
        faults = draw_faults(random, [*machines, REGISTRY, *network.homes], duration_ms, rates)
        for _ in range(random.choice([0, 1, 1, 2])):
            faults.append(draw_crash(random, machines, range(300, duration_ms), [1, 300, 1_200]))
        for _ in range(random.choice([0, 0, 1])):
            first, second = random.sample(machines, 2)
            begin_ms = random.randrange(duration_ms)
            groups = random.choice([[[first], [second]], [[first], [second, REGISTRY]], [[first], [REGISTRY]]])
            faults.append(Partition(groups, begin_ms, begin_ms + 1_000, one_way=random.random() < 0.3))
            faults.append(LinkFault("loss", first, second, 0, duration_ms, 50))
        if random.random() < 0.3:
            at_ms, down_ms = random.randrange(500, duration_ms), random.choice([1, 300, 3_000])
            faults.append(Crash(REGISTRY, at_ms, down_ms, loses_disk=True))
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = ReplicatedRun(seed, self.network(seed), faults, self._make_broker, self._make_network_host)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class ReplicatedRun(NetworkRun):
    """A run whose brokers are served by hosts."""

    world: RoutedWorld

    def __init__(
        self,
        seed: int,
        network: NetworkWorkload,
        faults: Sequence[Fault],
        make_broker: Callable[..., NetworkBroker],
        make_host: MakeHost,
    ) -> None:
        self._make_host = make_host
        super().__init__(seed, network, faults, make_broker, None)

    def _make_world(self, seed: int) -> World:
        return RoutedWorld(seed)

    def _add_brokers(self, sync_us: tuple[int, int], batches: bool) -> None:
        world = self.world
        random = world.random_of("replica settings")
        self._replica_settings = draw_replica_settings(random)
        self._membership = MembershipSettings(heartbeat_ms=random.choice([80, 150]), gossip_ms=300)
        self._registry_settings = RegistrySettings(
            silent_ms=random.choice([400, 700]),
            doubt_ms=random.choice([700, 1_500]),
            view_ms=random.choice([0, 50]),
            fan_out_max=random.choice([1, 2, 4]),
            return_ms=random.choice([0, 300, 1_000]),
            rejoin_ms=random.choice([0, 500]),
            lost_ms=5_000,
            migrations_open_max=0,
        )
        self._sync_us = sync_us[1]
        self._homes: dict[str, str] = {}
        self._places: dict[str, list[tuple[int, str]]] = {}  # by broker: since when it is where
        self._lags: dict[tuple[str, str], int] = {}
        self._lag_random = world.random_of("lags")
        world.place_of, world.may_lose_disk = self._place_for, self._may_lose_disk
        world.add_host(REGISTRY, self._start_registry, sync_us=sync_us)
        for name in self.network.brokers:
            start = partial(self._start_host, name)
            self.hosts[name] = world.add_host(host_name(name), start, sync_us=sync_us, batches=batches)

    def _start_registry(self, storage: SimulatedStorage, random: Random) -> Peer:
        return Registry(REGISTRY, storage, random, self._registry_settings)

    def _start_host(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        def make(broker: str, space: Any, random: Random, is_own: bool) -> Peer:
            return self._new_broker(broker, space, random, membership=self._membership)

        host = self._make_host(name, storage, random, make, (REGISTRY,), self._replica_settings, self._membership)
        host.listens(host_name(name), (float(self._place(name)), 0.0))
        return host

    # -- who is where

    def _registry(self) -> Registry | None:
        peer = self.world.hosts[REGISTRY].peer
        return peer if isinstance(peer, Registry) else None

    def _roles(self) -> dict[str, RoleRow]:
        registry = self._registry()
        return registry.roles.rows if registry is not None else {}

    def _place_for(self, sender: str, receiver: str) -> str | None:
        """The machine to which something for a peer is sent."""
        if receiver not in self.hosts and not receiver.startswith(HOST):
            return receiver
        peer = self.world.hosts[sender].peer
        if isinstance(peer, NetworkHost):
            return peer.resolve(receiver)
        if isinstance(peer, Registry):
            info = peer.broker(receiver)
            return receiver if receiver.startswith(HOST) else info.address if info is not None else None
        return self._place_for_client(sender, receiver)

    def _place_for_client(self, client: str, broker: str) -> str:
        now_us, places = self.world.now_us, self._places.setdefault(broker, [(0, host_name(broker))])
        row = self._roles().get(broker)
        if row is not None and row.primary != places[-1][1]:
            places.append((now_us, row.primary))
            self._lags[client, broker] = self._lag_random.randrange(CLIENT_LAG_MS_MAX) * 1000
        lag_us = self._lags.get((client, broker), 0)
        return next((place for since_us, place in reversed(places) if now_us >= since_us + lag_us), places[0][1])

    def _row(self, machine: str, broker: str) -> MemberRow:
        """What a host has on its disk about a broker."""
        members = read_members(self.world.hosts[machine].storage, 100)
        return next((member.row for member in members if member.broker == broker), MemberRow())

    def _machines(self) -> list[str]:
        return [host_name(broker) for broker in self.network.brokers]

    def _holder(self, broker: str) -> str | None:
        """The host that serves a broker, by what is on its disk; between two terms, one that has everything."""
        rows = {machine: self._row(machine, broker) for machine in self._machines()}

        def rank(machine: str) -> tuple[int, bool, int]:
            row, serves = rows[machine], rows[machine].primary == machine
            return row.term if serves else row.complete_term, serves, row.replica.group if row.replica else 0

        return max((machine for machine, row in rows.items() if row.replica), key=rank, default=None)

    def _data(self, broker: str) -> Any:
        machine = self._holder(broker)
        if machine is None:
            return SimulatedStorage()
        replica = self._row(machine, broker).replica
        assert replica is not None
        return Space(self.world.hosts[machine].storage, replica.slot, replica.last_body, replica.body_end)

    def _peers(self) -> Iterator[tuple[str, NetworkBroker]]:
        for broker in self.network.brokers:
            machine = self._holder(broker)
            host: Any = self.world.hosts[machine].peer if machine is not None else None
            peer = host.served(broker) if host is not None else None
            if isinstance(peer, NetworkBroker):
                yield broker, peer

    def _may_lose_disk(self, machine: str) -> bool:
        if machine == REGISTRY:
            return self._is_settled()
        roles = self._roles()
        # A registry that has lost its disk hears of a broker from whoever serves it.
        unknown = [broker for broker in self.network.brokers if broker not in roles]
        if not roles or any(self._row(machine, broker).replica is not None for broker in unknown):
            return False
        return all(self._can_do_without(machine, broker, role) for broker, role in roles.items())

    def _can_do_without(self, machine: str, broker: str, role: RoleRow) -> bool:
        """Another host has all that was acknowledged of a broker, and the registry can know."""
        if role.primary == machine:
            return bool(role.backup) and self._row(role.backup, broker).complete_term == role.term
        row = self._row(role.primary, broker)
        reign = row.term if row.primary == role.primary else row.complete_term
        after = max((term for term, host, _ in role.past if host != role.primary), default=role.floor)
        # Whoever was appointed just now may still refuse: then the one before it has to have everything.
        return row.replica is not None and reign >= after and (row.term == role.term or not role.served)

    # -- the course of a run

    def _begin(self) -> None:
        self._add_roots()

    def _add_roots(self) -> None:
        """Brokers that somebody publishes at have a tree."""
        registry = self._registry()
        missing = [root for root in self.network.roots if registry and f"root-{root}" not in registry.catalog.rows]

        def add(root: str, peer: Registry, now_ms: int) -> list[Effect]:
            turn = Turn(now_ms)
            peer.catalog.register(RegisterSource(f"root-{root}"), lambda: root, peer.new_id, turn)
            return peer._finish(turn, peer.pair.row.term)

        for root in missing:
            self.world.hosts[REGISTRY].call(partial(add, root))

    def _calm_down(self) -> None:
        self._wait("everybody at home, with a backup", self._is_settled)

    def _healing_ms(self) -> int:
        """With the smallest chunks a snapshot needs a round trip for each row, and may have to start over."""
        settings, network = self._replica_settings, self.world.network
        trip_us = 2 * (network.delay_us + network.jitter_us + self._sync_us)
        chunks = [_chunks(self._data(broker), settings.chunk_bytes_max) for broker in self.network.brokers]
        return super()._healing_ms() + 2 * max(chunks) * trip_us // settings.chunks_ahead_max // 1000

    def _is_settled(self) -> bool:
        roles = self._roles()
        registry = self._registry()
        if registry is None or len(roles) < len(self.network.brokers) or len(registry.view.brokers) < len(roles):
            return False
        return all(self._is_paired(broker, role) for broker, role in roles.items())

    def _is_paired(self, broker: str, role: RoleRow) -> bool:
        if role.primary != host_name(broker) or not role.backup:
            return False
        primary, backup = self._row(role.primary, broker), self._row(role.backup, broker)
        return primary.term == role.term and backup.complete_term == role.term and not backup.coming

    def _check_invariants(self) -> None:
        self._add_roots()
        for broker in self.network.brokers:
            self._check_once(broker, self._data(broker), 0, set())
        self._check_limits()
        registry = self._registry()
        if registry is not None and registry.roles.losses:
            self.world.fail("a broker goes on without what it had acknowledged")

    def _finish(self) -> None:
        super()._finish()
        if self.world.failure is None:
            self._wait("a backup in the end", lambda: self._is_settled() and not list(self._differences()))

    def _differences(self) -> Iterator[str]:
        for broker, role in self._roles().items():
            rows = [self._row(machine, broker).replica for machine in (role.primary, role.backup)]
            if rows[0] is None or rows[1] is None:
                yield f"{broker} has no data"
                continue
            storages = [self.world.hosts[machine].storage for machine in (role.primary, role.backup)]
            spaces = [Space(storage, row.slot) for storage, row in zip(storages, rows, strict=True) if row]
            for table, is_integer in rows[0].tables.items():
                after: Any = KEY_MIN if is_integer else ""
                first, second = (space.scan(table, after, 100_000) for space in spaces)
                if first != second:
                    yield f"primary and backup of {broker} differ in {table}"

    def counts(self) -> dict[str, int]:
        registry = self._registry()
        return {
            **super().counts(),
            "terms": sum(row.term for row in self._roles().values()),
            "takeovers": registry.roles.takeovers if registry is not None else 0,
            "lost_disks": self.world.lost_disks,
            "relearnt": self._count() // EPOCHS,
        }

    def _views(self) -> int:
        return self._count() % EPOCHS

    def _count(self) -> int:
        """Of views in the registry's term."""
        registry = self._registry()
        return registry.view.epoch & 0xFFFF_FFFF if registry is not None else 0


def _chunks(data: Any, chunk_bytes_max: int) -> int:
    """How many chunks a snapshot of a broker's data has, at most."""
    rows = [len(row) for table in NETWORK_TABLES for row in _values(data, table)]
    rows += [len(body) for _, body in data.bodies(0)] if isinstance(data, Space) else []
    return min(len(rows), sum(rows) // chunk_bytes_max) + 1


def _values(data: Any, table: str) -> list[bytes]:
    after: Any = KEY_MIN if NETWORK_TABLES[table] else ""
    return [value for _, value in data.scan(table, after, 100_000)]
