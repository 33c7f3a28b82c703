"""A broker at 70 % of what it can do, for a long time: its memory stays flat.

    python -m bench.broker_soak --minutes 30

10,000 subscriptions, all received from; documents of about 5 KB for 7 of them each, with ids of their own; some
subscriptions come and go all the while. First the clients publish as fast as they can, until everything that is bounded
is full: the ids of the last 100,000 documents, the rows of 4,096, SQLite's two caches of 32 MB, the offsets of 16
sealed segments of the log. Then they publish at 70 % of that rate. The broker's memory is looked at every second, and a
line is fitted to all of it: its slope is judged, whatever the first and the last second were like.

Bar, for 30 minutes: less than 0.5 MB a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from bench.broker import broker, make_documents
from bench.broker_stalled import rss_mb
from bench.measure import Report, finish, options_of, run
from treecast.overlay.messages import Document, Subscribe
from treecast.serve.client import Connection

SUBSCRIPTIONS, RECEIVERS, BATCH, SHARE = 10_000, 20, 50, 0.7
DRAWN = 2_000
"""Different documents; each is published many times, under different ids."""
WARM_DOCUMENTS = 250_000
"""As many as it takes to fill 17 segments of 64 MB, which is more than anything else takes."""
SLOPE_MAX, MINUTES_BARRED = 0.5, 30


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line that fits best."""
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


class Soak:
    """The clients of one run, on one broker."""

    def __init__(self, address: str, pid: int) -> None:
        self._address = address
        self._pid = pid
        self._random = Random(1)
        self._documents = make_documents(DRAWN, SUBSCRIPTIONS)
        self._published = 0
        self.received = 0
        self.memory: list[tuple[float, float]] = []
        """Minutes since the beginning, MB."""

    async def prepare(self) -> list[asyncio.Task[None]]:
        """Subscribe, and receive from everything."""
        async with Connection(self._address, "subscriber") as connection:
            await connection.register_source("bench")
            rows = [Subscribe(f"s{number}", f'//item[@code="C{number}"]') for number in range(SUBSCRIPTIONS)]
            await connection.subscribe_many(rows)
        share = SUBSCRIPTIONS // RECEIVERS
        groups = [[f"s{number}" for number in range(first, first + share)] for first in range(0, SUBSCRIPTIONS, share)]
        return [asyncio.create_task(self._receive(ids)) for ids in groups]

    async def _receive(self, ids: list[str]) -> None:
        async with Connection(self._address, f"receiver-{ids[0]}") as connection:
            async for delivery in connection.deliveries(ids):
                self.received += 1
                connection.settle([delivery])

    async def publish(self, connection: Connection) -> None:
        """One batch."""
        bodies = self._random.choices(self._documents, k=BATCH)
        first = self._published
        self._published += BATCH
        batch = [Document(body, f"d{first + place}") for place, body in enumerate(bodies)]
        await connection.publish("bench", batch)

    async def fastest(self, documents: int) -> float:
        """Documents a second, if each batch follows the one before it, and what is received keeps up."""
        async with Connection(self._address, "publisher") as connection:
            await self.publish(connection)
            begin, before = time.perf_counter(), self._published
            while self._published - before < documents:
                await self.publish(connection)
            while await connection.inspect("queues", count_max=1):
                await asyncio.sleep(0.05)
            return (self._published - before) / (time.perf_counter() - begin)

    async def steady(self, seconds: float, rate: float) -> float:
        """Publish at this rate; returns the rate that was reached."""
        async with Connection(self._address, "publisher") as connection:
            begin, before, looked = time.perf_counter(), self._published, 0.0
            while (now := time.perf_counter()) < begin + seconds:
                if now - looked >= 1:
                    looked = now
                    self.memory.append(((now - begin) / 60, rss_mb(self._pid)))
                    await self._change(connection)
                await self.publish(connection)
                ahead = begin + (self._published - before) / rate - time.perf_counter()
                await asyncio.sleep(max(0.0, ahead))
            return (self._published - before) / (time.perf_counter() - begin)

    async def _change(self, connection: Connection) -> None:
        """A subscription that nobody receives from comes and goes."""
        number = self._random.randrange(SUBSCRIPTIONS)
        await connection.subscribe("visitor", f'//item[@code="C{number}"]')
        await connection.unsubscribe("visitor")


async def measure_all(report: Report, address: str, pid: int, minutes: float) -> None:
    soak = Soak(address, pid)
    receiving = await soak.prepare()
    first = rss_mb(pid)
    is_full = minutes >= MINUTES_BARRED
    fastest = await soak.fastest(WARM_DOCUMENTS if is_full else int(WARM_DOCUMENTS * minutes / MINUTES_BARRED))
    report.figure("documents, as fast as possible", fastest, "/s")
    reached = await soak.steady(minutes * 60, SHARE * fastest)
    report.figure(f"documents at {SHARE:.0%} load", reached, "/s")
    report.figure("deliveries", soak.received / 1e6, "million")
    for task in receiving:
        task.cancel()
    await asyncio.gather(*receiving, return_exceptions=True)
    step = max(1, len(soak.memory) // 6)
    report.note("MB by minute: " + ", ".join(f"{at:.1f}: {mb:.0f}" for at, mb in soak.memory[::step]))
    report.figure("memory of the broker with its subscriptions", first, "MB")
    report.figure("memory of the broker when its caches are full", soak.memory[0][1], "MB")
    report.figure("memory of the broker at the end", soak.memory[-1][1], "MB")
    report.figure("largest that was seen", max(mb for _, mb in soak.memory), "MB")
    bar = SLOPE_MAX if is_full else None
    report.figure("slope of its memory, caches full", slope(soak.memory), "MB/minute", bar=bar)


def measure(report: Report, minutes: float) -> None:
    report.note(f"{minutes:g} minutes; all on one machine, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as (address, pid):
        asyncio.run(measure_all(report, address, pid, minutes))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float)
    own, others = parser.parse_known_args(arguments)
    options, report = options_of("broker_soak", __doc__.partition("\n")[0], others)
    minutes = own.minutes or (1 if options.quick else MINUTES_BARRED)
    report.arguments += ["--minutes", f"{minutes:g}"]
    measure(report, minutes)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
