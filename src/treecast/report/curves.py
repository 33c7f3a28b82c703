"""Curves -> a PNG: cost over size, on two logarithmic axes.

from treecast.report.curves import Curve, write_curves
write_curves([Curve("ours", [(1000, 12.5), (10_000, 14.1)])], "speed.png", title="Speed", x="queries", y="µs")
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treecast import durable
from treecast.report.chart import INK, LINE, SOFT, plain
from treecast.report.figures import short_number, shown

COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b7791f", "#d53f8c", "#319795", "#4a5568", "#9b2c2c", "#5a67d8")
MARKERS = "osD^vPXp"


@dataclass(frozen=True)
class Curve:
    """A named line. `dashed` marks a peer; the points whose positions are in `hollow` are computed, not measured."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    hollow: frozenset[int] = field(default_factory=frozenset)


def write_curves(
    curves: Sequence[Curve],
    path: str | Path,
    *,
    title: str,
    subtitle: str = "",
    x: str,
    y: str,
    footnote: str = "",
    logarithmic: bool = True,
) -> None:
    """Write the picture to `path`, whole or not at all. `logarithmic=False` draws plain axes that begin at 0."""
    durable.write(Path(path), draw_curves(curves, title, subtitle, x, y, footnote, logarithmic))


def draw_curves(
    curves: Sequence[Curve], title: str, subtitle: str, x: str, y: str, footnote: str, logarithmic: bool
) -> bytes:
    """The picture as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.03, 0.965, plain(shown(title, 90)), fontsize=15, color=INK, weight="bold", va="top")
    figure.text(0.03, 0.91, plain(shown(subtitle, 150)), fontsize=9.5, color=SOFT, va="top")
    figure.text(0.03, 0.015, plain(shown(footnote, 170)), fontsize=8.5, color=SOFT)
    axes = figure.add_axes((0.09, 0.13, 0.70, 0.71))
    ends = []
    for place, curve in enumerate(curve for curve in curves if curve.points):
        ends.append((curve.points[-1], curve.name, _draw(axes, curve, place)))
    _frame(axes, [curve for curve in curves if curve.points], x, y, logarithmic)
    _label_ends(axes, ends)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw(axes: Any, curve: Curve, place: int) -> str:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    across, up = [point[0] for point in curve.points], [point[1] for point in curve.points]
    axes.plot(across, up, color=colour, linewidth=1.8, linestyle="--" if curve.dashed else "-", zorder=2)
    for number, point in enumerate(curve.points):
        face = "white" if number in curve.hollow else colour
        axes.plot(*point, marker=marker, markersize=6, markerfacecolor=face, markeredgecolor=colour, zorder=3)
    return colour


def _frame(axes: Any, curves: Sequence[Curve], x: str, y: str, logarithmic: bool) -> None:
    values = sorted({point[0] for curve in curves for point in curve.points})
    if logarithmic and values:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(values[0] / 1.3, values[-1] * 1.3)
        axes.minorticks_off()
    else:
        axes.set_ylim(bottom=0)
    if len(values) <= 8:
        axes.set_xticks(values)
    axes.set_xlabel(x, color=SOFT, fontsize=10)
    axes.set_ylabel(y, color=SOFT, fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=SOFT, labelsize=9)
    for side in axes.spines.values():
        side.set_color(LINE)


def _label_ends(axes: Any, ends: list[tuple[tuple[float, float], str, str]]) -> None:
    """Names at the ends of the lines, moved apart where they would overlap."""
    places = sorted(
        (axes.transAxes.inverted().transform(axes.transData.transform(point))[1], name, colour)
        for point, name, colour in ends
    )
    lowest = -1.0
    for height, name, colour in places:
        lowest = max(height, lowest + 0.042)
        axes.text(
            1.015, lowest, plain(shown(name, 40)), transform=axes.transAxes, color=colour, fontsize=9.5, va="center"
        )
