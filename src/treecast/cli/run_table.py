"""What came of a job on Spark, as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from treecast.names import printable
from treecast.report.figures import short_number, short_size, short_time

if TYPE_CHECKING:
    from treecast.report import Figures

TOP_SHOWN = 10
REFUSED_SHOWN = 5


def table(figures: Figures) -> Iterator[str]:
    each = figures.matches / figures.documents if figures.documents else 0.0
    size = f"{short_size(figures.size_bytes)}, {short_number(figures.megabytes_per_second)} MB/s"
    rows = [
        ("documents", figures.documents, f"{short_number(figures.documents_per_second)}/s", size),
        (
            "matches",
            figures.matches,
            f"{short_number(figures.matches_per_second)}/s",
            f"{short_number(each)} a document",
        ),
        ("refused", figures.errors, "", ", ".join(f"{count:,} × {code}" for code, count in figures.refused_codes)),
        ("subscriptions", figures.subscriptions, "", f"{figures.subscriptions_matched:,} of them matched"),
    ]
    if figures.payload_bytes is not None:
        size = f"{short_size(figures.payload_bytes)} of payloads"
        rows.insert(2, ("deliveries", figures.matches - figures.refused_deliveries, "", size))
        rows[3] = ("refused", figures.errors + figures.refused_deliveries, *rows[3][2:])
    phases = ", ".join(f"{what} {short_time(round(seconds * 1e9))}" for what, seconds in figures.timeline())
    yield f"{printable(figures.title)}: {phases}"
    for name, count, speed, more in rows:
        yield f"  {name:<14}{count:>14,}  {speed:>10}   {more}".rstrip()
    if figures.top:
        yield "the most wanted:"
        for name, count in figures.top[:TOP_SHOWN]:
            yield f"  {count:>12,}  {printable(name)}"
    if figures.refused:
        yield "refused:"
        for one in figures.refused[:REFUSED_SHOWN]:
            yield f"  {printable(one.name)}: {printable(one.message.splitlines()[0])}"
        hidden = figures.errors + figures.refused_deliveries - REFUSED_SHOWN
        if hidden > 0:
            yield f"  … and {hidden:,} more"
    yield "results:"
    for name, place in figures.places:
        yield f"  {name:<30}{printable(place)}"
