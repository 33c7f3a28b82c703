"""Figures -> one HTML file: no script, no request, readable in light and dark, in print and by a screen reader.

Charts are tables and one inline SVG, coloured by the style sheet. Whatever comes from documents, subscriptions or
settings is escaped, and shortened if it is long. A content security policy forbids everything, so even a mistake here
could not fetch or run anything.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from treecast import durable
from treecast.report.figures import Figures, short_number, short_size, short_time, shown, ticks

CURVE_WIDTH, CURVE_HEIGHT, CURVE_LEFT, CURVE_BOTTOM = 960, 220, 64, 26
MOMENTS_MIN = 4
TOO_SHORT = "Done in too few steps to draw a curve."

STYLE = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #fff; --text: #1c2430; --soft: #5b6675; --line: #dfe3e8;
  --accent: #2b6cb0; --fill: #cfe0f3; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --card: #1b212a; --text: #e6e9ee; --soft: #9aa5b4;
  --line: #2d3642; --accent: #7fb2ec; --fill: #2a4a6e; --bad: #ff9a91; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 56px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 12px; }
p { margin: 4px 0; } .soft { color: var(--soft); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: 12px; margin: 22px 0 16px; }
@media (max-width: 640px) { .tiles { grid-template-columns: repeat(2, 1fr); } }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 14px 16px; overflow-wrap: anywhere; }
.tile b { display: block; font-size: 25px; line-height: 1.2; font-weight: 650; }
section { padding: 18px 20px; margin: 16px 0; }
.pair { display: grid; grid-template-columns: 3fr 2fr; gap: 16px; } .pair section { margin: 0; min-width: 0; }
@media (max-width: 800px) { .pair { grid-template-columns: 1fr; } }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: var(--soft); padding-bottom: 6px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; }
th, td { padding: 4px 14px 4px 0; vertical-align: top; overflow-wrap: anywhere; }
.rows td, .rows th { border-top: 1px solid var(--line); } .rows thead th { border-top: 0; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.bars td { padding: 2px 10px 2px 0; vertical-align: middle; line-height: 1.35; }
.bars .name { width: 45%; } .few .name { width: 1%; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bars .number { width: 1%; padding-right: 0; }
.bar { display: block; height: 13px; min-width: 1px; border-radius: 3px; background: var(--accent); }
th[scope] { width: 1%; white-space: nowrap; }
code { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12.5px; }
svg .grid { stroke: var(--line); } svg .area { fill: var(--fill); } svg .curve { stroke: var(--accent); fill: none; }
@media print { body { background: none; } section, .tile { break-inside: avoid; } }
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_page(figures: Figures, path: str | Path) -> None:
    """Write the report to `path`, whole or not at all."""
    durable.write(Path(path), page(figures).encode())


def page(figures: Figures) -> str:
    """The report as the text of an HTML document."""
    sections = [
        _pair(_top(figures), _distribution(figures)),
        _throughput(figures),
        _slowest(figures),
        _refused(figures),
        _listing("Where the results are", figures.places),
        _pair(_listing("Settings", figures.settings), _listing("Versions", figures.versions)),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>treecast: {_text(figures.title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{_text(figures.title)}</h1>
<p class="soft">treecast run, {_text(figures.began)}</p>
{_tiles(figures)}
{"".join(sections)}</main>
</body>
</html>
"""


def _text(text: str, chars_max: int = 200) -> str:
    return html.escape(shown(text, chars_max))


