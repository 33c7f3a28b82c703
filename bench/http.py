"""The HTTP door under load: single POSTs to one source and to many, and batches, from a second process over several
connections.

100,000 subscriptions, documents of about 5 KB that all differ and match 7 of them on average. A document counts when
its answer arrives, which means that it is on disk. Rates are by the wall, with the client on the same machine; the
server's CPU time is read from the system. The client is as small as can be: prepared requests, answers only counted.

Bars: 3,000 single documents a second on an idle machine with two cores, 200 µs of the server's CPU each; 10,000 a
second in batches of 100; 64 sources cost at most half as much again as one.
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
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.broker import MATCHES, SUBSCRIPTIONS, make_documents, subscribe
from bench.broker_peers import Load, add_load, cpu_seconds, median_load
from bench.measure import Report, finish, options_of, run

CONNECTIONS, BATCH_CONNECTIONS, BATCH = 64, 8, 100
SOURCES, SOURCES_CPU_MAX = 64, 1.5
RATE_MIN, CPU_US_MAX, BATCH_RATE_MIN = 3_000, 200, 10_000


@contextmanager
def service(directory: Path, *options: str) -> Iterator[tuple[int, str, int]]:
    """The port of a service, the address for peers, and its process id."""
    command = [sys.executable, "-m", "treecast", "up", "--data", str(directory), "--listen", "127.0.0.1:0"]
    command += ["--peer-listen", "127.0.0.1:0", "--log-level", "error", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        words = process.stdout.readline().replace(",", "").split()
        yield int(words[2].rpartition(":")[2]), words[-1], process.pid
    finally:
        process.terminate()
        process.wait()


def post(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


async def send_all(port: int, requests: list[bytes], connections: int, expected: bytes) -> list[float]:
    """Each connection takes the next request when its last one is answered; returns how long each took."""
    waiting = iter(requests)
    latencies: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            begin = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(expected), head
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r", 1)[0]))
            latencies.append(time.perf_counter() - begin)
        writer.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return latencies


def load_of(port: int, pid: int, requests: list[bytes], connections: int, expected: bytes, documents: int) -> Load:
    cpu, wall = cpu_seconds(pid), time.perf_counter()
    latencies = asyncio.run(send_all(port, requests, connections, expected))
    return Load(documents, time.perf_counter() - wall, cpu_seconds(pid) - cpu, sorted(latencies))


def in_batches(documents: list[bytes]) -> list[bytes]:
    lines = [json.dumps({"document": document.decode()}).encode() for document in documents]
    bodies = [b"\n".join(lines[first : first + BATCH]) for first in range(0, len(lines), BATCH)]
    return [post("/v1/documents:batch", body) for body in bodies]


def add_sources(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        for number in range(SOURCES):
            connection.request("PUT", f"/v1/sources/{number}")
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()


def to_sources(documents: list[bytes]) -> list[bytes]:
    """Neighbours are of different sources, as where each publisher has its own."""
    return [post(f"/v1/documents?source={place % SOURCES}", document) for place, document in enumerate(documents)]


def measure(report: Report, count: int, subscriptions: int, passes: int) -> None:
    single: list[Load] = []
    many_sources: list[Load] = []
    batches: list[Load] = []
    with tempfile.TemporaryDirectory() as directory, service(Path(directory)) as (port, peers, pid):
        asyncio.run(subscribe(peers, subscriptions))
        add_sources(port)
        warm = [post("/v1/documents", document) for document in make_documents(500, subscriptions, 99)]
        load_of(port, pid, warm, CONNECTIONS, b"HTTP/1.1 201", len(warm))
        for number in range(passes):
            documents = make_documents(count, subscriptions, number)
            requests = [post("/v1/documents", document) for document in documents]
            single.append(load_of(port, pid, requests, CONNECTIONS, b"HTTP/1.1 201", count))
            requests = to_sources(documents)
            many_sources.append(load_of(port, pid, requests, CONNECTIONS, b"HTTP/1.1 201", count))
            batches.append(load_of(port, pid, in_batches(documents), BATCH_CONNECTIONS, b"HTTP/1.1 200", count))
    size = sum(map(len, documents)) / len(documents)
    report.note(f"{subscriptions:,} subscriptions; {count:,} documents of {size:,.0f} bytes a pass")
    report.note(f"medians of {passes} passes; all on one machine, load {os.getloadavg()[0]:.1f}")
    is_full = subscriptions == SUBSCRIPTIONS
    for name, load, rate in (
        (f"single, {CONNECTIONS} connections", median_load(single), RATE_MIN),
        (f"single, {CONNECTIONS} connections, {SOURCES} sources", median_load(many_sources), RATE_MIN),
        (f"batches of {BATCH}, {BATCH_CONNECTIONS} connections", median_load(batches), BATCH_RATE_MIN),
    ):
        cpu_us_max = CPU_US_MAX if is_full and rate == RATE_MIN else None
        add_load(report, name, load, MATCHES, rate if is_full else None, cpu_us_max)
    ratio = median_load(many_sources).cpu_us / median_load(single).cpu_us
    report.figure(
        f"{SOURCES} sources: CPU of the server beside that of one source", ratio, "times", bar=SOURCES_CPU_MAX
    )


def main(arguments: list[str]) -> int:
    options, report = options_of("http", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=2_000, subscriptions=SUBSCRIPTIONS // 10, passes=1)
    else:
        measure(report, count=10_000, subscriptions=SUBSCRIPTIONS, passes=3)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
