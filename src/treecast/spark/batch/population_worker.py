"""What runs in Spark's Python workers for whole populations: queries in, facts or partial aggregates out; workloads.

Record batches in, record batches out. Subscriptions are taken some ten thousand at a time, whatever the size of Spark's
batches: the native survey then rarely pays its fixed costs. A refusal never raises here, where it would be a page of
Spark frames: it becomes rows that the driver (`treecast.spark.batch.population`) turns into one error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from treecast.document import EntityTexts, Limits
from treecast.errors import QueryError
from treecast.index import Index
from treecast.index.subscription_forms import LISTED_MAX
from treecast.placement.aggregate import shorten_paths
from treecast.placement.facts import Survey, survey
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 50_000  # surveyed at once
BATCH_BYTES_MAX = 4 << 20  # of generated documents
BLOCK = 10_000  # queries that are drawn from one seed

PAIRS = "array<struct<pattern:string,literal:string>>"
REFUSALS_TYPE = "array<struct<id:string,code:string,message:string>>"
FACTS_TYPE = f"id string, checksum long, pairs {PAIRS}, refused {REFUSALS_TYPE}"
PARTIAL_TYPE = f"cover string, expressions long, wanted binary, count long, refused {REFUSALS_TYPE}"
DOCUMENTS_TYPE = "number long, document binary"
QUERIES_TYPE = "number long, query string"

RefusalRows = list[dict[str, str | None]]


def facts(batches: Iterator[pa.RecordBatch], namespaces: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """For each subscription its id, the checksum of its text and its pairs; a row without an id lists the refused."""
    import pyarrow as pa

    for table in _chunks(batches):
        facts_found, refusals = _survey_or_refusals(table, namespaces)
        rows = len(facts_found) if facts_found is not None else 1
        if facts_found is None:
            columns = [pa.nulls(1, pa.string()), pa.nulls(1, pa.int64()), pa.nulls(1, _pairs_type())]
        else:
            checksums = [zlib.crc32(text.encode()) for text in facts_found.queries]
            columns = [
                pa.array(facts_found.ids, pa.string()),
                pa.array(checksums, pa.int64()),
                facts_found.pairs_column(),
            ]
        columns.append(pa.array([refusals or None] + [None] * (rows - 1), _refused_type()))
        yield pa.RecordBatch.from_arrays(columns, names=["id", "checksum", "pairs", "refused"])


def reduce(
    batches: Iterator[pa.RecordBatch],
    namespaces: Mapping[str, str],
    documents: Sequence[bytes],
    limits: Limits | None,
    entities: EntityTexts,
) -> Iterator[pa.RecordBatch]:
    """One row for each distinct path that the subscriptions of this task are reduced to; one without for the totals.

    The totals: how many subscriptions there are, which documents match one of them (bits, the first one the
    lowest), how many are refused, and some of those. Too many paths are shortened before they leave.
    """
    import pyarrow as pa

    paths: set[str] = set()
    listed_refusals: RefusalRows = []
    expressions = count = matching_bits = 0
    open_documents = dict(enumerate(documents))
    for table in _chunks(batches):
        facts_found, refusals = _survey_or_refusals(table, namespaces)
        count += len(refusals)
        listed_refusals += refusals[: LISTED_MAX - len(listed_refusals)]
        if facts_found is None:
            continue
        expressions += len(facts_found)
        for row in range(len(facts_found)):
            paths.update(facts_found.covers_of(row))
        if open_documents:
            index = Index(namespaces=namespaces, limits=limits, entities=entities)
            late_refusals = index.add_many(
                _with_row_ids(table), on_refused="report"
            ).to_pylist()  # ordered ones, perhaps
            count += len(late_refusals)
            listed_refusals += _refusal_rows([{**row, "id": facts_found.ids[row["row"]]} for row in late_refusals])[
                : LISTED_MAX - len(listed_refusals)
            ]
            for place in [place for place, document in open_documents.items() if index.match(document)]:
                matching_bits |= 1 << place
                del open_documents[place]
    covers = sorted(set(shorten_paths(sorted(paths)).values()))
    bits = matching_bits.to_bytes((len(documents) + 7) // 8, "little")
    totals = {"cover": None, "expressions": expressions, "wanted": bits, "count": count, "refused": listed_refusals}
    kinds = [pa.string(), pa.int64(), pa.binary(), pa.int64(), _refused_type()]
    schema = pa.schema(list(zip(totals, kinds, strict=True)))
    yield pa.RecordBatch.from_pylist([totals, *({"cover": path} for path in covers)], schema=schema)


def draw_documents(
    batches: Iterator[pa.RecordBatch],
    schemas: Sequence[Schema],
    settings: DocumentSettings,
    seed: int,
    weights: Sequence[float] | None,
) -> Iterator[pa.RecordBatch]:
    """The documents of these numbers, in pieces of a few megabytes."""
    import pyarrow as pa

    following = -1
    source: Iterator[bytes] = iter(())
    for batch in batches:
        numbers = batch.column(0).to_pylist()
        piece: list[bytes] = []
        first = size = 0
        for place, number in enumerate(numbers):
            if number != following:  # usually once a task
                source = generate_documents(schemas, 1 << 62, settings, seed=seed, start=number, weights=weights)
            following = number + 1
            piece.append(next(source))
            size += len(piece[-1])
            if size >= BATCH_BYTES_MAX or place + 1 == len(numbers):
                columns = [pa.array(numbers[first : place + 1], pa.int64()), pa.array(piece, pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["number", "document"])
                piece, first, size = [], place + 1, 0


def draw_queries(
    batches: Iterator[pa.RecordBatch],
    schemas: Sequence[Schema],
    settings: QuerySettings,
    seed: int,
    weights: Sequence[float] | None,
) -> Iterator[pa.RecordBatch]:
    """The queries of these blocks, numbered over all blocks; where they are to be distinct, the first of each."""
    import pyarrow as pa

    repeating = replace(settings, distinct=False)
    for batch in batches:
        for block in batch.column(0).to_pylist():
            own_seed = int.from_bytes(sha256(f"{seed}/{block}".encode()).digest()[:8], "little")
            stream = generate_queries(schemas, BLOCK, repeating, seed=own_seed, weights=weights)
            firsts: dict[str, int] = {}
            queries = list(islice(stream, BLOCK))
            for place, query in enumerate(queries):
                firsts.setdefault(query, place)
            numbered_queries = (
                [(place, query) for query, place in firsts.items()] if settings.distinct else enumerate(queries)
            )
            rows = [(block * BLOCK + place, query) for place, query in numbered_queries]
            columns = [pa.array([n for n, _ in rows], pa.int64()), pa.array([q for _, q in rows], pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "query"])


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in fewer pieces."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _survey_or_refusals(table: pa.Table, namespaces: Mapping[str, str]) -> tuple[Survey | None, RefusalRows]:
    """The facts, or None and what is refused."""
    try:
        return survey(table, namespaces), []
    except QueryError as error:
        refusals = [{"id": None, "code": error.code, "message": str(error)}]
        with suppress(QueryError):  # a column that cannot be read at all
            refusals = Index(namespaces=namespaces).add_many(table, on_refused="report").to_pylist() or refusals
        return None, _refusal_rows(refusals)


def _refusal_rows(rows: list[dict[str, Any]]) -> RefusalRows:
    return [{name: row[name] for name in ("id", "code", "message")} for row in rows]


def _with_row_ids(table: pa.Table) -> pa.Table:
    """With row numbers for ids: the real ones may repeat, and are not needed."""
    import pyarrow as pa

    numbers = pa.array([str(row) for row in range(table.num_rows)], pa.string())
    return table.set_column(table.schema.get_field_index("id"), "id", numbers)


def _pairs_type() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([("pattern", pa.string()), ("literal", pa.string())]))


def _refused_type() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([(name, pa.string()) for name in ("id", "code", "message")]))
