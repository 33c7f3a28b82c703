"""Rows -> panels: one line or bar for each engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treecast.experiments.experiment import Row
from treecast.experiments.rules import distinct, pairs, value
from treecast.report import Panel, Series


def lines(
    rows: Sequence[Row],
    title: str,
    x: tuple[str, str],
    y: tuple[str, str] = ("us", "CPU µs per document"),
    *,
    key: str = "engine",
    log_x: bool = False,
    log_y: bool = True,
    **wanted: Any,
) -> Panel:
    """y over x, a line for each value of `key`; x and y are (column, label)."""
    series = []
    for name in distinct(rows, key):
        points = pairs(rows, x[0], y[0], **{key: name}, **wanted)
        if points:
            series.append(Series(str(name), [at for at, _ in points], [figure for _, figure in points]))
    return Panel(title, x[1], y[1], series, log_x=log_x, log_y=log_y)


def bars(
    rows: Sequence[Row],
    title: str,
    x: tuple[str, str],
    y: tuple[str, str] = ("us", "CPU µs per document"),
    *,
    key: str = "engine",
    log_y: bool = True,
) -> Panel:
    """A group of bars for each x, one bar for each value of `key`."""
    groups = distinct(rows, x[0])
    series = [
        Series(str(name), groups, [value(rows, y[0], **{key: name, x[0]: group}) or 0.0 for group in groups])
        for name in distinct(rows, key)
    ]
    return Panel(title, x[1], y[1], series, kind="bars", log_y=log_y)
