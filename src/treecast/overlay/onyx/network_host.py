"""A host of brokers with replicas in a network: it serves its own broker, backs up others, and takes over from them.

Theory of operation. A broker with replicas is a `NetworkBroker` inside a `ReplicaHost`: what follows a group of its
changes leaves when its backup has the group. It speaks in its own name wherever it is served, and all that it knows
(subscriptions, documents, positions, the view, promises to registries) is part of its data. So a broker that another
host has taken over is one that has started again, as far as the others can see: with a new address, and a new life.

A host has a name that is not its broker's: what is for a host (`Role`, groups of changes) goes to that host, what is
for a broker goes where the broker is served now. The registry decides (`registry/roles.py`); a host tells it what it
has with `HostBeat`.

    >>> from random import Random
    >>> from treecast.sim import SimulatedStorage
    >>> host = NetworkHost("b1", SimulatedStorage(), Random(1), lambda *_: None, ("registry",))
    >>> host.listens("10.0.0.1:7400", (0, 0))
    >>> beat, served = host.tick(now_ms=0)
    >>> host.name, type(beat.message).__name__, served.event
    ('host:b1', 'HostBeat', Served(brokers=[]))
"""

from __future__ import annotations

from collections.abc import Container
from random import Random
from typing import Any

import msgspec

from treecast.overlay.broker.rows import BROKER_TABLES
from treecast.overlay.onyx.control_messages import HostBeat
from treecast.overlay.onyx.membership import CATALOG, CONTROL, MembershipSettings
from treecast.overlay.onyx.migration import ARRIVALS, MOVED, MOVES
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.positions import POSITIONS
from treecast.overlay.onyx.view import HOST, BrokerInfo, Location, certificates_of, host_name
from treecast.overlay.peer import Deliver, Effect, Send
from treecast.overlay.replica.host import Home, Make, ReplicaHost
from treecast.overlay.replica.member import Member
from treecast.overlay.replica.messages import Role
from treecast.overlay.replica.primary import Replicated
from treecast.overlay.replica.settings import ReplicaSettings
from treecast.overlay.storage import Storage

_TABLES = (CONTROL, CATALOG, POSITIONS, MOVES, MOVED, ARRIVALS)
NETWORK_TABLES: dict[str, bool] = {**BROKER_TABLES, **dict.fromkeys(_TABLES, False)}
"""All tables of a broker of a network, and whether their keys are integers."""
ADDRESSES_MAX = 1_000
"""Of other hosts, that are remembered."""


class Served(msgspec.Struct, frozen=True):
    """An event: these brokers are served here from now on, and no others."""

    brokers: list[str]


class _Hosts(Container[str]):
    """Every host of the network may be the primary or the backup of a broker: the registry says so, in terms."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith(HOST)


class NetworkHost(ReplicaHost):
    """A `Peer`. `make` makes a `NetworkBroker`; `last_body` is that of its own broker from a time without replicas."""

    speaks_as_brokers = True

    def __init__(
        self,
        broker: str,
        storage: Storage,
        random: Random,
        make: Make,
        registries: tuple[str, ...],
        settings: ReplicaSettings | None = None,
        membership: MembershipSettings | None = None,
        last_body: int = 0,
    ) -> None:
        self.own = broker
        self.address = ""
        self.location: Location = (0.0, 0.0)
        self.bandwidth = 0
        self._membership = membership or MembershipSettings()
        self._life_drawn = random.getrandbits(62)
        self._beat_ms: int | None = None
        self._addresses: dict[str, str] = {}
        self._served: list[str] | None = None  # as it was said last
        home = Home(broker, NETWORK_TABLES, last_body)
        super().__init__(host_name(broker), storage, random, make, _Hosts(), registries, settings, home)

    # --- where it is, and who is here ---------------------------------------------------------------------------------

    def listens(self, address: str, location: Location, bandwidth: int = 0) -> None:
        """Where others reach this host, and all brokers that it serves; and what it can send."""
        self.address, self.location, self.bandwidth = address, location, bandwidth
        for broker in self.brokers():
            broker.info = self._info()

    def _info(self) -> BrokerInfo:
        return BrokerInfo(self.address, self.location, bandwidth=self.bandwidth, host=self.name)

    def brokers(self) -> list[NetworkBroker]:
        """Those that are served here."""
        return [
            primary.inner
            for primary in self._primaries.values()
            if primary.end is None and isinstance(primary.inner, NetworkBroker)
        ]

    def resolve(self, name: str) -> str | None:
        """Where a host or a broker is, as far as is known here."""
        if name.startswith(HOST):
            return self._addresses.get(name)
        infos = [(broker.epoch, broker.membership.broker(name)) for broker in self.brokers()]
        known = [(epoch, info.address) for epoch, info in infos if info is not None]
        return max(known)[1] if known else None

    def addressee(self, name: str) -> str | None:
        """The broker that a connection is for, if it names `name`; empty: the host itself. None: it is not here."""
        if name == self.name:
            return ""
        if name in ("", self.own):
            return self.own
        return name if self.served(name) is not None else None

    def certificates_of(self, name: str) -> tuple[str, ...]:
        """Whose certificates a peer may show, besides its own."""
        return certificates_of(name, (info for broker in self.brokers() if (info := broker.membership.broker(name))))

    def _primary(self, broker: str) -> Replicated | None:
        """Who names no broker means this host's own, and no other."""
        return self._primaries.get(broker or self.own)

    def _open(self, member: Member) -> None:
        super()._open(member)
        inner = self._primaries[member.broker].inner
        if isinstance(inner, NetworkBroker):
            inner.info = self._info()

    # --- the peer -----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Role) and sender in self._controls and len(self._addresses) < ADDRESSES_MAX:
            self._addresses.update(message.addresses)
        return self._with_events(super().receive(sender, message, now_ms))

    def tick(self, now_ms: int) -> list[Effect]:
        effects = super().tick(now_ms)
        beat_ms = self._beat_ms
        if self.address and (beat_ms is None or not beat_ms <= now_ms < beat_ms + self._membership.heartbeat_ms):
            self._beat_ms = now_ms
            standings = [self._standing(broker, now_ms) for broker in self._members]
            beat = HostBeat(self.own, self._life_drawn, self.address, self.location, standings)
            effects += (Send(registry, beat) for registry in self._controls)
        return self._with_events(effects)

    def _with_events(self, effects: list[Effect]) -> list[Effect]:
        """Say who is served: first of all, since this host may have served others before it was made anew, and whenever
        that changes."""
        served = [name for name, primary in self._primaries.items() if primary.end is None]
        if served == self._served:
            return effects
        self._served = served
        return [*effects, Deliver(Served(served))]
