"""A record file of 1 GB, split and matched on Spark: each record once, whatever the split size, in bounded memory.

The twin of tests/spark/test_source.py. Prints the figures that bench/record/ keeps.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from treecast import Index
from treecast.spark import documents, match, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

FILE_BYTES = 1 << 30
LARGEST_BYTES = 48 << 20


class Facts(NamedTuple):
    """What is known of the file from having written it."""

    records: int
    checksums: int
    articles: int
    large: int


def record(random: Random, number: int, texts: list[bytes]) -> bytes:
    """A record that a careless splitter would cut in the wrong places."""
    name = random.choice((b"article", b"book"))
    traps = (b"", b"<!-- </%s> -->" % name, b"<![CDATA[</%s><%s>]]>" % (name, name), b"<?p <%s>?>" % name)
    inner = b"<%s key='nested'/>" % name if number % 5 == 0 else b""
    body = b"".join(random.choices(texts, k=random.randint(1, 6)))
    trap = random.choice(traps)
    return b"<%s key='%d' note='a > b'>%s%s<title>%s</title></%s>" % (name, number, trap, inner, body, name)


def write_file(path: Path, file_bytes: int, large_at: int | None = None) -> Facts:
    random = Random("records")
    texts = [bytes(random.choices(b"abcdefghij   ", k=random.randint(20, 200))) for _ in range(500)]
    records = checksums = articles = large = 0
    with path.open("wb") as file:
        written = file.write(b"<?xml version='1.0'?>\n<!DOCTYPE dblp SYSTEM 'dblp.dtd' [ <!-- > --> ]>\n<dblp>\n")
        while written < file_bytes:
            made = record(random, records, texts)
            if records == large_at:
                made = b"<article key='large'><title>" + b"x" * LARGEST_BYTES + b"</title></article>"
                large += 1
            written += file.write(made + b"\n")
            records += 1
            checksums += zlib.crc32(made)
            articles += made.startswith(b"<article")
        file.write(b"</dblp>\n")
    return Facts(records, checksums, articles, large)


def is_ours(process: str) -> bool:
    """Whether this process started it, or one that started it."""
    while process not in ("0", str(os.getpid())):
        process = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
    return process != "0"


@contextmanager
def peak_of_workers() -> Iterator[Callable[[], int]]:
    """The largest memory in bytes that any Python worker of Spark has had since, as the system tells it."""
    peaks: dict[str, int] = {}
    ended = threading.Event()

    def look() -> None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"pyspark.daemon" not in (process / "cmdline").read_bytes() or not is_ours(process.name):
                    continue
                for line in (process / "status").read_text().splitlines():
                    if line.startswith("VmRSS:"):
                        peaks[process.name] = max(peaks.get(process.name, 0), int(line.split()[1]) * 1024)
            except OSError:  # it has ended meanwhile
                continue

    def watch() -> None:
        while not ended.wait(0.05):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: max(peaks.values(), default=0)
    finally:
        ended.set()
        watcher.join()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Facts]]:
    path = tmp_path_factory.mktemp("records") / "dblp.xml"
    yield path, write_file(path, FILE_BYTES)
    path.unlink()


def run(spark: SparkSession, path: Path, facts: Facts, partition_bytes: int) -> int:
    """Split and match; the peak memory of a worker."""
    from pyspark.sql import functions

    index = Index()
    index.add("article", "/article[@note='a > b']")
    index.add("nested", "/*/*[@key='nested']")
    index.add_many((str(number), f"//title[contains(., 'abc{number}')]") for number in range(1000))
    with peak_of_workers() as peak:
        frame = documents(spark, path, record="*", partition_bytes=partition_bytes)
        begin = time.monotonic()
        (row,) = frame.agg(
            functions.count("*").alias("records"),
            functions.count_distinct("ordinal").alias("ordinals"),
            functions.max("ordinal").alias("last"),
            functions.sum(functions.crc32("document")).alias("checksums"),
            functions.count("error").alias("errors"),
        ).collect()
        split_seconds = time.monotonic() - begin
        assert (row.records, row.ordinals, row.last) == (facts.records, facts.records, facts.records - 1)
        assert (row.checksums, row.errors) == (facts.checksums, 0)
        begin = time.monotonic()
        matches = match(frame, index)
        counted = {row.subscription: row["count"] for row in matches.groupBy("subscription").count().collect()}
        match_seconds = time.monotonic() - begin
        assert counted.get("article", 0) == facts.articles - facts.large
        assert counted["nested"] == (facts.records - 1) // 5 + 1
        megabytes = path.stat().st_size / 1e6
        print(
            f"\npartitions of {partition_bytes >> 20} MiB: {facts.records:,} records,"
            f" split and counted at {megabytes / split_seconds:.0f} MB/s, split and matched at"
            f" {megabytes / match_seconds:.0f} MB/s, a worker had at most {peak() >> 20} MiB"
        )
        return peak()


@pytest.mark.parametrize("partition_bytes", [8 << 20, 64 << 20, 2 << 30], ids=lambda size: f"{size >> 20} MiB")
def test_a_gigabyte_arrives_once(spark: SparkSession, made: tuple[Path, Facts], partition_bytes: int) -> None:
    path, facts = made
    assert run(spark, path, facts, partition_bytes) < 400 << 20  # far less than the file, whatever the partitions


def test_memory_follows_the_largest_record(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    facts = write_file(path, 200 << 20, large_at=60_001)
    assert facts.large == 1
    assert run(spark, path, facts, 32 << 20) < (400 << 20) + 8 * LARGEST_BYTES
    frame = documents(spark, path, record="*", record_bytes_max=1 << 20)
    codes = [(row.ordinal, row.error.code) for row in frame.filter("error is not null").collect()]
    assert codes == [(60_001, "TC301")]
    assert frame.count() == facts.records
    path.unlink()


def test_a_bibliography(
    spark: SparkSession, tmp_path: Path, data_directory: Path | None, leave_out: Callable[[str], None]
) -> None:
    """The real excerpt, repeated to 200 MB: ISO-8859-1, a DOCTYPE, entities of HTML."""
    if data_directory is None:
        leave_out("a real bibliography split on Spark")
        content = b"<article key='a'><author>J&uuml;rgen \xfc</author><title>&alpha;</title></article>\n" * 5000
        head, per_round = b"<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE dblp SYSTEM 'dblp.dtd'><dblp>", 5000
    else:
        data = (data_directory / "docs/dblp-sample/sample.xml").read_bytes()
        head, _, rest = data.partition(b"<dblp>")
        head, content = head + b"<dblp>", rest.rpartition(b"</dblp>")[0]
        per_round = data.count(b"</article>") + data.count(b"</incollection>")
    rounds = (200 << 20) // len(content)
    path = tmp_path / "dblp.xml"
    with path.open("wb") as file:
        file.write(head)
        for _ in range(rounds):
            file.write(content)
        file.write(b"</dblp>")
    index = Index()
    index.add("any", "/*")
    index.add("named", "/*[author]")
    frame = documents(spark, path, record=["article", "incollection"], entities="html")
    good, bad = split(match(frame, index, on_error="report"))
    counted = {row.subscription: row["count"] for row in good.groupBy("subscription").count().collect()}
    assert counted["any"] == rounds * per_round and counted["named"] > 0
    assert bad.count() == 0
    path.unlink()
