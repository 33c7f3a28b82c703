"""A real streaming job that is killed at random moments and restarted, and the oracle for its output.

`Trial` is the world of one run: documents, subscriptions whose set changes all the time, an output, and a job in a
process of its own (`python -m support.killed_stream DIRECTORY`), which is killed with SIGKILL: its driver, its
JVM, its Python workers, or all of them. Every set of subscriptions has one that says its generation and matches every
document. So the output tells with which set each document was matched, and `verify` checks, from the output alone:
every document is there with exactly the matches of one set; documents of one batch with the same; each match once;
later batches with no older set.

The seed decides all that can be decided: print it, and a failure can be tried again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.nats_server import consume, make_stream
from support.spark_session import settings_in
from treecast import Index

WAIT_SECONDS = 240
DELIVERED = ("batch", "file", "offset", "ordinal", "subscription")
VICTIMS = ("driver", "jvm", "worker", "worker", "all")
QUERIES = ("//b", "/d[b]", "//c[@n>3]", "/d/c", "//b | //c", "/d[@n=2]", "//e", "/d[c and b]")


def documents_of(draw: random.Random, count: int) -> dict[str, bytes]:
    """Small ones, most of which match something."""
    document_by_name = {}
    for number in range(count):
        inner = "".join(draw.choice(["<b/>", "<c n='5'/>", "<c n='1'/>", "<e/>", "text"]) for _ in range(3))
        document_by_name[f"{number:03}.xml"] = f"<d n='{draw.randrange(4)}'>{inner}</d>".encode()
    return document_by_name


def subscriptions_of(draw: random.Random, generation: int) -> dict[str, str]:
    """One that is everybody's and says the generation; others that come, change and go; some that are refused."""
    query_by_id = {f"s{draw.randrange(6)}": draw.choice(QUERIES) for _ in range(5)}
    return {f"generation-{generation}": "/*", "refused": "][", **query_by_id}


