"""A million subscriptions at eight brokers in processes of their own: tables, memory, how soon a change is everywhere.

The brokers have mutual TLS, three of them are roots, and the subscriptions are the mixed population of
`bench/routing_populations.py`. A subscription is acknowledged when the tables of all trees have it, so the time until
then is the time in which it reaches every routing table. Each new one of those that are timed has a value of its own; a
document with that value is published at every root afterwards, and has to be delivered.

    python -m bench.network_million --quick

At the end documents are published at all roots, and every subscription gets what one index with all of them says, or
the program fails.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.measure import Report, finish, options_of, run
from bench.network_cpu import FRAME, batches
from bench.network_kill import NOT_COVERED
from bench.network_peers import Network
from bench.routing_populations import BROKERS, POPULATIONS
from treecast.index import Index
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.serve.client import Connection, RefusedError

Publishers = dict[int, Connection]
"""By the place of the broker that they publish at."""
AT_ONCE = 1_000
SECOND_MS = 1_000
WAIT_SECONDS = 120


@dataclass(frozen=True)
class Load:
    """How much is measured."""

    subscriptions: int = 1_000_000
    changes: int = 200
    documents: int = 1_280
    roots: tuple[int, ...] = (0, 3, 6)
    """Places of the brokers that take documents."""


@dataclass
class Found:
    """What a run has shown."""

    subscribe_s: float = 0.0
    refused: int = 0
    """Requests that were made again, because tables had not followed in time."""
    cpu_s: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    """Memory of each broker, once all subscriptions are there."""
    tables: dict[str, int] = field(default_factory=dict)
    """Routing queries of each link, by tree and link."""
    added_ms: list[float] = field(default_factory=list)
    removed_ms: list[float] = field(default_factory=list)
    matches: int = 0
    delivered_s: float = 0.0


class Subscriber:
    """A client of one broker, with all subscriptions of it."""

    def __init__(self, network: Network, name: str, queries: Sequence[str]) -> None:
        self.connection: Connection = network.connect(name, f"reader-{name}")
        self.wanted = {f"{name}-{n}": query for n, query in enumerate(queries)}
        self.got: Counter[tuple[str, bytes]] = Counter()
        self.refused = 0

    async def subscribe(self) -> None:
        ids = list(self.wanted)
        for begin in range(0, len(ids), AT_ONCE):
            some = [Subscribe(id, self.wanted[id]) for id in ids[begin : begin + AT_ONCE]]
            while not await self._is_taken(some):
                self.refused += 1

    async def _is_taken(self, some: list[Subscribe]) -> bool:
        """A busy network may not know of them in time."""
        try:
            await self.connection.subscribe_many(some)
        except RefusedError as error:
            if error.code != NOT_COVERED:
                raise
            return False
        return True

    async def read(self, ids: list[str]) -> None:
        async for delivery in self.connection.deliveries(ids, credit=10_000):
            self.got[delivery.subscription, delivery.payload] += 1
            self.connection.settle([delivery])

    async def expect(self, pairs: Counter[tuple[str, bytes]]) -> None:
        """Exactly these, each once."""
        async with asyncio.timeout(WAIT_SECONDS):
            while self.got.total() < pairs.total():
                await asyncio.sleep(0.01)
        assert self.got == pairs, "deliveries are not what one index says"


async def measure(network: Network, load: Load) -> Found:
    found = Found()
    each = load.subscriptions // len(network.names)
    population = POPULATIONS["mixed"]
    async with AsyncExitStack() as stack:
        publishers = {place: network.connect(network.names[place], f"publisher-{place}") for place in load.roots}
        for place, publisher in publishers.items():
            await stack.enter_async_context(publisher)
            await network.add_source(f"source-{place}", network.names[place], publisher)
        subscribers = [
            Subscriber(network, name, population.queries(each, place % BROKERS, 1))
            for place, name in enumerate(network.names)
        ]
        for subscriber in subscribers:
            await stack.enter_async_context(subscriber.connection)
        await _subscribe_all(network, subscribers, found)
        print(f"  subscribed in {found.subscribe_s:.1f} s", flush=True)
        await _change(publishers, subscribers, load.changes, found)
        print(f"  {load.changes} changes, the slowest took {max(found.added_ms):.0f} ms", flush=True)
        await _deliver(publishers, subscribers, population.documents(load.documents, 2), found)
    return found


async def _subscribe_all(network: Network, subscribers: list[Subscriber], found: Found) -> None:
    begun = time.monotonic()
    await asyncio.gather(*(subscriber.subscribe() for subscriber in subscribers))
    found.subscribe_s = time.monotonic() - begun
    found.refused = sum(subscriber.refused for subscriber in subscribers)
    found.cpu_s = [cpu.main for cpu in network.cpu().values()]
    found.bytes = [network.peers[name].memory_bytes() for name in network.names]
    for name, subscriber in zip(network.names, subscribers, strict=True):
        for row in await subscriber.connection.inspect("trees", count_max=1_000):
            found.tables[f"{row['root']}, {name} to {row['child']}"] = int(row["table"])


async def _change(publishers: Publishers, subscribers: list[Subscriber], changes: int, found: Found) -> None:
    """One subscription at a time, at any broker: added, found by a document of every root, and removed."""
    draw = Random(1)
    for number in range(changes):
        subscriber = draw.choice(subscribers)
        id, value = f"new-{number}", f"only-{number}"
        begun = time.monotonic()
        await subscriber.connection.subscribe(id, f'/news/item[@code="{value}"]')
        found.added_ms.append((time.monotonic() - begun) * 1e3)
        await _reach(publishers, subscriber, id, value)
        begun = time.monotonic()
        await subscriber.connection.unsubscribe(id)
        found.removed_ms.append((time.monotonic() - begun) * 1e3)


async def _reach(publishers: Publishers, subscriber: Subscriber, id: str, value: str) -> None:
    """A document of each root, published now, is delivered."""
    reading = asyncio.create_task(subscriber.read([id]))
    bodies = {place: b'<news n="%d"><item code="%s"/></news>' % (place, value.encode()) for place in publishers}
    for place, publisher in publishers.items():
        await publisher.publish(f"source-{place}", [bodies[place]])
    await subscriber.expect(Counter((id, body) for body in bodies.values()))
    reading.cancel()
    subscriber.got.clear()


async def _deliver(publishers: Publishers, subscribers: list[Subscriber], documents: list[bytes], found: Found) -> None:
    """Each subscription gets what one index says. Only those that get something have a reader."""
    documents = list(dict.fromkeys(documents))
    expected = [Counter(matches_of(subscriber.wanted, documents)) for subscriber in subscribers]
    found.matches = sum(pairs.total() for pairs in expected)
    reading = [
        asyncio.create_task(subscriber.read(sorted({id for id, _ in pairs})))
        for subscriber, pairs in zip(subscribers, expected, strict=True)
    ]
    begun = time.monotonic()
    parts = [documents[n :: len(publishers)] for n in range(len(publishers))]
    for (place, publisher), part in zip(publishers.items(), parts, strict=True):
        for batch in batches(part, FRAME):
            await publisher.publish(f"source-{place}", batch)
    await asyncio.gather(*(s.expect(pairs) for s, pairs in zip(subscribers, expected, strict=True)))
    found.delivered_s = time.monotonic() - begun
    for task in reading:
        task.cancel()


def matches_of(wanted: dict[str, str], documents: list[bytes]) -> list[tuple[str, bytes]]:
    index = Index()
    index.add_many(list(wanted.items()))
    return [(id, document) for document in documents for id in index.match(document)]


def tell(report: Report, found: Found, load: Load) -> None:
    report.figure("subscriptions made and in all tables", found.subscribe_s, "s")
    report.figure("that is", found.subscribe_s / load.subscriptions * 1e6, "µs a subscription")
    report.figure("requests of 1,000 that were made again", found.refused, "")
    report.figure("CPU of a broker for that, mean", sum(found.cpu_s) / len(found.cpu_s), "s")
    report.figure("CPU of a broker for that, most", max(found.cpu_s), "s")
    report.figure("memory of a broker, mean", sum(found.bytes) / len(found.bytes) / 1e6, "MB")
    report.figure("memory of a broker, most", max(found.bytes) / 1e6, "MB")
    for name, size in sorted(found.tables.items()):
        report.figure(f"tree of {name}", size, "routing queries")
    for what, times in (("in all tables", found.added_ms), ("removed", found.removed_ms)):
        times = sorted(times)
        report.figure(f"one subscription is {what}, median", times[len(times) // 2], "ms")
        report.figure(f"one subscription is {what}, 99th of 100", times[len(times) * 99 // 100], "ms")
        report.add(
            f"one subscription is {what}, worst",
            f"{times[-1]:.1f}",
            "ms",
            bar=f"< {SECOND_MS}",
            met=times[-1] < SECOND_MS,
        )
    report.figure("deliveries, equal to those of one index", found.matches, "")
    report.figure("published and delivered within", found.delivered_s, "s")


def main(arguments: list[str]) -> int:
    options, report = options_of("network_million", __doc__.partition("\n")[0], arguments)
    load = Load(20_000, 40, 320) if options.quick else Load()
    report.note(f"load {os.getloadavg()[0]:.1f}; {BROKERS} brokers, {len(load.roots)} of them roots, mutual TLS")
    report.note(
        f"{load.subscriptions:,} subscriptions, {load.changes} changes one at a time, {load.documents} documents"
    )
    names = [f"b{number}" for number in range(1, BROKERS + 1)]
    found = run_network(names, load)
    tell(report, found, load)
    return finish(options, report)


def run_network(names: list[str], load: Load) -> Found:
    """Start brokers, measure, and end them."""
    broker = BrokerSettings(subscriptions_per_session_max=load.subscriptions)
    with tempfile.TemporaryDirectory() as directory:
        network = Network(Path(directory), names, NetworkSettings(), broker=broker, fan_out_max=4)
        with network.run():
            return asyncio.run(measure(network, load))


if __name__ == "__main__":
    run(main)
