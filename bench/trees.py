"""100,000 tree patterns without values, one or two branches each, on 30 KB documents that were not seen before."""

from __future__ import annotations

from bench.inputs import draw_documents, load_schema
from bench.measure import Report, finish, options_of, run
from bench.patterns import draw_trees
from bench.unseen import Sizes, describe, measure_unseen
from treecast.workload import Schema

COUNT = 100_000


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, sizes.documents, seed=6)
    describe(report, documents)
    queries = draw_trees(schema, sizes.queries(COUNT))
    measure_unseen(report, f"{len(queries):,} trees", queries, documents, sizes, bar=sizes.bar(2))


def main(arguments: list[str]) -> int:
    options, report = options_of("trees", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