def _tiles(figures: Figures) -> str:
    each = figures.matches / figures.documents if figures.documents else 0.0
    bad = ' class="bad"' if figures.errors else ""
    share = figures.errors / figures.documents if figures.documents else 0.0
    tiles = [
        (f"{figures.documents:,}", "documents,", short_size(figures.size_bytes)),
        (f"{figures.matches:,}", "matches,", f"{short_number(each)} a document{_payloads(figures)}"),
        (f"{figures.subscriptions_matched:,}", "subscriptions matched", f"of {figures.subscriptions:,}"),
        (f"<span{bad}>{figures.errors:,}</span>", "refused documents", f"({share:.2%})" if figures.errors else ""),
        (
            f"{short_number(figures.documents_per_second)}/s",
            "documents",
            f"in {figures.seconds:,.1f} s, {_megabytes(figures)}",
        ),
        (short_time(figures.busy_nanoseconds), f"of {figures.work}", "in all"),
    ]
    items = "".join(
        f'<div class="tile"><b>{value}</b>{name} <span class="soft">{more}</span></div>\n'
        for value, name, more in tiles
    )
    return f'<div class="tiles">\n{items}</div>'


def _payloads(figures: Figures) -> str:
    return "" if figures.payload_bytes is None else f"; {short_size(figures.payload_bytes)} of payloads"


def _megabytes(figures: Figures) -> str:
    return f"{short_number(figures.megabytes_per_second)} MB/s"


def _pair(left: str, right: str) -> str:
    return f'<div class="pair">\n{left}{right}</div>\n' if left and right else left or right


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{html.escape(title)}</h2>\n{body}\n</section>\n"


def _bars(rows: Sequence[tuple[str, int]], kind: str) -> str:
    most = max((count for _, count in rows), default=0) or 1
    lines = "".join(
        f'<tr><td class="name">{_text(name, 120)}</td><td><span class="bar" style="width:{100 * count / most:.2f}%">'
        f'</span></td><td class="number">{count:,}</td></tr>\n'
        for name, count in rows
    )
    return f'<table class="{kind}">\n{lines}</table>'


def _top(figures: Figures) -> str:
    if not figures.top:
        return _section("Matches per subscription", '<p class="soft">No document matched a subscription.</p>')
    rest = figures.subscriptions_matched - len(figures.top)
    note = f'<p class="soft">… and {rest:,} more that matched.</p>' if rest > 0 else ""
    return _section("Matches per subscription, the most first", _bars(figures.top, "bars") + note)


def _distribution(figures: Figures) -> str:
    rows = figures.distribution()
    if not rows:
        return ""
    return _section("Subscriptions by number of matches", _bars(rows, "bars few"))


def _throughput(figures: Figures) -> str:
    title = "Documents a second, over time"
    rates = list(figures.rates())
    if len(figures.moments) < MOMENTS_MIN or not rates:
        return _section(title, f'<p class="soft">{TOO_SHORT}</p>')
    return _section(title, _curve(rates))


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
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="rows"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
    )


def _slowest(figures: Figures) -> str:
    if not figures.slowest:
        return ""
    heads = [("document", False), ("time", True), ("size", True), ("matches", True)]
    rows = [
        (_text(one.name), short_time(one.nanoseconds), short_size(one.size_bytes), f"{one.matches:,}")
        for one in figures.slowest
    ]
    return _section("The slowest documents", _rows(heads, rows))


def _refused(figures: Figures) -> str:
    title = "Refused documents" if figures.payload_bytes is None else "Refused documents and deliveries"
    count = figures.errors + figures.refused_deliveries
    if not count:
        return _section(title, '<p class="soft">None: every document could be read.</p>')
    codes = ", ".join(f"{count:,} × {_text(code)}" for code, count in figures.refused_codes)
    more = count - len(figures.refused)
    note = f'<p class="soft">… and {more:,} more; all of them are rows of the result.</p>' if more > 0 else ""
    heads = [("document", False), ("reason", False)]
    rows = [(_text(one.name), _text(one.message, 300)) for one in figures.refused]
    return _section(title, f'<p class="soft">{codes}</p>' + _rows(heads, rows) + note)


def _listing(title: str, pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    lines = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td><code>{_text(value, 400)}</code></td></tr>\n'
        for name, value in pairs
    )
    return _section(title, f"<table>\n{lines}</table>")
