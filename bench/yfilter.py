"""YFilter's 153,928 distinct queries on its 500 documents: reading and matching to ids, first pass and later ones.

The first pass starts from an empty cache: a new Index each time, filled and not yet used. Building it is measured
separately; no part of it is delayed until the first document. Then one document at a time, whose ids come in the order
of addition: before and after a subscription was replaced, which keeps its place.
"""

from __future__ import annotations

from bench.inputs import as_table, load_yfilter
from bench.measure import clock, finish, lxml_time, median, options_of, run
from treecast import Index


def main(arguments: list[str]) -> int:
    options, report = options_of("yfilter", __doc__.partition("\n")[0], arguments)
    queries, documents = load_yfilter(options.data, report)
    table = as_table(queries)
    firsts, laters, builds, rows = [], [], [], 0
    lxml = lxml_time(documents, 3 if options.quick else 7)
    for _ in range(3 if options.quick else 7):
        index = Index()
        builds.append(clock(lambda index=index: index.add_many(table)))  # type: ignore[misc]
        firsts.append(clock(lambda index=index: index.match_many(documents, threads=1)))  # type: ignore[misc]
        for _ in range(3):
            laters.append(clock(lambda index=index: index.match_many(documents, threads=1)))  # type: ignore[misc]
        rows = index.match_many(documents, threads=1).num_rows
    matches = rows / len(documents)
    report.ratio("first pass, empty cache", median(firsts), lxml, len(documents), matches, bar=1)
    report.ratio("later passes", median(laters), lxml, len(documents), matches, bar=0.5)
    for what in ("one by one, in order", "one by one, after one replacement"):
        ones = [clock(lambda: [index.match(document) for document in documents]) for _ in range(3)]
        report.ratio(what, median(ones), lxml, len(documents), matches)
        index.replace("s7", queries[7])
    built = median(builds)
    report.figure("build from an Arrow table", built.cpu, f"s (wall {built.wall:.3g})")
    stats = index.stats()
    report.figure("memory", stats.bytes / len(queries), "bytes/query")
    report.figure("cache", stats.cache_bytes / 1e6, "MB")
    return finish(options, report)


if __name__ == "__main__":
    run(main)
