"""`treecast up --brokers N`: a registry, N brokers and one HTTP door, as one service that is started and ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.registry.settings import Policy
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.storage import StorageError
from treecast.serve.access.exposure import check_exposure
from treecast.serve.access.gate import Gate
from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.certificate import Certificate
from treecast.serve.connection import steady_ms
from treecast.serve.doors.document_pages import DEFAULT_SOURCE
from treecast.serve.doors.problems import DoorError
from treecast.serve.network.front_door import FrontDoor, FrontDoorSettings
from treecast.serve.network.front_service import serve_front
from treecast.serve.network.member import MemberOptions
from treecast.serve.network.places import Places
from treecast.serve.network.supervisor import REGISTRY, Supervisor, SupervisorSettings
from treecast.serve.network_process import registry_settings
from treecast.serve.service_process import Announce, ServiceOptions, handle_signals
from treecast.serve.store.directory import IDENTITY

BROKER = "broker-"
"""Their names, and those of their directories, before the number."""
LOOPBACK = ("127.0.0.1", 0)
HEARTBEAT_MS = 300
"""Brokers of one machine are told apart from dead ones soon."""
SILENT_MS, DOUBT_MS = 30_000, 60_000
"""A broker that dies is started again at once, and keeps its place in the trees; until then roots repair what does not
come by it. One that is silent for so long is taken out of them: sooner, one that is only busy would be, and making new
trees would make all of them busier."""
JOIN_MS_MAX = 30_000


class NetworkServiceOptions(ServiceOptions, frozen=True, kw_only=True):
    """What a network is started with. Settings of brokers are those of all of them."""

    brokers: int
    replicas: int = 1
    """With 2, what is acknowledged is on the disks of two brokers."""
    policy: Policy = "load"
    """How the host of a subscription is chosen; there are no distances on one machine."""
    log_format: str = "json"
    log_level: str = "info"
    front: FrontDoorSettings = FrontDoorSettings()
    supervisor: SupervisorSettings = SupervisorSettings()


def run_network(options: NetworkServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve_network`, in an event loop of its own."""
    asyncio.run(serve_network(options, log, announce))


async def serve_network(
    options: NetworkServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when clients may come. Raises TreecastError."""
    gate = Gate(Path(options.directory), log, options.access, is_public=options.open)
    gate.load()
    if not options.open:
        has_tokens = not gate.is_open
        check_exposure(options.listen, None, has_tokens=has_tokens, has_peer_certificates=False)
        if has_tokens:
            raise AccessRefusedError(
                "tokens do not protect a network: its brokers talk to each other on this machine without certificates",
                code="TC608",
                hint="run one broker (leave out --brokers), or let everybody on this machine in with --open",
            )
    certificate = Certificate(options.tls, log) if options.tls is not None else None
    supervisor = make_supervisor(options, log)
    stopped = handle_signals(gate, certificate)
    starting = asyncio.create_task(supervisor.start())
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    places: Places | None = None
    try:
        if stopped.is_set():
            return
        starting.result()
        places = Places(supervisor.registry.addresses.peer, options.door.answer_ms, options.front.places_max)
        await places.open()
        await join(places, options.brokers)
        await _serve_door(options, supervisor, places, gate, certificate, log, announce, stopping)
    finally:
        starting.cancel()
        stopping.cancel()
        if places is not None:
            await places.close()
        await supervisor.stop()
    log.info("stopped")


async def _serve_door(
    options: NetworkServiceOptions,
    supervisor: Supervisor,
    places: Places,
    gate: Gate,
    certificate: Certificate | None,
    log: structlog.typing.FilteringBoundLogger,
    announce: Announce,
    stopping: asyncio.Task[bool],
) -> None:
    door = FrontDoor(
        supervisor.brokers,
        places,
        log,
        options.version,
        options.door,
        gate,
        options.front,
        has_replicas=options.replicas > 1,
        is_by_content=options.policy == "content",
    )
    await serve_front(door, supervisor, options, gate, certificate, log, announce, stopping, brokers=options.brokers)


async def join(places: Places, count: int) -> None:
    """Wait until all brokers take part, and the root of the default source knows of it. Raises DoorError TC436."""
    end_ms = steady_ms() + JOIN_MS_MAX
    root, version = "", 0
    while steady_ms() < end_ms:
        brokers = await places.brokers()
        if len(brokers) >= count and not root:
            root = await places.find("source", DEFAULT_SOURCE) or await places.register_source(DEFAULT_SOURCE)
            version = await places.catalog_version()
        if root and (root not in brokers or int(brokers[root]["catalog"]) >= version):
            return
        await asyncio.sleep(0.02)
    raise DoorError("the brokers do not find each other", code="TC436", hint="look at the log")


def check_no_network(directory: Path) -> None:
    """For one broker: whether the data are not those of a network. Raises StorageError TC423."""
    known = _known_brokers(directory)
    if known and not (directory / IDENTITY).exists():
        message = f"the data in {directory} are those of a network of brokers"
        hint = f"start it with --brokers {known}, or choose another directory"
        raise StorageError(message, code="TC423", hint=hint)


def _known_brokers(directory: Path) -> int:
    """The largest number of a broker that has data there."""
    numbers = (path.parent.name.removeprefix(BROKER) for path in directory.glob(f"{BROKER}*/{IDENTITY}"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def check_directory(directory: Path, brokers: int) -> None:
    """Whether all data that are there have a broker to serve them. Raises StorageError TC423, TC427."""
    if (directory / IDENTITY).exists():
        hint = "leave out --brokers, or choose another directory"
        raise StorageError(f"the data in {directory} are those of one broker", code="TC423", hint=hint)
    known = _known_brokers(directory)
    if known > brokers:
        message = f"the network in {directory} has {known} brokers, and {brokers} were asked for"
        hint = f"start it with --brokers {known} or more: subscriptions and documents of the others would be missing"
        raise StorageError(message, code="TC427", hint=hint)


def make_supervisor(options: NetworkServiceOptions, log: structlog.typing.FilteringBoundLogger) -> Supervisor:
    """Data of the registry are in DIR/registry, those of brokers in DIR/broker-1 and so on."""
    directory = Path(options.directory)
    check_directory(directory, options.brokers)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    registry = registry_settings(policy=options.policy, allow=(f"{BROKER}*",))
    if options.replicas == 1:  # else another broker takes over, and soon
        registry = msgspec.structs.replace(registry, silent_ms=SILENT_MS, doubt_ms=DOUBT_MS)

    def member(name: str, registries: dict[str, str], has_door: bool) -> MemberOptions:
        return MemberOptions(
            directory=str(directory / name),
            listen=LOOPBACK,
            name=name,
            registries=registries,
            membership=MembershipSettings(heartbeat_ms=HEARTBEAT_MS),
            registry=registry,
            # Event streams read the documents of a broker, and not what a subscription brings along.
            network=NetworkSettings(move_documents_max=0),
            broker=msgspec.structs.replace(options.broker, announces=has_door),
            runtime=options.runtime,
            has_door=has_door,
            replicas=options.replicas,
            tokens=str(directory),
            open=options.open,
            version=options.version,
            door=options.door,
            access=options.access,
            log_format=options.log_format,
            log_level=options.log_level,
        )

    brokers = [member(f"{BROKER}{number}", {}, True) for number in range(1, options.brokers + 1)]
    return Supervisor(member(REGISTRY, {REGISTRY: ""}, False), brokers, Random(unused_name()), log, options.supervisor)
