"""100,000 queries with a branch and two attributes equal to numbers, on 30 KB documents that were not seen before.

They are drawn like the `mixed` files of the YFilter release. Attribute values of the documents are whole numbers from
1 to 20, as in the queries. With a data directory the release's own 5,000 queries are measured too.
"""

from __future__ import annotations

from pathlib import Path

from bench.inputs import draw_documents, load_schema
from bench.measure import Report, finish, options_of, run
from bench.patterns import draw_mixed, with_numbers
from bench.unseen import Sizes, describe, measure_unseen
from treecast.workload import Schema

COUNT = 100_000
YFILTER_MIXED = "queries/yfilter-workloads/nitf-2-5-mixed.txt"


def measure(report: Report, schema: Schema, sizes: Sizes, data: str | None = None) -> None:
    documents = with_numbers(draw_documents(schema, sizes.documents, seed=7))
    describe(report, documents)
    queries = draw_mixed(schema, sizes.queries(COUNT))
    measure_unseen(report, f"{len(queries):,} mixed", queries, documents, sizes, bar=sizes.bar(5))
    path = Path(data or "", YFILTER_MIXED)
    if data and path.exists():
        queries = path.read_text("utf-8").split()
        measure_unseen(report, f"{len(queries):,} mixed of the YFilter release", queries, documents, sizes, bar=5)
    else:
        report.note(f"{YFILTER_MIXED} is left out, for no data directory with it was given")


def main(arguments: list[str]) -> int:
    options, report = options_of("mixed", __doc__.partition("\n")[0], arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick), options.data)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
