"""One index, several threads: match_many over the same documents with threads=1 and more, and as many processes.

Wall time says what threads gain, if that many cores are idle. CPU time a document, with more threads than cores too,
says what they cost each other, on any machine. The first pass, which learns, is a figure of its own. Then nothing is
measured before all thread counts are warm, and they take turns, one thread among them: cores that wake up or slow down
do so for all. Page faults are those of results: memory that was given back is used again. Processes have the same
index and share nothing else, so what they gain is what threads could.

    taskset -c 0,1 python -m bench.threads      two cores of many
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier

from bench.inputs import as_table, draw_documents, draw_queries, load_schema, load_yfilter
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from treecast import Index

THREADS = (1, 2, 4, 8, 16)
WARM_PASSES_MAX = 40
BYTES_PER_MATCH = 12  # a document's number and a subscription's


def thread_counts(cores: int) -> list[int]:
    """Up to the cores there are, and 8 on fewer: that shows what threads cost each other."""
    return [count for count in THREADS if count <= max(cores, 8) and (count <= cores or count == 8)]


def warm_up(index: Index, documents: list[bytes], threads: int) -> Seconds:
    """The first pass, from nothing; then passes until nothing more is learned."""
    index.drop_caches()
    first = clock(lambda: index.match_many(documents, threads=threads))
    known, unchanged = -1, 0
    for _ in range(WARM_PASSES_MAX):
        index.match_many(documents, threads=threads)
        unchanged = unchanged + 1 if index.stats().cache_bytes == known else 0
        known = index.stats().cache_bytes
        if unchanged == 2:
            break
    return first


@dataclass
class Passes:
    """What the passes with one number of threads took."""

    first: Seconds
    times: list[Seconds] = field(default_factory=list)
    faults: int = 0


def take_turns(index: Index, documents: list[bytes], counts: list[int], repeats: int) -> dict[int, Passes]:
    """Passes with each number of threads, once all are warm, round after round; every other round backwards."""
    passes = {threads: Passes(warm_up(index, documents, threads)) for threads in counts}
    for turn in range(repeats):
        for threads in counts if turn % 2 else counts[::-1]:
            index.match_many(documents, threads=threads)  # what others have left in the caches of the cores
            before = page_faults()
            passes[threads].times.append(clock(lambda t=threads: index.match_many(documents, threads=t)))  # type: ignore[misc]
            passes[threads].faults += page_faults() - before
    return passes


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def repeat(index: Index, documents: list[bytes], passes: int, barrier: Barrier) -> None:
    """What one of many processes does: a pass to warm up, then as many as all others, at the same time."""
    index.match_many(documents, threads=1)
    barrier.wait()
    for _ in range(passes):
        index.match_many(documents, threads=1)


def process_gain(index: Index, documents: list[bytes], single: Seconds, processes: int, passes: int) -> float:
    """How many times as many documents as one thread so many processes match in a second."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes + 1)
    workers = [context.Process(target=repeat, args=(index, documents, passes, barrier)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    barrier.wait()
    begun = time.perf_counter()
    for worker in workers:
        worker.join()
    return processes * passes * single.wall / (time.perf_counter() - begun)


def measure(report: Report, name: str, queries: list[str], documents: list[bytes], quick: bool) -> None:
    lxml = lxml_time(documents, 3)
    index = Index()
    index.add_many(as_table(queries))
    count, repeats = len(documents), 3 if quick else 7
    cores = len(os.sched_getaffinity(0))
    counts = thread_counts(cores)
    passes = take_turns(index, documents, counts, repeats)
    table = index.match_many(documents)
    matches, written = table.num_rows / count, table.num_rows * BYTES_PER_MATCH / count
    del table
    report.figure(f"{name}: results", written / 1000, "KB/doc", matches=matches)
    single = median(passes[1].times)
    for threads in counts:
        spent = median(passes[threads].times)
        label = f"{name}: threads={threads}"
        report.ratio(f"{label}, first pass", passes[threads].first, lxml, count, matches)
        report.ratio(label, spent, lxml, count, matches)
        report.figure(label, passes[threads].faults / repeats / count, "page faults/doc")
        report.figure(label, written * count / spent.wall / 1e9, "GB/s of results")
        if threads == 1:
            continue
        report.add(label, f"{single.wall / spent.wall:.2f}", "x faster (wall)")
        bar = 1.2 if threads == 8 and cores == 2 else None
        report.figure(label, spent.cpu / single.cpu, "x the CPU of one thread", bar=bar)
    for processes in [threads for threads in counts if 1 < threads <= cores]:
        gain = process_gain(index, documents, single, processes, repeats)
        report.add(f"{name}: {processes} processes", f"{gain:.2f}", "x faster (wall)")


def main(arguments: list[str]) -> int:
    options, report = options_of("threads", __doc__.partition("\n")[0], arguments)
    queries, documents = load_yfilter(options.data, report)
    # So many that starting the threads does not count.
    documents = documents * (2 if options.quick else 10)
    measure(report, "no match", [query + "/nothing" for query in queries], documents, options.quick)
    measure(report, "153,928 queries", queries, documents, options.quick)
    schema = load_schema(options.data, report)
    count = 100_000 if options.quick else 1_000_000
    measure(
        report,
        f"{count // 1000:,}k queries, 30 KB",
        draw_queries(schema, count),
        draw_documents(schema, 100) * (1 if options.quick else 4),
        options.quick,
    )
    return finish(options, report)


if __name__ == "__main__":
    run(main)
