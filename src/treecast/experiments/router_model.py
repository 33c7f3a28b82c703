"""The performance of a cluster of routers, computed from the cost of one: XTrie's Figure 7 in closed form.

Theory of operation. A router that holds n filters takes c(n) for a message; c is measured or given. The paper assumes
that messages keep all routers busy, that their transmission costs nothing, and that routers are equal. R routers for N
filters then perform as follows:

- *data-sharing* filters R / c(N) messages a second, each in c(N);
- *filter-sharing* filters 1 / c(N/R), each in c(N/R), since every router takes part in every message;
- *hierarchical*, with L leaves below R - L routers that read root tags in t, filters the lesser of (R - L) / t and
  L / (f · c(N/L)), where f, the fan-out, is the number of leaves that a message reaches; each takes t + c(N/L). At
  least 20 routers are above the leaves, as in the paper; more if that is better.

So data-sharing is faster than the hierarchy if f exceeds about c(N) / c(N/L): the cost of the whole set over the cost
of a leaf, which is little more than reading the message. With the paper's costs that is 5.

    >>> from treecast.experiments.router_model import paper_cost, data_sharing, filter_sharing, hierarchical
    >>> round(data_sharing(10, 200_000, paper_cost).speed), round(filter_sharing(1_000, 200_000, paper_cost).speed)
    (270, 142)
    >>> one = hierarchical(1_000, 200_000, paper_cost, top_us=1.0, fan_out=1)
    >>> round(one.speed / data_sharing(1_000, 200_000, paper_cost).speed, 1)
    5.2

Source: XTrie, "Performance Evaluation".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

ABOVE_MIN = 20
Cost: TypeAlias = Callable[[float], float]
"""Filters of a router -> µs a message."""


def paper_cost(filters: float) -> float:
    """The paper's cost: from 100 messages a second with 20,000 expressions and 27 with 200,000."""
    return 7_000 + 0.15 * filters


class Performance(NamedTuple):
    """The performance of a cluster."""

    speed: float
    """Messages a second."""
    latency_us: float
    router_us: float
    """The cost of a message for a router that filters it."""
    leaves: int
    """How many of the routers filter."""


class Curve:
    """A cost measured at some numbers of filters, with straight lines between them on logarithmic scales."""

    def __init__(self, points: Iterable[tuple[float, float]]) -> None:
        self._points = sorted(points)
        if not self._points or self._points[0][0] <= 0 or min(us for _, us in self._points) <= 0:
            raise ValueError("a curve takes positive numbers of filters and positive costs")

    def __call__(self, filters: float) -> float:
        place = bisect_left(self._points, (filters, 0.0))
        if place == 0 or place == len(self._points):  # beyond what was measured: as at the end
            return self._points[min(place, len(self._points) - 1)][1]
        (below, low), (above, high) = self._points[place - 1 : place + 1]
        share = math.log(filters / below) / math.log(above / below)
        return low * math.pow(high / low, share)


def data_sharing(routers: int, filters: int, cost: Cost) -> Performance:
    each = cost(filters)
    return Performance(routers / each * 1e6, each, each, routers)


def filter_sharing(routers: int, filters: int, cost: Cost) -> Performance:
    each = cost(filters / routers)
    return Performance(1e6 / each, each, each, routers)


def hierarchical(routers: int, filters: int, cost: Cost, *, top_us: float, fan_out: float) -> Performance | None:
    """The best division of the routers; None if there are too few."""

    def at(leaves: int) -> Performance:
        each = cost(filters / leaves)
        speed = min((routers - leaves) / top_us, leaves / (fan_out * each)) * 1e6
        return Performance(speed, top_us + each, each, leaves)

    every = (at(leaves) for leaves in range(1, routers - ABOVE_MIN + 1))
    return max(every, key=lambda one: (one.speed, -one.latency_us), default=None)


def break_even(routers: int, filters: int, whole: Cost, leaf: Cost, top_us: float) -> float | None:
    """The fan-out above which data-sharing is faster; None if there are too few routers for a hierarchy."""
    best = [
        leaves / leaf(filters / leaves)
        for leaves in range(1, routers - ABOVE_MIN + 1)
        if (routers - leaves) / top_us >= routers / whole(filters)
    ]
    return max(best) * whole(filters) / routers if best else None
