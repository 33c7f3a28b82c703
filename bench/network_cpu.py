"""CPU of brokers per document, in a chain of processes with mutual TLS on loopback: passing on, and delivering.

Documents are published at the first broker, in batches of 64, which travel as frames of 64. **Passing on**: the second
broker has no subscribers, the third wants everything; the second's CPU is held against lxml.etree.fromstring of the
same documents. **Delivering**: the second and the third each have subscriptions of which at most ten match a document,
and a client who receives and acknowledges; each broker's CPU is held against one index of the same subscriptions in one
process, which reads, matches and renders the same documents as text, in batches of 64. **Links first**: how long a
broker takes until what it passes on leaves, with and without serving its own subscribers in the same turn.

CPU is that of the process as the scheduler counts it. The thread that writes to disk is reported apart.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench.inputs import load_schema
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from bench.network_peers import Cpu, Network
from bench.reading import news_document
from treecast.index import Index
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.receiver import Delivery
from treecast.serve.client import Connection
from treecast.workload import DocumentSettings, generate_documents

FRAME, BYTES = 64, 5_000
WINDOW = 4
TAGS = ("em", "person", "location", "org", "chron", "money")
HALF, TWICE = 0.5, 2.0
WAIT_SECONDS = 120
CREDIT = 10_000


def valued_documents(count: int, values: int, seed: int = 1) -> list[bytes]:
    """Documents like news, with a few attributes that subscriptions ask for: each has one of so many values."""
    draw = Random(seed)
    value = re.compile(rb'value="\d+"')
    return [
        value.sub(lambda _: b'value="%d"' % draw.randrange(values), news_document(BYTES, seed * 1_000_000 + n))
        for n in range(count)
    ]


def valued_queries(count: int) -> list[str]:
    return [f'//{TAGS[n % len(TAGS)]}[@value="{n // len(TAGS)}"]' for n in range(count)]


def batches(documents: list[bytes]) -> list[list[bytes]]:
    return [documents[begin : begin + FRAME] for begin in range(0, len(documents), FRAME)]


async def publish(publisher: Connection, documents: list[bytes]) -> None:
    room = asyncio.Semaphore(WINDOW)

    async def one(batch: list[bytes]) -> None:
        async with room:
            await publisher.publish("bench", batch)

    await asyncio.gather(*map(one, batches(documents)))


class Reader:
    """A client at one broker, who counts what it gets."""

    def __init__(self, connection: Connection, name: str, queries: list[str]) -> None:
        self._connection = connection
        self._name = name
        self._queries = queries
        self._task: asyncio.Task[None] | None = None
        self.count = 0

    async def start(self) -> None:
        ids = [f"{self._name}-{n}" for n in range(len(self._queries))]
        for begin in range(0, len(ids), 1_000):
            some = zip(ids[begin : begin + 1_000], self._queries[begin : begin + 1_000], strict=True)
            await self._connection.subscribe_many([Subscribe(id, query) for id, query in some])
        self._task = asyncio.create_task(self._read(ids))

    async def _read(self, ids: list[str]) -> None:
        waiting: list[Delivery] = []

        def settle() -> None:
            """What came in one go is acknowledged in one go."""
            self._connection.settle(waiting)
            waiting.clear()

        async for delivery in self._connection.deliveries(ids, credit=CREDIT):
            self.count += 1
            if not waiting:
                asyncio.get_running_loop().call_later(0.005, settle)
            waiting.append(delivery.delivery)

    async def expect(self, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while self.count < count:
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def passing_on(network: Network, documents: list[bytes], passes: int) -> tuple[list[Cpu], list[Cpu]]:
    """CPU of the root and of the broker in the middle, by pass."""
    root, middle, last = network.names
    found: tuple[list[Cpu], list[Cpu]] = ([], [])
    async with network.connect(root, "publisher") as publisher, network.connect(last, "counts") as counter:
        await publisher.register_source("bench")
        await network.is_linked()
        await counter.subscribe("all", "/*/no-such-element")
        await counter.subscribe("everything", "/*")
        await publish(publisher, documents[: 4 * FRAME])
        done = 4 * FRAME
        await _arrived(counter, done)
        for _ in range(passes):
            before = network.cpu()
            await publish(publisher, documents)
            done += len(documents)
            await _arrived(counter, done)
            after = network.cpu()
            for place, name in enumerate((root, middle)):
                found[place].append(after[name].since(before[name]))
    return found


async def _arrived(counter: Connection, count: int) -> None:
    """Until the last broker has stored so many documents."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        rows = {row["key"]: row["value"] for row in await counter.inspect("stats")}
        if int(rows["documents"]) >= count:
            return
        if time.monotonic() > end:
            raise RuntimeError(f"of {count} documents {rows['documents']} came")
        await asyncio.sleep(0.02)


