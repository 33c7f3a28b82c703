"""The inputs of the workloads: real ones from a data directory, or drawn from the built-in schema.

A data directory holds `dtd/nitf-2.5/nitf-2-5.lf.dtd`, the 153,928 queries of the YFilter release under
`queries/benchmark_simple_paths/` and its documents under `docs/nitf-yfilter-500/`. Missing inputs are replaced,
and the report says so.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa

from bench.measure import Report
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

NITF = "dtd/nitf-2.5/nitf-2-5.lf.dtd"
YFILTER_QUERIES = "queries/benchmark_simple_paths/queries-153928-d.txt.gz"
YFILTER_DOCUMENTS = "docs/nitf-yfilter-500"
YFILTER_COUNT = 153_928


def load_schema(data: str | None, report: Report) -> Schema:
    """The NITF 2.5 DTD, or the built-in schema."""
    path = Path(data or "", NITF)
    if data and path.exists():
        report.note("schema: NITF 2.5")
        return Schema.from_dtd(path)
    report.stand_in("schema: the built-in news schema, for no data directory with the NITF DTD was given")
    return Schema.news()


def load_yfilter(data: str | None, report: Report) -> tuple[list[str], list[bytes]]:
    """YFilter's distinct queries and its documents, or as many drawn from the built-in schema."""
    queries, documents = Path(data or "", YFILTER_QUERIES), Path(data or "", YFILTER_DOCUMENTS)
    if data and queries.exists() and documents.is_dir():
        with gzip.open(queries, "rt", encoding="utf-8") as file:
            texts = file.read().split()
        files = sorted(documents.glob("*.xml"))
        report.note(f"input: {len(texts):,} queries and {len(files)} documents of the YFilter release")
        return texts, [file.read_bytes() for file in files]
    schema = Schema.news()
    report.stand_in(
        f"input: {YFILTER_COUNT:,} queries and 500 documents drawn from the built-in news schema, "
        "for no data directory with the YFilter release was given"
    )
    texts = list(generate_queries(schema, YFILTER_COUNT, QuerySettings(depth_max=6), seed=1))
    return texts, list(generate_documents(schema, 500, DocumentSettings(bytes_target=3800, depth_max=8), seed=1))


def draw_queries(schema: Schema, count: int, seed: int = 1) -> list[str]:
    """Distinct, up to 10 steps, 20 % `*`, 20 % `//`."""
    return list(generate_queries(schema, count, QuerySettings(depth_max=10), seed=seed))


def draw_documents(schema: Schema, count: int, seed: int = 1, start: int = 0) -> list[bytes]:
    """About 30 KB each."""
    return list(generate_documents(schema, count, DocumentSettings(bytes_target=30_000), seed=seed, start=start))


def as_table(queries: list[str], *, ordered: bool = False) -> pa.Table:
    """A table for Index.add_many: columns id and query, and ordered where that is wanted."""
    columns = {"id": pa.array([f"s{place}" for place in range(len(queries))]), "query": pa.array(queries)}
    if ordered:
        columns["ordered"] = pa.array([True] * len(queries))
    return pa.table(columns)
