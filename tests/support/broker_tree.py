"""A tree of brokers without faults, the first of them the root of the only source: what they pass on and deliver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from support.peer_network import PeerNetwork
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import Answer, Command, Document, Hello, Publish, Request, Welcome
from treecast.overlay.onyx.control_messages import CatalogDelta, CatalogEntry, NewView
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Forward, Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.routing import RoutingSettings
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.storage import Storage

Crossing = tuple[str, str, Parcel]
"""A document on a link: from, to, and how it travels."""


class BrokerTree:
    """A client at each broker, and a source at the root."""

    def __init__(
        self,
        root: str,
        parents: Mapping[str, str],
        settings: NetworkSettings,
        routing: Mapping[str, RoutingSettings] | None = None,
    ) -> None:
        """`routing` are the settings of brokers that have others than the usual ones."""
        self.network = PeerNetwork()
        self.names = (root, *parents)
        self._root = root
        self._settings = settings
        self._routing = routing or {}
        self._leases: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        self._greetings = 0
        view = View(1, {name: BrokerInfo() for name in self.names}, {root: dict(parents)})
        for name in self.names:
            self.network.add(name, partial(self._make, name))
        for name in self.names:
            self.network.tell("registry", name, NewView(view))
            self.greet(name)
        self.network.run(1_000)
        self.network.tell("registry", root, CatalogDelta(0, 1, [CatalogEntry("s", root, 1)]))

    def _make(self, name: str, storage: Storage, random: Random) -> NetworkBroker:
        routing = PathRouting(self._routing.get(name), seed=1)
        broker = BrokerSettings(announces=True)
        return NetworkBroker(
            name, storage, random, broker, self._settings, registries=("registry",), routing=routing
        )  # fmt: skip

    def broker(self, name: str) -> NetworkBroker:
        broker: NetworkBroker = self.network.peers[name]
        return broker

    def greet(self, name: str) -> None:
        """The client of a broker comes, or comes back."""
        self._greetings += 1
        (welcome,) = self.network.tell(f"c-{name}", name, Hello(f"c-{name}", nonce=self._greetings))
        assert isinstance(welcome, Welcome)
        self._leases[name], self._requests[name] = welcome.lease, welcome.answered

    def ask(self, name: str, command: Command) -> bool:
        """Let the client of a broker ask; whether that was done."""
        self._requests[name] += 1
        before = len(self.network.sent)
        self.network.tell(f"c-{name}", name, Request(self._requests[name], command, self._leases[name]))
        self.network.run(200)
        sent = self.network.sent[before:]
        answers = [message for _, to, message in sent if to == f"c-{name}" and isinstance(message, Answer)]
        return any(not answer.refusals for answer in answers)

    def publish(self, bodies: Sequence[bytes]) -> tuple[list[Crossing], dict[str, list[bytes]]]:
        """What crosses links, and by subscription what its broker delivers."""
        before = len(self.network.sent)
        events = {name: len(self.network.events[name]) for name in self.names}
        self.ask(self._root, Publish("s", [Document(body) for body in bodies]))
        self.network.run(1_000)
        crossings = [
            (sender, to, parcel)
            for sender, to, message in self.network.sent[before:]
            if isinstance(message, Forward)
            for parcel in Parcels.read(message.documents)
        ]
        delivered: dict[str, list[bytes]] = {}
        for name, begin in events.items():
            for event in self.network.events[name][begin:]:
                if isinstance(event, Published):
                    for id, payload in zip(event.subscriptions, event.payloads, strict=True):
                        delivered.setdefault(id, []).append(payload)
        return crossings, delivered
