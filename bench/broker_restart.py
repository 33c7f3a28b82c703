"""How long a broker takes to start with a million subscriptions, many of them changed since its index was saved.

The store is prepared in this process: the subscriptions, the saved index, then changes (adds, replacements, removals)
that no saved index contains, and documents that nobody has received, each for 7 subscriptions. Then `treecast broker`
is started on it and timed, from the start of the process to the line that says where it listens. A document is
published at once, and has to be answered. Files are in the page cache: they were just written. Python's modules are
compiled, as those of an installed package are, in a directory of their own: one start before the others does that.

Bar: 2 seconds, with 1,000,000 subscriptions, 100,000 changes and 10,000 documents.

Two mixes of changes are measured: removals cost less than additions.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.broker import make_documents
from bench.broker_peers import cpu_seconds
from bench.measure import Report, finish, options_of, run
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.messages import (
    Answer,
    Command,
    Document,
    Hello,
    IndexSaved,
    Publish,
    RegisterSource,
    Request,
    Subscribe,
    SubscribeMany,
    Unsubscribe,
    Welcome,
)
from treecast.overlay.peer import Effect, Send
from treecast.overlay.peer import Store as StoreChanges
from treecast.overlay.storage import Change
from treecast.serve.client import Connection
from treecast.serve.store import Store

SECONDS_MAX = 2.0
CLIENT, SOURCE = "preparing", "bench"
BATCH = 100
GROUP = 20_000
"""Changes that are written at once."""


@dataclass(frozen=True)
class Sizes:
    """What the store holds."""

    subscriptions: int
    changes: int
    documents: int


FULL = Sizes(1_000_000, 100_000, 10_000)
REMOVALS = (0.4, 1 / 3)
"""The share of removals among the changes; the others are adds and replacements, as many of each."""


class Preparation:
    """A broker in this process, whose changes are written in large groups."""

    def __init__(self, directory: Path) -> None:
        self._store = Store.open(directory)
        settings = BrokerSettings(save_index_changes=1 << 60)
        self._broker = Broker("broker", self._store, Random(1), settings, *(self._store.load_index() or ()))
        self._changes: list[Change] = []
        self._own: list[Send] = []
        self._requests = self._lease = 0
        self._take(self._broker.receive(CLIENT, Hello(CLIENT, nonce=1), _now_ms()))

    def _take(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StoreChanges):
                self._changes += effect.changes
            elif isinstance(effect, Send) and effect.to == self._broker.name:
                self._own.append(effect)
            elif isinstance(effect, Send) and isinstance(effect.message, Welcome):
                self._requests, self._lease = effect.message.answered, effect.message.lease
            elif isinstance(effect, Send) and isinstance(effect.message, Answer):
                assert not effect.message.refusals, effect.message.refusals
        if len(self._changes) >= GROUP:
            self.write()

    def write(self) -> None:
        changes, self._changes = self._changes, []
        self._store.write(changes)
        own, self._own = self._own, []
        for effect in own:
            self._take(self._broker.receive(self._broker.name, effect.message, _now_ms()))

    def do(self, command: Command) -> None:
        self._requests += 1
        self._take(self._broker.receive(CLIENT, Request(self._requests, command, self._lease), _now_ms()))

    def save_index(self) -> None:
        self.write()
        version = self._broker.index_version
        self._store.save_index(self._broker.index, version)
        self._take(self._broker.receive(self._broker.name, IndexSaved(version), _now_ms()))

    def close(self) -> dict[str, int]:
        """What the broker holds at the end."""
        self.write()
        stats = self._broker.stats()
        self._store.close()
        return stats


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def subscription(number: int) -> Subscribe:
    return Subscribe(f"s{number}", f'//item[@code="C{number}"]')


def changes_of(sizes: Sizes, removals: float) -> list[Command]:
    """Adds, replacements and removals of subscriptions all over the set; `removals` is the share of the last."""
    random = Random(2)
    removed = int(sizes.changes * removals)
    added = (sizes.changes - removed) // 2
    replaced = sizes.changes - removed - added
    chosen = random.sample(range(sizes.subscriptions), removed + replaced)
    changes: list[Command] = [Unsubscribe(f"s{number}") for number in chosen[:removed]]
    changes += (Subscribe(f"s{number}", f'//item[@code="C{number}"]/title') for number in chosen[removed:])
    changes += (subscription(sizes.subscriptions + number) for number in range(added))
    random.shuffle(changes)
    return changes


def prepare(directory: Path, sizes: Sizes) -> None:
    """Fill a store with subscriptions, and save the index."""
    preparation = Preparation(directory)
    preparation.do(RegisterSource(SOURCE))
    for first in range(0, sizes.subscriptions, 10_000):
        rows = range(first, min(first + 10_000, sizes.subscriptions))
        preparation.do(SubscribeMany([subscription(number) for number in rows]))
    preparation.save_index()
    preparation.close()


def change(directory: Path, sizes: Sizes, removals: float) -> dict[str, int]:
    """Add changes and documents; returns what the store holds."""
    preparation = Preparation(directory)
    for command in changes_of(sizes, removals):
        preparation.do(command)
    documents = make_documents(sizes.documents, sizes.subscriptions)
    for first in range(0, len(documents), BATCH):
        batch = [Document(body, f"d{first + place}") for place, body in enumerate(documents[first : first + BATCH])]
        preparation.do(Publish(SOURCE, batch))
    return preparation.close()


@dataclass(frozen=True)
class Start:
    """Seconds from the start of the process."""

    listening: float
    answered: float
    cpu: float


def start_once(directory: Path, modules: Path | None = None) -> Start:
    """Start a broker on the store, publish one document, and kill it. Compiled modules are kept in `modules`."""
    environment = dict(os.environ)
    if modules is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(modules)
    command = [sys.executable, "-m", "treecast", "broker", "--data", str(directory), "--listen", "127.0.0.1:0"]
    begin = time.perf_counter()
    process = subprocess.Popen([*command, "--log-level", "error"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        listening = time.perf_counter() - begin
        cpu = cpu_seconds(process.pid)
        asyncio.run(publish_one(address))
        return Start(listening, time.perf_counter() - begin, cpu)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


async def publish_one(address: str) -> None:
    async with Connection(address, "publisher") as connection:
        await connection.publish(SOURCE, [b"<list/>"])


def measure(report: Report, sizes: Sizes, starts: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "base")
        prepare(base, sizes)
        for removals in REMOVALS:
            directory = Path(name, f"{removals:.2f}")
            shutil.copytree(base, directory)
            held = change(directory, sizes, removals)
            report.note(
                f"{held['subscriptions']:,} subscriptions, {sizes.changes:,} changes after the last save,"
                f" {held['unfinished_documents']:,} undelivered documents with {held['waiting']:,} deliveries"
            )
            measure_starts(report, directory, sizes, removals, starts)
            shutil.rmtree(directory)


def measure_starts(report: Report, directory: Path, sizes: Sizes, removals: float, starts: int) -> None:
    report.note(f"medians of {starts} starts; load {os.getloadavg()[0]:.1f}")
    modules = directory.parent / "modules"
    start_once(directory, modules)
    taken = [start_once(directory, modules) for _ in range(starts)]
    listening = statistics.median(start.listening for start in taken)
    label = f"{sizes.changes - int(sizes.changes * removals):,} new queries"
    report.figure(f"{label}: until it listens", listening, "s (wall)", bar=SECONDS_MAX if sizes == FULL else None)
    report.figure(f"{label}: until it listens, CPU", statistics.median(start.cpu for start in taken), "s")
    answered = statistics.median(start.answered for start in taken)
    report.figure(f"{label}: until a document is acknowledged", answered, "s (wall)")


def main(arguments: list[str]) -> int:
    options, report = options_of("broker_restart", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, Sizes(50_000, 5_000, 1_000), starts=3)
    else:
        measure(report, FULL, starts=5)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
