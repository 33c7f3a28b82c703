"""A network of processes at full size, and kills: who died, how long until deliveries flow again, what was lost.

    python -m bench.network_kill --quick

Every subscription gets exactly what one index matches, under one id for each delivery, in spite of the kills, or the
program fails. After a kill a document is published at every source, through the door. Deliveries flow again when a
subscriber at every broker has all of these, over its own connection, and one with an event stream of the door as well.
Documents keep coming meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.measure import Report, finish, options_of, run
from bench.network import AT_ONCE, SOURCES, Service, documents, queries
from treecast.index import Index
from treecast.overlay.messages import Subscribe
from treecast.serve.client import Connection, RefusedError

WAIT_SECONDS = 600
BATCH = 64
PAUSE_S = 0.1
"""Between two batches of a source while processes are killed."""
NOT_COVERED = "TC470"
AT_A_TIME = 2
"""Requests to subscribe, of all brokers."""
BETWEEN_KILLS_S = (1.0, 4.0)


class Got:
    """Deliveries by subscription, and how many of those that are expected are missing."""

    def __init__(self) -> None:
        self.payloads: dict[str, dict[str, bytes]] = {}
        self._missing: set[tuple[str, bytes]] = set()
        self._complete = asyncio.Event()

    def add(self, subscription: str, delivery: str, payload: bytes) -> None:
        known = self.payloads.setdefault(subscription, {}).setdefault(delivery, payload)
        assert known == payload, f"delivery {delivery} has two payloads"
        if self._missing:
            self._missing.discard((subscription, payload))
            if not self._missing:
                self._complete.set()

    async def expect(self, wanted: Iterable[tuple[str, bytes]]) -> None:
        """Wait for these."""
        self._complete.clear()
        self._missing = {(id, payload) for id, payload in wanted if payload not in self.payloads.get(id, {}).values()}
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                if self._missing:
                    await self._complete.wait()
        except TimeoutError:
            raise AssertionError(f"{len(self._missing)} are missing, such as {sorted(self._missing)[:3]}") from None

    def check(self, expected: dict[str, list[bytes]]) -> None:
        """Exactly these, and each under one id."""
        for id, payloads in self.payloads.items():
            assert sorted(payloads.values()) == sorted(expected.get(id, [])), f"deliveries of {id} are wrong"
        assert expected.keys() <= self.payloads.keys()


class Readers:
    """Subscribers at every broker, and of event streams of the door."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, wanted: dict[str, str]) -> None:
        self._service = service
        self._http = http
        self._wanted = wanted
        self.got = Got()
        self.probes: list[str] = []
        """Subscriptions that want every probe."""
        self.refused = 0
        """Requests that had to be made again."""
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._connections: list[Connection] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        addresses = await asyncio.to_thread(self._service.addresses)
        ids = list(self._wanted)
        await asyncio.gather(
            *(
                self._subscribe(name, address, ids[place :: len(addresses)])
                for place, (name, address) in enumerate(addresses.items())
            )
        )
        for number in range(len(addresses)):
            id = f"door-{number}"
            await asyncio.to_thread(self._service.ask, "PUT", f"/v1/subscriptions/{id}", b'{"query": "/probe"}')
            self.probes.append(id)
            self._tasks.append(asyncio.create_task(self._read_stream(id)))

    async def _subscribe(self, name: str, address: str, ids: list[str]) -> None:
        connection = await Connection(address, f"reader-{name}").__aenter__()
        self._connections.append(connection)
        probe = f"probe-{name}"
        self.probes.append(probe)
        mine = [*ids, probe]
        parts = [mine[begin : begin + AT_ONCE] for begin in range(0, len(mine), AT_ONCE)]
        for part in parts:
            async with self._turns:
                await self._subscribe_some(connection, part)
        self._tasks += [asyncio.create_task(self._read(connection, part)) for part in parts]

    async def _subscribe_some(self, connection: Connection, ids: list[str]) -> None:
        """Again, while a busy network does not know of them in time."""
        while True:
            try:
                await connection.subscribe_many([Subscribe(id, self._wanted.get(id, "/probe")) for id in ids])
            except RefusedError as error:
                if error.code != NOT_COVERED:
                    raise
                self.refused += 1
            else:
                return

    async def _read(self, connection: Connection, ids: list[str]) -> None:
        async for delivery in connection.deliveries(ids):
            self.got.add(delivery.subscription, delivery.id, delivery.payload)
            connection.settle([delivery])

    async def _read_stream(self, id: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._http.get(f"{self._service.url}/v1/events?subscription={id}", timeout=timeout) as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    self.got.add(id, event["delivery"], event["payload"].encode())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for connection in self._connections:
            await connection.close()


class Publisher:
    """One source. Batches go through the door, again if need be: documents have ids."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, source: str) -> None:
        self._url = f"{service.url}/v1/documents:batch?source={source}"
        self._http = http
        self.accepted = 0
        self.repeats = 0

    async def publish(self, some: list[tuple[str, bytes]]) -> None:
        lines = b"".join(json.dumps({"id": id, "document": body.decode()}).encode() + b"\n" for id, body in some)
        headers = {"Content-Type": "application/x-ndjson"}
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            try:
                async with self._http.post(self._url, data=lines, headers=headers) as answer:
                    text = await answer.read()
                    rows = json.loads(text)["documents"] if answer.status in (200, 201, 207) else []
                    if rows and all(row["status"] in (200, 201) for row in rows):
                        self.accepted += len(some)
                        return
                    assert rows or answer.status == 503, text
            except aiohttp.ClientError:
                pass
            self.repeats += 1
            await asyncio.sleep(0.02)
        raise AssertionError("a batch was not accepted")


@dataclass(frozen=True)
class Kill:
    """Who was killed, and what it took until deliveries flowed."""

    name: str
    seconds: float
    cpu_s: float
    """Of the process that took its place, until then: what a busy machine makes longer."""
    load: float


@dataclass
class Found:
    """What a run has shown."""

    deliveries: int = 0
    subscribe_s: float = 0.0
    publish_s: float = 0.0
    subscribe_cpu_s: dict[str, float] = field(default_factory=dict)
    publish_cpu_s: dict[str, float] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)
    kill_documents: int = 0
    repeats: int = 0


def index_of(wanted: dict[str, str]) -> Index:
    index = Index()
    for id, query in wanted.items():
        index.add(id, query)
    return index


def expect(index: Index, given: list[bytes], expected: dict[str, list[bytes]]) -> list[tuple[str, bytes]]:
    """Add what one index says to `expected`; returns it as pairs."""
    pairs = []
    for document in given:
        for id in index.match(document):
            expected.setdefault(id, []).append(document)
            pairs.append((id, document))
    return pairs


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: round(after[name] - before.get(name, 0.0), 2) for name in sorted(after)}


class Run:
    """One network, from its start to its end."""

    def __init__(self, service: Service, http: aiohttp.ClientSession, subscriptions: int, seed: int) -> None:
        self.found = Found()
        self._service = service
        self._draw = random.Random(seed)
        self._wanted = queries(subscriptions, seed)
        self._index = index_of(self._wanted)
        self._expected: dict[str, list[bytes]] = {}
        self._readers = Readers(service, http, self._wanted)
        self._publishers = [Publisher(service, http, source) for source in SOURCES]
        self._numbers = 0

    async def start(self) -> None:
        for source in SOURCES[1:]:
            await asyncio.to_thread(self._service.ask, "PUT", f"/v1/sources/{source}", b"{}")
        before, begun = self._service.cpu_seconds(), time.monotonic()
        await self._readers.start()
        self.found.subscribe_s = time.monotonic() - begun
        self.found.subscribe_cpu_s = difference(before, self._service.cpu_seconds())
        await self._readers.got.expect(await self._probe())

    async def stop(self) -> None:
        await self._readers.stop()

    async def _probe(self) -> list[tuple[str, bytes]]:
        """Publish a probe at every source; returns the deliveries that have to come."""
        pairs = []

        async def publish(publisher: Publisher) -> None:
            self._numbers += 1
            body = b"<probe n='%d'/>" % self._numbers
            for id in self._readers.probes:
                self._expected.setdefault(id, []).append(body)
                pairs.append((id, body))
            await publisher.publish([(body.decode(), body)])

        await asyncio.gather(*map(publish, self._publishers))
        return pairs

    async def publish_all(self, given: list[bytes]) -> None:
        """All of them, as fast as they are taken."""
        pairs = expect(self._index, given, self._expected)
        before, begun = self._service.cpu_seconds(), time.monotonic()

        async def publish(publisher: Publisher, mine: list[bytes]) -> None:
            for begin in range(0, len(mine), BATCH):
                await publisher.publish([(f"all-{document!r}", document) for document in mine[begin : begin + BATCH]])

        parts = [given[n :: len(SOURCES)] for n in range(len(SOURCES))]
        await asyncio.gather(*map(publish, self._publishers, parts))
        await self._readers.got.expect(pairs)
        self.found.publish_s = time.monotonic() - begun
        self.found.publish_cpu_s = difference(before, self._service.cpu_seconds())
        self.found.deliveries = len(pairs)

    async def kill_some(self, kills: list[str], subscriptions: int, seed: int) -> None:
        """Kill these processes one after the other, at random moments, while documents come."""
        is_over = asyncio.Event()
        draw = random.Random(seed)
        pairs: list[tuple[str, bytes]] = []

        async def publish(publisher: Publisher, source: str) -> None:
            part = 0
            while not is_over.is_set():
                part += 1
                some = documents(5, subscriptions, draw.getrandbits(32))
                some = [
                    document.replace(b"<load n='", b"<load n='%s-%d-" % (source.encode(), part)) for document in some
                ]
                pairs.extend(expect(self._index, some, self._expected))
                self.found.kill_documents += len(some)
                await publisher.publish([(document.decode()[:40], document) for document in some])
                await asyncio.sleep(PAUSE_S)

        tasks = [asyncio.create_task(publish(*pair)) for pair in zip(self._publishers, SOURCES, strict=True)]
        for name in kills:
            await asyncio.sleep(self._draw.uniform(*BETWEEN_KILLS_S))
            begun = time.monotonic()
            os.kill(self._service.pids()[name], signal.SIGKILL)
            await self._readers.got.expect(await self._probe())
            seconds = time.monotonic() - begun
            # The registry may still be starting: deliveries did not wait for it.
            cpu_s = self._service.cpu_seconds().get(name, 0.0) if name != "registry" else 0.0
            self.found.kills.append(Kill(name, seconds, cpu_s, os.getloadavg()[0]))
            print(f"  {self.found.kills[-1]}", flush=True)
        is_over.set()
        await asyncio.gather(*tasks)
        await self._readers.got.expect(pairs)
        self.found.repeats = sum(publisher.repeats for publisher in self._publishers)

    async def check(self) -> None:
        """Nothing else has come, nor does it within a while."""
        await asyncio.sleep(1)
        self._readers.got.check(self._expected)


async def measure(brokers: int, subscriptions: int, count: int, kills: int, seed: int = 1) -> Found:
    """A run in a temporary directory. Every fifth kill is one of the registry."""
    draw = random.Random(seed)
    names = [f"broker-{n + 1}" for n in range(brokers)]
    chosen = ["registry" if n % 5 == 4 else draw.choice(names) for n in range(kills)]
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), brokers)
        async with aiohttp.ClientSession() as http:
            course = Run(service, http, subscriptions, seed)
            try:
                await course.start()
                print(f"  subscribed: {course.found.subscribe_s:.1f} s, {course.found.subscribe_cpu_s}", flush=True)
                await course.publish_all(documents(count, subscriptions, seed))
                print(f"  published: {course.found.publish_s:.1f} s, {course.found.publish_cpu_s}", flush=True)
                await course.check()
                await course.kill_some(chosen, subscriptions, seed + 1)
                await course.check()
                await course.stop()
            finally:
                if os.environ.get("KEEP_LOG"):
                    Path(os.environ["KEEP_LOG"]).write_bytes((Path(directory) / "log").read_bytes())
                await asyncio.to_thread(service.end)
    return course.found


def add(report: Report, found: Found, brokers: int, count: int) -> None:
    report.figure("deliveries, equal to those of one index", found.deliveries, "")
    report.figure("subscriptions made", found.subscribe_s, "s")
    report.figure("CPU of a broker for that, mean", _mean_of_brokers(found.subscribe_cpu_s, brokers), "s")
    report.figure("published and delivered", count / found.publish_s, "/s")
    report.figure("CPU of a broker, mean", _mean_of_brokers(found.publish_cpu_s, brokers) * 1e3 / count, "ms/doc")
    report.figure("CPU of the door", found.publish_cpu_s["door"] * 1e3 / count, "ms/doc")
    for place, kill in enumerate(found.kills):
        took = f"{kill.seconds:.2f} s until deliveries flow, {kill.cpu_s:.2f} s of CPU"
        report.note(f"kill {place + 1}, {kill.name}: {took}, load {kill.load:.1f}")
    report.note(f"{found.kill_documents:,} documents came meanwhile, {found.repeats} batches of them again")
    for what, is_registry in (("a broker", False), ("the registry", True)):
        kills = [kill for kill in found.kills if (kill.name == "registry") == is_registry]
        for kind, choose in (("median", statistics.median), ("worst", max)):
            if kills:
                seconds = choose(kill.seconds for kill in kills)
                report.figure(f"{what} is killed: until deliveries flow, {kind}", seconds, "s")
            if kills and not is_registry:
                report.figure(f"CPU of the new process until then, {kind}", choose(kill.cpu_s for kill in kills), "s")
    report.figure("acknowledged and lost, or delivered wrongly", 0, "")


def _mean_of_brokers(cpu_s: dict[str, float], brokers: int) -> float:
    return sum(seconds for name, seconds in cpu_s.items() if name.startswith("broker-")) / brokers


def main(arguments: list[str]) -> int:
    options, report = options_of("network_kill", __doc__.partition("\n")[0], arguments)
    report.note(f"load {os.getloadavg()[0]:.1f}; {len(SOURCES)} sources, batches of {BATCH}")
    brokers, subscriptions, count, kills = (4, 2_000, 300, 5) if options.quick else (8, 100_000, 10_000, 20)
    report.note(f"{brokers} brokers, {subscriptions:,} subscriptions, {count:,} documents, {kills} kills")
    add(report, asyncio.run(measure(brokers, subscriptions, count, kills)), brokers, count)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
