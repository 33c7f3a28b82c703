"""From rows to answers: ratios, fits by least squares, and pairs of thresholds with an undecided band between them.

    >>> from treecast.experiments import rules
    >>> rules.at_least(12.0, agree=5, differs=2), rules.at_least(3.0, agree=5, differs=2)
    ('agree', 'inconclusive')
    >>> rules.between(40.0, 5, 20, slack=1.5), rules.between(24.0, 5, 20, slack=1.5)
    ('differs', 'inconclusive')
    >>> round(rules.slope([(1, 3), (10, 30), (100, 300)]) or 0, 3)
    1.0

A missing value (None) is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from treecast.experiments.experiment import Answer, Row

Pair = tuple[float, float]


def at_least(value: float | None, *, agree: float, differs: float) -> Answer:
    """agree from `agree` up, differs below `differs`."""
    if value is None or math.isnan(value):
        return "inconclusive"
    return "agree" if value >= agree else "differs" if value < differs else "inconclusive"


def at_most(value: float | None, *, agree: float, differs: float) -> Answer:
    """agree up to `agree`, differs above `differs`."""
    if value is None or math.isnan(value):
        return "inconclusive"
    return "agree" if value <= agree else "differs" if value > differs else "inconclusive"


def between(value: float | None, low: float, high: float, *, slack: float) -> Answer:
    """agree from `low` to `high`, differs beyond `low` / slack and `high` * slack."""
    if value is None or math.isnan(value):
        return "inconclusive"
    if low <= value <= high:
        return "agree"
    return "differs" if value < low / slack or value > high * slack else "inconclusive"


def slope(pairs: Iterable[Pair]) -> float | None:
    """By least squares on logarithms: 1 where the second grows in proportion to the first, 0 where it does not."""
    logs = [(math.log(x), math.log(y)) for x, y in pairs if x > 0 and y > 0]
    fit = line(logs)
    return None if fit is None else fit.rise


@dataclass(frozen=True)
class Line:
    """y = base + rise * x, and which share of the variance that explains (R squared)."""

    base: float
    rise: float
    explained: float


def line(pairs: Iterable[Pair]) -> Line | None:
    """The line of least squares; None with fewer than two different x."""
    points = list(pairs)
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    variance_x = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / variance_x
    base = mean_y - rise * mean_x
    total = sum((y - mean_y) ** 2 for _, y in points)
    residual = sum((y - base - rise * x) ** 2 for x, y in points)
    return Line(base, rise, 1 - residual / total if total else 1.0)


def pick(rows: Sequence[Row], **labels: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in labels.items())]


def pairs(rows: Sequence[Row], x: str, y: str = "us", **labels: Any) -> list[Pair]:
    """(x, y) of the rows that have these values, by x."""
    return sorted((float(row[x]), float(row[y])) for row in pick(rows, **labels))


def value(rows: Sequence[Row], y: str = "us", **labels: Any) -> float | None:
    """The figure of the one row that has these values; None where there is no such row."""
    matching_rows = pick(rows, **labels)
    return float(matching_rows[0][y]) if matching_rows else None


def ratio(rows: Sequence[Row], over: str, under: str, key: str = "engine", y: str = "us", **at: Any) -> float | None:
    """How many times as long one engine (or another value of `key`) takes as the other, all else equal."""
    first, second = value(rows, y, **{key: over}, **at), value(rows, y, **{key: under}, **at)
    return None if first is None or not second else first / second


def distinct(rows: Sequence[Row], column: str) -> list[Any]:
    """The distinct values of a column, in the order of the rows."""
    return list(dict.fromkeys(row[column] for row in rows))


def extreme(values: Iterable[tuple[Any, float | None]], choose: Callable[..., Any]) -> tuple[Any, float] | None:
    """The least or greatest of labelled figures, with its label; None if there are none."""
    known_figures = [(label, figure) for label, figure in values if figure is not None]
    return choose(known_figures, key=lambda item: item[1]) if known_figures else None


def times(figure: float | None) -> str:
    """12x, 3.4x, 0.61x; a dash where nothing was measured."""
    if figure is None:
        return "—"
    return f"{figure:,.0f}x" if figure >= 10 else f"{figure:.1f}x" if figure >= 1 else f"{figure:.2f}x"


def figure(number: float | None, digits: int = 2) -> str:
    return "—" if number is None else f"{number:.{digits}f}"
