"""A broker with its doors in one process: the store, the runtime, HTTP, and signals. `treecast up` calls it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.broker import BrokerSettings
from treecast.serve.access.exposure import check_exposure, check_peer_exposure, is_local
from treecast.serve.access.gate import Gate
from treecast.serve.access.settings import AccessSettings
from treecast.serve.broker_process import BrokerOptions, open_broker, warm_up
from treecast.serve.certificate import Certificate
from treecast.serve.demo import Demo
from treecast.serve.doors.http import HttpDoor
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.firewall.firewall import Firewall
from treecast.serve.firewall.settings import FirewallSettings
from treecast.serve.notify import notify
from treecast.serve.runtime import Runtime
from treecast.serve.selective.pages import SelectivePages
from treecast.serve.selective.publishers import Publishers
from treecast.serve.selective.source_process import SourceNetwork
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a service is started with."""

    directory: str
    listen: tuple[str, int]
    """For HTTP."""
    peer_listen: tuple[str, int] | None = None
    """For clients that speak the broker's own protocol."""
    selective_listen: tuple[str, int] | None = None
    """For brokers of selective publishing."""
    name: str = "broker"
    version: str = ""
    broker: BrokerSettings = BrokerSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    door: DoorSettings = DoorSettings()
    access: AccessSettings = AccessSettings()
    tls: TlsFiles | None = None
    """For HTTP, and for peers if it has a CA for their certificates."""
    firewall: str = ""
    """The file with the rules of the firewall, if there is one."""
    dispatch: FirewallSettings = FirewallSettings()
    open: bool = False
    """Strangers are let in without tokens or certificates."""
    demo: bool = False
    """Somebody keeps publishing."""


Announce = Callable[[tuple[str, int], tuple[str, int] | None], None]


def run_service(options: ServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve`, in an event loop of its own."""
    asyncio.run(serve(options, log, announce))


async def serve(options: ServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the addresses when clients may come. Raises TreecastError."""
    gate = Gate(Path(options.directory), log, options.access, is_public=options.open)
    gate.load()
    _check_exposure(options, gate)
    certificate = Certificate(options.tls, log) if options.tls is not None else None
    if certificate is None and not gate.is_open and not is_local(options.listen[0]):
        log.warning("tokens travel without encryption", hint="give a certificate, or put a proxy with one in front")
    broker = _broker_options(options)
    peers = certificate.peers if certificate is not None else None
    runtime = Runtime(lambda: open_broker(broker), Random(unused_name()), log, options.runtime, peers)
    firewall = Firewall(options.firewall, log, options.dispatch) if options.firewall else None
    selective, network = _selective(options, log)
    door = HttpDoor(
        *(runtime, Random(unused_name()), log, options.version, options.door, options.directory, gate, firewall),
        pages=[selective],
    )
    server = HttpServer(door, options.door, log, door, certificate)
    demo = Demo(runtime, Random(unused_name()), log, options.door.answer_ms) if options.demo else None
    address = server.listen(*options.listen)
    peer_address = None
    if options.peer_listen is not None:
        peer_address = await runtime.start(*options.peer_listen)
    else:
        await runtime.open()
    running = asyncio.create_task(runtime.run())
    await network.start(options.selective_listen)
    stopped = handle_signals(gate, certificate, firewall)
    warming = asyncio.get_running_loop().run_in_executor(None, warm_up)
    await asyncio.sleep(0)
    await door.start()
    if firewall is not None:
        await firewall.start()
    serving = asyncio.create_task(server.run())
    watching = asyncio.create_task(watch(certificate, options.access.look_ms))
    log.info("ready", address=f"{address[0]}:{address[1]}", directory=options.directory)
    announce(address, peer_address)
    notify("READY=1")
    if demo is not None:
        demo.start()
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([stopping, running, serving], return_when=asyncio.FIRST_COMPLETED)
    notify("STOPPING=1")
    watching.cancel()
    server.stop()
    if demo is not None:
        demo.stop()
    door.stop()
    await door.close()
    await serving
    if firewall is not None:
        await firewall.close()
    await network.close()
    runtime.stop()
    await running
    await warming
    log.info("stopped")


def _check_exposure(options: ServiceOptions, gate: Gate) -> None:
    """Raises AccessRefusedError TC608."""
    if options.open:
        return
    is_certified = options.tls is not None and bool(options.tls.ca)
    has_tokens = not gate.is_open
    check_exposure(options.listen, options.peer_listen, has_tokens=has_tokens, has_peer_certificates=is_certified)
    if options.selective_listen is not None and not is_certified:
        # Whoever connects gets sealed boxes only, so the tokens of the service are no matter.
        check_peer_exposure(options.selective_listen, has_tokens=False, advice="give certificate and peer_ca")


def _selective(
    options: ServiceOptions, log: structlog.typing.FilteringBoundLogger
) -> tuple[SelectivePages, SourceNetwork]:
    """The pages of selective publishing, and the source of its network."""
    has_network = options.selective_listen is not None
    publishers = Publishers(Path(options.directory) / "selective", has_network=has_network)
    network = SourceNetwork(publishers, log, options.runtime, options.tls if has_network else None)
    return SelectivePages(publishers, options.door, network), network


def _broker_options(options: ServiceOptions) -> BrokerOptions:
    return BrokerOptions(
        directory=options.directory,
        listen=options.peer_listen or ("", 0),
        name=options.name,
        broker=msgspec.structs.replace(options.broker, announces=True),
        runtime=options.runtime,
    )


def handle_signals(gate: Gate, certificate: Certificate | None, firewall: Firewall | None = None) -> asyncio.Event:
    """SIGTERM and SIGINT set the event; SIGHUP looks again at tokens, certificate, key, and rules of the firewall."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def reload() -> None:
        gate.look()
        if certificate is not None:
            certificate.look()
        if firewall is not None:
            firewall.look()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, reload)
    return stopped


async def watch(certificate: Certificate | None, look_ms: int) -> None:
    """Look at a certificate now and then, if there is one."""
    while certificate is not None:
        await asyncio.sleep(look_ms / 1000)
        certificate.look()
