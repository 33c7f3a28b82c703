"""A peer of a ring in its own process: real store, real runtime, links to the others, and perhaps an HTTP door.

    run_peer(PeerOptions(directory="p5", listen=("127.0.0.1", 7505), join=("127.0.0.1:7501",)), log, print)

The name of a peer is its address; so everybody who hears of a peer knows where it is.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.chord import ChordSettings, NfaSettings
from treecast.overlay.chord.chord_peer import Joined, Left
from treecast.overlay.chord.peer_names import host_of
from treecast.overlay.chord.ring_documents import GivenUp
from treecast.overlay.chord.ring_peer import LeaveRing, RingPeer
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.peer import Peer
from treecast.overlay.replica.member import MEMBERS
from treecast.serve.access.exposure import check_exposure
from treecast.serve.access.gate import Gate
from treecast.serve.access.settings import AccessSettings
from treecast.serve.address import format_address
from treecast.serve.broker_process import BrokerOptions, check_options, in_thread, warm_up
from treecast.serve.doors.http import HttpDoor
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.logs import make_log
from treecast.serve.network.member import Addresses, told_if_not_started
from treecast.serve.network_process import replicas_left
from treecast.serve.notify import notify
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.ring import pages, ring_file
from treecast.serve.ring.pages import RingPages
from treecast.serve.ring.ring_file import RingFile
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings
from treecast.serve.status_pages import StatusPages
from treecast.serve.store import Store
from treecast.serve.tls import client_context, server_context

TIMES = {"probe_ms": 500, "probes_max": 3}
"""A process may be busy for a while: it is not taken for dead so soon."""
RUNTIME = RuntimeSettings(lazy_ms=2)
"""A document is filtered once it is durable, and waits for little else."""


class PeerOptions(BrokerOptions, frozen=True, kw_only=True, tag="peer"):
    """What a peer is started with. One that has its data already needs neither `base` nor `join`."""

    base: tuple[str, ...] = ()
    """Addresses of the peers that found the ring, this one among them,"""
    join: tuple[str, ...] = ()
    """or of some that are there, to join theirs."""
    address: str = ""
    """Where others reach this peer, which is its name; empty: where it listens."""
    replicas: int = 3
    members: int = 1
    fragment_length: int = 0
    times: dict[str, int] = msgspec.field(default_factory=lambda: dict(TIMES))
    """Times of `ChordSettings`."""
    nfa: NfaSettings = NfaSettings()
    ring: RingSettings = RingSettings()
    allow: tuple[str, ...] = ()
    leaves: bool = False
    """At its end the peer leaves the ring, and others have what it held. Else it is expected back."""
    leave_ms_max: int = 60_000
    join_ms_max: int = 30_000
    runtime: RuntimeSettings = RUNTIME
    http: tuple[str, int] | None = None
    version: str = ""
    door: DoorSettings = DoorSettings()
    access: AccessSettings = AccessSettings()
    tokens: str = ""
    """The directory with the tokens of a whole service; empty: its own."""
    is_supervised: bool = False
    """It says where it listens in JSON, and ends when its standard input does."""
    log_format: str = "json"
    log_level: str = "info"

    @property
    def peer_name(self) -> str:
        return self.address or format_address(*self.listen)


class RingProcess:
    """The peer of a process, whenever it is rebuilt."""

    def __init__(self, options: PeerOptions, ring: RingFile) -> None:
        self._options = options
        self._ring = ring
        self._chord: ChordSettings = ring.chord(options.times)
        self.peer: RingPeer | None = None

    def open(self) -> tuple[Peer, PeerStore]:
        """Open the store, and make the peer from what it holds. Raises StorageError."""
        options = self._options
        store = Store.open(options.directory)
        try:
            gc.disable()
            if store.scan(MEMBERS, "", 1):
                raise replicas_left(options.directory)
            nfa = msgspec.structs.replace(options.nfa, fragment_length=self._ring.fragment_length)
            index, version = store.load_index() or (None, 0)
            self.peer = RingPeer(
                *(self._ring.name, store, Random(unused_name()), self._chord, nfa, options.ring),
                *(options.broker, index, version, in_thread),
                allow=options.allow,
            )
            gc.freeze()
            return self.peer, store
        except BaseException:
            store.close()
            raise
        finally:
            gc.enable()

    @property
    def may_leave(self) -> bool:
        """Those of the base stay for ever."""
        return self._ring.name not in self._ring.base


class RingControl:
    """A `LocalPeer` that tells the peer to leave, and writes to the log what becomes of it."""

    name = "control of a peer"

    def __init__(self, log: structlog.typing.FilteringBoundLogger, runtime: Runtime) -> None:
        self._log = log
        self._runtime = runtime
        self.left = asyncio.Event()
        runtime.register(self)

    def leave(self) -> None:
        self._runtime.tell(self, LeaveRing())

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None:
        if isinstance(event, Joined):
            self._log.info("joined the ring")
        elif isinstance(event, Left):
            self._log.info("left the ring")
            self.left.set()
        elif isinstance(event, GivenUp):
            self._log.error("a document did not get everywhere", document=event.document, missing=event.unreachable)


class PeerDoor:
    """The HTTP door of a peer."""

    def __init__(
        self, options: PeerOptions, runtime: Runtime, log: structlog.typing.FilteringBoundLogger, name: str
    ) -> None:
        assert options.http is not None
        gate = Gate(Path(options.tokens or options.directory), log, options.access, is_public=options.open)
        gate.load()
        if not options.open:
            check_exposure(options.http, None, has_tokens=not gate.is_open, has_peer_certificates=False)
        self._looking = RingPages(runtime, name, Random(unused_name()))
        self._door = HttpDoor(
            *(runtime, Random(unused_name()), log, options.version, options.door, options.directory, gate),
            pages=(self._looking,),
            routes=pages.ROUTES,
            kind="peer",
        )
        self._server = HttpServer(self._door, options.door, log, self._door)
        self.address = format_address(*self._server.listen(*options.http))
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._door.start()
        self._serving = asyncio.create_task(self._server.run())

    async def stop(self) -> None:
        self._server.stop()
        self._door.stop()
        await self._door.close()
        if self._serving is not None:
            await self._serving


Announce = Callable[[str, str], None]
"""Gets the addresses for peers and for HTTP (empty: there is no door)."""


def run_peer(options: PeerOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """`serve_peer`, in its own event loop."""
    asyncio.run(serve_peer(options, log, announce))


def run_supervised(options: PeerOptions) -> None:
    """For a supervisor: one line on stdout says where it listens, in JSON."""
    log = make_log(options.log_format, options.log_level).bind(peer=options.peer_name)

    def announce(peer: str, http: str) -> None:
        print(msgspec.json.encode(Addresses(peer, http)).decode(), flush=True)

    with told_if_not_started():
        run_peer(options, log, announce)


async def find_ring(options: PeerOptions) -> RingFile:
    """The ring of a peer, by its file, or by its options, or by what other peers say. Raises TreecastError."""
    directory, name = Path(options.directory), options.peer_name
    known_ring = ring_file.read(directory)
    new_ring = None
    if options.base:
        new_ring = RingFile(
            name=name,
            base=tuple(sorted(set(options.base))),
            replicas=options.replicas,
            members=options.members,
            fragment_length=options.fragment_length,
        )
    if known_ring is not None:
        ring_file.check(directory, known_ring, name, new_ring)
        return known_ring
    ring = new_ring or await ring_file.ask(options.join, name, options.tls, options.join_ms_max)
    ring_file.write(directory, ring)
    return ring


async def serve_peer(options: PeerOptions, log: structlog.typing.FilteringBoundLogger, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the addresses when others may come. Raises TreecastError."""
    check_options(options)
    server_tls = server_context(options.tls) if options.tls else None
    client_tls = client_context(options.tls) if options.tls else None
    process = RingProcess(options, await find_ring(options))
    random = Random(unused_name())
    links = PeerLinks(options.peer_name, _resolve, random, log, options.runtime, client_tls)
    runtime = Runtime(process.open, random, log, options.runtime, server_tls, links=links)
    control = RingControl(log, runtime)
    status = StatusPages(runtime.metrics, runtime.is_ready, log)
    if options.status is not None:
        status.listen(*options.status)
    door = PeerDoor(options, runtime, log, options.peer_name) if options.http is not None else None
    try:
        address = await runtime.start(*options.listen)
        running = asyncio.create_task(runtime.run())
        warming = asyncio.get_running_loop().run_in_executor(None, warm_up)
        await asyncio.sleep(0)
        if door is not None:
            await door.start()
        log.info("ready", address=format_address(*address), directory=options.directory)
        announce(options.peer_name, door.address if door else "")
        notify("READY=1")
        stopping = asyncio.create_task(_wait_for_end(options.is_supervised))
        await asyncio.wait([stopping, running], return_when=asyncio.FIRST_COMPLETED)
        notify("STOPPING=1")
        stopping.cancel()
        if door is not None:
            await door.stop()
        if options.leaves:
            await _leave(process, control, options, log)
        runtime.stop()
        await running
        await warming
        log.info("stopped")
    finally:
        await status.close()


def _resolve(name: str) -> str | None:
    return name if host_of(name) else None


async def _leave(
    process: RingProcess, control: RingControl, options: PeerOptions, log: structlog.typing.FilteringBoundLogger
) -> None:
    """Hand over what the peer holds of the ring. Subscriptions of its clients stay where they are, and wait for it."""
    if not process.may_leave:
        log.warning("a peer of the base stays in the ring, and is expected back")
        return
    if process.peer is not None and len(process.peer.broker.index):
        count = len(process.peer.broker.index)
        log.warning("subscriptions have their host here, and get nothing until it is back", subscriptions=count)
    control.leave()
    try:
        async with asyncio.timeout(options.leave_ms_max / 1000):
            await control.left.wait()
    except TimeoutError:
        log.error("others did not take over everything in time; the peer is expected back")


async def _wait_for_end(is_supervised: bool) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    waiting = [asyncio.create_task(end.wait())]
    if is_supervised:
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        waiting.append(asyncio.create_task(reader.read()))  # type: ignore[arg-type]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
