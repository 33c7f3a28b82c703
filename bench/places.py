"""100,000 positions, as many `contains()` of a child and of longer paths, and ordered patterns, on 30 KB documents.

The documents were not seen before.

Longer paths and ordered patterns are also measured where each has a value that no document has, and where what many of
them share always holds. The bar of those is half a microsecond for a subscription and document.
"""

from __future__ import annotations

from bench.inputs import draw_documents, load_schema
from bench.measure import Report, finish, options_of, run
from bench.patterns import (
    draw_child_words,
    draw_common_ordered,
    draw_common_path_words,
    draw_path_words,
    draw_positions,
    draw_rare_ordered,
    draw_rare_path_words,
    draw_trees,
)
from bench.unseen import Sizes, describe, measure_unseen
from treecast.workload import Schema

COUNT = 100_000


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, sizes.documents, seed=6)
    describe(report, documents)
    for name, draw in (("positions", draw_positions), ("contains(child)", draw_child_words)):
        queries = draw(schema, sizes.queries(COUNT))
        measure_unseen(report, f"{len(queries):,} {name}", queries, documents, sizes, bar=sizes.bar(4))
    others = (
        ("contains(longer path)", draw_path_words, False),
        ("contains(longer path), rare", draw_rare_path_words, False),
        ("contains(longer path), always", draw_common_path_words, False),
        ("ordered trees", draw_trees, True),
        ("ordered, rare", draw_rare_ordered, True),
        ("ordered, always", draw_common_ordered, True),
    )
    for name, draw_others, ordered in others:
        queries = draw_others(schema, sizes.queries(COUNT))
        measure_unseen(report, f"{len(queries):,} {name}", queries, documents, sizes, ordered=ordered)


def main(arguments: list[str]) -> int:
    options, report = options_of("places", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
