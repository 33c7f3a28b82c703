"""Changing subscriptions: the cost of a change before every document, of adds, and the memory that removal frees."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.inputs import as_table, draw_documents, draw_queries, load_schema, load_yfilter
from bench.measure import Report, clock, finish, lxml_time, median, options_of, run
from treecast import Index
from treecast.workload import Schema


def change_before_every_document(report: Report, data: str | None, schema: Schema, quick: bool) -> None:
    """One add and one remove, then one document; compared with the same calls without changes."""
    queries, documents = load_yfilter(data, report)
    known = set(queries)
    fresh = [query for query in draw_queries(schema, 60_000, seed=2) if query not in known]
    lxml = lxml_time(documents, 3)
    index = Index()
    index.add_many(as_table(queries))
    rows = index.match_many(documents, threads=1).num_rows
    changes = 0

    def change() -> None:
        nonlocal changes
        index.add(f"n{changes}", fresh[changes % len(fresh)])
        # Every other removal takes one of the first subscriptions, the others a recent one.
        index.remove(f"n{changes - 100}" if changes % 2 == 0 and changes >= 100 else f"s{changes}")
        changes += 1

    calls: dict[str, Callable[[bytes], object]] = {
        "match_many([document])": lambda document: index.match_many([document]),
        "match(document)": index.match,
    }
    for name, call in calls.items():

        def still(call: Callable[[bytes], object] = call) -> None:
            for document in documents:
                call(document)

        def moving(call: Callable[[bytes], object] = call) -> None:
            for document in documents:
                change()
                call(document)

        still()
        repeats = 3 if quick else 7
        warm = median([clock(still) for _ in range(repeats)])
        churned = median([clock(moving) for _ in range(repeats)])
        count, matches = len(documents), rows / len(documents)
        report.ratio(f"{name}: no change", warm, lxml, count, matches)
        report.ratio(f"{name}: add and remove before each", churned, lxml, count, matches)
        ratio = churned.cpu / warm.cpu
        report.add(f"{name}: changes cost", f"{ratio:.2f}", "x warm", bar="<= 1.5x", met=ratio <= 1.5)


def adds_on_a_million(report: Report, schema: Schema, quick: bool) -> None:
    """Latency of every single add, with a document now and then; then bytes after everything is removed."""
    count, extra = (200_000, 50_000) if quick else (1_000_000, 200_000)
    queries = draw_queries(schema, count + extra)
    documents = draw_documents(schema, 40)
    index = Index()
    index.add_many(as_table(queries[:count]))
    index.match_many(documents, threads=1)
    taken, matching = [], []
    for place in range(extra):
        begun = time.perf_counter()
        index.add(f"n{place}", queries[count + place])
        taken.append(time.perf_counter() - begun)
        if place % 1000 == 0:
            begun = time.perf_counter()
            index.match_many([documents[place // 1000 % len(documents)]], threads=1)
            matching.append(time.perf_counter() - begun)
    taken.sort()
    matching.sort()
    label = f"add, {count // 1000:,}k queries"
    for share, bar in ((0.5, None), (0.99, 1.0), (0.999, 50.0)):
        report.figure(f"{label}: {share:.1%} of {extra:,}", taken[int(extra * share)] * 1e3, "ms (wall)", bar=bar)
    report.figure(f"{label}: slowest", taken[-1] * 1e3, "ms (wall)")
    report.figure(
        f"a document after 1,000 adds, {count // 1000:,}k queries: median",
        matching[len(matching) // 2] * 1e3,
        "ms (wall)",
    )
    report.figure(f"a document after 1,000 adds, {count // 1000:,}k queries: slowest", matching[-1] * 1e3, "ms (wall)")
    peak = index.stats().bytes
    ids = [f"s{place}" for place in range(count)] + [f"n{place}" for place in range(extra)]

    def remove_all() -> None:
        for subscription in ids:
            index.remove(subscription)

    spent = clock(remove_all)
    report.figure("remove, one by one", spent.cpu / len(ids) * 1e6, "µs")
    index.match_many(documents[:1], threads=1)
    report.figure("bytes before removing all", peak, "bytes")
    report.figure("bytes after removing all", index.stats().bytes / peak * 100, "% of before", bar=5)


def main(arguments: list[str]) -> int:
    options, report = options_of("churn", __doc__.partition("\n")[0], arguments)
    schema = load_schema(options.data, report)
    change_before_every_document(report, options.data, schema, options.quick)
    adds_on_a_million(report, schema, options.quick)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
