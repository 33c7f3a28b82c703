"""A broker with a backup in a process of its own: it serves, holds replicas of its partners' brokers, and takes over.

Who is primary and who is backup is decided by the control plane, which sends `Role` under the name `control`. With
certificates (`TlsFiles.ca`) nobody else can use that name, or a partner's. Without them everybody who reaches the port
can: then only on a network where everybody may.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.rows import BROKER_TABLES, META, Counters, decode
from treecast.overlay.peer import Peer
from treecast.overlay.replica import ReplicaHost, ReplicaSettings
from treecast.overlay.replica.host import Home
from treecast.overlay.storage import Storage
from treecast.serve.address import format_address
from treecast.serve.broker_process import in_thread, warm_up
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings
from treecast.serve.store import Store
from treecast.serve.tls import TlsFiles, client_context, server_context


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What such a process is started with."""

    directory: str
    listen: tuple[str, int]
    name: str
    """Of the host, and of its own broker."""
    partners: dict[str, tuple[str, int]]
    """Other hosts, by their names, with their addresses."""
    control: str = "control"
    tls: TlsFiles | None = None
    broker: BrokerSettings = BrokerSettings()
    replica: ReplicaSettings = ReplicaSettings()
    runtime: RuntimeSettings = RuntimeSettings()


def open_replica_host(options: ReplicaOptions) -> tuple[Peer, PeerStore]:
    """Open the store, and make the host from what it holds. Raises StorageError."""
    store = Store.open(options.directory)

    def make(broker: str, storage: Storage, random: Random, is_own: bool) -> Peer:
        index, version = (store.load_index() if is_own else None) or (None, 0)
        return Broker(broker, storage, random, options.broker, index, version, in_thread)

    try:
        data = store.get(META, "counters")
        last_body = decode(data, Counters).body if data is not None else 0
        home = Home(options.name, BROKER_TABLES, last_body)
        random = Random(unused_name())
        host = ReplicaHost(options.name, store, random, make, options.partners, options.control, options.replica, home)
    except BaseException:
        store.close()
        raise
    return host, store


async def serve_replica_host(
    options: ReplicaOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when others may come. Raises TreecastError."""
    tls = server_context(options.tls) if options.tls else None
    random = Random(unused_name())
    addresses = {partner: format_address(*address) for partner, address in options.partners.items()}
    client_tls = client_context(options.tls) if options.tls else None
    links = PeerLinks(options.name, addresses.get, random, log, options.runtime, client_tls)
    runtime = Runtime(lambda: open_replica_host(options), random, log, options.runtime, tls, links=links)
    warm_up()
    address = await runtime.start(*options.listen)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop)
    log.info("ready", address=format_address(*address), directory=options.directory)
    announce(*address)
    await runtime.run()


def run_replica_host(
    options: ReplicaOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """`serve_replica_host`, in an event loop of its own."""
    asyncio.run(serve_replica_host(options, log, announce))
