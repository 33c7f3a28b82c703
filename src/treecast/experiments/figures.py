"""Single figures of DHT-NFA by their numbers: a part of the points, the findings and the pictures of an experiment.

    >>> from treecast import experiments
    >>> figure = experiments.find("dht-figure-6")
    >>> sorted({point["peers"] for point in figure.points(figure.full)})
    [1000, 2000, 3000, 4000, 5000]

An experiment measures what several figures show, where they have points in common. Who wants one of them only need not
wait for the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.report import Panel

PEERS = 1_000


@dataclass(frozen=True)
class Figure:
    """Which points of an experiment it takes; `most` is the largest number of queries."""

    experiment: str
    takes: Callable[[Point, int], bool]


def _by_queries(point: Point, most: int) -> bool:
    return bool(point["peers"] == PEERS)


FIGURES = {
    "dht-figure-3": Figure("dht-traffic", lambda point, most: _by_queries(point, most) and point["workload"] == "NITF"),
    "dht-figure-4": Figure("dht-states", lambda point, most: bool(point["queries"] == most)),
    "dht-figure-5a": Figure("dht-traffic", _by_queries),
    "dht-figure-5b": Figure("dht-traffic", _by_queries),
    "dht-figure-5c": Figure("dht-states", lambda point, most: point["workload"] in ("NITF", "aggregated")),
    "dht-figure-6": Figure("dht-traffic", lambda point, most: bool(point["queries"] == most)),
    "dht-figure-7a": Figure("dht-load", lambda point, most: point["variant"][2] == 0),
    "dht-figure-7b": Figure("dht-load", lambda point, most: True),
    "dht-figure-7c": Figure("dht-load", lambda point, most: True),
}


def figure_of(experiment: Experiment, name: str) -> Experiment:
    """The part of an experiment that is the figure of this name. Its findings and pictures name their figures."""
    number = name.rpartition("-")[2]
    pattern = re.compile(rf"Figures? [^):]*\b{number}\b")

    def points(sizes: Sizes) -> list[Point]:
        most = max(sizes.queries)
        return [point for point in experiment.points(sizes) if FIGURES[name].takes(point, most)]

    def verdict(rows: Sequence[Row]) -> list[Finding]:
        return [finding for finding in experiment.verdict(rows) if pattern.search(finding.claim)]

    def panels(rows: Sequence[Row]) -> list[Panel]:
        return [panel for panel in experiment.panels(rows) if pattern.search(panel.title)]

    return replace(experiment, name=name, section=f"Figure {number}", points=points, verdict=verdict, panels=panels)
