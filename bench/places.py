"""100,000 positions, and as many `contains(child, "word")`, on 30 KB documents that were not seen before."""

from __future__ import annotations

from bench.inputs import draw_documents, load_schema
from bench.measure import Report, finish, options_of, run
from bench.patterns import draw_child_words, draw_positions
from bench.unseen import Sizes, describe, measure_unseen
from treecast.workload import Schema

COUNT = 100_000


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, sizes.documents, seed=6)
    describe(report, documents)
    for name, draw in (("positions", draw_positions), ("contains(child)", draw_child_words)):
        queries = draw(schema, sizes.queries(COUNT))
        measure_unseen(report, f"{len(queries):,} {name}", queries, documents, sizes, bar=sizes.bar(4))


def main(arguments: list[str]) -> int:
    options, report = options_of("places", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
