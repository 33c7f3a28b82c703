"""Brokers of a network, clients at them, faults; then all faults end, and everything that must arrive has to arrive.

Views come from a script (`scripted_registry.py`). What is looked at, besides what clients see (`network_checks.py`):

- Whenever a broker takes a range of a root's documents, by the tree or from the root, nothing is left out of it that a
  subscription of this broker matches. The oracle is the index of the broker itself and the root's own store.
- Positions never go back, on disk or in memory, and no document of a root is stored twice.
- In the end every routing table is what it would be if it were rebuilt from the subscriptions behind it.
- Buffers stay within their limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

from treecast.index import Index
from treecast.overlay.broker.rows import (
    DOCUMENTS,
    LETTERS,
    SUBSCRIPTIONS,
    DocumentRow,
    LetterRow,
    SubscriptionRow,
    decode,
)
from treecast.overlay.onyx.early_plan import EarlyPlan
from treecast.overlay.onyx.early_wants import EarlyWants
from treecast.overlay.onyx.link_formats import Arrival
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Plan
from treecast.overlay.onyx.positions import POSITIONS, PositionRow
from treecast.overlay.onyx.routing_protocol import LOCAL, Routing
from treecast.overlay.onyx.tree import Child
from treecast.overlay.peer import Peer
from treecast.overlay.receiver import Delivery
from treecast.overlay.storage import Storage
from treecast.sim.broker.application import Application
from treecast.sim.broker.checks import Letter
from treecast.sim.broker.course import Course
from treecast.sim.broker.history import History
from treecast.sim.broker.scenario import draw_client_settings
from treecast.sim.faults import Crash, Fault, FaultRates, HostFault, draw_faults
from treecast.sim.frames import PacketCodec
from treecast.sim.host import Host
from treecast.sim.onyx.network_checks import NUMBERS_PER_ROOT, NetworkChecks
from treecast.sim.onyx.network_workload import (
    NetworkWorkload,
    draw_broker_settings,
    draw_formats,
    draw_network,
    draw_network_settings,
)
from treecast.sim.onyx.scripted_registry import REGISTRY, ScriptedRegistry
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

MakeBroker = Callable[..., NetworkBroker]


class NetworkScenario:
    """A seed draws brokers, clients, settings and faults."""

    name = "network"

    def __init__(self, make_broker: MakeBroker | None = None, routing: Callable[[], Routing] | None = None) -> None:
        """Tests that plant a bug make brokers or routing tables themselves."""
        self._make_broker = make_broker or CheckedBroker
        self._routing = routing

    def network(self, seed: int) -> NetworkWorkload:
        return draw_network(seed)

    def faults(self, seed: int) -> list[Fault]:
        network = self.network(seed)
        hosts = [*network.brokers, *network.homes]
        brokers = (*network.roots, *network.homes.values(), *network.brokers)
        rates = FaultRates(crashing=(*brokers, *network.homes), restarting=brokers, storing=brokers)
        random = Random(f"{seed}/faults")
        faults = draw_faults(random, hosts, network.clients.duration_ms, rates)
        if faults and network.roots and random.random() < 0.3:
            # What a root has passed on, and what it has stored, must not differ when it is back.
            root, duration_ms = random.choice(network.roots), network.clients.duration_ms
            faults.append(HostFault("slow-disk", root, 0, duration_ms, random.choice([20, 100])))
            faults += [Crash(root, random.randrange(duration_ms), random.choice([1, 100])) for _ in range(3)]
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = NetworkRun(seed, self.network(seed), faults, self._make_broker, self._routing)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class CheckedBroker(NetworkBroker):
    """Reports each range that it takes, and what was in it."""

    on_range: Callable[[NetworkBroker, str, int, int, Sequence[Arrival]], None] | None = None

    def _take_parcels(self, root: str, upto: int, parcels: Sequence[Arrival], turn: Any) -> None:
        before = self.positions.number(root)
        super()._take_parcels(root, upto, parcels, turn)
        if self.on_range is not None and self.positions.number(root) > before:
            self.on_range(self, root, before, self.positions.number(root), parcels)


class NetworkRun(Course):
    """A run with many brokers."""

    quiet_ms = 1_000

    def __init__(
        self,
        seed: int,
        network: NetworkWorkload,
        faults: Sequence[Fault],
        make_broker: MakeBroker,
        routing: Callable[[], Routing] | None,
    ) -> None:
        self.seed = seed
        self.world = world = self._make_world(seed)
        self.network = network
        self.faults = faults
        self.history = History()
        self._make_broker = make_broker
        self._routing = routing
        random = world.random_of("settings")
        self.settings = draw_broker_settings(random)
        self.network_settings = draw_network_settings(random)
        world.network.delay_us = random.choice([50, 500, 20_000])
        world.network.jitter_us = random.choice([1, 500, 20_000])
        sync_us = random.choice([(1, 1), (50, 2_000), (5_000, 30_000)])
        batches = random.random() < 0.7
        self._positions: dict[tuple[str, str], int] = {}  # the highest that was seen on disk
        self._seen_documents: dict[
            str, tuple[int, set[tuple[str, int]]]
        ] = {}  # by broker: documents of others, up to a number
        self._arrivals: dict[tuple[int, int], int] = {}
        self._stores: dict[str, int] = {}  # by store: the place of its broker
        self.hosts: dict[str, Host] = {}
        self._add_brokers(sync_us, batches)
        numbers = count(1)
        self._client_settings = client_settings = draw_client_settings(random)
        self.applications = [
            Application(
                *(world, plan, network.clients, self.history, client_settings, list, lambda: next(numbers)),
                broker=network.homes[plan.name],
                identify=self._identifier(network.homes[plan.name]),
                first_number=self._place(network.homes[plan.name]) * NUMBERS_PER_ROOT,
            )
            for plan in network.clients.clients
        ]

    def _make_world(self, seed: int) -> World:
        return World(seed, PacketCodec())

    def _add_brokers(self, sync_us: tuple[int, int], batches: bool) -> None:
        """And who tells them of each other."""
        for name in self.network.brokers:
            self.hosts[name] = self.world.add_host(name, self._factory(name), sync_us=sync_us, batches=batches)
        self.registry = ScriptedRegistry(self.world, self.network.brokers, self.network.roots)

    def _data(self, broker: str) -> Any:
        """What a broker has on its disk."""
        return self.hosts[broker].storage

    def _place(self, broker: str) -> int:
        return self.network.brokers.index(broker)

    def _identifier(self, home: str) -> Callable[[Delivery], int]:
        def identify(delivery: Delivery) -> int:
            return self._number(home, delivery.document, delivery.origin, delivery.origin_number)

        return identify

    def _number(self, home: str, document: int, origin: str, origin_number: int) -> int:
        """A document's number, the same wherever it is."""
        place = self._stores[origin] if origin else self._place(home)
        return place * NUMBERS_PER_ROOT + (origin_number if origin else document)

    def _factory(self, name: str) -> Callable[[SimulatedStorage, Random], Peer]:
        return lambda storage, random: self._new_broker(name, storage, random)

    def _new_broker(self, name: str, storage: Storage, random: Random, **more: Any) -> NetworkBroker:
        index = Index(seed=random.getrandbits(32))
        more["registries"] = (REGISTRY,)
        if self._routing is not None:
            more["routing"] = self._routing()
        settings = draw_formats(Random(f"{self.seed}/{name}/formats"), self.network_settings)
        broker = self._make_broker(name, storage, random, self.settings, settings, index, **more)
        if isinstance(broker, CheckedBroker):
            broker.on_range = self._check_range
        # Publishers add and remove sources at their broker: this world has no catalog.
        broker.broker.objection_to = lambda _: None
        broker.broker.objection_to_source = lambda _: None
        self._stores[broker.broker.store_id] = self._place(name)
        return broker

    # -- the course of a run

    def _begin(self) -> None:
        self.registry.begin()

    def _calm_down(self) -> None:
        self.registry.is_calm = True

    def _duration_ms(self) -> int:
        return self.network.clients.duration_ms

    def _mistakes(self) -> list[str]:
        return self._checks().all() or [*self._wrong_tables(), *self._wrong_plans()]

    def _leftovers(self) -> list[str]:
        return [f"not quiet: {name} {peer.stats()}" for name, peer in self._peers()]

    def _is_quiet(self) -> bool:
        peers = dict(self._peers())
        if len(peers) < len(self.network.brokers):
            return False
        for peer in peers.values():
            stats = peer.stats()
            busy = ("queued", "waiting", "parked", "held", "early_bytes")
            if any(stats[name] for name in busy) or stats["covered"] < len(self.network.roots):
                return False
            for root in self.network.roots:
                if root != peer.name and peer.positions.number(root) < peers[root].broker.last_document:
                    return False
        return True

    # -- looking at the brokers

    def _peers(self) -> Iterator[tuple[str, NetworkBroker]]:
        for name, host in self.hosts.items():
            if isinstance(host.peer, NetworkBroker):
                yield name, host.peer

    def _letters(self) -> list[Letter]:
        letters = []
        for name in self.network.brokers:
            for _, data in self._data(name).scan(LETTERS, 0, 10_000):
                row = decode(data, LetterRow)
                number = self._number(name, row.document, row.origin, row.origin_number)
                letters.append(Letter(row.subscription, number, row.payload, row.reason))
        return letters

    def _checks(self) -> NetworkChecks:
        clients = self.network.clients.clients
        hosts = {id: self._place(self.network.homes[client.name]) for client in clients for id in client.owned}
        return NetworkChecks(self.history, self._letters(), hosts, self._arrivals)

    def _check_range(self, broker: NetworkBroker, root: str, after: int, upto: int, parcels: Sequence[Arrival]) -> None:
        """Nothing is left out that somebody here wants, and nothing came that a crash of its root can take back."""
        storage = self._data(root)
        numbers = {parcel.number for parcel in parcels}
        place, first = self._place(broker.name), self._place(root) * NUMBERS_PER_ROOT
        if numbers and not storage.scan(DOCUMENTS, max(numbers) - 1, 1):
            self.world.fail(f"{broker.name} took {max(numbers)} of {root}, which is not durable there")
        for number, data in storage.scan(DOCUMENTS, after, 100_000):
            if number > upto:
                break
            row = decode(data, DocumentRow)
            self._arrivals[place, first + number] = self.world.now_us
            if row.origin or number in numbers:
                continue
            if subscriptions := broker.broker.index.match(storage.body(row.body)):
                self.world.fail(f"{broker.name} took ({after}, {upto}] of {root} without {number}, for {subscriptions}")

    def _check_invariants(self) -> None:
        """Positions only grow, nothing is there twice, and memory stays within what the settings say."""
        for name, host in self.hosts.items():
            for root, data in host.storage.scan(POSITIONS, "", 1_000):
                number = decode(data, PositionRow).number
                if number < self._positions.get((name, root), 0):
                    self.world.fail(f"the position of {name} in {root} went back to {number}")
                self._positions[name, root] = number
            last, seen_documents = self._seen_documents.setdefault(name, (0, set()))
            self._seen_documents[name] = (self._check_once(name, host.storage, last, seen_documents), seen_documents)
        self._check_limits()

    def _check_once(self, name: str, storage: Any, last: int, seen_documents: set[tuple[str, int]]) -> int:
        """No document of a root is there twice. Those up to `last` were looked at; returns the last one."""
        for number, data in storage.scan(DOCUMENTS, last, 100_000):
            row = decode(data, DocumentRow)
            if row.origin and (row.origin, row.origin_number) in seen_documents:
                self.world.fail(f"{name} has document {row.origin_number} of {row.origin} twice: {number}")
            seen_documents.add((row.origin, row.origin_number))
            last = number
        return last

    def _check_limits(self) -> None:
        settings = self.network_settings
        for name, peer in self._peers():
            stats = peer.stats()
            slack = 10_000  # one document may be larger than a limit
            limits = {
                "link_bytes": stats["links"] * (settings.link_window_bytes + settings.link_buffer_bytes_max + slack),
                "early_bytes": stats["trees"] * settings.early_bytes_max,
                "held": settings.held_requests_max,
                "gone": 0,
            }
            for what, limit in limits.items():
                if stats[what] > limit:
                    self.world.fail(f"{name} has {what} = {stats[what]}, more than {limit}")

    def _wrong_tables(self) -> Iterator[str]:
        """Tables that are not what they would be if they were rebuilt."""
        peers = dict(self._peers())
        missing = [name for name in self.network.brokers if name not in peers]
        missing += [name for name, peer in peers.items() if not set(self.network.roots) <= peer.trees.keys()]
        if missing:
            yield f"{', '.join(missing)} do not serve, or lack a tree"
            return
        own = {name: _rebuild_wants(peer) for name, peer in peers.items()}
        for root in self.network.roots:
            rebuilt: dict[str, Any] = {}

            def rebuild(name: str, root: str = root, rebuilt: dict[str, Any] = rebuilt) -> Any:
                if name not in rebuilt:
                    rebuilt[name] = _rebuild_aggregate(peers[name], root, own[name], rebuild)
                return rebuilt[name]

            for name, peer in peers.items():
                if peer.trees[root].table.aggregate().encode() != rebuild(name).encode():
                    yield f"the table of {name} for {root} is not what it would be if it were built anew"

    def _wrong_plans(self) -> Iterator[str]:
        """The same for plans. With room for few queries, what is left out depends on the order in which they came."""
        if self.network_settings.plan_queries_max < self.network.subscriptions_max:
            return
        peers = dict(self._peers())
        for root in self.network.roots:
            rebuilt: dict[str, Any] = {}

            def rebuild(name: str, root: str = root, rebuilt: dict[str, Any] = rebuilt) -> Any:
                if name not in rebuilt:
                    rebuilt[name] = self._rebuild_plan(peers[name], root, rebuild)
                return rebuilt[name]

            for name, peer in peers.items():
                if peer.trees[root].plan.own != rebuild(name):
                    yield f"the plan of {name} for {root} is {peer.trees[root].plan.own}, and not {rebuild(name)}"

    def _rebuild_plan(self, peer: NetworkBroker, root: str, plan_of: Callable[[str], Plan]) -> Plan:
        """What a broker should tell its parent, by its subscriptions and by the plans of its children."""
        wants, plan = EarlyWants(self.network_settings), EarlyPlan(self.network_settings)
        rows = (decode(data, SubscriptionRow) for _, data in peer.broker.shadow.rows(SUBSCRIPTIONS, ""))
        for _ in wants.load(rows):
            pass
        while not wants.is_settled:
            wants.refine(list)
        plan.set(LOCAL, wants.plan)
        for child in peer.trees[root].children:
            plan.set(child, plan_of(child))
        return plan.own

    def counts(self) -> dict[str, int]:
        """How much happened: a scenario in which nothing happens finds nothing."""
        history = self.history
        own = {(name, id) for name in self.network.brokers for id, _ in self._data(name).scan(SUBSCRIPTIONS, "", 1_000)}
        stats = [peer.stats() for _, peer in self._peers()]
        return {
            "brokers": len(self.network.brokers),
            "roots": len(self.network.roots),
            "views": self._views(),
            "operations": len(history.operations),
            "in_doubt": sum(operation.is_in_doubt for operation in history.operations),
            "subscriptions": len(own),
            "received": len(history.received),
            "remote": sum(self._is_remote(receipt.client, receipt.document) for receipt in history.receipts),
            "repaired": sum(stat["repaired"] for stat in stats),
            "forwarded": sum(stat["forwarded"] for stat in stats),
            "misread": sum(stat["misread"] for stat in stats),
            "formats": len({child.format for _, peer in self._peers() for child in _children(peer)}),
            "dictionaries": sum(":" in child.format for _, peer in self._peers() for child in _children(peer)),
            "cuts": sum(stat["link_cuts"] for stat in stats),
            "saved": sum(stat["link_bytes_saved"] for stat in stats),
            "parts": sum(stat["parts"] for stat in stats),
            "unfit": sum(stat["unfit"] for stat in stats),
            "starts": sum(host.incarnation > 1 for host in self.world.hosts.values()),
        }

    def _views(self) -> int:
        return self.registry.views

    def _is_remote(self, client: str, document: int) -> bool:
        return document // NUMBERS_PER_ROOT != self._place(self.network.homes[client])


def _children(broker: NetworkBroker) -> Iterator[Child]:
    return (child for tree in broker.trees.values() for child in tree.children.values())


def _rebuild_wants(broker: NetworkBroker) -> Any:
    """What the subscriptions of a broker want together, recomputed."""
    rows = broker.broker.shadow.rows(SUBSCRIPTIONS, "")
    return broker.wants.rebuilt(decode(data, SubscriptionRow) for _, data in rows)


def _rebuild_aggregate(broker: NetworkBroker, root: str, wants: Any, aggregate_of: Callable[[str], Any]) -> Any:
    """What a broker should tell its parent, by what it wants itself and by its children's aggregates."""
    table = broker.routing.root_table() if root == broker.name else broker.routing.table()
    if root != broker.name:
        table.update(LOCAL, wants, broker.routing.empty())
    for child in broker.trees[root].children:
        table.update(child, aggregate_of(child), broker.routing.empty())
    return table.aggregate()
