"""One of 1,000 subscribers stops reading: how the others fare, and how much memory that takes.

A broker in a process of its own, 1,000 subscriptions with a receiver each, and documents at a steady rate, each for
about 7 of them and always for the one that will stall. Runs without and with the stall take turns. A stalled receiver
does not take anything from its socket and acknowledges nothing, but keeps its session alive: the worst kind. Latency is
from `publish` to the arrival of a delivery, in the process of the clients; depths are what `Connection.inspect` shows.

Then the stall goes on and as many documents as possible are published for the stalled subscription alone.

Bars: the 99th percentile of the others is less than twice that without a stall (median of 5 pairs of runs), their
queues are as deep, and the broker's memory stays flat over the second half of the flood.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.broker import broker
from bench.broker_peers import cpu_seconds
from bench.measure import Report, finish, options_of, run
from treecast.overlay.messages import Subscribe
from treecast.serve.client import Connection

SUBSCRIPTIONS, MATCHES, RATIO_MAX, GROWN_MB_MAX = 1_000, 7, 2.0, 16
PER_CONNECTION = 50
STALLED = "s0"
FLOOD_BATCH = 100


@dataclass(frozen=True)
class Sizes:
    """A run takes `seconds`; `flood` documents are published in the end."""

    runs: int
    seconds: float
    rate: int
    """Documents a second."""
    flood: int


@dataclass
class Run:
    """Of all subscribers but the one that stalls: seconds from publishing to arrival, and depths of their queues."""

    latencies: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    stalled_depth: int = 0
    cpu: float = 0.0
    """Seconds of the broker."""

    def percentile(self, percent: float) -> float:
        return sorted(self.latencies)[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


def rss_mb(pid: int) -> float:
    """The memory that a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def document(random: Random, codes: list[int], size: int = 200) -> bytes:
    """It begins with the time at which it was made."""
    items = "".join(f'<item code="C{code}"/>' for code in codes)
    text = "".join(random.choices("abcdefgh ", k=size))
    return f'<list t="{time.perf_counter():018.6f}">{items}<text>{text}</text></list>'.encode()


class Receivers:
    """All subscribers but the stalled one, on a few connections."""

    def __init__(self) -> None:
        self.run = Run()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, address: str) -> None:
        for first in range(0, SUBSCRIPTIONS, PER_CONNECTION):
            connection = Connection(address, f"receivers-{first}", connect_s=60)
            await connection.__aenter__()
            ids = [f"s{number}" for number in range(first, first + PER_CONNECTION) if f"s{number}" != STALLED]
            self._tasks += [asyncio.create_task(self._receive(connection, id)) for id in ids]

    async def _receive(self, connection: Connection, id: str) -> None:
        async for delivery in connection.deliveries([id], credit=100):
            self.run.latencies.append(time.perf_counter() - float(delivery.payload[9:27]))
            connection.settle([delivery])

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def subscriber(address: str, *, stalls: bool) -> AsyncIterator[None]:
    """Receives from the subscription that may stall."""
    async with Connection(address, "may-stall", connect_s=60) as connection:

        async def receive() -> None:
            async for delivery in connection.deliveries([STALLED], credit=100):
                if not stalls:
                    connection.settle([delivery])

        task = asyncio.create_task(receive())
        await asyncio.sleep(0.5)
        if stalls and connection._connection is not None:
            connection._connection.pause()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def drain(address: str) -> None:
    """Let the one that stalled catch up: a run begins with empty queues."""
    async with subscriber(address, stalls=False), Connection(address, "publisher") as connection:
        while await connection.inspect("queues", count_max=1):
            await asyncio.sleep(0.1)


async def one_run(address: str, pid: int, receivers: Receivers, sizes: Sizes, seed: int, *, stalls: bool) -> Run:
    random = Random(seed)
    await drain(address)
    result = receivers.run = Run()
    async with subscriber(address, stalls=stalls), Connection(address, "publisher") as publisher:
        cpu, begin = cpu_seconds(pid), time.perf_counter()
        looked = 0.0
        publishing: set[asyncio.Task[list[int]]] = set()
        for number in range(int(sizes.seconds * sizes.rate)):
            await asyncio.sleep(max(0.0, begin + number / sizes.rate - time.perf_counter()))
            codes = [0, *random.sample(range(1, SUBSCRIPTIONS), MATCHES)]
            task = asyncio.create_task(publisher.publish("bench", [document(random, codes)]))
            publishing.add(task)
            task.add_done_callback(publishing.discard)
            if time.perf_counter() - looked > 0.5:
                looked = time.perf_counter()
                await look(publisher, result)
        await asyncio.gather(*publishing)
        await look(publisher, result)
        await asyncio.sleep(0.5)
        result.cpu = cpu_seconds(pid) - cpu
    return result


