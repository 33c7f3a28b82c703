"""Panels -> a PNG: how figures grow, engine by engine, or how they compare; for experiments.

A panel is lines (logarithmic axes if asked for), bars side by side, or bars on top of each other:

    >>> from treecast.report.panels import Panel, Series, draw_panels
    >>> panel = Panel("Time", "queries", "µs", (Series("yfilter", (1, 10), (2, 5)),), log_x=True, log_y=True)
    >>> draw_panels("An experiment", "agree", [panel])[:4]
    b'\\x89PNG'
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treecast.report.chart import INK, LINE, SOFT, plain
from treecast.report.figures import short_number

COLOURS = ("#2b6cb0", "#c2410c", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be123c", "#4d7c0f")
MARKERS = "osD^vPX*"
SUBTITLE_CHARS_MAX = 160
NAMES_CHARS_MAX = 40  # below an axis, side by side
TICKS_APART = 0.07  # of the axis
NARROW = 40


@dataclass(frozen=True)
class Series:
    """One engine, say: its name, and y over x. x may be names where the panel shows bars."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One diagram. Bars take the x of the first series; all series have the same."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    kind: Literal["lines", "bars", "stacked"] = "lines"
    log_x: bool = False
    log_y: bool = False


def write_panels(title: str, subtitle: str, panels: Sequence[Panel], path: str | Path) -> None:
    """Write the picture to `path`, whole or not at all."""
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(draw_panels(title, subtitle, panels))
    part.replace(target)


def draw_panels(title: str, subtitle: str, panels: Sequence[Panel]) -> bytes:
    """The picture as PNG, the panels beside each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = max(7.0, 5.6 * len(panels))
    figure = Figure(figsize=(width, 5.0), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    left = 0.55 / width
    figure.text(left, 0.96, plain(title), fontsize=14, color=INK, weight="bold", va="top")
    figure.text(left, 0.9, plain(subtitle[:SUBTITLE_CHARS_MAX]), fontsize=9.5, color=SOFT, va="top")
    grid = figure.add_gridspec(
        1, len(panels), left=0.85 / width, right=1 - 0.25 / width, top=0.77, bottom=0.17, wspace=0.28
    )
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(grid[0, place])
        _frame(axes, panel)
        if panel.kind == "lines":
            _lines(axes, panel)
        else:
            _bars(axes, panel, stacked=panel.kind == "stacked")
        if panel.kind == "lines":
            axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
        elif len(panel.series) > 1:  # above the bars, where nothing is covered
            _legend_above(axes, len(panel.series))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _legend_above(axes: Any, columns: int) -> None:
    axes.legend(
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        loc="lower right",
        bbox_to_anchor=(1.0, 0.985),
        ncols=columns,
        columnspacing=1.0,
        handlelength=1.2,
    )


def _frame(axes: Any, panel: Panel) -> None:
    axes.set_title(plain(panel.title), loc="left", fontsize=11, color=INK, pad=10)
    axes.set_xlabel(plain(panel.x), fontsize=9.5, color=SOFT)
    axes.set_ylabel(plain(panel.y), fontsize=9.5, color=SOFT)
    for name, side in axes.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color(LINE)
    axes.tick_params(colors=SOFT, labelsize=8.5, which="both")
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    if panel.log_y:
        axes.set_yscale("log")
        figures = [y for series in panel.series for y in series.y if y > 0]
        narrow = bool(figures) and max(figures) < NARROW * min(figures)  # then powers of ten alone say too little
        axes.yaxis.set_minor_formatter(
            lambda value, _: short_number(value) if narrow and f"{value:e}"[0] in "235" else ""
        )
    if panel.log_x:
        axes.set_xscale("log")


def _lines(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import NullFormatter

    for place, series in enumerate(panel.series):
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        axes.plot(
            series.x, series.y, color=colour, marker=marker, markersize=4.5, linewidth=1.7, label=plain(series.name)
        )
    if not panel.log_y:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    ticks = _apart(sorted({x for series in panel.series for x in series.x}), panel.log_x)
    axes.set_xticks(ticks)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: _tick(value))


def _apart(ticks: list[float], log: bool) -> list[float]:
    """Of the places that were measured those whose labels do not run into each other, from the last one down."""
    places = [math.log(tick) for tick in ticks] if log else ticks
    kept: list[int] = []
    for number in range(len(ticks) - 1, -1, -1):
        if not kept or places[kept[-1]] - places[number] >= TICKS_APART * (places[-1] - places[0]):
            kept.append(number)
    return [ticks[number] for number in reversed(kept)]


def _tick(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.3g}k"
    return f"{value:.3g}"


def _bars(axes: Any, panel: Panel, *, stacked: bool) -> None:
    names = [plain(str(x)) for x in panel.series[0].x] if panel.series else []
    places = list(range(len(names)))
    count = max(1, len(panel.series))
    width = 0.62 if stacked else 0.8 / count
    bottoms = [0.0] * len(names)
    for number, series in enumerate(panel.series):
        colour = COLOURS[number % len(COLOURS)]
        if stacked:
            axes.bar(places, series.y, width, bottom=bottoms, color=colour, label=plain(series.name))
            bottoms = [below + y for below, y in zip(bottoms, series.y, strict=True)]
        else:
            shift = (number - (count - 1) / 2) * width
            axes.bar([place + shift for place in places], series.y, width, color=colour, label=plain(series.name))
    aslant = {"rotation": 25, "ha": "right", "rotation_mode": "anchor"} if len("".join(names)) > NAMES_CHARS_MAX else {}
    axes.set_xticks(places, names, **aslant)
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    if stacked and bottoms:
        axes.set_ylim(0, max(bottoms) or 1)
