"""`treecast peer up N`: a ring of N peers on this machine and one HTTP door, as one service that is started and ended.

The first peers found the ring; the others join. A file in the directory has their addresses, which are their names:
started again, the ring is the same. It may grow: with more peers than last time the new ones join, and take over a
part of what the others hold. Subscriptions have their hosts among the peers of the first start.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import structlog

from treecast import durable
from treecast.durable import unused_name
from treecast.errors import TreecastError
from treecast.overlay.chord import NfaSettings
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.storage import StorageError
from treecast.serve.access.exposure import check_exposure, check_peer_exposure
from treecast.serve.access.gate import Gate
from treecast.serve.address import parse_address
from treecast.serve.certificate import Certificate
from treecast.serve.client import Connection
from treecast.serve.connection import steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.network.fork_server import ForkServer
from treecast.serve.network.front_door import FrontDoorSettings
from treecast.serve.network.front_service import serve_front
from treecast.serve.network.supervisor import Supervised, SupervisorSettings
from treecast.serve.ring.peer_process import PeerOptions
from treecast.serve.ring.ring_door import RingDoor, RingPlaces
from treecast.serve.service_process import Announce, ServiceOptions, handle_signals

HOST = "127.0.0.1"
FILE = "peers.json"
PORT_MIN, PORT_MAX = 10_240, 32_767
"""Below those that the system gives to outgoing connections, which could take the port of a peer that is being started
again."""
ATTEMPTS_MAX = 1_000
JOIN_MS_MAX = 120_000
LOOK_SECONDS = 5.0


class RingServiceOptions(ServiceOptions, frozen=True, kw_only=True):
    """What a ring is started with. Settings of peers are those of all of them."""

    peers: int
    replicas: int = 3
    members: int = 1
    fragment_length: int = 0
    nfa: NfaSettings = NfaSettings()
    ring: RingSettings = RingSettings()
    log_format: str = "json"
    log_level: str = "info"
    front: FrontDoorSettings = FrontDoorSettings()
    supervisor: SupervisorSettings = SupervisorSettings()


class Peers(msgspec.Struct, frozen=True):
    """`peers.json`: where each peer is, and how many there were at first."""

    addresses: list[str]
    hosts: int
    base: int


def free_addresses(count: int, random: Random, used_addresses: list[str]) -> list[str]:
    """Where nobody listens now. Raises OSError if there are not as many.

    >>> len(set(free_addresses(3, Random(1), [])))
    3
    """
    addresses: list[str] = []
    for _ in range(ATTEMPTS_MAX):
        if len(addresses) == count:
            return addresses
        address = f"{HOST}:{random.randint(PORT_MIN, PORT_MAX)}"
        with suppress(OSError), socket.socket() as probe:
            probe.bind(parse_address(address))
            if address not in (*addresses, *used_addresses):
                addresses.append(address)
    raise OSError(f"there are no {count} free ports on {HOST}")


def read_peers(directory: Path, count: int, replicas: int) -> Peers:
    """Of the last time, and new ones. Raises StorageError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, random = directory / FILE, Random(unused_name())
    try:
        peers = msgspec.json.decode(path.read_bytes(), type=Peers)
    except FileNotFoundError:
        peers = Peers(free_addresses(count, random, []), count, replicas + 1)
    except (msgspec.MsgspecError, ValueError):
        raise StorageError(f"{path} is damaged", code="TC422", hint="restore it from a backup") from None
    known_count = len(peers.addresses)
    if known_count > count:
        raise StorageError(
            f"the ring in {directory} has {known_count} peers, and {count} were asked for",
            code="TC427",
            hint=f"start it with {known_count} peers or more; single peers leave with treecast peer --leave",
        )
    more = free_addresses(count - known_count, random, peers.addresses)
    peers = msgspec.structs.replace(peers, addresses=[*peers.addresses, *more])
    durable.write(path, msgspec.json.format(msgspec.json.encode(peers)) + b"\n")
    return peers


