"""Who serves a broker with replicas: hosts and a registry that talk at once; hosts die, with their disks or without."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from support.peer_network import PeerNetwork

from treecast.index import Index
from treecast.overlay.messages import Document, Hello, Publish, RegisterSource, Request, Welcome
from treecast.overlay.onyx.control_messages import HostBeat
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_host import NetworkHost
from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry.rows import RoleRow
from treecast.overlay.onyx.view import BrokerInfo, host_name
from treecast.overlay.replica.messages import Standing
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

REGISTRY = "registry"
SETTINGS = RegistrySettings(return_ms=1_000, rejoin_ms=500, lost_ms=500, salvage_ms=60_000)


class HostNetwork(PeerNetwork):
    """A registry, and hosts of brokers b1, b2 and so on."""

    def __init__(self, count: int, settings: RegistrySettings = SETTINGS) -> None:
        super().__init__()
        self.places = self._place
        self.add(REGISTRY, lambda storage, random: Registry(REGISTRY, storage, random, settings))
        for number in range(1, count + 1):
            name = f"b{number}"
            self.add(host_name(name), partial(self._make, name))
        self.run(1_500)

    def _make(self, name: str, storage: SimulatedStorage, random: Random) -> NetworkHost:
        def make(broker: str, space: Any, random: Random, is_own: bool) -> NetworkBroker:
            index = Index(seed=random.getrandbits(32))
            return NetworkBroker(broker, space, random, index=index, registries=(REGISTRY,))

        host = NetworkHost(name, storage, random, make, (REGISTRY,))
        host.listens(host_name(name), (float(name[1:]), 0.0))
        return host

    def _place(self, name: str) -> str:
        """What the registry has decided, or, if it has lost that, whoever serves."""
        if name in self.registry.roles.rows:
            return self.role(name).primary
        hosts = {host: peer for host, peer in self.peers.items() if isinstance(peer, NetworkHost)}
        return next((host for host, peer in hosts.items() if name in [one.name for one in peer.brokers()]), name)

    @property
    def registry(self) -> Registry:
        registry: Registry = self.peers[REGISTRY]
        return registry

    def role(self, broker: str) -> RoleRow:
        return self.registry.roles.rows[broker]

    def served(self, broker: str) -> Any:
        return self.peers[self.role(broker).primary].served(broker)

    def state(self, broker: str) -> str:
        return self.registry.roles.state_of(broker)

    def lose(self, host: str) -> None:
        """It dies, and is back at once, with an empty disk."""
        self.stop(host)
        self.lose_disk(host)
        self.start(host)

    def publish(self, broker: str, number: int) -> None:
        if f"s-{broker}" not in self.registry.catalog.live():
            location = (float(broker[1:]), 0.0)
            (welcome,) = self.tell("owner", REGISTRY, Hello("owner", nonce=number))
            self.tell("owner", REGISTRY, Request(1, RegisterSource(f"s-{broker}", location=location), welcome.lease))
            self.run(500)
        (welcome,) = [m for m in self.say(broker, Hello(f"c{number}", nonce=number)) if isinstance(m, Welcome)]
        self.say(broker, Request(1, Publish(f"s-{broker}", [Document(b"<a/>")]), welcome.lease), f"c{number}")

    def say(self, broker: str, message: Any, client: str = "") -> list[Any]:
        client = client or message.client
        before = len(self.sent)
        self.do(self._place(broker), self._tell(self._place(broker), broker, client, message))
        return [answer for _, to, answer in self.sent[before:] if to == client]


def test_a_broker_begins_at_home_with_a_backup_elsewhere() -> None:
    network = HostNetwork(3)
    roles = {broker: network.role(broker) for broker in ("b1", "b2", "b3")}
    assert all(role.primary == host_name(broker) for broker, role in roles.items())
    assert all(role.backup not in ("", host_name(broker)) for broker, role in roles.items())
    assert all(network.state(broker) == "paired" for broker in roles)
    assert set(network.registry.view.brokers) == {"b1", "b2", "b3"}
    assert network.registry.view.brokers["b1"].host == "host:b1"


def test_a_lost_disk_is_taken_over_and_comes_home() -> None:
    network = HostNetwork(3)
    network.publish("b1", 1)
    store, documents = network.served("b1").broker.store_id, network.served("b1").broker.last_document
    backup = network.role("b1").backup
    network.lose("host:b1")
    network.run(500)
    assert network.role("b1").primary == backup and network.registry.roles.takeovers == 1
    taken = network.served("b1")
    assert (taken.broker.store_id, taken.broker.last_document) == (store, documents)
    network.publish("b1", 2)
    network.run(4_000)
    assert network.role("b1").primary == "host:b1" and network.state("b1") == "paired"
    assert network.served("b1").broker.last_document == documents + 1
    assert network.registry.roles.losses == 0


def test_a_silent_primary_is_taken_over_and_a_silent_backup_replaced() -> None:
    network = HostNetwork(3)
    backup = network.role("b1").backup
    network.stop("host:b1")
    network.run(SETTINGS.silent_ms + 1_000)
    assert network.role("b1").primary == backup and network.state("b1") == "paired"
    network.start("host:b1")
    network.run(5_000)
    role = network.role("b1")
    assert role.primary == "host:b1"
    network.stop(role.backup)
    network.run(SETTINGS.silent_ms + 1_500)
    assert network.role("b1").backup not in (role.backup, "") and network.state("b1") == "paired"


def test_without_another_host_a_broker_goes_on_alone_until_there_is_one() -> None:
    network = HostNetwork(2)
    network.stop("host:b2")
    network.run(SETTINGS.doubt_ms + 1_000)
    assert (network.role("b1").backup, network.state("b1")) == ("", "alone")
    network.publish("b1", 1)
    network.start("host:b2")
    network.run(SETTINGS.rejoin_ms + 2_000)
    assert (network.role("b1").backup, network.state("b1")) == ("host:b2", "paired")


def test_what_nobody_has_begins_anew_and_what_is_left_goes_on_as_another_store() -> None:
    network = HostNetwork(1)
    network.publish("b1", 1)
    network.lose("host:b1")
    network.run(1_500)
    assert network.registry.roles.losses == 1 and network.served("b1").broker.last_document == 0

    network = HostNetwork(2)
    store = network.served("b1").broker.store_id
    network.cut |= {("host:b1", "host:b2"), ("host:b2", "host:b1")}
    assert network.say("b1", Hello("c1", nonce=1)) == []  # nobody is told anything, until b1 may go on alone
    network.run(5_000)
    assert (network.role("b1").backup, network.state("b1")) in (("", "alone"), ("host:b2", "joining"))
    network.publish("b1", 2)
    network.lose("host:b1")
    network.run(1_500)
    assert network.role("b1").primary == "host:b2" and network.registry.roles.losses == 1
    assert network.served("b1").broker.store_id != store


def test_what_another_host_says_in_the_name_of_a_broker_is_not_heard() -> None:
    network = HostNetwork(2)
    before = network.registry.view.brokers["b1"]
    beat = network.registry.roster.heard["b1"].beat
    wrong = BrokerInfo("elsewhere:1", host="host:b2")
    network.tell("b1", REGISTRY, type(beat)(9, beat.epoch, beat.promised, beat.catalog, wrong))
    network.run(100)
    assert network.registry.view.brokers["b1"].address == before.address
    network.tell("host:b2", REGISTRY, HostBeat("b1", 1, "elsewhere:1", standings=[Standing("b1", 99, "alone", 5)]))
    network.run(100)
    assert network.role("b1").primary == "host:b1"


def test_roles_survive_the_registry() -> None:
    network = HostNetwork(3)
    network.lose("host:b1")
    network.run(500)
    before = dict(network.registry.roles.rows)
    network.stop(REGISTRY)
    network.start(REGISTRY)
    assert network.registry.roles.rows == before
    network.run(5_000)
    assert network.role("b1").primary == "host:b1" and network.state("b1") == "paired"


@pytest.mark.parametrize("state", ["alone", "paired"])
def test_a_registry_that_lost_its_store_learns_who_serves(state: str) -> None:
    network = HostNetwork(2 if state == "paired" else 1)
    network.publish("b1", 1)
    documents = network.served("b1").broker.last_document
    network.lose(REGISTRY)
    network.run(5_000)
    assert network.role("b1").primary == "host:b1" and network.state("b1") == state
    assert network.served("b1").broker.last_document == documents


def test_brokers_say_what_their_host_can_send() -> None:
    network = HostNetwork(2)
    host = network.peers[host_name("b1")]
    host.listens("b1:1", (0.0, 0.0), bandwidth=1_000)
    network.run(1_000)
    info = network.registry.view.brokers["b1"]
    assert (info.address, info.bandwidth) == ("b1:1", 1_000)
