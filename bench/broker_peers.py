"""Message brokers that a durable treecast broker is measured beside. Each stores documents in batches.

Each is set to acknowledge what is synced, as treecast does. NATS JetStream can do that since 2.10 (`sync_interval:
always`); an older one, such as Debian's 2.9, syncs now and then and acknowledges before that, which its rows say.

A peer is left out, and says so, where its server (Debian: redis-server, nats-server, rabbitmq-server) or its Python
client (redis, nats-py, aio-pika) is not installed.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.measure import Report

PATIENCE_SECONDS = 180
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What a server did: documents, seconds by the wall and of its CPU, and how long each batch took."""

    documents: int
    wall: float
    cpu: float
    latencies: Sequence[float]
    promise: str = ""
    """How a peer was set, and what its acknowledgement means."""

    @property
    def rate(self) -> float:
        return self.documents / self.wall

    @property
    def cpu_us(self) -> float:
        return self.cpu / self.documents * 1e6

    def latency(self, percent: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


def median_load(loads: Sequence[Load]) -> Load:
    return sorted(loads, key=lambda each: each.wall)[len(loads) // 2]


def add_load(
    report: Report, name: str, load: Load, matches: int, rate_min: int | None, cpu_us_max: float | None
) -> None:
    """The rows of what a server did."""
    report.add(
        f"{name}: acknowledged documents",
        f"{load.rate:,.0f}",
        "/s",
        matches=str(matches),
        bar="" if rate_min is None else f">= {rate_min:,}",
        met=None if rate_min is None else load.rate >= rate_min,
    )
    report.figure(f"{name}: CPU of the server", load.cpu_us, "µs/doc", bar=cpu_us_max)
    for percent in (50, 99, 99.9):
        report.figure(f"{name}: latency of a request, {percent:g} %", load.latency(percent) * 1e3, "ms")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its children that are alive."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children")
    inner = [int(child) for child in children.read_text().split()] if children.exists() else []
    return (int(fields[11]) + int(fields[12])) / TICKS + sum(map(cpu_seconds, inner))


def program(name: str) -> str | None:
    """RabbitMQ's own script comes first: that of Debian changes the user."""
    return shutil.which(name, path="/usr/lib/rabbitmq/bin:/usr/sbin") or shutil.which(name)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def server(command: list[str], port: int, directory: Path, **environment: str) -> Iterator[int]:
    """Start a server, wait for its port, and stop it by its id."""
    log = (directory / "log").open("wb")
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment}, cwd=directory
    )
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} does not listen on port {port}") from None
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()
        log.close()


async def drive(
    pid: int, documents: Sequence[bytes], batch: int, window: int, send: Callable[[Sequence[bytes]], Awaitable[Any]]
) -> Load:
    """Send all documents, `window` batches at a time."""
    batches = [documents[first : first + batch] for first in range(0, len(documents), batch)]
    await send(batches[0])
    latencies: list[float] = []
    room = asyncio.Semaphore(window)

    async def one(part: Sequence[bytes]) -> None:
        async with room:
            begin = time.perf_counter()
            await send(part)
            latencies.append(time.perf_counter() - begin)

    cpu, wall = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*map(one, batches[1:]))
    taken = time.perf_counter() - wall
    return Load(len(documents) - len(batches[0]), taken, cpu_seconds(pid) - cpu, sorted(latencies))


def redis_streams(directory: Path, documents: Sequence[bytes], batch: int, window: int) -> Load | str:
    path, port = program("redis-server"), free_port()
    try:
        client = importlib.import_module("redis.asyncio")
    except ModuleNotFoundError:
        return "the client is not installed (PyPI: redis)"
    if path is None:
        return "redis-server is not installed"
    command = [path, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]

    async def work(pid: int) -> Load:
        connection = client.Redis(port=port)

        async def send(part: Sequence[bytes]) -> None:
            async with connection.pipeline(transaction=False) as pipeline:
                for document in part:
                    pipeline.xadd("documents", {"body": document})
                await pipeline.execute()

        try:
            return await drive(pid, documents, batch, window, send)
        finally:
            await connection.aclose()

    with server([*command, "--appendonly", "yes", "--appendfsync", "always"], port, directory) as pid:
        return replace(asyncio.run(work(pid)), promise="appendfsync always")


NATS_SYNCS = {
    ", sync_interval: always": "sync_interval always",
    "": "default sync: acknowledges before the sync",
}
"""What may be in its settings, the first that it accepts, and what its acknowledgement then means."""


def nats_jetstream(directory: Path, documents: Sequence[bytes], batch: int, window: int) -> Load | str:
    path, port = program("nats-server"), free_port()
    try:
        client = importlib.import_module("nats")
    except ModuleNotFoundError:
        return "the client is not installed (PyPI: nats-py)"
    if path is None:
        return "nats-server is not installed"
    settings = directory / "nats.conf"

    def accepts(sync: str) -> bool:
        store = f'store_dir: "{directory}/js"{sync}'
        settings.write_text(f'port: {port}\nhost: "127.0.0.1"\njetstream {{ {store} }}\n')
        return not subprocess.run([path, "-t", "-c", str(settings)], capture_output=True).returncode

    promise = next((promise for sync, promise in NATS_SYNCS.items() if accepts(sync)), None)
    if promise is None:
        return "it does not accept our settings"

    async def work(pid: int) -> Load:
        connection = await client.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream(publish_async_max_pending=batch * window)
        await stream.add_stream(name="documents", subjects=["documents"])

        async def send(part: Sequence[bytes]) -> None:
            await asyncio.gather(*[await stream.publish_async("documents", document) for document in part])

        try:
            return await drive(pid, documents, batch, window, send)
        finally:
            await connection.close()

    with server([path, "-c", str(settings)], port, directory) as pid:
        return replace(asyncio.run(work(pid)), promise=promise)


def rabbitmq_quorum(directory: Path, documents: Sequence[bytes], batch: int, window: int) -> Load | str:
    path, port, ports = program("rabbitmq-server"), free_port(), free_port()
    try:
        client = importlib.import_module("aio_pika")
    except ModuleNotFoundError:
        return "the client is not installed (PyPI: aio-pika)"
    if path is None:
        return "rabbitmq-server is not installed"
    environment = {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(ports),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
    }

    async def work(pid: int) -> Load:
        connection = await client.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
        channel = await connection.channel(publisher_confirms=True)
        await channel.declare_queue("documents", durable=True, arguments={"x-queue-type": "quorum"})

        async def send(part: Sequence[bytes]) -> None:
            persistent = client.DeliveryMode.PERSISTENT
            messages = [client.Message(document, delivery_mode=persistent) for document in part]
            await asyncio.gather(*[channel.default_exchange.publish(each, "documents") for each in messages])

        try:
            return await drive(pid, documents, batch, window, send)
        finally:
            await connection.close()

    with server([path], port, directory, **environment) as pid:
        return replace(asyncio.run(work(pid)), promise="quorum queue")


PEERS: dict[str, Callable[[Path, Sequence[bytes], int, int], Load | str]] = {
    "Redis streams": redis_streams,
    "NATS JetStream": nats_jetstream,
    "RabbitMQ": rabbitmq_quorum,
}
