"""CPU of brokers per document, in a chain of processes with mutual TLS on loopback: passing on, and delivering.

Documents are published at the first broker, in batches of 64, which travel as frames of 64. **Passing on**: the second
broker has no subscribers, the third wants everything; the second's CPU is held against lxml.etree.fromstring of the
same documents. **Delivering**: the second and the third each have subscriptions of which at most ten match a document,
and a client who receives and acknowledges; each broker's CPU is held against one index of the same subscriptions in one
process, which reads, matches and renders the same documents as text, in batches of 64. **Few at a time**: the same for
publishers that send one document or eight at a time, with and without handling together what comes together
(`RuntimeSettings.gathered_bytes_max`). **Links first**: how long a
broker takes until what it passes on leaves, with and without serving its own subscribers in the same turn
(`bench/links_first.py`).

Delivering is measured with 2,000 subscriptions at each of the two brokers, and with 100,000. The index is asked after
each pass, so that both have the same caches and the same neighbours: the ratio is the median of those of the passes.

CPU is that of the process as the scheduler counts it, less what it takes in the same time when nothing happens. The
thread that writes to disk is reported apart, and both together; what prepares the writing (rows, bodies) is in the
first figure.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench import links_first
from bench.measure import Report, Seconds, clock, finish, lxml_time, options_of, run
from bench.network_peers import Cpu, Network
from bench.reading import news_document
from treecast.document import Document, read_many
from treecast.index import Index
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.serve.client import Connection, ReceivedDelivery
from treecast.serve.settings import RuntimeSettings
from treecast.workload import DocumentSettings, Schema, generate_documents

FRAME, BYTES = 64, 5_000
WINDOW = 4
TAGS = ("em", "person", "location", "org", "chron", "money")
HALF, TWICE = 0.5, 2.0
WAIT_SECONDS = 120
WARM_UP = 2  # passes
SUBSCRIPTIONS = (2_000, 100_000)  # of a broker: fewer than a table generalises, and more
CREDIT = 10_000
REST_SECONDS, REST_SHARE, REST_TRIES = 2, 0.02, 120
ROLES = {"b1": "the root, no subscribers", "b2": "passes on and delivers", "b3": "delivers"}
"""Of the brokers of a chain."""


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


def index_of(queries: list[str]) -> Index:
    index = Index()
    index.add_many([(str(n), query) for n, query in enumerate(queries)])
    return index


def batches(documents: list[bytes], size: int = FRAME) -> list[list[bytes]]:
    return [documents[begin : begin + size] for begin in range(0, len(documents), size)]


async def publish(publisher: Connection, documents: list[bytes], size: int = FRAME) -> None:
    room = asyncio.Semaphore(WINDOW)

    async def one(batch: list[bytes]) -> None:
        async with room:
            await publisher.publish("bench", batch)

    await asyncio.gather(*map(one, batches(documents, size)))


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
        waiting: list[ReceivedDelivery] = []

        def settle() -> None:
            """What came in one go is acknowledged in one go."""
            self._connection.settle(waiting)
            waiting.clear()

        async for delivery in self._connection.deliveries(ids, credit=CREDIT):
            self.count += 1
            if not waiting:
                asyncio.get_running_loop().call_later(0.005, settle)
            waiting.append(delivery)

    async def expect(self, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while self.count < count:
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Meter:
    """CPU of all brokers in a span of time, less what they take when nothing happens."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.idle: dict[str, float] = {}
        self._begin: dict[str, Cpu] = {}
        self._begun = 0.0

    async def rest(self) -> None:
        """Wait until no broker has anything to do: after many subscriptions, tables are worked on for a while."""
        for _ in range(REST_TRIES):
            self.start()
            await asyncio.sleep(1)
            if all(cpu.since(self._begin[name]).main < REST_SHARE for name, cpu in self._network.cpu().items()):
                break
        else:
            raise RuntimeError("the network does not come to rest")
        self.start()
        await asyncio.sleep(REST_SECONDS)
        seconds = time.monotonic() - self._begun
        self.idle = {name: cpu.since(self._begin[name]).main / seconds for name, cpu in self._network.cpu().items()}

    def start(self) -> None:
        self._begin, self._begun = self._network.cpu(), time.monotonic()

    def stop(self) -> dict[str, Cpu]:
        seconds, now = time.monotonic() - self._begun, self._network.cpu()
        found = {name: cpu.since(self._begin[name]) for name, cpu in now.items()}
        return {name: Cpu(cpu.main - self.idle[name] * seconds, cpu.others) for name, cpu in found.items()}


