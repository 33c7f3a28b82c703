"""Rows -> a table for people, at most 120 columns wide, and CSV with every figure on both clocks."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence

from treecast.measure.cell import Cell
from treecast.measure.seconds import Seconds
from treecast.measure.suite import Row, cell_of

WIDTH_MAX = 120
TIMES = ("first", "unseen", "warm", "parse", "match", "emit", "lxml_parse")
HEADINGS = (
    "engine", "build s", "B/q", "RSS/q", "first", "unseen", "warm", "parse", "match", "emit", "docs/s",
    "matches", "x parse", "lxml x",
)  # fmt: skip
LEGEND = (
    "µs of CPU time a document; B/q: a query by the index's count, RSS/q: by growth of the process; docs/s: unseen,",
    "in a CPU second; x parse: unseen, in units of what lxml takes to parse; lxml x: how many times as long lxml takes",
)


def number(value: float) -> str:
    """Two or three significant digits, in at most six characters up to a billion; - for nothing.

    >>> [number(value) for value in (0, 0.0123, 0.1234, 4.56, 12.34, 99_999.9, 123_456, 1.5e6, 123_456_789)]
    ['-', '0.012', '0.12', '4.6', '12', '99,999', '123k', '1.5M', '123M']
    """
    if value <= 0:
        return "-"
    for unit, letter in ((1e6, "M"), (1e5, "k")):
        if value >= unit:
            return number(value / (1e6 if letter == "M" else 1e3)) + letter
    return f"{int(value):,}" if value >= 10 else f"{value:.2g}"


def table(rows: Sequence[Row]) -> str:
    """One table per workload: a part for each number of queries, with notes below."""
    lines: list[str] = []
    sizes = sorted({row.cell.queries for row in rows})
    figures = {size: [_figures(row, rows) for row in rows if row.cell.queries == size] for size in sizes}
    all_lines = [line for part in figures.values() for line in part]
    widths = [max(len(line[place]) for line in [HEADINGS, *all_lines]) for place in range(len(HEADINGS))]
    lines.append(_line(HEADINGS, widths))
    for size in sizes:
        lines.append(f"{size:,} {'query' if size == 1 else 'queries'}")
        lines += [_line(line, widths) for line in figures[size]]
    note_lines = [textwrap.fill(note, WIDTH_MAX, initial_indent="  ", subsequent_indent="    ") for note in notes(rows)]
    return "\n".join([*lines, *note_lines])


def _figures(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    cell = row.cell
    name = f"  {cell.engine}{' !!!' if row.wrong else ''}"
    if cell.failure:
        return (name, *["-"] * (len(HEADINGS) - 1))
    mark = "~" if cell.extrapolated else ""
    times = [number(getattr(cell, time).cpu * 1e6) for time in TIMES[:-1]]
    scaled_times = [
        text if text == "-" or time == "parse" else mark + text for time, text in zip(TIMES, times, strict=False)
    ]
    query_count = max(1, cell.taken)
    values = [number(cell.build.cpu), number(cell.index_bytes / query_count), number(cell.memory_bytes / query_count)]
    return (
        name,
        *[value if value == "-" or place == 1 else mark + value for place, value in enumerate(values)],
        *scaled_times,
        mark + number(_rate(cell.unseen.cpu)),
        mark + number(cell.matches),
        mark * (cell.lxml_parse.cpu > 0) + number(_ratio(cell.unseen, cell.lxml_parse)),
        _against_lxml(cell, rows),
    )


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        text.ljust(width) if not place else text.rjust(width)
        for place, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
    return " ".join(cells).rstrip()


def _rate(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else 0.0


def _ratio(ours: Seconds, theirs: Seconds) -> float:
    return ours.cpu / theirs.cpu if theirs.cpu > 0 else 0.0


def _against_lxml(cell: Cell, rows: Sequence[Row]) -> str:
    lxml = cell_of(rows, "lxml", cell.queries)
    if lxml is None or cell.engine == "lxml":
        return "-"
    return ("~" if lxml.extrapolated or cell.extrapolated else "") + number(_ratio(lxml.unseen, cell.unseen))


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """Notes on the figures: wrong answers first, then what failed, was left out or scaled up."""
    for row in rows:
        if row.wrong:
            yield (
                f"!!! WRONG ANSWERS: {_place(row)}: {row.wrong:,} pairs of document and query differ from auto's: "
                + "; ".join(row.examples)[:300]
            )
    for row in rows:
        if row.cell.failure:
            yield f"no figures: {_place(row)}: {row.cell.failure}"
        elif row.cell.refused:
            why = f" ({row.cell.notes[0].strip()[:120]} …)" if row.cell.notes else ""
            yield f"left out: {_place(row)}: {row.cell.refused:,} that it does not take{why}"
    if any(row.cell.extrapolated for row in rows):
        samples = "; ".join(f"{_place(row)}: {row.cell.sampled:,}" for row in rows if row.cell.extrapolated)
        yield f"~ scaled up from a sample of the queries, in proportion: {samples}"
    shortened_runs = [f"{_place(row)}: {row.cell.documents:,}" for row in rows if row.cell.documents < row.cell.offered]
    if shortened_runs:
        yield f"fewer documents than there are, for want of time: {'; '.join(shortened_runs)}"
    yield from sorted({note for row in rows for note in row.cell.notes if not row.cell.refused})


def _place(row: Row) -> str:
    return f"{row.cell.engine}, {row.cell.queries:,} queries"


# CSV.


def csv_text(rows: Sequence[Row], about: Sequence[str]) -> str:
    """Comment lines that begin with #, a header, and one line a cell."""
    out = io.StringIO()
    for line in about:
        out.write(f"# {line}\n")
    records = [record(row, rows) for row in rows]
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def record(row: Row, rows: Sequence[Row]) -> dict[str, object]:
    """One line of the CSV; times of documents in µs. What was not measured is empty."""
    cell = row.cell
    lxml = cell_of(rows, "lxml", cell.queries)
    query_count = max(1, cell.taken)
    times = {
        f"{name}_us_{kind}": _full(getattr(getattr(cell, name), kind) * 1e6)
        for name in TIMES
        for kind in ("cpu", "wall")
    }
    return {
        "workload": row.workload,
        "engine": cell.engine,
        "peer": _yes(row.peer),
        "queries": cell.queries,
        "refused": cell.refused,
        "sampled": cell.sampled,
        "extrapolated": _yes(cell.extrapolated),
        "documents": cell.documents,
        "documents_offered": cell.offered,
        "document_bytes": _full(cell.document_bytes),
        "matches_per_document": "" if cell.failure else f"{cell.matches:.6g}",
        "build_s_cpu": _full(cell.build.cpu),
        "build_s_wall": _full(cell.build.wall),
        "index_bytes": cell.index_bytes or "",
        "index_bytes_per_query": _full(cell.index_bytes / query_count),
        "memory_bytes": cell.memory_bytes or "",
        "memory_bytes_per_query": _full(cell.memory_bytes / query_count),
        "cache_bytes": cell.cache_bytes or "",
        **times,
        "unseen_documents_per_cpu_s": _full(_rate(cell.unseen.cpu)),
        "unseen_documents_per_s": _full(_rate(cell.unseen.wall)),
        "warm_documents_per_cpu_s": _full(_rate(cell.warm.cpu)),
        "unseen_per_lxml_parse": _full(_ratio(cell.unseen, cell.lxml_parse)),
        "warm_per_lxml_parse": _full(_ratio(cell.warm, cell.lxml_parse)),
        "lxml_per_unseen": _full(_ratio(lxml.unseen, cell.unseen)) if lxml else "",
        "lxml_extrapolated": _yes(lxml.extrapolated) if lxml else "",
        "wrong_answers": row.wrong,
        "failure": cell.failure,
        "notes": "; ".join(cell.notes),
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _full(value: float) -> str:
    return f"{value:.6g}" if value > 0 else ""
