"""A durable broker under load: documents published by a second process, next to message brokers that sync as well.

100,000 subscriptions, documents of about 5 KB that all differ and match 7 of them on average, in batches of 100. A
document counts when its acknowledgement arrives, which means that it is on disk, with the list of who gets it. Rates
are by the wall, with the publisher on the same machine; the broker's CPU time is read from the system.

Peers get the same documents in the same batches and store them, with a sync where they can: Redis streams (`appendfsync
always`), NATS JetStream (`sync_interval: always`, or its default) and RabbitMQ (a quorum queue). They match nothing.

Bars: 10,000 documents a second on an idle machine with two cores, and 80 µs of the broker's CPU a document.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench.broker_peers import PEERS, Load, add_load, drive, median_load
from bench.measure import Report, finish, options_of, run
from treecast.overlay.messages import Subscribe
from treecast.serve.client import Connection

SUBSCRIPTIONS, BATCH, MATCHES = 100_000, 100, 7
WINDOW = 8
RATE_MIN, CPU_US_MAX = 10_000, 80


def make_documents(count: int, subscriptions: int, seed: int = 1) -> list[bytes]:
    random = Random(seed)
    words = [f"word{number}" for number in range(2_000)]

    def item() -> str:
        text = " ".join(random.choices(words, k=75))
        return f'<item code="C{random.randrange(subscriptions)}" lang="en"><title>{text}</title></item>\n'

    return [f"<list>{''.join(item() for _ in range(MATCHES))}</list>".encode() for _ in range(count)]


@contextmanager
def broker(directory: Path) -> Iterator[tuple[str, int]]:
    """The address of a broker, and its process id."""
    command = [sys.executable, "-m", "treecast", "broker", "--data", str(directory), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--log-level", "error"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait()


async def subscribe(address: str, count: int) -> None:
    async with Connection(address, "subscriber") as connection:
        for first in range(0, count, 5_000):
            rows = range(first, min(first + 5_000, count))
            await connection.subscribe_many([Subscribe(f"s{n}", f'//item[@code="C{n}"]') for n in rows])


async def publish(address: str, documents: list[bytes], pid: int) -> Load:
    async with Connection(address, "publisher") as connection:
        await connection.register_source("bench")
        return await drive(pid, documents, BATCH, WINDOW, lambda batch: connection.publish("bench", batch))


def measure(report: Report, count: int, subscriptions: int, passes: int) -> None:
    documents = make_documents(count, subscriptions)
    size = sum(map(len, documents)) / len(documents)
    report.note(
        f"{subscriptions:,} subscriptions; {count:,} documents of {size:,.0f} bytes a pass, in batches of {BATCH}"
    )
    report.note(
        f"{WINDOW} batches under way; medians of {passes} passes; all on one machine, load {os.getloadavg()[0]:.1f}"
    )
    loads: list[Load] = []
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory)) as (address, pid):
        begin = time.perf_counter()
        asyncio.run(subscribe(address, subscriptions))
        report.figure("adding the subscriptions", (time.perf_counter() - begin) / subscriptions * 1e6, "µs each (wall)")
        for number in range(passes):
            loads.append(asyncio.run(publish(address, make_documents(count, subscriptions, number), pid)))
    is_full = subscriptions == SUBSCRIPTIONS
    bars = (RATE_MIN, CPU_US_MAX) if is_full else (None, None)
    add_load(report, "treecast", median_load(loads), MATCHES, *bars)
    for name, peer in PEERS.items():
        with tempfile.TemporaryDirectory() as directory:
            answer = peer(Path(directory), documents, BATCH, WINDOW)
        if isinstance(answer, str):
            report.note(f"{name}: left out, {answer}")
            continue
        label = f"{name} ({answer.promise})"
        report.figure(f"{label}: acknowledged documents, not filtered", answer.rate, "/s")
        report.figure(f"{label}: CPU of the server", answer.cpu_us, "µs/doc")


def main(arguments: list[str]) -> int:
    options, report = options_of("broker", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=3_000, subscriptions=SUBSCRIPTIONS // 10, passes=1)
    else:
        measure(report, count=20_000, subscriptions=SUBSCRIPTIONS, passes=5)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
