"""How often each subscription matched, beside all subscriptions: for the report, and as a file next to it.

    counts = join_counts(index.subscriptions(), ids, numbers)
    counts.column_names                              # id, query, matches: the most first
    write_counts(counts, Path("results/subscriptions.parquet"))

A stream whose subscriptions changed may have counted some that are gone: their queries are empty.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from treecast import durable
from treecast.report.figures import Figures

SHOWN_MAX = 500
"""Subscriptions that a report shows of those that matched most, and of those that never did."""
COUNTS_FILE = "subscriptions.parquet"


def join_counts(subscriptions: pa.Table, ids: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.Table:
    """Counts by id, beside all subscriptions.

    >>> table = pa.table({"id": ["a", "b"], "query": ["/a", "/b"]})
    >>> join_counts(table, pa.chunked_array([["b", "gone"]]), pa.chunked_array([[2, 1]])).to_pylist()[0]
    {'id': 'b', 'query': '/b', 'matches': 2}
    """
    all_queries = subscriptions.select(["id", "query"])
    places = pc.index_in(all_queries["id"], value_set=ids)
    matches = pc.fill_null(counts.take(places), 0)
    is_stranger = pc.invert(pc.is_in(ids, value_set=all_queries["id"]))
    strangers = pa.table({"id": ids.filter(is_stranger), "matches": counts.filter(is_stranger)})
    strangers = strangers.add_column(1, "query", pa.repeat(pa.scalar("", pa.string()), strangers.num_rows))
    whole = all_queries.append_column("matches", matches.cast(pa.int64()))
    whole = pa.concat_tables([whole, strangers.cast(whole.schema)])
    return whole.sort_by([("matches", "descending"), ("id", "ascending")])


def with_counts(figures: Figures, counts: pa.Table) -> Figures:
    """The figures with the subscriptions that matched most and some that never did, and how many matched how often."""
    buckets: Counter[int] = Counter()
    for row in pc.value_counts(counts["matches"]).to_pylist():
        if row["values"]:
            buckets[row["values"].bit_length() - 1] += row["counts"]  # the logarithm to base 2, exactly
    matched_count = sum(buckets.values())
    top = counts.slice(0, min(matched_count, SHOWN_MAX)).to_pylist()
    unmatched_rows = counts.slice(matched_count, SHOWN_MAX).to_pylist()
    return replace(
        figures,
        buckets=dict(buckets),
        top=tuple((row["id"], row["matches"]) for row in top),
        unmatched=tuple(row["id"] for row in unmatched_rows),
        queries={row["id"]: row["query"] for row in (*top, *unmatched_rows)},
    )


def write_counts(counts: pa.Table, path: Path) -> None:
    """Write all of them as one Parquet file, whole or not at all."""
    import pyarrow.parquet as pq

    with durable.replacing(path) as file:
        pq.write_table(counts, file, compression="zstd")
