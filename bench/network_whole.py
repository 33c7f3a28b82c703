"""CPU of a network's brokers per document, against one index that holds all subscriptions of the network.

Eight brokers in processes of their own, with mutual TLS on loopback, have 100,000 subscriptions together, spread at
random. Documents of 5 KB are published at one of them in batches of 64, and at most ten subscriptions match one.
Clients at each broker receive and acknowledge. The peer is one index of the same 100,000 subscriptions in one
process, which reads, matches and renders the same documents as text, in batches of 64.

    python -m bench.network_whole --quick

`bench.network_cpu` asks the harder question: a broker against an index of that broker's subscriptions alone.

CPU is that of the process as the scheduler counts it, less what it takes when nothing happens, for each document that
is published. The thread that writes to disk is reported apart. Each broker's clients get as many deliveries as its
subscriptions match, or the program fails.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.measure import Report, clock, finish, options_of, run
from bench.network_cpu import (
    FRAME,
    TAGS,
    TWICE,
    WARM_UP,
    Meter,
    Reader,
    batches,
    index_of,
    median_of,
    publish,
    valued_documents,
    valued_queries,
)
from bench.network_peers import Cpu, Network
from treecast.index import Index
from treecast.overlay.onyx.settings import NetworkSettings

BROKERS = 8
SUBSCRIPTIONS = 100_000
FAN_OUTS = (4, 1)  # what `treecast up` has, and a chain
PER_SESSION = 10_000


class Shares(NamedTuple):
    """The subscriptions of each broker, and how many of its deliveries the documents make."""

    queries: dict[str, list[str]]
    matches: dict[str, int]


def share(names: list[str], queries: list[str], documents: list[bytes]) -> Shares:
    draw = Random(1)
    parts: dict[str, list[str]] = {name: [] for name in names}
    for query in queries:
        parts[draw.choice(names)].append(query)
    matches = {name: count_matches(index_of(part), documents) for name, part in parts.items()}
    return Shares(parts, matches)


def count_matches(index: Index, documents: list[bytes]) -> int:
    return sum(len(index.match(document)) for document in documents)


async def perform(
    network: Network, shares: Shares, documents: list[bytes], passes: int, between: Callable[[], None]
) -> dict[str, list[Cpu]]:
    """CPU of each broker, by pass; `between` is called after each."""
    root = network.names[0]
    found: dict[str, list[Cpu]] = {name: [] for name in network.names}
    readers: dict[str, list[Reader]] = {}
    async with network.connect(root, "publisher") as publisher:
        await network.add_source("bench", root, publisher)
        for name, queries in shares.queries.items():
            readers[name] = []
            for begin in range(0, len(queries), PER_SESSION):
                part = f"{name}-{begin}"
                connection = await network.connect(name, f"reader-{part}").__aenter__()
                readers[name].append(Reader(connection, part, queries[begin : begin + PER_SESSION]))
                await readers[name][-1].start()
        meter = Meter(network)
        for number in range(passes + WARM_UP):
            if number in (0, WARM_UP):
                await meter.rest()
            meter.start()
            await publish(publisher, documents)
            for name, some in readers.items():
                await arrived(some, shares.matches[name] * (number + 1))
            if number >= WARM_UP:
                for name, cpu in meter.stop().items():
                    found[name].append(cpu)
                between()
        for some in readers.values():
            for reader in some:
                reader.stop()
                await reader._connection.close()
    return found


async def arrived(readers: list[Reader], count: int) -> None:
    async with asyncio.timeout(120):
        while sum(reader.count for reader in readers) < count:
            await asyncio.sleep(0.01)
    got = sum(reader.count for reader in readers)
    if got != count:
        raise RuntimeError(f"{got} deliveries came, not {count}")


def main(arguments: list[str]) -> int:
    options, report = options_of("network_whole", __doc__.partition("\n")[0], arguments)
    count, passes = (16 * FRAME, 9) if options.quick else (64 * FRAME, 15)
    queries = valued_queries(SUBSCRIPTIONS)
    documents = valued_documents(count, 2 * SUBSCRIPTIONS // len(TAGS))
    whole = index_of(queries)
    report.note(f"load {os.getloadavg()[0]:.1f}; {BROKERS} brokers, {SUBSCRIPTIONS:,} subscriptions, frames of {FRAME}")
    alone: list[float] = []

    def ask_index() -> None:
        alone.append(clock(lambda: [None for batch in batches(documents) for _ in whole.render_batches(batch)]).cpu)

    ask_index()
    names = [f"b{number}" for number in range(1, BROKERS + 1)]
    shares = share(names, queries, documents)
    for fan_out_max in FAN_OUTS:
        alone.clear()
        with tempfile.TemporaryDirectory() as directory:
            network = Network(Path(directory), names, NetworkSettings(), fan_out_max=fan_out_max)
            with network.run():
                found = asyncio.run(perform(network, shares, documents, passes, ask_index))
        tell(report, f"up to {fan_out_max} children", alone, found, shares, count)
    return finish(options, report)


def tell(
    report: Report, tree: str, alone: list[float], found: dict[str, list[Cpu]], shares: Shares, count: int
) -> None:
    """Ratios are to the index in the same pass; the median of the passes counts."""
    one = median_of(alone) / count * 1e6
    report.figure(
        f"{tree}: one index of all, read, match and render", one, "µs/doc", matches=sum(shares.matches.values()) / count
    )
    ratios = {name: [cpu.main / index for cpu, index in zip(some, alone, strict=True)] for name, some in found.items()}
    for name, some in found.items():
        report.add(
            f"{tree}: {name}, {len(shares.queries[name]):,} subscriptions",
            f"{median_of([cpu.main for cpu in some]) / count * 1e6:.1f}",
            "µs/doc",
            cpu=f"{median_of(ratios[name]):.2f}x of the index",
            matches=f"{shares.matches[name] / count:.1f}",
        )
    means = [sum(some) / len(found) for some in zip(*ratios.values(), strict=True)]
    cpu = median_of([sum(cpu.main for cpu in some) / len(found) for some in zip(*found.values(), strict=True)])
    report.add(
        f"{tree}: CPU per document and broker",
        f"{cpu / count * 1e6:.1f}",
        "µs/doc",
        cpu=f"{median_of(means):.2f}x of the index",
        bar=f"<= {TWICE:g}x",
        met=median_of(means) <= TWICE,
    )
    disk = median_of([sum(cpu.others for cpu in some) / len(found) for some in zip(*found.values(), strict=True)])
    report.figure(f"{tree}: writing to disk, per document and broker", disk / count * 1e6, "µs/doc")


if __name__ == "__main__":
    run(main)