class RingSupervisor:
    """The processes of a ring, by name: peer-1 and so on."""

    def __init__(self, options: RingServiceOptions, peers: Peers, log: structlog.typing.FilteringBoundLogger) -> None:
        self._forks = ForkServer()
        random = Random(unused_name())
        self.peers: dict[str, Supervised] = {}
        base = tuple(peers.addresses[: peers.base])
        for number, address in enumerate(peers.addresses, 1):
            is_base = number <= peers.base
            one = _peer_options(options, f"peer-{number}", address, base if is_base else (), () if is_base else base)
            self.peers[one.name] = Supervised(one, self._forks, random, log, options.supervisor)
        self._base = list(self.peers.values())[: peers.base]

    async def start(self) -> None:
        await asyncio.gather(*(peer.start() for peer in self._base))
        await asyncio.gather(*(peer.start() for peer in self.peers.values() if peer not in self._base))

    async def stop(self) -> None:
        await asyncio.gather(*(peer.stop() for peer in self.peers.values()))
        await self._forks.close()


def _peer_options(
    options: RingServiceOptions, name: str, address: str, base: tuple[str, ...], join: tuple[str, ...]
) -> PeerOptions:
    directory = Path(options.directory)
    return PeerOptions(
        directory=str(directory / name),
        listen=parse_address(address),
        name=name,
        base=base,
        join=join,
        replicas=options.replicas,
        members=options.members,
        fragment_length=options.fragment_length,
        nfa=options.nfa,
        ring=options.ring,
        broker=msgspec.structs.replace(options.broker, announces=True),
        http=(HOST, 0),
        version=options.version,
        door=options.door,
        access=options.access,
        tokens=str(directory),
        open=options.open,
        is_supervised=True,
        log_format=options.log_format,
        log_level=options.log_level,
    )


def run_ring(options: RingServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve_ring`, in its own event loop."""
    asyncio.run(serve_ring(options, log, announce))


async def serve_ring(
    options: RingServiceOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce
) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address when clients may come. Raises TreecastError."""
    gate = Gate(Path(options.directory), log, options.access, is_public=options.open)
    gate.load()
    if not options.open:
        has_tokens = not gate.is_open
        check_exposure(options.listen, None, has_tokens=has_tokens, has_peer_certificates=False)
        # Its peers talk to each other on loopback, without certificates.
        check_peer_exposure((HOST, 0), has_tokens=has_tokens, advice="start each peer by itself: treecast peer")
    certificate = Certificate(options.tls, log) if options.tls is not None else None
    peers = read_peers(Path(options.directory), options.peers, options.replicas)
    supervisor = RingSupervisor(options, peers, log)
    stop = handle_signals(gate, certificate)
    starting = asyncio.create_task(_start(supervisor, peers))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    try:
        if stop.is_set():
            return
        starting.result()
        await _serve_door(options, supervisor, peers, gate, certificate, log, announce, stopping)
    finally:
        starting.cancel()
        stopping.cancel()
        await supervisor.stop()
    log.info("stopped")


async def _start(supervisor: RingSupervisor, peers: Peers) -> None:
    await supervisor.start()
    await asyncio.gather(*(wait_until_settled(address) for address in peers.addresses))


async def wait_until_settled(address: str) -> None:
    """Wait until a peer is a member, and has what belongs there. Raises DoorError TC436."""
    end_ms = steady_ms() + JOIN_MS_MAX
    async with Connection(address, "front door of a ring", connect_s=LOOK_SECONDS) as connection:
        while steady_ms() < end_ms:
            with suppress(TimeoutError, TreecastError):
                async with asyncio.timeout(LOOK_SECONDS):
                    rows = await connection.inspect("ring")
                if any(row["key"] == "peer" and row["is_settled"] for row in rows):
                    return
            await asyncio.sleep(0.05)
    raise DoorError(f"the peer {address} does not find its place in the ring", code="TC436", hint="look at the log")


async def _serve_door(
    options: RingServiceOptions,
    supervisor: RingSupervisor,
    peers: Peers,
    gate: Gate,
    certificate: Certificate | None,
    log: structlog.typing.FilteringBoundLogger,
    announce: Announce,
    stopping: asyncio.Task[bool],
) -> None:
    places = RingPlaces(list(supervisor.peers)[: peers.hosts])
    door = RingDoor(supervisor.peers, places, log, options.version, options.door, gate, options.front)
    await serve_front(door, supervisor, options, gate, certificate, log, announce, stopping, peers=options.peers)
