"""Measures a set of queries on unseen documents, next to lxml, batch by batch.

lxml's parsing and our matching take turns on the same batch, so that other work on the machine disturbs both equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.inputs import as_table
from bench.measure import Report, Seconds, clock, lxml_time, median, parse_all
from treecast import Index

BATCH = 25


@dataclass(frozen=True)
class Sizes:
    """How much is measured: documents before and unseen ones, queries as a share of the full set, warm passes."""

    before: int = 300
    unseen: int = 200
    share: float = 1.0
    passes: int = 5

    @classmethod
    def of(cls, quick: bool) -> Sizes:
        return cls(before=100, unseen=100, share=0.1, passes=3) if quick else cls()

    @property
    def documents(self) -> int:
        return self.before + self.unseen

    def queries(self, full: int) -> int:
        return max(1, int(full * self.share))

    def bar(self, limit: float) -> float | None:
        """Targets were set for the full number of queries."""
        return limit if self.share == 1 else None


def batches(documents: Sequence[bytes]) -> list[list[bytes]]:
    return [list(documents[start : start + BATCH]) for start in range(0, len(documents), BATCH)]


def describe(report: Report, documents: Sequence[bytes]) -> None:
    size = sum(map(len, documents)) / len(documents)
    report.note(f"documents: {len(documents)} of {size / 1000:.1f} KB on average; {BATCH} a call; unseen: one pass")


def measure_unseen(
    report: Report,
    label: str,
    queries: list[str],
    documents: list[bytes],
    sizes: Sizes,
    bar: float | None = None,
    *,
    ordered: bool = False,
) -> Index:
    """Build, match `sizes.before` documents, then the unseen rest (with a target), then the rest again, warm."""
    table = as_table(queries, ordered=ordered)
    index = Index()
    built = clock(lambda: index.add_many(table))
    report.figure(f"{label}: build from an Arrow table", built.cpu, f"s (wall {built.wall:.3g})")
    report.figure(f"{label}: memory", index.stats().bytes / len(queries), "bytes/query")
    for batch in batches(documents[: sizes.before]):
        index.match_many(batch, threads=1)
    unseen = documents[sizes.before :]
    lxml_time(unseen[:BATCH], 1)
    lxml, ours, rows = Seconds(0, 0), Seconds(0, 0), 0
    for batch in batches(unseen):
        lxml += median([clock(lambda batch=batch: parse_all(batch)) for _ in range(3)])  # type: ignore[misc]
        ours += clock(lambda batch=batch: index.match_many(batch, threads=1))  # type: ignore[misc]
        rows += index.match_many(batch, threads=1).num_rows
    matches = rows / len(unseen)
    report.ratio(f"{label}: unseen, after {sizes.before} others", ours, lxml, len(unseen), matches, bar=bar)

    def again() -> None:
        for batch in batches(unseen):
            index.match_many(batch, threads=1)

    warm = median([clock(again) for _ in range(sizes.passes)])
    report.ratio(f"{label}: warm", warm, lxml, len(unseen), matches)
    report.figure(f"{label}: a subscription and document, warm", warm.cpu / len(unseen) / len(queries) * 1e6, "µs")
    report.figure(f"{label}: cache", index.stats().cache_bytes / 1e6, "MB")
    return index
