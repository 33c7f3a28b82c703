"""A million distinct queries on 30 KB documents: the very first document, unseen ones, and ones seen before.

Queries and documents are drawn from one DTD: up to 10 steps, 20 % `*`, 20 % `//`. Unseen documents come after 1,000
others; warm documents are those same ones again. Results are ids, as columns.
"""

from __future__ import annotations

import statistics

from bench.inputs import as_table, draw_documents, draw_queries, load_schema
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from treecast import Index

BATCH = 50


def in_batches(index: Index, documents: list[bytes]) -> tuple[Seconds, int]:
    """Match in calls of BATCH documents, as a pipeline would: a million queries give 50,000 rows a document."""
    rows = 0

    def action() -> None:
        nonlocal rows
        for start in range(0, len(documents), BATCH):
            rows += index.match_many(documents[start : start + BATCH], threads=1).num_rows

    return clock(action), rows


def measure(report: Report, queries: list[str], documents: list[bytes], before: int, quick: bool) -> None:
    count = len(queries)
    label = f"{count // 1000:,}k queries"
    table = as_table(queries)
    firsts, first_lxml, builds = [], [], []
    for place in range(2 if quick else 3):
        index = Index()
        builds.append(clock(lambda index=index: index.add_many(table)))  # type: ignore[misc]
        document = documents[place]
        lxml_time([document], 3)
        first_lxml.append(lxml_time([document], 9))
        firsts.append(clock(lambda index=index, document=document: index.match_many([document])))  # type: ignore[misc]
    rows = statistics.median(index.match_many([document]).num_rows for document in documents[: len(firsts)])
    report.ratio(f"{label}: very first document", median(firsts), median(first_lxml), 1, rows, bar=30)
    built = median(builds)
    report.figure(f"{label}: build from an Arrow table", built.cpu, f"s (wall {built.wall:.3g})", bar=10)
    report.figure(
        f"{label}: memory", index.stats().bytes / count, "bytes/query", bar=100 if count >= 1_000_000 else 200
    )
    in_batches(index, documents[:before])
    unseen = documents[before:]
    lxml = lxml_time(unseen, 3)
    spent, rows = in_batches(index, unseen)
    report.ratio(f"{label}: unseen, after {before} others", spent, lxml, len(unseen), rows / len(unseen), bar=4)
    warm = [in_batches(index, unseen)[0] for _ in range(3 if quick else 5)]
    report.ratio(f"{label}: warm", median(warm), lxml, len(unseen), rows / len(unseen), bar=2)
    report.figure(f"{label}: cache", index.stats().cache_bytes / 1e6, "MB")


def main(arguments: list[str]) -> int:
    options, report = options_of("million", __doc__.partition("\n")[0], arguments)
    schema = load_schema(options.data, report)
    before, unseen = (300, 100) if options.quick else (1000, 200)
    documents = draw_documents(schema, before + unseen)
    size = sum(map(len, documents)) / len(documents)
    report.note(f"documents: {len(documents)} of {size / 1000:.1f} KB on average; {BATCH} a call")
    report.note("very first document: median over several new indexes, each with another document; unseen: one pass")
    queries = draw_queries(schema, 1_000_000)
    for count in (10_000, 100_000, 1_000_000):
        # Draws repeat short queries first: a prefix would be shorter queries than the whole, so thin out evenly.
        measure(report, queries[:: len(queries) // count], documents, before, options.quick)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
