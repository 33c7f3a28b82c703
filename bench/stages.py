"""Where the time goes on warm documents: reading, walking the machine, collecting ids, and handing them to Python.

The stages are measured by leaving parts out. Reading alone keeps nothing. Walking uses the same queries with one more
step that no document has, so every state is visited and nothing is found (leaves become inner states: an upper bound).
Ids as columns is match_many. Lists are the extra cost for a caller who wants Python strings.
"""

from __future__ import annotations

from bench.inputs import as_table, draw_documents, draw_queries, load_schema, load_yfilter
from bench.measure import Report, clock, finish, lxml_time, median, options_of, run
from treecast import Index, Limits, _native


def measure(report: Report, name: str, queries: list[str], documents: list[bytes], repeats: int) -> None:
    lxml = lxml_time(documents, repeats)
    count = len(documents)
    limits = Limits().native()
    reading = median([clock(lambda: _native.read_many(documents, limits)) for _ in range(repeats)])
    report.ratio(f"{name}: reading", reading, lxml, count, 0)
    index = Index()
    index.add_many(as_table([query + "/no-such-element" for query in queries]))
    index.match_many(documents, threads=1)
    walking = median([clock(lambda: index.match_many(documents, threads=1)) for _ in range(repeats)])
    report.ratio(f"{name}: reading and walking", walking, lxml, count, 0)
    index = Index()
    index.add_many(as_table(queries))
    matches = index.match_many(documents, threads=1).num_rows / count
    columns = median([clock(lambda: index.match_many(documents, threads=1)) for _ in range(repeats)])
    report.ratio(f"{name}: reading, walking, ids as columns", columns, lxml, count, matches)
    some = documents[:20]
    index.match(some[0])

    def lists() -> None:
        for document in some:
            index.match(document)

    some_lxml = lxml_time(some, repeats)
    report.ratio(
        f"{name}: the same, ids as a Python list",
        median([clock(lists) for _ in range(repeats)]),
        some_lxml,
        len(some),
        matches,
    )


def main(arguments: list[str]) -> int:
    options, report = options_of("stages", __doc__.partition("\n")[0], arguments)
    repeats = 3 if options.quick else 7
    queries, documents = load_yfilter(options.data, report)
    measure(report, "153,928 queries", queries, documents, repeats)
    schema = load_schema(options.data, report)
    documents = draw_documents(schema, 100)
    queries = draw_queries(schema, 1_000_000)
    for count in (10_000, 100_000) if options.quick else (10_000, 100_000, 1_000_000):
        measure(report, f"{count // 1000:,}k queries, 30 KB", queries[:: len(queries) // count], documents, repeats)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
