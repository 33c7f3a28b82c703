"""The engines of the papers and ours: YFilter's queries and documents, and its rivals as queries grow.

`auto` against `yfilter` is measured on the whole set, first pass (a new index) and later ones; XFilter, the hybrid and
XTrie against YFilter on 1,000, 10,000 and 100,000 of the queries, drawn at random from the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from bench.inputs import as_table, load_yfilter
from bench.measure import Report, Seconds, clock, finish, median, options_of, run
from treecast import Index

COLD_BAR, WARM_BAR = 15, 50
SIZES = (1_000, 10_000, 100_000)
RIVALS = ("hybrid", "xfilter", "xtrie-single-path", "xtrie")


def pass_times(
    engine: str, queries: Sequence[str], documents: Sequence[bytes], passes: int
) -> tuple[Seconds, Seconds, float]:
    """First pass of a new index, later passes, matches per document; medians over `passes` indexes."""
    table = as_table(list(queries))
    firsts, laters, matches = [], [], 0.0
    for _ in range(passes):
        index = Index(engine=engine)
        index.add_many(table)
        firsts.append(clock(lambda index=index: index.match_many(documents, threads=1)))  # type: ignore[misc]
        laters.append(clock(lambda index=index: index.match_many(documents, threads=1)))  # type: ignore[misc]
        matches = index.match_many(documents[:50], threads=1).num_rows / len(documents[:50])
    return median(firsts), median(laters), matches


def show(report: Report, figure: str, taken: Seconds, documents: int, matches: float, times: str = "") -> None:
    report.add(figure, f"{taken.cpu / documents * 1e6:,.1f}", "µs/doc", cpu=times, matches=f"{matches:.0f}")


def measure(report: Report, queries: Sequence[str], documents: Sequence[bytes], passes: int) -> None:
    count = len(documents)
    pass_times("auto", queries[:1000], documents, 1)  # costs that only the first call of a process has
    ours, ours_later, matches = pass_times("auto", queries, documents, max(passes, 3))
    theirs, theirs_later, same = pass_times("yfilter", queries, documents, passes)
    assert matches == same, "the engines disagree"
    for name, first, later in (("auto", ours, ours_later), ("yfilter", theirs, theirs_later)):
        show(report, f"{name}, {len(queries):,} queries, first pass", first, count, matches)
        show(report, f"{name}, {len(queries):,} queries, later passes", later, count, matches)
    for figure, ratio, bar in (
        ("auto over yfilter, first pass", theirs.cpu / ours.cpu, COLD_BAR),
        ("auto over yfilter, later passes", theirs_later.cpu / ours_later.cpu, WARM_BAR),
    ):
        report.add(figure, f"{ratio:.0f}", "times", bar=f">= {bar}", met=ratio >= bar)
    shuffled = Random(1).sample(list(queries), len(queries))
    for size in [size for size in SIZES if size <= len(queries)] or [len(queries)]:
        base, _, matches = pass_times("yfilter", shuffled[:size], documents, passes)
        show(report, f"yfilter, {size:,} queries", base, count, matches)
        for rival in RIVALS:
            taken, _, same = pass_times(rival, shuffled[:size], documents, 1)
            assert matches == same, "the engines disagree"
            show(report, f"{rival}, {size:,} queries", taken, count, matches, f"{taken.cpu / base.cpu:.1f}x yfilter")


def main(arguments: list[str]) -> int:
    options, report = options_of("engines", __doc__.partition("\n")[0], arguments)
    queries, documents = load_yfilter(options.data, report)
    measure(report, queries, documents[:100] if options.quick else documents, 1 if options.quick else 3)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
