"""A process of a network that a supervisor has started: its registry, or a broker with an HTTP door.

One line on stdout says where it listens, in JSON. It ends with SIGTERM, and when its standard input ends: so it does
not outlive its supervisor, whatever becomes of that. `fork_server.py` starts it.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.errors import TreecastError
from treecast.serve.access.gate import Gate
from treecast.serve.access.settings import AccessSettings
from treecast.serve.address import format_address
from treecast.serve.broker_process import warm_up
from treecast.serve.doors.http import HttpDoor
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.local_peers import LocalRuntime
from treecast.serve.logs import make_log
from treecast.serve.network.host_doors import HostDoors
from treecast.serve.network_process import NetworkOptions, make_runtime


class MemberOptions(NetworkOptions, frozen=True, kw_only=True, tag="member"):
    """What a process of the network is started with."""

    has_door: bool = False
    """A broker has an HTTP door, on a free port of loopback."""
    tokens: str = ""
    """The directory with the tokens of the whole service."""
    version: str = ""
    door: DoorSettings = DoorSettings()
    access: AccessSettings = AccessSettings()
    log_format: str = "json"
    log_level: str = "info"


class Addresses(msgspec.Struct, frozen=True, tag=True):
    """Where a process listens."""

    peer: str
    http: str = ""


class NotStarted(msgspec.Struct, frozen=True, tag=True):
    """Said instead: why a process does not serve."""

    code: str
    message: str
    hint: str


class _DoorOfMember:
    """The HTTP door of a broker, or those of a host. Other doors send it what is for them."""

    def __init__(
        self, options: MemberOptions, log: structlog.typing.FilteringBoundLogger, door: HttpDoor | HostDoors
    ) -> None:
        self._door = door
        self._server = HttpServer(door, options.door, log, door if isinstance(door, HttpDoor) else None)
        host, port = self._server.listen("127.0.0.1", 0)
        self.address = format_address(host, port)
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


async def serve_member(options: MemberOptions, log: structlog.typing.FilteringBoundLogger) -> None:
    """Serve until it is told to end. Raises TreecastError."""
    peer, runtime = make_runtime(options, log)
    http: _DoorOfMember | None = None
    if options.has_door:
        gate = Gate(Path(options.tokens), log, options.access, is_public=options.open)
        gate.load()

        def make(serving: LocalRuntime) -> HttpDoor:
            random, directory = Random(unused_name()), options.directory
            return HttpDoor(*(serving, random, log, options.version, options.door, directory, gate), owns_sources=False)

        has_replicas = options.replicas > 1
        http = _DoorOfMember(options, log, HostDoors(runtime, options.name, make) if has_replicas else make(runtime))
    address = await runtime.start(*options.listen)
    peer.listens(*address)
    running = asyncio.create_task(runtime.run())
    warming = asyncio.get_running_loop().run_in_executor(None, warm_up)
    await asyncio.sleep(0)
    if http is not None:
        await http.start()
    addresses = Addresses(format_address(*address), http.address if http else "")
    print(msgspec.json.encode(addresses).decode(), flush=True)
    stopping = asyncio.create_task(_told_to_end())
    await asyncio.wait([stopping, running], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if http is not None:
        await http.stop()
    runtime.stop()
    await running
    await warming


async def _told_to_end() -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    reading = asyncio.create_task(reader.read())
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)


def run_member(options: MemberOptions) -> None:
    """`serve_member`, in an event loop of its own. What it cannot be started with is said on stdout."""
    log = make_log(options.log_format, options.log_level).bind(peer=options.name)
    with told_if_not_started():
        asyncio.run(serve_member(options, log))


@contextmanager
def told_if_not_started() -> Iterator[None]:
    """For the process of a supervisor: its one line is a reason, and its exit status 1, if that raises an error of
    ours. Nobody reads further lines."""
    try:
        yield
    except TreecastError as error:
        print(msgspec.json.encode(NotStarted(error.code, str(error), error.hint)).decode(), flush=True)
        sys.exit(1)