def common_path(documents: list[bytes]) -> str:
    """A path that all these documents have."""
    paths: set[str] | None = None
    for document in read_many(documents):
        assert isinstance(document, Document)
        names: list[str] = []
        for (_, name), parent in zip(document.names, document.parents, strict=True):
            names.append(f"{names[parent] if parent >= 0 else ''}/{name}")
        paths = set(names) if paths is None else paths & set(names)
    return max(sorted(paths or ()), key=lambda path: path.count("/"))


async def passing_on(network: Network, documents: list[bytes], passes: int) -> tuple[list[Cpu], Meter]:
    """CPU of the broker in the middle, by pass."""
    root, middle, last = network.names
    found: list[Cpu] = []
    meter = Meter(network)
    async with network.connect(root, "publisher") as publisher, network.connect(last, "counts") as counter:
        await network.add_source("bench", root, publisher)
        await network.is_linked()
        queries = [common_path(documents), *valued_queries(1_000)]
        await counter.subscribe_many([Subscribe(str(n), query) for n, query in enumerate(queries)])
        await publish(publisher, documents[: 4 * FRAME])
        done = 4 * FRAME
        await _arrived(counter, done)
        await meter.rest()
        for _ in range(passes):
            meter.start()
            await publish(publisher, documents)
            done += len(documents)
            await _arrived(counter, done)
            found.append(meter.stop()[middle])
    return found, meter


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
    network: Network,
    documents: list[bytes],
    queries: list[str],
    matches: int,
    passes: int,
    size: int = FRAME,
    between: Callable[[], None] | None = None,
) -> dict[str, list[Cpu]]:
    """CPU of each broker, by pass; `between` is called after each."""
    root, *others = network.names
    others = others or [root]
    found: dict[str, list[Cpu]] = {name: [] for name in network.names}
    async with network.connect(root, "publisher") as publisher:
        await network.add_source("bench", root, publisher)
        await network.is_linked()
        readers = []
        for name in others:
            connection = await network.connect(name, f"reader-{name}").__aenter__()
            readers.append(Reader(connection, name, queries))
            await readers[-1].start()
        done, meter = 0, Meter(network)
        for number in range(passes + WARM_UP):
            if number in (0, WARM_UP):
                await meter.rest()
            meter.start()
            await publish(publisher, documents, size)
            done += matches
            for reader in readers:
                await reader.expect(done)
            if number >= WARM_UP:
                for name, cpu in meter.stop().items():
                    found[name].append(cpu)
                if between is not None:
                    between()
        for reader in readers:
            assert reader.count == done, "a document was delivered twice"
            reader.stop()
            await reader._connection.close()
    return found


@contextmanager
def chain(settings: NetworkSettings, count: int = 3, runtime: RuntimeSettings | None = None) -> Iterator[Network]:
    names = [f"b{number}" for number in range(1, count + 1)]
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerSettings(subscriptions_per_session_max=max(SUBSCRIPTIONS))
        network = Network(Path(directory), names, settings, runtime=runtime, broker=broker)
        with network.run():
            yield network


