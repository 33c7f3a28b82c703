"""A network of processes against one process: CPU per document, and after kills the time until deliveries flow again.

    python -m bench.network --quick

Every subscription gets exactly what one index matches, in spite of the kills, or the program fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from bench.measure import Report, finish, options_of, run
from treecast.index import Index
from treecast.overlay.messages import Subscribe
from treecast.serve.client import Connection

SOURCES = ("default", "s2", "s3")
TICKS = os.sysconf("SC_CLK_TCK")
AT_ONCE = 1_000
WAIT_SECONDS = 120
BUSY = 503


class Service:
    """`treecast up`, with one broker or several."""

    def __init__(self, directory: Path, brokers: int) -> None:
        self._log = directory / "log"
        arguments = ["--data", str(directory / "data"), "--listen", "127.0.0.1:0"]
        arguments += ["--brokers", str(brokers)] if brokers > 1 else ["--peer-listen", "127.0.0.1:0"]
        with self._log.open("w") as log:
            command = [sys.executable, "-m", "treecast", "up", *arguments]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().replace(",", "").split()
        self.url, self._peers = line[2], line[-1]
        self.is_network = brokers > 1

    def ask(self, method: str, path: str, body: bytes | None = None, id: str = "") -> Any:
        """With an id: again, while the door says that the broker is away."""
        headers = {"Treecast-Document-Id": id} if id else {}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if not id or error.code != BUSY:
                    raise
                time.sleep(0.02)

    def addresses(self) -> dict[str, str]:
        """Where brokers take the protocol of peers."""
        if not self.is_network:
            return {"broker": self._peers}
        return {broker["name"]: broker["address"] for broker in self.ask("GET", "/v1/network")["brokers"]}

    def pids(self) -> dict[str, int]:
        rows = (json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{"))
        found = {row["name"]: row["pid"] for row in rows if row["event"] == "a process serves"}
        return {**found, "door": self.process.pid}

    def cpu_seconds(self) -> dict[str, float]:
        paths = {name: Path(f"/proc/{pid}/stat") for name, pid in self.pids().items()}
        stats = {name: path.read_text().rsplit(") ", 1)[1].split() for name, path in paths.items() if path.exists()}
        return {name: (int(fields[11]) + int(fields[12])) / TICKS for name, fields in stats.items()}

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def queries(count: int, seed: int) -> dict[str, str]:
    draw = random.Random(seed)
    return {f"q{n}": f"/load/item[@k = '{draw.randrange(count)}']/v[. > {draw.randrange(100)}]" for n in range(count)}


def documents(count: int, subscriptions: int, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    items = 10
    return [
        b"<load n='%d'>%s</load>"
        % (
            n,
            b"".join(
                b"<item k='%d'><v>%d</v></item>" % (draw.randrange(subscriptions), draw.randrange(100))
                for _ in range(items)
            ),
        )
        for n in range(count)
    ]


class Load:
    """Subscribers at every broker, and what they have got."""

    def __init__(self, service: Service, wanted: dict[str, str]) -> None:
        self._service = service
        self._wanted = wanted
        self.got: dict[str, dict[str, bytes]] = {}
        self._readers: list[Connection] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        addresses = await asyncio.to_thread(self._service.addresses)
        ids = list(self._wanted)
        for place, (name, address) in enumerate(addresses.items()):
            reader = await Connection(address, f"reader-{name}").__aenter__()
            self._readers.append(reader)
            mine = [*ids[place :: len(addresses)], f"probe-{name}"]
            for begin in range(0, len(mine), AT_ONCE):
                some = mine[begin : begin + AT_ONCE]
                await reader.subscribe_many([Subscribe(id, self._wanted.get(id, "/probe")) for id in some])
            for begin in range(0, len(mine), AT_ONCE):
                self._tasks.append(asyncio.create_task(self._read(reader, mine[begin : begin + AT_ONCE])))

    async def _read(self, reader: Connection, ids: list[str]) -> None:
        async for delivery in reader.deliveries(ids):
            self.got.setdefault(delivery.subscription, {})[delivery.id] = delivery.payload
            reader.settle([delivery])

    async def expect(self, expected: dict[str, set[bytes]]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while any(set(self.got.get(id, {}).values()) != wanted for id, wanted in expected.items()):
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for reader in self._readers:
            await reader.close()


async def publish(service: Service, given: list[bytes]) -> None:
    def send(source: str, mine: list[bytes]) -> None:
        for document in mine:
            service.ask("POST", f"/v1/documents?source={source}", document)

    await asyncio.gather(*(asyncio.to_thread(send, name, given[n :: len(SOURCES)]) for n, name in enumerate(SOURCES)))


async def until_flow(service: Service, load: Load, name: str, number: int) -> float:
    """Kill a process; seconds until a document that is published then has reached every broker's subscribers."""
    probe = b"<probe n='%d'/>" % number
    begun = time.monotonic()
    os.kill(service.pids()[name], signal.SIGKILL)
    await asyncio.to_thread(service.ask, "POST", "/v1/documents", probe, f"probe-{number}")
    async with asyncio.timeout(WAIT_SECONDS):
        while not all(probe in some.values() for id, some in load.got.items() if id.startswith("probe-")):
            await asyncio.sleep(0.01)
    return time.monotonic() - begun


