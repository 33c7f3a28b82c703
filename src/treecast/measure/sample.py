"""Which sample of queries and documents fits into a budget, and how to scale the figures up to all of them.

A peer that evaluates queries one after the other takes time in proportion to their number. So a random sample is
measured, and the part that grows with the queries is scaled up; the cell says so (`Cell.extrapolated`).

>>> sample_sizes(queries=100_000, documents=50, budget_seconds=10, each=Costs(compile=1e-5, parse=1e-4, match=1e-4))
(8909, 10)
>>> sample_sizes(queries=1000, documents=50, budget_seconds=10, each=Costs(compile=1e-5, parse=1e-4, match=1e-4))
(1000, 50)
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

QUERIES_MIN = 20
DOCUMENTS_MIN = 10
SAFETY = 0.9


@dataclass(frozen=True)
class Costs:
    """Seconds: to compile a query, to parse a document, to evaluate a query on a document."""

    compile: float
    parse: float
    match: float


def shuffle_numbers(count: int) -> list[int]:
    """The numbers below `count` in a fixed, random order: every prefix is a fair sample."""
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    return numbers


def sample_sizes(queries: int, documents: int, budget_seconds: float, each: Costs) -> tuple[int, int]:
    """As many queries as fit with a few documents; if all of them fit, as many documents as the rest allows."""
    budget = SAFETY * budget_seconds
    few = min(documents, DOCUMENTS_MIN)
    seconds_left = budget - few * each.parse
    fitting = min(queries, max(QUERIES_MIN, int(seconds_left / (each.compile + few * each.match))))
    if fitting < queries:
        return fitting, few
    seconds_left = budget - queries * each.compile
    return queries, min(documents, max(few, int(seconds_left / (each.parse + queries * each.match))))


def scale(sampled: int, taken: int) -> float:
    """The factor for everything that depends on the queries."""
    return taken / sampled if sampled else 0.0
