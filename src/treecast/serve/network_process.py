"""A broker of a network, or its registry, in a process of its own: real store, real runtime, links to the others.

    run_network_peer(NetworkOptions(directory="b1", listen=("127.0.0.1", 7401), name="b1",
                                    registries={"registry": "127.0.0.1:7400"}), log, print)

Every broker is told where the registries are; from their views it learns where the other brokers are. A registry learns
that from the heartbeats of the brokers.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from random import Random
from typing import Any

import structlog

from treecast.durable import unused_name
from treecast.overlay.broker.rows import META, Counters, decode
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.network_broker import Gone, NetworkBroker
from treecast.overlay.onyx.network_host import NetworkHost, Served
from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry.relearning import Relearnt
from treecast.overlay.onyx.registry.settings import Policy
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import HOST, BrokerInfo, host_name
from treecast.overlay.peer import Peer
from treecast.overlay.replica import ReplicaSettings
from treecast.overlay.replica.member import MEMBERS
from treecast.overlay.storage import Storage, StorageError
from treecast.serve.address import format_address
from treecast.serve.broker_process import BrokerOptions, check_options, in_thread, serve
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.store import Store
from treecast.serve.tls import client_context, server_context


def registry_settings(
    *, policy: Policy = "near", fan_out_max: int = 4, allow: tuple[str, ...] = ()
) -> RegistrySettings:
    """Those of a registry, as far as its command has options for them."""
    return RegistrySettings(policy=policy, fan_out_max=fan_out_max, allow=allow)


class NetworkOptions(BrokerOptions, frozen=True, kw_only=True):
    """What a broker of a network, or a registry, is started with."""

    registries: dict[str, str]
    """Addresses of the registries, by their names."""
    address: str = ""
    """Where others reach this peer; empty: where it listens."""
    location: tuple[float, float] = (0.0, 0.0)
    bandwidth: int = 0
    """Bytes a second that a broker can send; 0: enough for all sources."""
    replicas: int = 1
    """Of a broker, with 2: what is acknowledged is on the disks of two hosts."""
    replica: ReplicaSettings = ReplicaSettings()
    network: NetworkSettings = NetworkSettings()
    membership: MembershipSettings = MembershipSettings()
    registry: RegistrySettings = registry_settings()


class NetworkPeer:
    """The peer of a process, whenever it is made anew, and where the others are."""

    def __init__(self, options: NetworkOptions) -> None:
        self._options = options
        self._peer: NetworkBroker | NetworkHost | Registry | None = None
        self._address = options.address

    @property
    def is_registry(self) -> bool:
        return self._options.name in self._options.registries

    def open(self) -> tuple[Peer, PeerStore]:
        """Open the store, and make the peer from what it holds. Raises StorageError."""
        options = self._options
        store = Store.open(options.directory)
        try:
            gc.disable()
            self._peer = self._make(store)
            self._tell_address()
            gc.freeze()  # nor is it to be looked at whenever garbage is collected
            return self._peer, store
        except BaseException:
            store.close()
            raise
        finally:
            gc.enable()

    def _make(self, store: Store) -> NetworkBroker | NetworkHost | Registry:
        options = self._options
        random, registries = Random(unused_name()), tuple(options.registries)
        if self.is_registry:
            return Registry(options.name, store, random, options.registry, registries)
        if options.replicas > 1:
            return self._make_host(store, random, registries)
        if store.scan(MEMBERS, "", 1):
            raise replicas_left(options.directory)
        return self._make_broker(options.name, store, random, store)

    def _make_broker(self, name: str, storage: Storage, random: Random, indexes: Store | None) -> NetworkBroker:
        """With the index that was saved in a store, if its broker was never served elsewhere."""
        options = self._options
        index, version = (indexes.load_index() if indexes is not None else None) or (None, 0)
        return NetworkBroker(
            *(name, storage, random, options.broker, options.network, index, version, in_thread),
            registries=tuple(options.registries),
            membership=options.membership,
        )

    def _make_host(self, store: Store, random: Random, registries: tuple[str, ...]) -> NetworkHost:
        options = self._options

        def make(name: str, storage: Storage, random: Random, is_own: bool) -> Peer:
            return self._make_broker(name, storage, random, store if is_own else None)

        data = store.get(META, "counters")
        last_body = decode(data, Counters).body if data is not None else 0
        return NetworkHost(
            *(options.name, store, random, make, registries, options.replica, options.membership, last_body)
        )

    def listens(self, host: str, port: int) -> None:
        """Now it is known where others reach it, if nobody has said so before."""
        self._address = self._address or format_address(host, port)
        self._tell_address()

    def _tell_address(self) -> None:
        if isinstance(self._peer, NetworkBroker):
            self._peer.info = BrokerInfo(self._address, self._options.location, bandwidth=self._options.bandwidth)
        elif isinstance(self._peer, NetworkHost):
            self._peer.listens(self._address, self._options.location, self._options.bandwidth)

    def resolve(self, name: str) -> str | None:
        """Where a peer is."""
        if name in self._options.registries:
            return self._options.registries[name]
        if isinstance(self._peer, NetworkHost):
            return self._peer.resolve(name)
        if isinstance(self._peer, Registry) and name.startswith(HOST):
            return self._peer.roles.address(name)
        if isinstance(self._peer, NetworkBroker):
            info = self._peer.membership.broker(name)
        else:
            info = self._peer.broker(name) if self._peer is not None else None
        return info.address if info is not None else None


def replicas_left(directory: str) -> StorageError:
    return StorageError(
        f"the data in {directory} are those of a host with replicas",
        code="TC426",
        hint="start it with --replicas 2: another host may have newer data of its broker",
    )


class NetworkLog:
    """A `LocalPeer` that writes to the log what a broker has lost, because its root did not keep it long enough, and
    which brokers a host serves."""

    name = "log of a network"

    def __init__(self, log: structlog.typing.FilteringBoundLogger, runtime: Runtime) -> None:
        self._log = log
        self._runtime = runtime

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None:
        if isinstance(event, Gone):
            self._log.error("documents are gone", root=event.root, after=event.after, upto=event.upto)
        elif isinstance(event, Served):
            self._log.info("brokers are served", brokers=event.brokers)
            self._runtime.keep_only(event.brokers)
        elif isinstance(event, Relearnt):
            self._log.warning("what was lost is learnt from brokers", brokers=event.brokers, sources=event.sources)


def run_network_peer(
    options: NetworkOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """`serve_network_peer`, in an event loop of its own."""
    asyncio.run(serve_network_peer(options, log, announce))


async def serve_network_peer(
    options: NetworkOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when others may come. Raises TreecastError."""
    check_options(options)
    peer, runtime = make_runtime(options, log)

    def reached_at(host: str, port: int) -> None:
        peer.listens(host, port)
        announce(host, port)

    await serve(runtime, options.listen, options.status, options.directory, log, reached_at)


def make_runtime(options: NetworkOptions, log: structlog.typing.FilteringBoundLogger) -> tuple[NetworkPeer, Runtime]:
    """A peer with links to the others; the runtime is still to be started. Raises TransportError TC409."""
    peer = NetworkPeer(options)
    server_tls = server_context(options.tls) if options.tls else None
    client_tls = client_context(options.tls) if options.tls else None
    random = Random(unused_name())
    has_replicas = options.replicas > 1 and not peer.is_registry
    name = host_name(options.name) if has_replicas else options.name
    links = PeerLinks(name, peer.resolve, random, log, options.runtime, client_tls)
    runtime = Runtime(peer.open, random, log, options.runtime, server_tls, links=links)
    runtime.register(NetworkLog(log, runtime))
    return peer, runtime