async def measure(brokers: int, subscriptions: int, count: int, kills: int, seed: int = 1) -> dict[str, Any]:
    wanted, given = queries(subscriptions, seed), documents(count, subscriptions, seed)
    index = Index()
    for id, query in wanted.items():
        index.add(id, query)
    expected: dict[str, set[bytes]] = {}
    for document in given:
        for id in index.match(document):
            expected.setdefault(id, set()).add(document)
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), brokers)
        try:
            for source in SOURCES[1:]:
                service.ask("PUT", f"/v1/sources/{source}", b"{}")
            load = Load(service, wanted)
            await load.start()
            await publish(service, [b"<probe n='warm'/>"])
            await load.expect(
                {f"probe-{name}": {b"<probe n='warm'/>"} for name in await asyncio.to_thread(service.addresses)}
            )
            before, begun = service.cpu_seconds(), time.monotonic()
            await publish(service, given)
            await load.expect(expected)
            seconds, after = time.monotonic() - begun, service.cpu_seconds()
            cpu = {name: round((after[name] - before[name]) * 1e3 / count, 2) for name in after}
            names = [name for name in service.pids() if name != "door"]
            chosen = [names[n % len(names)] for n in range(kills)]
            flows = [(name, await until_flow(service, load, name, n)) for n, name in enumerate(chosen)]
            deliveries = sum(map(len, expected.values()))
            await load.expect(expected)
            assert all(len(some) == len(set(some.values())) for some in load.got.values()), "a delivery has two ids"
            await load.stop()
        finally:
            service.end()
    return {
        "brokers": brokers,
        "deliveries": deliveries,
        "seconds": round(seconds, 2),
        "cpu_ms_per_document": cpu,
        "flows": flows,
    }


def add(report: Report, brokers: int, subscriptions: int, count: int, kills: int) -> None:
    found = asyncio.run(measure(brokers, subscriptions, count, kills))
    name = "one process" if brokers == 1 else f"{brokers} brokers"
    report.figure(f"{name}: deliveries", found["deliveries"], "")
    report.figure(f"{name}: published and delivered", count / found["seconds"], "/s")
    for process, milliseconds in sorted(found["cpu_ms_per_document"].items()):
        report.figure(f"{name}: CPU of {process}", milliseconds, "ms/doc")
    for place, (process, seconds) in enumerate(found["flows"]):
        report.note(f"kill {place + 1}, {process}: {seconds:.2f} s until deliveries flow")
    flows = [seconds for process, seconds in found["flows"] if process != "registry"]
    if flows:
        report.figure("a broker is killed: until deliveries flow, median", statistics.median(flows), "s")
        report.figure("a broker is killed: until deliveries flow, worst", max(flows), "s")


def main(arguments: list[str]) -> int:
    options, report = options_of("network", __doc__.partition("\n")[0], arguments)
    report.note(f"load {os.getloadavg()[0]:.1f}; {len(SOURCES)} sources, one request at a time each")
    brokers, subscriptions, count, kills = (4, 2_000, 300, 5) if options.quick else (8, 100_000, 10_000, 20)
    report.note(f"{subscriptions:,} subscriptions, {count:,} documents, {kills} kills")
    add(report, 1, subscriptions, count, 0)
    add(report, brokers, subscriptions, count, kills)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
