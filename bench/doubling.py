"""The cost of twice the queries, where the added half asks for values or names that no document has.

Two indexes, with and without the added half, take turns on the same unseen documents; the sums are compared.
The added half repeats the first one: the same paths with other values (or one more predicate), or the same queries
with one name replaced by one of its own. If the first half has no values at all (trees, paths), the change includes
the cost of looking up values.
"""

from __future__ import annotations

from bench.inputs import as_table, draw_documents, draw_queries, load_schema
from bench.measure import Report, Seconds, clock, finish, options_of, run
from bench.patterns import (
    draw_mixed,
    draw_trees,
    draw_values,
    with_lacking_names,
    with_lacking_numbers,
    with_lacking_values,
    with_numbers,
)
from bench.unseen import BATCH, Sizes, batches
from treecast import Index
from treecast.workload import Schema

CHANGE_MAX = 30.0


def compare(
    report: Report, label: str, queries: list[str], added: list[str], documents: list[bytes], sizes: Sizes
) -> None:
    single, double = Index(), Index()
    single.add_many(as_table(queries))
    double.add_many(as_table(queries + added))
    for batch in batches(documents[: sizes.before]):
        single.match_many(batch, threads=1)
        double.match_many(batch, threads=1)
    spent = {single: Seconds(0, 0), double: Seconds(0, 0)}
    rows = dict.fromkeys(spent, 0)
    unseen = documents[sizes.before :]
    for turn, batch in enumerate(batches(unseen)):
        for index in (single, double) if turn % 2 else (double, single):
            spent[index] += clock(lambda index=index, batch=batch: index.match_many(batch, threads=1))  # type: ignore[misc]
            rows[index] += index.match_many(batch, threads=1).num_rows
    if rows[single] != rows[double]:
        raise AssertionError(f"{label}: the added queries matched {rows[double] - rows[single]} times")
    name = f"{len(queries):,} {label}"
    matches = rows[single] / len(unseen)
    report.figure(f"{name}: alone", spent[single].cpu / len(unseen) * 1e6, "µs/doc", matches=matches)
    change = (spent[double].cpu / spent[single].cpu - 1) * 100
    report.figure(f"{name}: change by doubling", change, "%", bar=sizes.bar(CHANGE_MAX), matches=matches)


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, sizes.documents, seed=8)
    present, absent = draw_values(schema, sizes.queries(10_000), 50)
    compare(report, "values, added: lacking values", present, absent, documents, sizes)
    compare(report, "values, added: lacking names", present, with_lacking_names(present), documents, sizes)
    mixed, numbered = draw_mixed(schema, sizes.queries(50_000)), with_numbers(documents)
    compare(report, "mixed, added: lacking values", mixed, with_lacking_numbers(mixed), numbered, sizes)
    compare(report, "mixed, added: lacking names", mixed, with_lacking_names(mixed), numbered, sizes)
    trees = draw_trees(schema, sizes.queries(50_000))
    compare(report, "trees, added: lacking values", trees, with_lacking_values(schema, trees), documents, sizes)
    compare(report, "trees, added: lacking names", trees, with_lacking_names(trees), documents, sizes)
    paths = draw_queries(schema, sizes.queries(500_000))
    compare(report, "paths, added: lacking values", paths, with_lacking_values(schema, paths), documents, sizes)
    compare(report, "paths, added: lacking names", paths, with_lacking_names(paths), documents, sizes)


def main(arguments: list[str]) -> int:
    options, report = options_of("doubling", __doc__.partition("\n")[0], arguments)
    report.note(f"{BATCH} documents a call, both indexes in turn")
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
