"""A broker for tests: in this process, on loopback, with a store that can fail or wait; or in its own process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from support.quick_process import PIPE, QuickProcess
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.client import ClientSettings
from treecast.overlay.frames import FrameDecoder, encode
from treecast.overlay.messages import Hello, Welcome
from treecast.overlay.packets import packet_of
from treecast.overlay.peer import Peer
from treecast.overlay.storage import Change, StorageError
from treecast.serve.broker_process import warm_up
from treecast.serve.client import Connection
from treecast.serve.logs import make_log
from treecast.serve.peer_life import PeerStore
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings
from treecast.serve.store import Store
from treecast.serve.tls import TlsFiles, server_context

QUICK = ClientSettings(request_ms=5_000, request_ms_max=5_000)

warm_up()  # else the first test would wait for it, and its clients would become impatient


class TestedStore(Store):
    """The real one, with a gate before each write, and errors on request."""

    __test__ = False
    gate: threading.Event
    errors: list[Exception]
    groups: list[int]

    def write(self, changes: Sequence[Change]) -> None:
        assert self.gate.wait(30)
        if self.errors:
            raise self.errors.pop()
        super().write(changes)
        self.groups.append(len(changes))


class Served:
    """A runtime, its address, and what tests change about its store."""

    def __init__(self, runtime: Runtime, address: str, gate: threading.Event, errors: list[Exception]) -> None:
        self.runtime = runtime
        self.address = address
        self.gate = gate
        self.errors = errors
        self.groups: list[int] = []
        """The sizes of the groups that were written."""
        self.peers: list[Broker] = []
        """Each is rebuilt after a failure."""

    def connect(self, name: str, **arguments: Any) -> Connection:
        return Connection(self.address, name, settings=QUICK, **arguments)

    def metric(self, name: str, **labels: str) -> float:
        return self.runtime.metrics.registry.get_sample_value(f"treecast_{name}", labels) or 0.0


@asynccontextmanager
async def served(
    directory: Path,
    settings: RuntimeSettings | None = None,
    broker: BrokerSettings | None = None,
    tls: TlsFiles | None = None,
) -> AsyncIterator[Served]:
    """A broker on a free port of loopback, until the end of the block."""
    gate = threading.Event()
    gate.set()
    errors: list[Exception] = []

    def open_peer() -> tuple[Peer, PeerStore]:
        if errors and isinstance(errors[-1], OpeningError):
            raise errors.pop()
        store = TestedStore.open(directory)
        assert isinstance(store, TestedStore)
        store.gate, store.errors, store.groups = gate, errors, box.groups
        index, version = store.load_index() or (None, 0)
        peer = Broker("broker", store, Random(1), broker, index, version)
        box.peers.append(peer)
        return peer, store

    context = server_context(tls) if tls else None
    with Path(os.devnull).open("w") as quiet:
        runtime = Runtime(open_peer, Random(2), make_log("json", "error", quiet), settings, context)
        box = Served(runtime, "", gate, errors)
        host, port = await runtime.start("127.0.0.1", 0)
        box.address = f"{'localhost' if tls else host}:{port}"
        running = asyncio.create_task(runtime.run())
        try:
            yield box
        finally:
            gate.set()
            runtime.stop()
            await running


class OpeningError(StorageError):
    """The store cannot be opened."""


async def eventually(is_so: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so. How long that takes decides nothing, except that a test ends."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.01)


class Stranger:
    """A connection that sends whatever a test likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.messages: list[Any] = []
        self._decoder = FrameDecoder()

    def send(self, *messages: Any) -> None:
        self.writer.write(b"".join(encode(packet_of(message) for message in messages)))

    async def hello(self, name: str) -> Welcome:
        self.send(Hello(name, nonce=1))
        welcome = await self.next(Welcome)
        assert isinstance(welcome, Welcome)
        return welcome

    async def next(self, kind: type) -> Any:
        """The next message of a kind; None at the end."""
        async with asyncio.timeout(20):
            while True:
                while self.messages:
                    message = self.messages.pop(0)
                    if isinstance(message, kind):
                        return message
                data = await self.reader.read(1 << 16)
                if not data:
                    return None
                self.messages += [packet.message for packet in self._decoder.feed(data)]

    async def is_closed(self) -> bool:
        """The broker closes the connection, whatever it sends before."""
        try:
            async with asyncio.timeout(20):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.writer.close()


async def stranger(address: str, **arguments: Any) -> Stranger:
    host, port = address.rsplit(":", 1)
    return Stranger(*await asyncio.open_connection(host, int(port), **arguments))


async def take(connection: Connection, subscriptions: Sequence[str], count: int) -> list[bytes]:
    """The payloads of so many deliveries, each acknowledged."""
    payloads: list[bytes] = []
    async with asyncio.timeout(30):
        async for delivery in connection.deliveries(subscriptions):
            payloads.append(delivery.payload)
            connection.settle([delivery])
            if len(payloads) == count:
                break
    return payloads


class BrokerProcess:
    """`treecast broker`, started and ended by its id."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.arguments = ["-m", "treecast", "broker", "--data", str(directory), *arguments]
        self.address = ""
        self._process: QuickProcess | None = None

    def start(self, listen: str = "127.0.0.1:0") -> BrokerProcess:
        self._process = QuickProcess([*self.arguments, "--listen", listen], stdout=PIPE, stderr=PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), line + self.end()[1]
        self.address = line.split()[-1]
        return self

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit status, and what it logged."""
        assert self._process is not None
        self._process.send_signal(number)
        _, logs = self._process.communicate(timeout=60)
        return self._process.wait(), logs

    def __enter__(self) -> BrokerProcess:
        return self.start() if self._process is None else self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def documents(count: int, size: int = 20) -> Iterable[bytes]:
    return [b"<a>%d%s</a>" % (number, b" " * size) for number in range(count)]
