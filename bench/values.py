"""A million predicates `path[@a="v"]` over 20,000 paths, on 30 KB documents that were not seen before.

Half of the attribute values of a document are words and numbers from a set that the predicates draw from too; the
others are ids and enumerated values, which they also draw from. Each path asks for 50 values, so most of them are found
now and then. Measured with the predicate at the last step and at a step before it.
"""

from __future__ import annotations

from bench.inputs import draw_documents, load_schema
from bench.measure import Report, finish, options_of, run
from bench.patterns import draw_values
from bench.unseen import Sizes, describe, measure_unseen
from treecast.workload import Schema

STRUCTURES, EACH = 20_000, 50


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    documents = draw_documents(schema, sizes.documents, seed=5)
    describe(report, documents)
    for inner in (False, True):
        queries, _ = draw_values(schema, sizes.queries(STRUCTURES), EACH, inner=inner)
        where = "at an inner step" if inner else "at the last step"
        measure_unseen(report, f"{len(queries):,} values, {where}", queries, documents, sizes, bar=sizes.bar(3))


def main(arguments: list[str]) -> int:
    options, report = options_of("values", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
