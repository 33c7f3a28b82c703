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

from treecast import durable
from treecast.report.chart import INK, LINE, SOFT, plain
from treecast.report.figures import short_number

COLOURS = ("#2b6cb0", "#c2410c", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be123c", "#4d7c0f")
MARKERS = "osD^vPX*"
SUBTITLE_CHARS_MAX = 160
NAMES_CHARS_MAX = 40  # below an axis, side by side
TICKS_APART = 0.07  # of the axis
NARROW = 40
COLUMNS_MAX = 3  # panels beside each other
PANEL_INCHES, AXES_INCHES = 5.6, 3.0  # how wide a panel is, and how high its axes
HEAD_INCHES, GAP_INCHES = 1.0, 1.4  # title and subtitle; the titles and labels between two rows
LEFT_INCHES = 1.05  # the labels beside the axes
INSIDE_MAX = 4  # names of lines inside the axes; more would cover them, and stand below
LEGEND_COLUMNS, LEGEND_INCHES = 3, 0.21  # below the axes: names beside each other, and the height of a line of them


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
    durable.write(Path(path), draw_panels(title, subtitle, panels))


def draw_panels(title: str, subtitle: str, panels: Sequence[Panel]) -> bytes:
    """The picture as PNG, up to three panels beside each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(panels), COLUMNS_MAX)
    rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    below = [LEGEND_INCHES * max(_legend_lines(panel) for panel in row) for row in rows]
    width = max(7.0, PANEL_INCHES * columns)
    height = HEAD_INCHES + len(rows) * (AXES_INCHES + GAP_INCHES) + sum(below)
    figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    left = 0.55 / width
    figure.text(left, 1 - 0.2 / height, plain(title), fontsize=14, color=INK, weight="bold", va="top")
    figure.text(left, 1 - 0.5 / height, plain(subtitle[:SUBTITLE_CHARS_MAX]), fontsize=9.5, color=SOFT, va="top")
    top = height - HEAD_INCHES
    for row, legend in zip(rows, below, strict=True):
        for place, panel in enumerate(row):
            each = (width - 0.15) / columns
            corner = (place * each + LEFT_INCHES, top - 0.4 - AXES_INCHES)
            sides = (corner[0] / width, corner[1] / height, (each - LEFT_INCHES - 0.1) / width, AXES_INCHES / height)
            _draw(figure.add_axes(sides), panel)
        top -= AXES_INCHES + GAP_INCHES + legend
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _legend_lines(panel: Panel) -> int:
    """How many lines of names stand below the axes."""
    if panel.kind != "lines" or len(panel.series) <= INSIDE_MAX:
        return 0
    return -(-len(panel.series) // LEGEND_COLUMNS)


def _draw(axes: Any, panel: Panel) -> None:
    _frame(axes, panel)
    if panel.kind != "lines":
        _bars(axes, panel, stacked=panel.kind == "stacked")
        if len(panel.series) > 1:  # above the bars, where nothing is covered
            _legend_above(axes, len(panel.series))
        return
    _lines(axes, panel)
    names = {"frameon": False, "fontsize": 8.5, "labelcolor": INK}
    if _legend_lines(panel):
        corner = (-0.02, -0.52 / AXES_INCHES)
        axes.legend(**names, loc="upper left", bbox_to_anchor=corner, ncols=LEGEND_COLUMNS, columnspacing=1.2)
    else:
        axes.legend(**names)


def _legend_above(axes: Any, columns: int) -> None:
    axes.legend(
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        loc="lower left",
        bbox_to_anchor=(-0.02, 0.985),
        ncols=columns,
        columnspacing=1.0,
        handlelength=1.2,
    )


def _frame(axes: Any, panel: Panel) -> None:
    pad = 26 if panel.kind != "lines" and len(panel.series) > 1 else 10  # points; names stand between bars and title
    axes.set_title(plain(panel.title), loc="left", fontsize=11, color=INK, pad=pad)
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
    tick_numbers: list[int] = []
    for number in range(len(ticks) - 1, -1, -1):
        if not tick_numbers or places[tick_numbers[-1]] - places[number] >= TICKS_APART * (places[-1] - places[0]):
            tick_numbers.append(number)
    return [ticks[number] for number in reversed(tick_numbers)]


def _tick(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
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
