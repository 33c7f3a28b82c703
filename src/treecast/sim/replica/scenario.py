"""A broker with a backup on two hosts, under all faults, among them crashes without the disk.

A host loses its disk only while the other one has everything that was acknowledged, as far as the control plane's last
decision goes: whoever serves alone and loses its disk loses data, and no checker can ask for it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from treecast.index import Index
from treecast.overlay.broker import Broker
from treecast.overlay.peer import Peer
from treecast.overlay.replica import ReplicaHost, ReplicaSettings
from treecast.overlay.replica.host import Home
from treecast.overlay.replica.member import MemberRow, read_members
from treecast.overlay.replica.messages import Copied
from treecast.overlay.replica.snapshot import KEY_MIN
from treecast.overlay.replica.space import Space
from treecast.overlay.storage import Storage
from treecast.sim.broker.application import BROKER
from treecast.sim.broker.scenario import BrokerRun, BrokerScenario
from treecast.sim.broker.workload import Workload
from treecast.sim.faults import Fault, FaultRates, LinkFault, Partition, draw_faults
from treecast.sim.host import Host
from treecast.sim.replica.control import CONTROL, Control
from treecast.sim.replica.routed_world import RoutedWorld, draw_crash
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

HOSTS = ("b1", "b2")
SLOW_NETWORK_US = 20_000
SLOW_REFILL_ROWS = 20
CLIENT_LAG_MS_MAX = 1_500
"""So long after a decision clients may look for the broker at the wrong host."""


def draw_replica_settings(random: Random) -> ReplicaSettings:
    """Limits as small as they may be in some runs, so that what they lead to happens."""

    def draw(usual: int, *extreme: int) -> int:
        return random.choice(extreme) if random.random() < 0.4 else usual

    return ReplicaSettings(
        resend_ms=draw(100, 20, 500),
        resend_ms_max=draw(500, 1_000),
        alone_ms=draw(500, 100, 2_000),
        window_groups_max=draw(1_000, 1, 3),
        window_bytes_max=draw(16 << 20, 1, 500),
        part_bytes_max=draw(256 << 10, 50, 200),
        group_bytes_max=draw(256 << 20, 1_500),
        behind_groups_max=draw(10_000, 5, 20),
        held_effects_max=draw(20_000, 5, 20),
        chunk_bytes_max=draw(256 << 10, 1, 300),
        chunk_rows_max=draw(256, 1, 3),
        chunks_ahead_max=draw(4, 1, 2),
        lineage_max=draw(64, 2, 3),
        clean_rows_max=draw(1_000, 5, 20),
    )


def draw_pair_faults(random: Random, duration_ms: int) -> Iterator[Fault]:
    """What is hard on the two hosts in particular: lost disks, and a host that only some can reach."""

    def period() -> tuple[int, int]:
        begin = random.randrange(duration_ms)
        return begin, begin + random.choice([100, 1_000, 3_000])

    for _ in range(random.choice([0, 1, 3])):
        yield draw_crash(random, HOSTS, range(duration_ms), [1, 300, 1_000])
    for _ in range(random.choice([0, 1, 2])):
        first, second = random.sample(HOSTS, 2)
        groups = random.choice([[[first], [second]], [[first], [second, CONTROL]], *[[[first], [CONTROL]]] * 2])
        yield Partition(groups, *period(), one_way=random.random() < 0.3)
    for _ in range(random.choice([0, 2, 4])):
        effect: Any = random.choice(["loss", "duplication", "reordering", "reordering", "delay"])
        amount = random.choice([50, 300]) if effect in ("loss", "duplication") else random.choice([20, 200])
        sender, receiver = random.sample(HOSTS, 2)
        yield LinkFault(effect, sender, receiver, random.randrange(duration_ms // 2), duration_ms, amount)


def draw_stream_faults(random: Random, duration_ms: int) -> Iterator[Fault]:
    """Hosts that serve as a pair all the while, over links that lose groups or bring them in any order; then a crash.
    With all other faults beside these, a pair is rarely one for long."""
    for sender, receiver in (HOSTS, HOSTS[::-1]):
        effect: Any = random.choice(["loss", "reordering"])
        amount = random.choice([30, 100]) if effect == "loss" else random.choice([5, 30])
        yield LinkFault(effect, sender, receiver, 0, duration_ms, amount)
    if random.random() < 0.5:
        yield draw_crash(random, HOSTS, range(duration_ms // 2, duration_ms), [1, 300])


class ReplicaScenario(BrokerScenario):
    """A seed draws workload, settings and faults."""

    name = "replica"

    def __init__(self, make_host: Callable[..., ReplicaHost] = ReplicaHost) -> None:
        """Tests that plant a bug make the hosts' peers themselves."""
        super().__init__()
        self._make_replica_host = make_host

    def faults(self, seed: int) -> list[Fault]:
        workload = self.workload(seed)
        stream_random = Random(f"{seed}/stream faults")
        if stream_random.random() < 0.3:
            return list(draw_stream_faults(stream_random, workload.duration_ms))
        clients = [client.name for client in workload.clients]
        rates = FaultRates(
            crashing=(*HOSTS, *HOSTS, *HOSTS, *clients), restarting=(*HOSTS, *HOSTS), storing=HOSTS, loses_disk=True
        )
        random = Random(f"{seed}/replica faults")
        faults = draw_faults(random, [*HOSTS, CONTROL, *clients], workload.duration_ms, rates)
        return faults + list(draw_pair_faults(random, workload.duration_ms))

    def workload(self, seed: int) -> Workload:
        """Long enough for a host to be missed."""
        usual, random = super().workload(seed), Random(f"{seed}/replica workload")
        return msgspec.structs.replace(
            usual,
            duration_ms=random.choice([1_500, 2_500]),
            clients=[msgspec.structs.replace(client, action_ms=random.choice([30, 60])) for client in usual.clients],
        )

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = ReplicaRun(seed, self.workload(seed), faults, self._make_broker, self._make_host)
        run.make_replica_host = self._make_replica_host
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class ReplicaRun(BrokerRun):
    """A run with two hosts and a control plane."""

    world: RoutedWorld
    make_replica_host: Callable[..., ReplicaHost] = ReplicaHost

    def _make_world(self, seed: int) -> World:
        return RoutedWorld(seed)

    def _add_brokers(self, random: Random, make_host: Callable[..., Host]) -> None:
        world = self.world
        self.replica_settings = draw_replica_settings(world.random_of("replica settings"))
        if world.network.delay_us + world.network.jitter_us >= SLOW_NETWORK_US:
            # Each step of reading a backlog waits for the backup: one row at a time would take minutes.
            rows_max = max(self.settings.refill_rows_max, SLOW_REFILL_ROWS)
            self.settings = msgspec.structs.replace(self.settings, refill_rows_max=rows_max)
        self.machines: dict[str, Host] = {}
        for name in HOSTS:
            sync_us = random.choice([(1, 1), (50, 2_000), (5_000, 30_000)])
            machine = Host(world, name, self._starter(name), sync_us=sync_us, batches=random.random() < 0.7)
            self.machines[name] = world.hosts[name] = machine
        self.control = Control(BROKER, HOSTS, world.random_of(CONTROL), self._has_data)
        world.add_host(CONTROL, lambda storage, random: self.control)
        world.place_of = self._place_of
        world.may_lose_disk = self._may_lose_disk
        world.on_send = self._check_send
        self._places: list[tuple[int, str]] = [(0, HOSTS[0])]
        self._lags: dict[str, int] = {}
        self._lag_random = world.random_of("lags")

    def play(self) -> None:
        for machine in self.machines.values():  # not earlier: a test may have other peers for them
            machine.start()
        super().play()

    def _starter(self, name: str) -> Callable[[SimulatedStorage, Random], Peer]:
        home = Home(BROKER) if name == HOSTS[0] else None

        def start(storage: SimulatedStorage, random: Random) -> Peer:
            partners = [other for other in HOSTS if other != name]
            return self.make_replica_host(
                name, storage, random, self._make, partners, CONTROL, self.replica_settings, home
            )

        return start

    def _make(self, broker: str, storage: Storage, random: Random, is_own: bool) -> Peer:
        return self._make_broker(broker, storage, random, self.settings, Index(seed=random.getrandbits(32)), 0)

    # -- where the broker is

    def _place_of(self, client: str, receiver: str) -> str:
        if receiver != BROKER:
            return receiver
        now_us = self.world.now_us
        primary = self.control.role.primary
        if primary != self._places[-1][1]:
            self._places.append((now_us, primary))
            self._lags = {}
        if client not in self._lags:
            self._lags[client] = self._lag_random.randrange(CLIENT_LAG_MS_MAX) * 1000
        for since_us, place in reversed(self._places):
            if now_us >= since_us + self._lags[client]:
                return place
        return self._places[0][1]

    def _row(self, host: str) -> MemberRow:
        """What a host has on its disk about the broker."""
        rows = [member.row for member in read_members(self.machines[host].storage, 10)]
        return rows[0] if rows else MemberRow()

    def _check_send(self, host: str, message: Any) -> None:
        """What a backup says that it has is on its disk: a crash of both hosts may come at any time."""
        if not isinstance(message, Copied):
            return
        row = self._row(host)
        replica = row.coming or row.replica
        group_on_disk = replica.group if replica is not None else 0
        if message.group > group_on_disk:
            self.world.fail(f"{host} says that it has group {message.group}, and has {group_on_disk} on its disk")

    def _has_data(self, host: str) -> bool:
        return self.machines[host].is_up and self._row(host).replica is not None

    def _may_lose_disk(self, host: str) -> bool:
        if host not in HOSTS:
            return True
        role, other = self.control.role, self.control.other(host)
        row = self._row(other)
        if role.primary == host:
            # It may have been appointed again and again, for another backup: only this one can take over.
            return role.backup == other and row.complete_term == role.term
        reign = row.term if row.primary == other else row.complete_term
        return row.replica is not None and reign >= role.after

    # -- looking at the broker

    def _serving(self) -> tuple[Any, Space | None]:
        """The broker that is served where it should be, and its data."""
        host: Any = self.machines[self.control.role.primary].peer
        if host is None:
            return None, None
        return host.served(BROKER), host.space(BROKER)

    def _stats(self) -> dict[str, int]:
        broker, _ = self._serving()
        return broker.stats() if isinstance(broker, Broker) else {}

    def _rows(self, table: str, after: Any) -> list[tuple[Any, bytes]]:
        _, space = self._serving()
        return list(space.scan(table, after, 10_000)) if space is not None else []

    def _check_invariants(self) -> None:
        super()._check_invariants()
        if self._is_paired():  # at any time: another snapshot might hide what was wrong
            self._compare()

    def _finish(self) -> None:
        self.control.is_calm = True
        self._wait("a pair", self._is_paired)
        super()._finish()
        if self.world.failure is None:
            self._wait("a pair in the end", self._is_paired)
            self._compare()

    def _is_paired(self) -> bool:
        role = self.control.role
        if not role.backup or not all(machine.is_up for machine in self.machines.values()):
            return False
        primary, backup = self._row(role.primary), self._row(role.backup)
        if primary.term != role.term or backup.complete_term != role.term or not primary.replica or not backup.replica:
            return False
        return not backup.coming and primary.replica.group == backup.replica.group

    def _compare(self) -> None:
        """Both hosts have the same."""
        role = self.control.role
        peers: list[Any] = [self.machines[host].peer for host in (role.primary, role.backup)]
        spaces = [peer.space(BROKER) for peer in peers]
        replica = self._row(role.primary).replica
        assert replica is not None
        tables = replica.tables
        for table, is_integer in tables.items():
            after: Any = KEY_MIN if is_integer else ""
            first, second = (space.scan(table, after, 100_000) for space in spaces)
            if first != second:
                self.world.fail(f"primary and backup differ in {table}: {first} and {second}")
        first, second = (dict(space.bodies(0)) for space in spaces)
        # Each drops bodies when it can, and perhaps later than the other.
        begin = max(min(bodies, default=0) for bodies in (first, second))
        if any(first.get(number) != second.get(number) for number in {*first, *second} if number >= begin):
            self.world.fail("primary and backup differ in their bodies")

    def counts(self) -> dict[str, int]:
        slots = sum(row.last_slot for row in map(self._row, HOSTS))
        return {
            **super().counts(),
            "terms": self.control.role.term,
            "takeovers": self.control.takeovers,
            "lost_disks": self.world.lost_disks,
            "snapshots": slots,
        }
