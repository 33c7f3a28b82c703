"""Figures -> a PNG: matches per subscription, their distribution, and the speed over time, for a ticket or a slide."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.report.figures import MOMENTS_MIN, Figures, short_number, short_size, shown

INK, SOFT, ACCENT, LINE = "#1c2430", "#5b6675", "#2b6cb0", "#dfe3e8"
NAME_CHARS_MAX = 36
BARS_MAX = 15


def write_chart(figures: Figures, path: str | Path) -> None:
    """Write the picture to `path`, whole or not at all."""
    durable.write(Path(path), chart(figures))


def chart(figures: Figures) -> bytes:
    """The picture as PNG. No window, no state: a figure of its own, drawn by the Agg backend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.2), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.03, 0.955, plain(shown(figures.title, 80)), fontsize=17, color=INK, weight="bold", va="top")
    figure.text(0.03, 0.905, _headline(figures), fontsize=11, color=SOFT, va="top")
    grid = figure.add_gridspec(2, 2, left=0.235, right=0.97, top=0.81, bottom=0.08, hspace=0.42, wspace=0.25)
    grid.set_width_ratios([1.15, 1])
    _bars(figure.add_subplot(grid[:, 0]), "Matches per subscription", list(figures.top[:BARS_MAX]))
    rates = list(figures.rates()) if len(figures.moments) >= MOMENTS_MIN else []
    right = figure.add_subplot(grid[0, 1] if rates else grid[:, 1])
    _bars(right, "Subscriptions by number of matches", figures.distribution())
    if rates:
        _throughput(figure.add_subplot(grid[1, 1]), rates)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def plain(text: str) -> str:
    """Escape the sign that would start a formula."""
    return text.replace("$", r"\$")


def _headline(figures: Figures) -> str:
    parts = [
        f"{figures.documents:,} documents ({short_size(figures.size_bytes)})",
        f"{figures.matches:,} matches",
        f"{figures.subscriptions_matched:,} of {figures.subscriptions:,} subscriptions matched",
        f"{figures.errors:,} refused",
        f"{short_number(figures.documents_per_second)} documents/s, {short_number(figures.megabytes_per_second)} MB/s",
    ]
    return "   ·   ".join(parts)


def _bare(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, color=INK, pad=10)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, colors=SOFT, labelsize=9)


def _say(axes: Any, text: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0, 0.95, text, transform=axes.transAxes, color=SOFT, fontsize=10, va="top")


def _bars(axes: Any, title: str, rows: list[tuple[str, int]]) -> None:
    _bare(axes, title)
    if not rows:
        _say(axes, "No document matched a subscription.")
        return
    places = range(len(rows))
    most = max(count for _, count in rows) or 1
    axes.barh(places, [count for _, count in rows], color=ACCENT, height=0.66)
    axes.set_yticks(places, [plain(shown(name, NAME_CHARS_MAX)) for name, _ in rows])
    axes.invert_yaxis()
    axes.set_ylim(max(len(rows), 6) - 0.4, -0.6)
    axes.set_xticks([])
    axes.set_xlim(0, most * 1.12)
    for place, (_, count) in zip(places, rows, strict=True):
        axes.text(count + most * 0.012, place, f"{count:,}", va="center", fontsize=9, color=SOFT)


def _throughput(axes: Any, rates: list[tuple[float, float, float]]) -> None:
    _bare(axes, "Documents a second, over time")
    seconds = [at for begin, until, _ in rates for at in (begin, until)]
    values = [rate for _, _, rate in rates for _ in range(2)]
    axes.fill_between(seconds, values, color=ACCENT, alpha=0.2, linewidth=0)
    axes.plot(seconds, values, color=ACCENT, linewidth=1.8)
    axes.set_ylim(0, max(values) * 1.1 or 1)
    axes.set_xlim(0, seconds[-1])
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.xaxis.set_major_formatter(lambda value, _: f"{short_number(value)} s")
