"""Fewer faults that still make a seed fail: delta debugging (Zeller and Hildebrandt 2002, algorithm ddmin).

    >>> shorten_list(list(range(100)), lambda kept: {17, 42} <= set(kept))
    [17, 42]

The result is minimal in this sense: without any single one of its elements the run does not fail. What a fault does may
depend on the others, as they share random numbers of links; so another short list may exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from treecast.sim.faults import Fault
from treecast.sim.scenario import Outcome, Scenario

Element = TypeVar("Element")

RUNS_MAX = 500
"""Runs that shortening may need; then what has been reached is good enough."""


def shorten_list(elements: Sequence[Element], fails: Callable[[list[Element]], bool]) -> list[Element]:
    """As few of the elements as still fail. All of them together are known to fail."""
    remaining = list(elements)
    pieces = 2
    while remaining:
        size = max(1, -(-len(remaining) // pieces))
        for begin in range(0, len(remaining), size):
            rest = remaining[:begin] + remaining[begin + size :]
            if fails(rest):
                remaining = rest
                pieces = max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(remaining), pieces * 2)
    return remaining


def shorten(scenario: Scenario, outcome: Outcome, *, runs_max: int = RUNS_MAX) -> Outcome:
    """The failing run with the fewest faults that still fails, in whatever way."""
    best = outcome
    runs = 0

    def fails(faults: list[Fault]) -> bool:
        nonlocal best, runs
        runs += 1
        if runs > runs_max:
            return False
        attempt = scenario.run(outcome.seed, faults)
        if attempt.failure is not None:
            best = attempt
        return attempt.failure is not None

    shorten_list(outcome.faults, fails)
    return best
