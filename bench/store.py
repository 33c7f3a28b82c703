"""The durable store: CPU time per 5 KB document, in groups and alone, beside SQLite alone and other settings.

A group has documents that differ and one row of a table for each. Everything is synced, so the time that passes depends
on the disk: it is given beside, and decides nothing. `SQLite alone` has the bodies in a table of the same file.
"""

from __future__ import annotations

import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha1
from pathlib import Path
from random import Random

from bench.measure import Report, Seconds, clock, finish, median, options_of, run
from treecast.overlay.storage import Append, Change, Delete, Put
from treecast.serve.store import Store, StoreSettings

BODY_BYTES = 5000
ROW_BYTES = 60


class Workload:
    """Documents with their rows, numbered on and on."""

    def __init__(self, groups: int, size: int) -> None:
        self.groups = groups
        self.size = size
        random = Random(1)
        self._bodies = [random.randbytes(BODY_BYTES) for _ in range(size)]
        self._row = random.randbytes(ROW_BYTES)
        self._next = 1

    @property
    def documents(self) -> int:
        return self.groups * self.size

    def numbers(self) -> Iterator[range]:
        for _ in range(self.groups):
            yield range(self._next, self._next + self.size)
            self._next += self.size

    def changes(self, deliveries: int = 0) -> list[list[Change]]:
        """Groups for a store; with deliveries, each document has so many rows more, which the next group deletes."""
        groups: list[list[Change]] = []
        for numbers in self.numbers():
            group: list[Change] = []
            for number, body in zip(numbers, self._bodies, strict=True):
                group += (Append(number, body), Put("documents", number, self._row))
                for place in range(deliveries):
                    group.append(Put("queue", number * deliveries + place, self._row))
                    group.append(Delete("queue", (number - self.size) * deliveries + place))
            groups.append(group)
        return groups

    def rows(self) -> list[list[tuple[int, bytes, bytes]]]:
        """The same for SQLite alone."""
        return [
            [(number, self._row, body) for number, body in zip(numbers, self._bodies, strict=True)]
            for numbers in self.numbers()
        ]


def time_store(workload: Workload, settings: StoreSettings, passes: int, deliveries: int = 0) -> Seconds:
    with tempfile.TemporaryDirectory() as directory, Store.open(directory, settings) as store:

        def write(groups: list[list[Change]]) -> None:
            for group in groups:
                store.write(group)

        rounds = [partial(write, workload.changes(deliveries)) for _ in range(passes + 1)]
        return median([clock(write_round) for write_round in rounds][1:])


@contextmanager
def plain_sqlite(page_bytes: int) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory() as directory:
        connection = sqlite3.connect(Path(directory, "tables.sqlite"), isolation_level=None)
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE documents (key INTEGER PRIMARY KEY, value BLOB, body BLOB)")
        yield connection
        connection.close()


def time_sqlite(workload: Workload, page_bytes: int, passes: int) -> Seconds:
    with plain_sqlite(page_bytes) as connection:

        def write(groups: list[list[tuple[int, bytes, bytes]]]) -> None:
            for group in groups:
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", group)
                connection.execute("COMMIT")

        rounds = [partial(write, workload.rows()) for _ in range(passes + 1)]
        return median([clock(write_round) for write_round in rounds][1:])


def measure_checksums(report: Report, rounds: int) -> None:
    body = Random(1).randbytes(BODY_BYTES)
    kinds: dict[str, Callable[[bytes], object]] = {
        "crc32": zlib.crc32,
        "adler32": zlib.adler32,
        "SHA-1": lambda data: sha1(data, usedforsecurity=False).digest(),
    }
    for name, checksum in kinds.items():

        def repeat(checksum: Callable[[bytes], object] = checksum) -> None:
            for _ in range(rounds):
                checksum(body)

        spent = median([clock(repeat) for _ in range(5)])
        report.figure(f"checksum of a document: {name}", spent.cpu / rounds * 1e6, "µs")


def measure_reading(report: Report, documents: int) -> None:
    workload = Workload(max(1, documents // 100), 100)
    with tempfile.TemporaryDirectory() as directory:
        with Store.open(directory) as store:
            for group in workload.changes():
                store.write(group)
            numbers = list(range(1, workload.documents + 1))
            Random(2).shuffle(numbers)
            reads: dict[str, Callable[[], object]] = {
                "read a body": lambda: [store.body(number) for number in numbers],
                "read a row": lambda: [store.get("documents", number) for number in numbers],
                "scan rows, 1,000 at a time": lambda: [
                    store.scan("documents", begin, 1000) for begin in range(0, len(numbers), 1000)
                ],
            }
            for name, read in reads.items():
                spent = median([clock(read) for _ in range(3)])
                report.figure(name, spent.cpu / len(numbers) * 1e6, "µs")
        spent = clock(lambda: Store.open(directory).close())
        figure = f"open a store of {len(numbers):,} documents"
        report.figure(figure, spent.cpu * 1e3, f"ms (wall {spent.wall * 1e3:.3g})")


def measure(report: Report, groups: int, passes: int) -> None:
    def figure(name: str, spent: Seconds, workload: Workload) -> None:
        each = spent.wall / workload.groups * 1e3
        report.figure(name, spent.cpu / workload.documents * 1e6, f"µs/doc (wall {each:.3g} ms a group)")

    many, alone = Workload(groups, 100), Workload(groups, 1)
    for page_bytes in (4096, 8192, 16384):
        settings = StoreSettings(page_bytes=page_bytes)
        label = f"pages of {page_bytes // 1024} KiB"
        figure(f"store, groups of 100, {label}", time_store(many, settings, passes), many)
        figure(f"store, groups of 100, 10 deliveries each, {label}", time_store(many, settings, passes, 10), many)
        figure(f"store, groups of 1, {label}", time_store(alone, settings, passes), alone)
        figure(f"SQLite alone, groups of 100, {label}", time_sqlite(many, page_bytes, passes), many)
        figure(f"SQLite alone, groups of 1, {label}", time_sqlite(alone, page_bytes, passes), alone)


def main(arguments: list[str]) -> int:
    options, report = options_of("store", __doc__.partition("\n")[0], arguments)
    groups, passes = (20, 3) if options.quick else (100, 7)
    measure(report, groups, passes)
    measure_reading(report, groups * 100)
    measure_checksums(report, groups * 20)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
