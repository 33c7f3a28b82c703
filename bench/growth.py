"""How cost grows: families of documents, queries, transformations, ids, archives and populations at n, 2n, 4n, 8n.

A family (bench/growth_families.py) makes the same kind of work at any size. Its exponent is the slope of CPU time over
size on logarithmic scales, through the four points by least squares: 1 is linear, 2 is quadratic. The target is at most
1.2. A family that reaches a documented limit answers with the code of that limit instead. It must then answer within
BOUNDED_SECONDS_MAX and use less than BOUNDED_BYTES_MAX of memory.

Use it to look for cliffs: a new kind of input is a function of a few lines. For speed itself, use the other workloads.
"""

from __future__ import annotations

import math
import resource
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.growth_families import FAMILIES, Family
from bench.measure import Report, clock, finish, options_of, run
from treecast import TreecastError

EXPONENT_MAX = 1.2
BOUNDED_SECONDS_MAX = 2.0
BOUNDED_BYTES_MAX = 500 << 20
DOUBLINGS = 3
SHORT_SECONDS, SHORT_FACTOR = 0.2, 3


@dataclass(frozen=True)
class Point:
    """One size of one family: its CPU time, and the code that ended it, if one did."""

    size: int
    seconds: float
    code: str = ""


def measure_points(family: Family, sizes: Sequence[int], passes: int) -> list[Point]:
    """The fastest pass of each size: other work on the machine can only make a pass slower.

    All sizes take turns, so that what lasts for a while disturbs all alike. Short actions get more passes.
    """
    fastest: dict[int, Point] = {}
    taken, turns = 0.0, 0
    turns_max = passes * SHORT_FACTOR if passes > 1 else 1
    while turns < passes or (turns < turns_max and taken < SHORT_SECONDS):
        for size in sizes:
            answer: list[str] = []
            seconds = clock(_answering(family.prepare(size), answer)).cpu
            taken += seconds
            if size not in fastest or seconds < fastest[size].seconds:
                fastest[size] = Point(size, seconds, answer[0])
        turns += 1
    return [fastest[size] for size in sizes]


def _answering(action: Callable[[], object], answer: list[str]) -> Callable[[], None]:
    def call() -> None:
        try:
            action()
            answer.append("")
        except TreecastError as error:
            answer.append(error.code)

    return call


def exponent(points: Sequence[Point]) -> float:
    """The slope of log(seconds) over log(size); points that a limit ended do not count."""
    whole = [point for point in points if not point.code]
    if len(whole) < 2:
        return math.nan
    sizes = [math.log(point.size) for point in whole]
    times = [math.log(max(point.seconds, 1e-9)) for point in whole]
    return statistics.linear_regression(sizes, times).slope


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def measure(report: Report, families: Sequence[Family], passes: int, share: float = 1.0) -> None:
    """One row per family; `share` makes all of them smaller, without targets."""
    barred = share == 1.0
    for family in families:
        before = peak_bytes()
        base = max(2, int(family.size * share))
        points = measure_points(family, [base << doubling for doubling in range(DOUBLINGS + 1)], passes)
        grown = peak_bytes() - before
        slope = exponent(points)
        codes = sorted({point.code for point in points if point.code})
        slowest = max(point.seconds for point in points)
        bounded = bool(codes) and slowest <= BOUNDED_SECONDS_MAX and grown <= BOUNDED_BYTES_MAX
        met = bounded if codes else slope <= EXPONENT_MAX
        report.add(
            f"{family.kind}: {family.name}, n = {base:,}",
            "-" if math.isnan(slope) else f"{slope:.2f}",
            " ".join(["exponent", *codes]),
            cpu=" ".join(f"{point.seconds * 1e3:.1f}" for point in points) + " ms",
            wall=f"+{grown >> 20} MB",
            bar=f"<= {EXPONENT_MAX:g}" if barred else "",
            met=met if barred else None,
        )


def main(arguments: list[str]) -> int:
    options, report = options_of("growth", __doc__.partition("\n")[0], arguments)
    report.note("ratio (CPU): CPU time at n, 2n, 4n, 8n; ratio (wall): how far the peak of memory rose meanwhile")
    measure(report, FAMILIES, passes=1 if options.quick else 3, share=0.1 if options.quick else 1.0)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
