"""A network by script: brokers and their registry in the simulated world.

    network = ScriptedNetwork(3)
    network.subscribe_and_wait("b3", "all")
    network.publish_and_wait("1")
    network.crash("b3", down_ms=500)
    network.publish_and_wait("2")
    network.expect_all_delivered()

Brokers are b1, b2 and so on; the first of them is the root of the only source. With `replicas=2` each has a backup on
the host of another one.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from support.script import SOURCE, Script
from treecast.index import Index
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.client import Answered
from treecast.overlay.messages import Inspect, RegisterSource
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_host import NetworkHost
from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry.status import inspect
from treecast.overlay.onyx.registry_client import RegistryClient
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import HOST, BrokerInfo, host_name
from treecast.overlay.peer import Peer
from treecast.sim.storage import SimulatedStorage

REGISTRY = "registry"
QUICK_REGISTRY = RegistrySettings(silent_ms=700, doubt_ms=1_500, view_ms=0, fan_out_max=1)
MEMBERSHIP = MembershipSettings(heartbeat_ms=80, gossip_ms=300)


class ScriptedNetwork(Script):
    """Without other settings its trees are chains, in the order of the brokers."""

    root = "b1"

    def __init__(
        self,
        brokers: int,
        *,
        seed: int = 1,
        replicas: int = 1,
        broker: BrokerSettings | None = None,
        network: NetworkSettings | None = None,
        registry: RegistrySettings | None = None,
    ) -> None:
        super().__init__(seed)
        self.brokers = [f"b{number}" for number in range(1, brokers + 1)]
        self._replicas = replicas
        self._broker_settings, self._network_settings = broker, network
        self._registry_settings = registry or QUICK_REGISTRY
        self._places: dict[tuple[str, str], str] = {}  # by client and broker: the host that it talks to
        self.world.place_of = self._place_of
        self.world.add_host(REGISTRY, self._start_registry)
        for name in self.brokers:
            start = partial(self._start_broker if replicas == 1 else self._start_host, name)
            # Each message has a frame of its own, so that any of them may be lost without the others.
            self.world.add_host(self.host_of(name), start, batches=False)
        self._register_source()

    def _register_source(self) -> None:
        """At the registry, which makes the nearest broker its root."""
        events: list[Any] = []
        operator = self.world.add_host(
            "operator", lambda _, random: RegistryClient("operator", (REGISTRY,), random), events.append
        )
        self.wait("brokers", lambda: len(self.status()) == len(self.brokers))
        command = RegisterSource(SOURCE, location=self._location(self.root))
        operator.call(lambda peer, now_ms: list(peer.request(command, now_ms)[1]))
        self.wait("a source", lambda: any(isinstance(event, Answered) for event in events))
        self.run(1_000)

    # --- its peers ----------------------------------------------------------------------------------------------------

    def host_of(self, broker: str) -> str:
        return broker if self._replicas == 1 else host_name(broker)

    def _location(self, broker: str) -> tuple[float, float]:
        return float(self.brokers.index(broker)), 0.0

    def _start_registry(self, storage: SimulatedStorage, random: Random) -> Peer:
        return Registry(REGISTRY, storage, random, self._registry_settings)

    def _make_broker(self, name: str, storage: Any, random: Random, is_own: bool = True) -> NetworkBroker:
        index = Index(seed=random.getrandbits(32))
        settings = self._broker_settings, self._network_settings
        return NetworkBroker(
            *(name, storage, random, *settings, index), registries=(REGISTRY,), membership=MEMBERSHIP
        )  # fmt: skip

    def _start_broker(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        broker = self._make_broker(name, storage, random)
        broker.info = BrokerInfo(name, self._location(name))
        return broker

    def _start_host(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        host = NetworkHost(name, storage, random, self._make_broker, (REGISTRY,), None, MEMBERSHIP)
        host.listens(host_name(name), self._location(name))
        return host

    def _place_of(self, sender: str, receiver: str) -> str | None:
        """The host to which something for a peer is sent."""
        if self._replicas == 1 or (receiver not in self.brokers and not receiver.startswith(HOST)):
            return receiver
        peer = self.world.hosts[sender].peer
        if isinstance(peer, NetworkHost):
            return peer.resolve(receiver)
        if isinstance(peer, Registry):
            info = peer.broker(receiver)
            return receiver if receiver.startswith(HOST) else info.address if info is not None else None
        return self._place_for_client(sender, receiver)

    def _place_for_client(self, client: str, broker: str) -> str:
        """A client stays with a host that is up and serves its broker, and else tries the others, as over TCP."""
        place = self._places.get((client, broker), host_name(broker))
        if not self._serves(place, broker):
            hosts = [host_name(name) for name in self.brokers]
            place = next((host for host in hosts if self._serves(host, broker)), place)
        self._places[client, broker] = place
        return place

    def _serves(self, host: str, broker: str) -> bool:
        peer: Any = self.world.hosts[host].peer
        return peer is not None and peer.served(broker) is not None

    # --- looking at it ------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, dict[str, str | int]]:
        """What `treecast status --network` shows of each broker."""
        registry = self.world.hosts[REGISTRY].peer
        assert isinstance(registry, Registry)
        return {str(row["key"]): row for row in inspect(Inspect(1, "brokers", "", 100), registry)}

    def is_backed_up(self, broker: str) -> bool:
        """Its own host and the disk of that may go: another host has all that was acknowledged."""
        row = self.status().get(broker, {})
        return row.get("replicas") == "paired" and row.get("host") == broker
