"""The time to generate a workload: a million distinct queries of several kinds, and documents of several sizes."""

from __future__ import annotations

from bench.inputs import load_schema
from bench.measure import Report, finish, options_of, run
from bench.unseen import Sizes
from treecast.measure.seconds import clock
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

MILLION = 1_000_000
QUERIES = {
    "paths": QuerySettings(),
    "paths, skew 1": QuerySettings(skew=1),
    "one predicate, one nested path": QuerySettings(predicates=1, nested=1),
    "two predicates, selectivity 0.1": QuerySettings(predicates=2, selectivity=0.1),
}
BYTES = 30_000_000
SIZES = (5_000, 30_000, 1_000_000)


def measure(report: Report, schema: Schema, sizes: Sizes) -> None:
    count = sizes.queries(MILLION)
    for name, settings in QUERIES.items():

        def draw(settings: QuerySettings = settings) -> None:
            assert sum(1 for _ in generate_queries(schema, count, settings, seed=1)) == count

        spent = clock(draw)
        report.figure(f"{count:,} distinct queries: {name}", spent.cpu, f"s (wall {spent.wall:.3g})", bar=sizes.bar(60))
    for size in SIZES:
        documents = max(1, sizes.queries(BYTES) // size)
        written = 0

        def write(size: int = size, documents: int = documents) -> None:
            nonlocal written
            drawn = generate_documents(schema, documents, DocumentSettings(bytes_target=size), seed=1)
            written = sum(map(len, drawn))

        spent = clock(write)
        report.figure(f"documents of {size:,} bytes", written / 1e6 / spent.cpu, "MB/s")


def main(arguments: list[str]) -> int:
    options, report = options_of("generating", __doc__, arguments)
    measure(report, load_schema(options.data, report), Sizes.of(options.quick))
    return finish(options, report)


if __name__ == "__main__":
    run(main)