def middle(of: list[Cpu]) -> Cpu:
    return sorted(of)[len(of) // 2]


def measure_passing(report: Report, kind: str, documents: list[bytes], format: str, passes: int) -> None:
    settings = NetworkSettings(link_formats=(format,))
    lxml = lxml_time(documents[: 8 * FRAME], 7)
    with chain(settings) as network:
        passed, meter = asyncio.run(passing_on(network, documents, passes))
    cpu = middle(passed)
    seconds = Seconds(cpu.main + cpu.others, cpu.main + cpu.others)
    scaled = Seconds(lxml.wall * len(documents) / (8 * FRAME), lxml.cpu * len(documents) / (8 * FRAME))
    bar = HALF if format in ("binary", "dictionary") else None
    report.ratio(f"{kind}, {format}: passed on by a broker", seconds, scaled, len(documents), 0, bar=bar)
    if format == "binary":
        report.figure(f"{kind}: a broker when nothing happens", meter.idle["b2"] * 1e3, "ms of CPU a second")


def measure_links_first(report: Report, documents: list[bytes], queries: list[str]) -> None:
    ways = {
        "in a turn of their own": NetworkSettings(own_at_once_max=0),
        "looked for at once, served in a turn of their own": NetworkSettings(),
        "in the same turn": NetworkSettings(own_at_once_max=0, routes_first=False),
    }
    for how, settings in ways.items():
        wanted = common_path(documents)
        left, done = links_first.measure(documents, queries, wanted, FRAME, settings)
        report.figure(f"own subscribers {how}: until a document leaves", left, "µs/doc")
        report.figure(f"own subscribers {how}: until all is done", done, "µs/doc")


def measure_few(report: Report, documents: list[bytes], queries: list[str], passes: int) -> None:
    """Publishers that send few documents at a time: what each broker takes, beside handling each message alone."""
    index = index_of(queries)
    matches = sum(len(index.match(document)) for document in documents)
    for size in (1, 8):
        cpu: dict[str, list[float]] = {}
        for gathered_bytes_max in (0, RuntimeSettings().gathered_bytes_max):
            runtime = RuntimeSettings(gathered_bytes_max=gathered_bytes_max)
            with chain(NetworkSettings(), runtime=runtime) as network:
                found = asyncio.run(delivering(network, documents, queries, matches, passes, size))
            for name, passed in found.items():
                cpu.setdefault(name, []).append(middle(passed).main / len(documents) * 1e6)
        for name, role in ROLES.items():
            alone, together = cpu[name]
            report.figure(f"{size} at a time, each message in a turn of its own: {role}", alone, "µs/doc")
            report.figure(f"{size} at a time, in one turn what comes together: {role}", together, "µs/doc")
            report.figure(f"{size} at a time: {role}", together / alone, "times the CPU")


def measure_delivering(report: Report, documents: list[bytes], queries: list[str], format: str, passes: int) -> None:
    index = index_of(queries)
    matches = sum(len(index.match(document)) for document in documents)
    alone: list[float] = []

    def ask_index() -> None:
        alone.append(clock(lambda: [None for batch in batches(documents) for _ in index.render_batches(batch)]).cpu)

    ask_index()
    alone.clear()
    per_document = 1e6 / len(documents)
    each = f"{len(queries):,} subscriptions"
    settings = NetworkSettings(link_formats=(format,))
    with chain(settings) as network:
        found = asyncio.run(delivering(network, documents, queries, matches, passes, between=ask_index))
    one = median_of(alone) * per_document
    report.figure(
        f"{each}: one index in one process, read, match and render", one, "µs/doc", matches=matches / len(documents)
    )
    for name, role in ROLES.items():
        main = median_of([cpu.main for cpu in found[name]]) * per_document
        ratio = median_of([cpu.main / index for cpu, index in zip(found[name], alone, strict=True)])
        report.add(
            f"{each}, {format}: {role}",
            f"{main:.1f}",
            "µs/doc",
            cpu=f"{ratio:.2f}x of the index",
            matches=f"{matches / len(documents) if name != 'b1' else 0:.1f}",
            bar=f"<= {TWICE:g}x",
            met=ratio <= TWICE,
        )
        disk = median_of([cpu.others for cpu in found[name]]) * per_document
        report.figure(f"{each}, {format}: {role}, writing to disk", disk, "µs/doc")


def measure_one_broker(report: Report, documents: list[bytes], queries: list[str], passes: int) -> None:
    """One broker, to which documents are published and which delivers them."""
    index = index_of(queries)
    matches = sum(len(index.match(document)) for document in documents)
    with chain(NetworkSettings(), 1) as network:
        whole = asyncio.run(delivering(network, documents, queries, matches, passes))
    cpu = median_of([cpu.main for cpu in whole["b1"]]) / len(documents) * 1e6
    report.figure(
        "one broker in one process, all it does for a document", cpu, "µs/doc", matches=matches / len(documents)
    )


def median_of(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main(arguments: list[str]) -> int:
    options, report = options_of("network_cpu", __doc__.partition("\n")[0], arguments)
    report.note(f"load {os.getloadavg()[0]:.1f}; frames of {FRAME}, mutual TLS, brokers in processes on loopback")
    count, passes = (16 * FRAME, 3) if options.quick else (64 * FRAME, 5)
    prose = [news_document(BYTES, seed) for seed in range(count)]
    schema = Schema.news()
    drawn = list(generate_documents(schema, count, DocumentSettings(bytes_target=BYTES), seed=1))
    for format in ("binary",) if options.quick else ("binary", "dictionary", "text", "binary-zstd", "binary-zlib"):
        measure_passing(report, "prose", prose, format, passes)
        if format in ("binary", "text"):
            measure_passing(report, schema.name, drawn, format, passes)
    for subscriptions in reversed(SUBSCRIPTIONS):
        queries = valued_queries(subscriptions)
        valued = valued_documents(count, 2 * len(queries) // len(TAGS))
        measure_delivering(report, valued, queries, "binary", 3 * passes)
    measure_links_first(report, valued[: 16 * FRAME], queries)
    measure_one_broker(report, valued, queries, passes)
    measure_few(report, valued[: 8 * FRAME], queries, passes)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