class Trial:
    """One run: `begin`, then `kill_once` as often as wanted, then `finish`, then `verify`."""

    def __init__(self, directory: Path, seed: int, *, documents: int = 14, server: str | None = None) -> None:
        self.directory = directory
        self.draw = random.Random(seed)
        self.documents = documents_of(self.draw, documents)
        self.waiting = list(self.documents.items())
        self.sets: list[dict[str, str]] = []
        self.version_by_batch: dict[int, int] = {}
        self.kills: Counter[str] = Counter()
        self.starts = 0
        self.name = f"trial-{seed}"
        self._server = server
        if server is not None:
            make_stream(server, self.name, self.name)
        self._job: subprocess.Popen[bytes] | None = None
        self._processes: set[tuple[int, str]] = set()
        (directory / "docs").mkdir(parents=True)
        self.change()
        self.bring(documents // 2)

    # -- the world changes

    def change(self) -> None:
        """Put the next set of subscriptions into place."""
        query_by_id = subscriptions_of(self.draw, len(self.sets))
        self.sets.append(query_by_id)
        beside = self.directory / "subscriptions.new"
        pq.write_table(pa.table({"id": list(query_by_id), "query": list(query_by_id.values())}), beside)
        beside.rename(self.directory / "subscriptions.parquet")

    def bring(self, count: int) -> None:
        """Let some more documents come."""
        for name, content in self.waiting[:count]:
            beside = self.directory / f"{name}.new"
            beside.write_bytes(content)
            beside.rename(self.directory / "docs" / name)
        del self.waiting[:count]

    # -- the job

    def start(self) -> subprocess.Popen[bytes]:
        """Start the job, and wait until it is at work."""
        self.starts += 1
        (self.directory / "ready").unlink(missing_ok=True)
        with (self.directory / "job.log").open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "support.killed_stream",
                str(self.directory),
                *([self._server, self.name] if self._server else []),
            ]
            environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
            job = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        self._job = job
        self._until(lambda: (self.directory / "ready").exists() or job.poll() is not None)
        self._remember(job.pid)
        return job

    def kill_once(self) -> None:
        """Start the job if need be, wait for a random moment in a random one of its batches, kill something of it."""
        job = self._job if self._job is not None and self._job.poll() is None else self.start()
        self.change()
        self.bring(self.draw.randrange(4))
        enough = len(self._version_by_batch()) + self.draw.randrange(4)
        self._until(lambda: len(self._version_by_batch()) >= enough or job.poll() is not None)
        time.sleep(self.draw.uniform(0, 1))
        victim = self.draw.choice(VICTIMS)
        family = self._remember(job.pid)
        victim_pids = {
            "driver": [job.pid],
            "jvm": [pid for pid, command in family if "java" in command.split(" ")[0]],
            "worker": [pid for pid, command in family if "pyspark.daemon" in command],
            "all": [job.pid, *(pid for pid, _ in family)],
        }[victim]
        self.kills[victim] += 1
        for pid in victim_pids:
            _kill(pid)
        if victim != "worker":  # Spark starts workers again; the rest takes the job with it
            self._until(lambda: job.poll() is not None)
        self._look()

    def finish(self) -> None:
        """Let everything come, and the job run until it has read it."""
        self.change()
        self.bring(len(self.waiting))
        for _ in range(3):
            job = self._job if self._job is not None and self._job.poll() is None else self.start()
            status = job.wait(WAIT_SECONDS)
            self._look()
            if status == 0 and self._complete():
                break
        assert self._complete(), f"the job does not come to its end: {self.log()}"
        self.stop()

    def stop(self) -> None:
        """End what was started and may still be there: a JVM outlives its driver for a moment."""
        if self._job is not None and self._job.poll() is None:
            self._job.kill()
            self._job.wait()
        for pid, born in self._processes:
            if _born(pid) == born:
                _kill(pid)

    def log(self) -> str:
        text = (self.directory / "job.log").read_text(errors="replace")
        return text[-3000:]

    def _complete(self) -> bool:
        return len({row["file"] for row in self.rows()}) == len(self.documents)

    def _until(self, has_happened: Any) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not has_happened():
            assert time.monotonic() < end, f"the job hangs: {self.log()}"
            time.sleep(0.02)

    def _remember(self, pid: int) -> list[tuple[int, str]]:
        family = _descendants(pid)
        self._processes |= {(one, _born(one)) for one, _ in family}
        return family

    # -- what is left behind

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the output, with the number of their batch, by another reader than Spark."""
        all_rows = []
        for directory in sorted((self.directory / "matches").glob("batch=*")):
            for path in directory.glob("*.parquet"):
                number = int(directory.name.partition("=")[2])
                all_rows += [{**row, "batch": number} for row in pq.ParquetFile(path).read().to_pylist()]
        return all_rows

    def _look(self) -> None:
        """A batch that is bound to a version stays bound to it."""
        now = self._version_by_batch()
        for batch, version in self.version_by_batch.items():
            assert now.get(batch) == version, f"batch {batch} was bound to version {version}, now to {now.get(batch)}"
        self.version_by_batch = now

    def _version_by_batch(self) -> dict[int, int]:
        """Batch -> version, as recorded."""
        path = self.directory / "checkpoint" / "treecast" / "versions.sqlite"
        if not path.exists():
            return {}
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as database, suppress(sqlite3.OperationalError):
            return dict(database.execute("SELECT batch, version FROM batches").fetchall())
        return {}  # its table is not made yet

    def expected(self, name: str, generation: int) -> list[str]:
        """What one index in this process says of a document."""
        index = Index()
        index.add_many(list(self.sets[generation].items()), on_refused="report")
        return sorted(index.match(self.documents[name]))

    def verify_deliveries(self, rows: list[dict[str, Any]]) -> None:
        """Of what was published, each id once: that is every match of the output, once."""
        assert self._server is not None
        rows_by_id: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
        for message in consume(self._server, self.name):
            row = json.loads(message.payload)
            rows_by_id[message.id].add(tuple(row[field] for field in DELIVERED))
        assert all(len(one) == 1 for one in rows_by_id.values())
        assert sorted(next(iter(one)) for one in rows_by_id.values()) == sorted(
            tuple(row[field] for field in DELIVERED) for row in rows
        )

    def verify(self, rows: list[dict[str, Any]]) -> None:
        """Every match once, every document with one set, every batch with one, and no set that is older than before."""
        ids_by_document: dict[str, list[str]] = defaultdict(list)
        batches: dict[int, set[int]] = defaultdict(set)
        for row in rows:
            name = Path(row["file"]).name
            assert row["error"] is None, row
            ids_by_document[name].append(row["subscription"])
            if row["subscription"].startswith("generation-"):
                batches[row["batch"]].add(int(row["subscription"].partition("-")[2]))
        assert sorted(ids_by_document) == sorted(self.documents)
        for name, ids in ids_by_document.items():
            generations = [int(id.partition("-")[2]) for id in ids if id.startswith("generation-")]
            assert len(generations) == 1, f"{name} was matched with {generations}"
            assert sorted(ids) == self.expected(name, generations[0]), name
        generations_by_batch = [batches[number] for number in sorted(batches)]
        assert all(len(one) == 1 for one in generations_by_batch), generations_by_batch
        order = [min(one) for one in generations_by_batch]
        assert order == sorted(order), order
        by_version: dict[int, set[int]] = defaultdict(set)
        for number, one in batches.items():
            by_version[self.version_by_batch[number]] |= one
        assert all(len(one) == 1 for one in by_version.values()), by_version  # a version is one set


def _descendants(pid: int) -> list[tuple[int, str]]:
    """(pid, command line) of all processes below this one."""
    parents: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue
        parents[int(text.rpartition(")")[2].split()[1])].append(int(path.name))
    descendants, todo = [], [pid]
    while todo:
        for child in parents[todo.pop()]:
            todo.append(child)
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            descendants.append((child, command))
    return descendants


def _born(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def job(directory: Path, server: str | None = None, subject: str = "") -> None:
    """The job: a stream over what is there, with a checkpoint; it ends when all is read."""
    from treecast.spark import documents, match_stream
    from treecast.spark.session import start
    from treecast.spark.stream.jetstream import JetStream

    spark = start("local[2,3]", name="killed", log=directory / "spark.log", settings=settings_in(directory))
    read = documents(
        spark, directory / "docs", stream=True, max_files_per_batch=2, log=directory / "source-log", pattern="*.xml"
    )
    query = match_stream(
        read,
        directory / "subscriptions.parquet",
        directory / "matches",
        checkpoint=directory / "checkpoint",
        trigger={"availableNow": True},
        after=[] if server is None else [JetStream(server, subject)],
    )
    (directory / "ready").touch()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    job(Path(sys.argv[1]), *sys.argv[2:])