async def delivering(
    network: Network, documents: list[bytes], queries: list[str], matches: int, passes: int
) -> dict[str, list[Cpu]]:
    root, *others = network.names
    found: dict[str, list[Cpu]] = {name: [] for name in network.names}
    async with network.connect(root, "publisher") as publisher:
        await publisher.register_source("bench")
        await network.is_linked()
        readers = []
        for name in others:
            connection = await network.connect(name, f"reader-{name}").__aenter__()
            readers.append(Reader(connection, name, queries))
            await readers[-1].start()
        done = 0
        for number in range(passes + 1):
            before = network.cpu()
            await publish(publisher, documents)
            done += matches
            for reader in readers:
                await reader.expect(done)
            after = network.cpu()
            if number:  # the first is to warm up
                for name in network.names:
                    found[name].append(after[name].since(before[name]))
        for reader in readers:
            assert reader.count == done, "a document was delivered twice"
            reader.stop()
            await reader._connection.close()
    return found


@contextmanager
def chain(settings: NetworkSettings) -> Iterator[Network]:
    with (
        tempfile.TemporaryDirectory() as directory,
        Network(Path(directory), ["b1", "b2", "b3"], settings).run() as network,
    ):
        yield network


def middle(of: list[Cpu]) -> Cpu:
    return sorted(of)[len(of) // 2]


def measure_passing(report: Report, kind: str, documents: list[bytes], format: str, passes: int) -> None:
    settings = NetworkSettings(link_formats=(format,))
    lxml = lxml_time(documents[: 8 * FRAME], 7)
    with chain(settings) as network:
        _, passed = asyncio.run(passing_on(network, documents, passes))
    cpu = middle(passed)
    seconds = Seconds(cpu.main + cpu.others, cpu.main + cpu.others)
    scaled = Seconds(lxml.wall * len(documents) / (8 * FRAME), lxml.cpu * len(documents) / (8 * FRAME))
    bar = HALF if format in ("binary", "dictionary") else None
    report.ratio(f"{kind}, {format}: passed on by a broker", seconds, scaled, len(documents), 0, bar=bar)


def measure_delivering(report: Report, documents: list[bytes], queries: list[str], format: str, passes: int) -> None:
    index = Index()
    index.add_many([(str(n), query) for n, query in enumerate(queries)])
    matches = sum(len(index.match(document)) for document in documents)

    def alone() -> None:
        for batch in batches(documents):
            for delivery in index.render_batches(batch):
                assert delivery is not None

    alone()
    one = median([clock(alone) for _ in range(5)])
    own = one.cpu / len(documents) * 1e6
    report.figure("one index in one process, read, match and render", own, "µs/doc", matches=matches / len(documents))
    settings = NetworkSettings(link_formats=(format,))
    with chain(settings) as network:
        found = asyncio.run(delivering(network, documents, queries, matches, passes))
    roles = {"b1": "the root, no subscribers", "b2": "passes on and delivers", "b3": "delivers"}
    for name, role in roles.items():
        cpu = middle(found[name])
        main = cpu.main / len(documents) * 1e6
        report.add(
            f"{format}: {role}",
            f"{main:.1f}",
            "µs/doc",
            cpu=f"{main / own:.2f}x of the index",
            matches=f"{matches / len(documents) if name != 'b1' else 0:.1f}",
            bar=f"<= {TWICE:g}x",
            met=main / own <= TWICE,
        )
        report.figure(f"{format}: {role}, writing to disk", cpu.others / len(documents) * 1e6, "µs/doc")


def main(arguments: list[str]) -> int:
    options, report = options_of("network_cpu", __doc__.partition("\n")[0], arguments)
    report.note(f"load {os.getloadavg()[0]:.1f}; frames of {FRAME}, mutual TLS, brokers in processes on loopback")
    count, passes = (16 * FRAME, 1) if options.quick else (64 * FRAME, 5)
    prose = [news_document(BYTES, seed) for seed in range(count)]
    schema = load_schema(options.data, report)
    drawn = list(generate_documents(schema, count, DocumentSettings(bytes_target=BYTES), seed=1))
    for format in ("binary",) if options.quick else ("binary", "dictionary", "text", "binary-zstd", "binary-zlib"):
        measure_passing(report, "prose", prose, format, passes)
        measure_passing(report, schema.name, drawn, format, passes)
    queries = valued_queries(10_000)
    valued = valued_documents(count, 2 * len(queries) // len(TAGS))
    measure_delivering(report, valued, queries, "binary", passes)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
