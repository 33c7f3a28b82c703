"""One index, several threads: match_many over the same documents with threads=1 and more.

Wall time says what threads gain, if that many cores are idle. CPU time a document, with more threads than cores too,
says what they cost each other, on any machine.
"""

from __future__ import annotations

import os

from bench.inputs import as_table, draw_documents, draw_queries, load_schema, load_yfilter
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from treecast import Index


def measure(report: Report, name: str, queries: list[str], documents: list[bytes], quick: bool) -> None:
    lxml = lxml_time(documents, 3)
    index = Index()
    index.add_many(as_table(queries))
    single = Seconds(0, 0)
    cores = os.cpu_count() or 1
    for threads in sorted({1, 2, 8, cores, *((4,) if cores >= 4 else ())}):
        for _ in range(2):
            rows = index.match_many(documents, threads=threads).num_rows
        times = [clock(lambda t=threads: index.match_many(documents, threads=t)) for _ in range(3 if quick else 7)]  # type: ignore[misc]
        spent = median(times)
        single = spent if threads == 1 else single
        report.ratio(f"{name}: threads={threads}", spent, lxml, len(documents), rows / len(documents))
        if threads == 1:
            continue
        report.add(f"{name}: threads={threads}", f"{single.wall / spent.wall:.2f}", "x faster (wall)")
        bar = 1.2 if threads == 8 else None
        report.figure(f"{name}: threads={threads}", spent.cpu / single.cpu, "x the CPU of one thread", bar=bar)


def main(arguments: list[str]) -> int:
    options, report = options_of("threads", __doc__.partition("\n")[0], arguments)
    queries, documents = load_yfilter(options.data, report)
    # So many that starting the threads does not count.
    measure(report, "153,928 queries", queries, documents * (2 if options.quick else 10), options.quick)
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
