"""What a backup costs: the same documents to a broker alone, and to one whose backup has them before they are answered.

Documents of about 5 KB that match 7 of the subscriptions on average, in batches of 100, as in `bench/broker.py`. The
CPU of the primary and of its backup is read from the system. Beside it, what writing and syncing alone takes: bodies in
the log, as a broker has its own; and bodies as rows of a table, as a backup has those of others.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.broker import BATCH, MATCHES, WINDOW, broker, make_documents, publish, subscribe
from bench.broker_peers import Load, cpu_seconds, free_port, median_load
from bench.measure import Report, finish, options_of, run
from treecast.overlay.frames import FrameDecoder, encode
from treecast.overlay.messages import Hello
from treecast.overlay.packets import packet_of
from treecast.overlay.replica.messages import Role, Standing
from treecast.overlay.replica.space import Space
from treecast.overlay.storage import Append, Put
from treecast.serve.address import parse_address
from treecast.serve.store import Store

SUBSCRIPTIONS = 100_000
PATIENCE_SECONDS = 60
SCRIPT = """
import json, sys
from treecast.serve.logs import make_log
from treecast.serve.replica_process import ReplicaOptions, run_replica_host
directory, name, port, partners = json.loads(sys.argv[1])
options = ReplicaOptions(
    directory=directory, listen=("127.0.0.1", port), name=name, partners={n: tuple(a) for n, a in partners.items()}
)
run_replica_host(options, make_log("json", "error"), lambda host, port: print(f"{host}:{port}", flush=True))
"""


@contextmanager
def host(directory: Path, name: str, port: int, partners: dict[str, tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The address of a host, and its process id."""
    arguments = json.dumps([str(directory), name, port, partners])
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


async def appoint(address: str, role: Role, state: str) -> None:
    """Tell a host its role until it stands like this."""
    reader, writer = await asyncio.open_connection(*parse_address(address))
    writer.write(b"".join(encode([packet_of(Hello("control"))])))
    decoder = FrameDecoder()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            writer.write(b"".join(encode([packet_of(role)])))
            packets = decoder.feed(await reader.read(1 << 16))
            if any(isinstance(packet.message, Standing) and packet.message.state == state for packet in packets):
                break
            await asyncio.sleep(0.05)
    writer.close()


def load(address: str, pid: int, count: int, subscriptions: int, passes: int) -> Load:
    asyncio.run(subscribe(address, subscriptions))
    runs = [
        asyncio.run(publish(address, make_documents(count, subscriptions, number), pid)) for number in range(passes)
    ]
    return median_load(runs)


def measure_pair(report: Report, count: int, subscriptions: int, passes: int) -> Load:
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = [free_port(), free_port()]
        second, second_pid = stack.enter_context(host(path / "b2", "b2", ports[1], {"b1": ("127.0.0.1", ports[0])}))
        first, pid = stack.enter_context(host(path / "b1", "b1", ports[0], {"b2": ("127.0.0.1", ports[1])}))
        role = Role("b1", 1, "b1", "b2", is_new=True)
        asyncio.run(appoint(second, role, "backup"))
        asyncio.run(appoint(first, role, "paired"))
        asyncio.run(subscribe(first, subscriptions))
        runs: list[tuple[Load, float]] = []
        for number in range(passes):
            before = cpu_seconds(second_pid)
            run_load = asyncio.run(publish(first, make_documents(count, subscriptions, number), pid))
            runs.append((run_load, (cpu_seconds(second_pid) - before) / count * 1e6))
    runs.sort(key=lambda pair: pair[0].wall)
    middle, backup_us = runs[len(runs) // 2]
    report.figure("with a backup: CPU of the backup", backup_us, "µs/doc")
    return middle


def measure_writing(report: Report, documents: list[bytes]) -> None:
    for slot, name in ((0, "in the log"), (1, "as rows of a table")):
        with tempfile.TemporaryDirectory() as directory, Store.open(Path(directory) / "store") as store:
            space = Space(store, slot)
            begin = time.process_time()
            for first in range(0, len(documents), BATCH):
                batch = range(first, min(first + BATCH, len(documents)))
                puts = [Put("documents", number + 1, b"r" * 100) for number in batch]
                space.write([*puts, *(Append(number + 1, documents[number]) for number in batch)])
            taken = time.process_time() - begin
        report.figure(f"writing and syncing alone, bodies {name}", taken / len(documents) * 1e6, "µs/doc")


def add(report: Report, name: str, middle: Load) -> None:
    report.figure(f"{name}: acknowledged documents", middle.rate, "/s")
    report.figure(f"{name}: CPU of the server", middle.cpu_us, "µs/doc")
    for percent in (50, 99):
        report.figure(f"{name}: latency of a request, {percent} %", middle.latency(percent) * 1e3, "ms")


def measure(report: Report, count: int, subscriptions: int, passes: int) -> None:
    documents = make_documents(count, subscriptions)
    size = sum(map(len, documents)) / len(documents)
    report.note(f"{subscriptions:,} subscriptions, {MATCHES} matches; {count:,} documents of {size:,.0f} bytes a pass")
    report.note(
        f"batches of {BATCH}, {WINDOW} under way; medians of {passes} passes; load {os.getloadavg()[0]:.1f}; no TLS"
    )
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory)) as (address, pid):
        add(report, "alone", load(address, pid, count, subscriptions, passes))
    add(report, "with a backup", measure_pair(report, count, subscriptions, passes))
    measure_writing(report, documents)


def main(arguments: list[str]) -> int:
    options, report = options_of("replica", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=3_000, subscriptions=SUBSCRIPTIONS // 10, passes=1)
    else:
        measure(report, count=10_000, subscriptions=SUBSCRIPTIONS, passes=3)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
