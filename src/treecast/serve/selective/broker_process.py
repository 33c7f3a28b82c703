"""A broker of selective publishing in its own process. `treecast selective broker` calls it.

    run_selective_broker(SelectiveOptions(name="b1", rank=1, listen=("127.0.0.1", 7501),
                                          neighbours={"source": "127.0.0.1:7500"}), log, print)

It is told where some neighbours are, and finds the others: whoever says that it is there also says where it can be
reached. It keeps nothing on disk. Whoever can connect can claim to be a broker of the level above, and then send boxes
that members refuse: where strangers can connect, ask for certificates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.peer import Peer
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.tree_broker import TreeBroker
from treecast.serve.access.exposure import check_peer_exposure
from treecast.serve.address import format_address
from treecast.serve.broker_process import serve
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.selective.empty_store import EmptyStore
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles, client_context, server_context


class SelectiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker of selective publishing is started with."""

    listen: tuple[str, int]
    name: str
    rank: int
    neighbours: dict[str, str]
    """Addresses of some brokers of the levels above and below, or of the source, by their names."""
    faces_subscribers: bool = False
    address: str = ""
    """Where others reach it; empty: where it listens."""
    status: tuple[str, int] | None = None
    tls: TlsFiles | None = None
    open: bool = False
    settings: SelectiveSettings = SelectiveSettings()
    runtime: RuntimeSettings = RuntimeSettings()


def run_selective_broker(
    options: SelectiveOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """`serve_selective_broker`, in its own event loop."""
    asyncio.run(serve_selective_broker(options, log, announce))


async def serve_selective_broker(
    options: SelectiveOptions, log: structlog.typing.FilteringBoundLogger, announce: Callable[[str, int], None]
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when others may come. Raises TreecastError."""
    if not options.open and not (options.tls and options.tls.ca):
        advice = "give --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1"
        check_peer_exposure(options.listen, has_tokens=False, advice=advice)
    brokers: list[TreeBroker] = []
    address = options.address

    def open_peer() -> tuple[Peer, PeerStore]:
        broker = TreeBroker(
            *(options.name, options.rank, Random(unused_name())),
            neighbours=options.neighbours,
            settings=options.settings,
            faces_subscribers=options.faces_subscribers,
        )
        broker.neighbours.address = address
        brokers[:] = [broker]
        return broker, EmptyStore()

    def resolve(name: str) -> str | None:
        address_heard = brokers[0].neighbours.address_of(name) if brokers else ""
        return address_heard or options.neighbours.get(name)

    def announce_address(host: str, port: int) -> None:
        nonlocal address
        address = address or format_address(host, port)
        for broker in brokers:
            broker.neighbours.address = address
        announce(host, port)

    client_tls = client_context(options.tls) if options.tls else None
    links = PeerLinks(options.name, resolve, Random(unused_name()), log, options.runtime, client_tls)
    server_tls = server_context(options.tls) if options.tls else None
    runtime = Runtime(open_peer, Random(unused_name()), log, options.runtime, server_tls, links=links)
    await serve(runtime, options.listen, options.status, "", log, announce_address)
