"""Changing queries with predicates: one added and one removed before every document, next to 100,000 others.

The same documents are matched before any change, with a change before each, and after the changes. A change is timed in
wall-clock time, because a caller waits for it; documents are timed in CPU time.
"""

from __future__ import annotations

import time

from bench.inputs import as_table, draw_documents, load_schema
from bench.measure import Report, Seconds, clock, finish, lxml_time, median, options_of, run
from bench.patterns import draw_mixed, with_numbers
from bench.unseen import Sizes
from treecast import Index
from treecast.workload import Schema

COUNT = 100_000


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = with_numbers(draw_documents(schema, sizes.documents, seed=10))
    changes = len(documents) * sizes.passes
    drawn = draw_mixed(schema, sizes.queries(COUNT) + changes)
    kept, fresh = drawn[changes:], drawn[:changes]
    index = Index()
    index.add_many(as_table(kept))
    rows = index.match_many(documents, threads=1).num_rows
    lxml = lxml_time(documents, 3)
    adds: list[float] = []
    removes: list[float] = []

    def unchanged() -> None:
        for document in documents:
            index.match_many([document])

    def changed() -> Seconds:
        spent = Seconds(0, 0)
        for document in documents:
            change(index, fresh[len(adds)], adds, removes)
            wall, cpu = time.perf_counter(), time.process_time()
            index.match_many([document])
            spent += Seconds(time.perf_counter() - wall, time.process_time() - cpu)
        return spent

    warm = median([clock(unchanged) for _ in range(sizes.passes)])
    churned = median([changed() for _ in range(sizes.passes)])
    after = median([clock(unchanged) for _ in range(sizes.passes)])
    label = f"{len(kept):,} mixed"
    matches = rows / len(documents)
    report.ratio(f"{label}: a document, before any change", warm, lxml, len(documents), matches)
    report.ratio(f"{label}: a document after an add and a remove", churned, lxml, len(documents), matches)
    report.ratio(f"{label}: a document, after all changes", after, lxml, len(documents), matches)
    report.figure(f"{label}: the change makes a document cost", churned.cpu / warm.cpu, "x")
    for what, times in (("add", adds), ("remove", removes)):
        times.sort()
        for share in (0.5, 0.99, 0.999):
            value = times[int(len(times) * share)] * 1e6
            report.figure(f"{label}: {what}, {share:.1%} of {len(times):,}", value, "µs (wall)")
        report.figure(f"{label}: {what}, slowest", times[-1] * 1e6, "µs (wall)")


def change(index: Index, query: str, adds: list[float], removes: list[float]) -> None:
    """Add one and remove one: alternately one of the first subscriptions and a recent one."""
    place = len(adds)
    begun = time.perf_counter()
    index.add(f"n{place}", query)
    added = time.perf_counter()
    index.remove(f"n{place - 100}" if place % 2 == 0 and place >= 100 else f"s{place}")
    adds.append(added - begun)
    removes.append(time.perf_counter() - added)


def main(arguments: list[str]) -> int:
    options, report = options_of("churn_mixed", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