async def look(connection: Connection, result: Run) -> None:
    """Note how deep the queues are."""
    depths = {
        str(row["key"]): int(row["waiting"]) + int(row["sent"])
        for row in await connection.inspect("queues", count_max=1_000)
    }
    result.stalled_depth = max(result.stalled_depth, depths.pop(STALLED, 0))
    result.depths.append(sum(depths.values()))


async def flood(address: str, pid: int, count: int) -> list[float]:
    """Publish for the stalled one only; returns the broker's memory at the beginning, and after each quarter."""
    random = Random(1)
    memory = [rss_mb(pid)]
    async with subscriber(address, stalls=True), Connection(address, "publisher") as publisher:
        for _ in range(4):
            for _ in range(max(1, count // FLOOD_BATCH // 4)):
                batch = [document(random, [0], 5_000) for _ in range(FLOOD_BATCH)]
                await publisher.publish("bench", batch)
            memory.append(rss_mb(pid))
        rows = await publisher.inspect("queues", count_max=1_000)
        row = next(row for row in rows if row["key"] == STALLED)
        assert row["parked"], "it is visible that there is more on disk"
    return memory


async def measure_all(report: Report, address: str, pid: int, sizes: Sizes, *, is_full: bool) -> None:
    async with Connection(address, "subscriber") as connection:
        await connection.register_source("bench")
        await connection.subscribe_many(
            [Subscribe(f"s{number}", f'//item[@code="C{number}"]') for number in range(SUBSCRIPTIONS)]
        )
    receivers = Receivers()
    await receivers.start(address)
    await one_run(address, pid, receivers, sizes, 0, stalls=False)  # to warm up
    pairs: list[tuple[Run, Run]] = []
    for number in range(sizes.runs):
        order = (False, True) if number % 2 else (True, False)  # what the machine does meanwhile hits both alike
        pair = {stalls: await one_run(address, pid, receivers, sizes, number, stalls=stalls) for stalls in order}
        pairs.append((pair[False], pair[True]))
    await receivers.stop()
    for name, runs in (("calm", [pair[0] for pair in pairs]), ("with a stall", [pair[1] for pair in pairs])):
        for percent in (50, 99):
            latency = statistics.median(each.percentile(percent) for each in runs)
            report.figure(f"{name}: latency of the others, {percent} %", latency * 1e3, "ms")
        depth = statistics.median(statistics.mean(each.depths) for each in runs)
        report.figure(f"{name}: deliveries in the queues of the others, mean", depth, "")
        cpu = statistics.median(each.cpu for each in runs) / sizes.seconds / sizes.rate
        report.figure(f"{name}: CPU of the broker", cpu * 1e6, "µs/doc")
    ratios = sorted(stalled.percentile(99) / calm.percentile(99) for calm, stalled in pairs)
    report.note("99 % with a stall / without, all pairs: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    ratio = statistics.median(ratios)
    report.figure("99 % with a stall / without", ratio, "x", bar=RATIO_MAX if is_full else None)
    report.figure("deepest queue of the stalled one, in memory", max(pair[1].stalled_depth for pair in pairs), "")
    memory = await flood(address, pid, sizes.flood)
    for place, value in enumerate(memory):
        report.figure(f"memory of the broker after {place * sizes.flood // 4:,} more documents", value, "MB")
    report.figure("its growth over the second half", memory[4] - memory[2], "MB", bar=GROWN_MB_MAX if is_full else None)


def measure(report: Report, sizes: Sizes, *, is_full: bool) -> None:
    report.note(
        f"{SUBSCRIPTIONS:,} subscriptions; {sizes.rate} documents a second, {sizes.runs} pairs of runs of"
        f" {sizes.seconds:g} s; all on one machine, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as (address, pid):
        asyncio.run(measure_all(report, address, pid, sizes, is_full=is_full))


def main(arguments: list[str]) -> int:
    options, report = options_of("broker_stalled", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, Sizes(runs=1, seconds=3, rate=50, flood=4_000), is_full=False)
    else:
        measure(report, Sizes(runs=5, seconds=10, rate=100, flood=40_000), is_full=True)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
