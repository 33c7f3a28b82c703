"""Figures -> one HTML file: no request, readable in light and dark, on a phone, in print and by a screen reader.

The page has everything without its script, which only hides and reorders rows (`page.js`); a style sheet colours it
(`page.css`). Charts are tables and one inline SVG. Whatever comes from documents, subscriptions or settings is escaped,
and shortened if it is long (`treecast.report.markup`). A content security policy allows this script, by its hash, and
forbids everything else, so even a mistake here could not fetch or run anything.

A part that would say nothing is left out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from treecast import durable
from treecast.report.document_panels import document_panels
from treecast.report.figures import MOMENTS_MIN, Figures, short_number, short_size, short_time, ticks
from treecast.report.markup import common_directory, link, pair, path, section, soft, text
from treecast.report.subscription_table import subscription_table

CURVE_WIDTH, CURVE_HEIGHT, CURVE_LEFT, CURVE_BOTTOM = 960, 220, 64, 26


@cache
def _style() -> str:
    return Path(__file__).with_name("page.css").read_text("utf-8")


@cache
def _script() -> str:
    return Path(__file__).with_name("page.js").read_text("utf-8")


@cache
def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def write_page(figures: Figures, path: str | Path) -> None:
    """Write the report to `path`, whole or not at all."""
    durable.write(Path(path), page(figures).encode())


def page(figures: Figures) -> str:
    """The report as the text of an HTML document."""
    sections = [
        pair(_timeline(figures), _distribution(figures)),
        _throughput(figures),
        subscription_table(figures),
        document_panels(figures),
        "" if figures.details else _slowest(figures),
        _refusals(figures),
        _results(figures),
        pair(_listing("Settings", figures.settings), _listing("Versions", figures.versions)),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>treecast: {text(figures.title)}</title>
<link rel="icon" href="data:,">
<style>{_style()}</style>
</head>
<body>
<main>
<h1>{text(figures.title)}</h1>
<p class="soft">{text(figures.command)}, {text(figures.began)}</p>
{_tiles(figures)}
{"".join(sections)}</main>
<script>{_script()}</script>
</body>
</html>
"""


def _tiles(figures: Figures) -> str:
    each = figures.matches / figures.documents if figures.documents else 0.0
    bad = ' class="bad"' if figures.errors else ""
    share = figures.errors / figures.documents if figures.documents else 0.0
    tiles = [
        (f"{figures.documents:,}", "documents,", short_size(figures.size_bytes)),
        (f"{figures.matches:,}", "matches,", f"{short_number(each)} a document{_payloads(figures)}"),
        (f"{figures.subscriptions_matched:,}", "subscriptions matched", f"of {figures.subscriptions:,}"),
        (
            f"{short_number(figures.documents_per_second)}/s",
            "documents",
            f"in {_seconds(figures.throughput_seconds)}, {short_number(figures.megabytes_per_second)} MB/s",
        ),
        (short_time(figures.busy_nanoseconds), "inside treecast,", "the sum over all documents"),
    ]
    if figures.startup:
        tiles.append((_seconds(figures.startup_seconds), "to start", "which is not part of the rate"))
    if figures.errors or len(tiles) % 2:
        tiles.append((f"<span{bad}>{figures.errors:,}</span>", "refused documents", f"({share:.2%})" if bad else ""))
    items = "".join(
        f'<div class="tile"><b>{value}</b>{name} <span class="soft">{more}</span></div>\n'
        for value, name, more in tiles
    )
    return f'<div class="tiles">\n{items}</div>'


def _payloads(figures: Figures) -> str:
    return "" if figures.payload_bytes is None else f"; {short_size(figures.payload_bytes)} of payloads"


def _seconds(seconds: float) -> str:
    return short_time(round(seconds * 1e9))


def _timeline(figures: Figures) -> str:
    """Where the time went: before the first document, on documents, after the last one."""
    if not figures.startup:
        return ""
    whole = sum(seconds for _, seconds in figures.timeline()) or 1.0
    starts, ends = {what for what, _ in figures.startup}, {what for what, _ in figures.ending}
    bars, items = [], []
    for what, seconds in figures.timeline():
        kind = "start" if what in starts else "end" if what in ends else "work"
        bars.append(f'<span class="{kind}" style="flex:{seconds / whole:.4f}"></span>')
        items.append(f'<li><i class="{kind}"></i>{text(what)} <span class="soft">{_seconds(seconds)}</span></li>')
    body = f'<div class="line" aria-hidden="true">{"".join(bars)}</div><ul class="legend">{"".join(items)}</ul>'
    return section("Where the time went", body)


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    most = max((count for _, count in rows), default=0) or 1
    cells = "".join(
        f'<tr><td class="name">{text(name, 120)}</td><td><span class="bar" style="width:{100 * count / most:.2f}%">'
        f'</span></td><td class="number">{count:,}</td></tr>\n'
        for name, count in rows
    )
    return f'<table class="bars">\n{cells}</table>'


