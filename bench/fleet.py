"""A fleet on NATS JetStream: documents a second with one, two and three workers, and what a document costs.

Documents of about 5 KB that all differ and match 7 of the subscriptions on average, published in batches of 100 over
several connections to each worker. A document counts when its deliveries are stored. Rates are by the wall, with
nats-server, all workers and the client on the same machine: they grow with workers only where there are cores for them.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.broker import MATCHES, make_documents
from bench.broker_peers import cpu_seconds, free_port, program, server
from bench.http import BATCH, in_batches, send_all
from bench.measure import Report, finish, options_of, run

WORKERS = (1, 2, 3)
CONNECTIONS = 4
SUBSCRIPTIONS = 10_000


@contextmanager
def worker(address: str) -> Iterator[tuple[int, int]]:
    """The port of a worker, and its process id."""
    command = [sys.executable, "-m", "treecast", "up", "--backbone", address, "--fleet", "bench"]
    command += ["--listen", "127.0.0.1:0", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield int(process.stdout.readline().rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        process.wait()


async def subscribe(address: str, count: int) -> None:
    """As a worker does: one message for each subscription."""
    from treecast.serve.fleet.backbone import Backbone, Outgoing
    from treecast.serve.fleet.records import SubscriptionRecord, encode
    from treecast.serve.fleet.settings import FleetSettings
    from treecast.serve.logs import make_log

    backbone = Backbone([address], "bench", FleetSettings(), make_log("json", "error"))
    await backbone.open()
    ids = [f"s{number}" for number in range(count)]
    records = [SubscriptionRecord(id, f'//item[@code="C{id[1:]}"]') for id in ids]
    names = backbone.names
    await backbone.store([Outgoing(names.subscription(record.id), encode(record), record.id) for record in records])
    await backbone.close()


def count_of(port: int, name: str) -> int:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    found = re.search(rf"^treecast_peer_{name} (\S+)", connection.getresponse().read().decode(), re.MULTILINE)
    connection.close()
    return int(float(found[1])) if found else 0


def publish(ports: list[int], documents: list[bytes]) -> tuple[float, float]:
    """Seconds until all are acknowledged, and until the deliveries of all are stored."""
    before = sum(count_of(port, "documents_matched") for port in ports)
    parts = [in_batches(documents[place :: len(ports)]) for place in range(len(ports))]
    begin = time.perf_counter()

    async def send() -> None:
        pairs = zip(ports, parts, strict=True)
        await asyncio.gather(*(send_all(port, part, CONNECTIONS, b"HTTP/1.1 200") for port, part in pairs))

    asyncio.run(send())
    acknowledged = time.perf_counter() - begin
    while sum(count_of(port, "documents_matched") for port in ports) - before < len(documents):
        time.sleep(0.01)
    return acknowledged, time.perf_counter() - begin


def measure(report: Report, count: int, subscriptions: int) -> None:
    path = program("nats-server")
    if path is None:
        report.note("left out: nats-server is not installed")
        return
    documents = make_documents(count, subscriptions)
    size = sum(map(len, documents)) / len(documents)
    report.note(f"{subscriptions:,} subscriptions; {count:,} documents of {size:,.0f} bytes, {MATCHES} deliveries each")
    report.note(f"batches of {BATCH}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
            port = free_port()
            command = [path, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", f"{directory}/js"]
            nats = stack.enter_context(server(command, port, Path(directory)))
            address = f"nats://127.0.0.1:{port}"
            asyncio.run(subscribe(address, subscriptions))
            running = [stack.enter_context(worker(address)) for _ in range(workers)]
            ports, pids = [port for port, _ in running], [pid for _, pid in running]
            publish(ports, make_documents(500, subscriptions, 99))
            cpu, cpu_nats = sum(map(cpu_seconds, pids)), cpu_seconds(nats)
            acknowledged, stored = publish(ports, documents)
            cpu, cpu_nats = sum(map(cpu_seconds, pids)) - cpu, cpu_seconds(nats) - cpu_nats
        name = f"{workers} worker{'s' if workers > 1 else ''}"
        report.add(
            f"{name}: documents matched, deliveries stored", f"{count / stored:,.0f}", "/s", matches=str(MATCHES)
        )
        report.add(f"{name}: documents acknowledged", f"{count / acknowledged:,.0f}", "/s")
        report.add(f"{name}: CPU of the workers", f"{cpu / count * 1e6:,.0f}", "µs/doc")
        report.add(f"{name}: CPU of nats-server", f"{cpu_nats / count * 1e6:,.0f}", "µs/doc")


def main(arguments: list[str]) -> int:
    options, report = options_of("fleet", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=2_000, subscriptions=SUBSCRIPTIONS // 10)
    else:
        measure(report, count=10_000, subscriptions=SUBSCRIPTIONS)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