def _distribution(figures: Figures) -> str:
    rows = figures.distribution()
    return section("Subscriptions by number of matches", _bars(rows)) if rows else ""


def _throughput(figures: Figures) -> str:
    """The curve; of a job that was done in a few steps there is none."""
    title = "Documents a second, over time"
    rates = list(figures.rates())
    if len(figures.moments) < MOMENTS_MIN or not rates:
        return ""
    return section(title, _curve(rates))


def _curve(rates: Sequence[tuple[float, float, float]]) -> str:
    end = rates[-1][1]
    most = max(rate for _, _, rate in rates) * 1.08 or 1.0
    width, height = CURVE_WIDTH - CURVE_LEFT - 12, CURVE_HEIGHT - CURVE_BOTTOM - 12

    def x(seconds: float) -> float:
        return CURVE_LEFT + width * seconds / end

    def y(rate: float) -> float:
        return 12 + height * (1 - rate / most)

    points = [f"{x(at):.1f},{y(rate):.1f}" for begin, until, rate in rates for at in (begin, until)]
    area = [f"{x(rates[0][0]):.1f},{y(0):.1f}", *points, f"{x(end):.1f},{y(0):.1f}"]
    grid = "".join(
        f'<line class="grid" x1="{CURVE_LEFT}" x2="{CURVE_WIDTH - 12}" y1="{y(rate):.1f}" y2="{y(rate):.1f}"/>'
        f'<text x="{CURVE_LEFT - 8}" y="{y(rate) + 4:.1f}" text-anchor="end">{short_number(rate)}</text>\n'
        for rate in ticks(most)
    )
    times = "".join(
        f'<text x="{x(at):.1f}" y="{CURVE_HEIGHT - 8}" text-anchor="middle">{short_number(at)} s</text>\n'
        for at in ticks(end, 8)
    )
    range_text = f"between {short_number(min(r for _, _, r in rates))} and {short_number(max(r for _, _, r in rates))}"
    return (
        f'<svg viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" role="img" '
        f'aria-label="Documents a second over {end:,.1f} seconds, {range_text}">\n'
        f'{grid}{times}<polygon class="area" points="{" ".join(area)}"/>\n'
        f'<polyline class="curve" stroke-width="2" points="{" ".join(points)}"/>\n</svg>'
    )


def _rows(heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """A table; the flag of a heading says whether its column holds numbers. The cells are HTML."""
    kinds = [' class="number"' if number else "" for _, number in heads]
    head = "".join(f"<th{kind}>{name}</th>" for kind, (name, _) in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-label="{name}">{cell}</td>'
            for kind, cell, (name, _) in zip(kinds, row, heads, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<table class="rows stack"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'


def _slowest(figures: Figures) -> str:
    if not figures.slowest:
        return ""
    directory = common_directory(one.name for one in figures.slowest)
    where = soft(f"They are in <code>{path(directory)}</code>.") if directory else ""
    heads = [("document", False), ("time", True), ("size", True), ("matches", True)]
    rows = [
        (
            path(one.name.removeprefix(directory)),
            short_time(one.nanoseconds),
            short_size(one.size_bytes),
            f"{one.matches:,}",
        )
        for one in figures.slowest
    ]
    return section("The slowest documents", where + _rows(heads, rows))


def _refusals(figures: Figures) -> str:
    count = figures.errors + figures.refused_deliveries
    if not count:
        return ""
    title = "Refused documents" if figures.payload_bytes is None else "Refused documents and deliveries"
    directory = common_directory(one.name for one in figures.refused)
    codes = ", ".join(f"{count:,} × {text(code)}" for code, count in figures.refused_codes)
    where = f". They are in <code>{path(directory)}</code>." if directory else ""
    more = count - len(figures.refused)
    note = soft(f"… and {more:,} more; all of them are rows of the result.") if more > 0 else ""
    heads = [("document", False), ("reason", False)]
    rows = [(path(one.name.removeprefix(directory)), _message(one.message)) for one in figures.refused]
    return section(title, soft(codes + where) + _rows(heads, rows) + note)


def _message(message: str) -> str:
    """The reason, and below it the hint, if there is one."""
    first, _, rest = message.partition("\n")
    hint = " ".join(line.strip() for line in rest.splitlines())
    return text(first, 300) + (f'<br><span class="soft">{text(hint, 300)}</span>' if hint else "")


def _results(figures: Figures) -> str:
    """Where the results are, with links to what lies beside the page."""
    if not figures.places:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(what)}</th><td>{link(place, figures.directory)}</td></tr>\n'
        for what, place in figures.places
        if what != "report"  # that is this page
    )
    return section("Results", f"<table>\n{rows}</table>")


def _listing(title: str, pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td><code>{path(value, 400)}</code></td></tr>\n' for name, value in pairs
    )
    return section(title, f"<table>\n{rows}</table>")
