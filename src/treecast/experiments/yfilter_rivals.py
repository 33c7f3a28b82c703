"""YFilter against XFilter and the hybrid, as queries grow (YFilter, section 3.4, finding 1)."""

from __future__ import annotations

from collections.abc import Sequence

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_documents, news_queries
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, figure, pairs, ratio, slope, times
from treecast.experiments.session import Session
from treecast.report import Panel

ENGINES = ("yfilter", "hybrid", "xfilter")
# The paper speaks of tens and hundreds of thousands of queries; a run with fewer decides nothing.
QUERIES_MIN = 50_000
AGREE, DIFFERS = 5.0, 2.5


def measure(session: Session, point: Point) -> list[Row]:
    return session.rows(ENGINES, news_queries(session, point["queries"]), news_documents(session))


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    findings = [
        _over(rows, rival, most, published_factor) for rival, published_factor in (("xfilter", 24), ("hybrid", 11))
    ]
    slopes = {engine: slope(pairs(rows, "queries", engine=engine)) for engine in ENGINES}
    flatter = None
    if most >= QUERIES_MIN and slopes["yfilter"] is not None:
        flatter = slopes["yfilter"] - min(slopes["hybrid"] or 0, slopes["xfilter"] or 0)
    findings.append(
        Finding(
            "sharing makes YFilter's cost grow more slowly with the queries than that of its rivals",
            "time grows as queries to the power of "
            + ", ".join(f"{figure(slopes[engine])} ({engine})" for engine in ENGINES),
            "agree if YFilter's exponent is smaller by 0.1 than either rival's, differs if it is larger",
            at_most(flatter, agree=-0.1, differs=0.0),
            "a machine per path is looked at whenever an element of its next name comes; states that paths share are "
            "looked "
            "at once",
        )
    )
    return findings


def _over(rows: Sequence[Row], rival: str, most: int, published_factor: int) -> Finding:
    factor_by_size = {
        size: ratio(rows, rival, "yfilter", queries=size) for size in sorted({row["queries"] for row in rows})
    }
    at_most_queries = factor_by_size[most] if most >= QUERIES_MIN else None
    answer = at_least(at_most_queries, agree=AGREE, differs=DIFFERS)
    crossing = next((size for size, factor in factor_by_size.items() if factor is not None and factor > 1), None)
    why = {
        "agree": f"with few queries it is otherwise: {rival} is overtaken at {crossing:,} queries here. The NFA looks "
        f"at every "
        "active //-child state at every element, the rival only at candidates of the element's name, so sharing has to "
        "pay for that first"
        if crossing and crossing > min(factor_by_size)
        else "YFilter is ahead at all sizes",
        "differs": f"{rival} keeps up: its distinct paths share no work, but each costs little where few candidates "
        f"wait",
        "inconclusive": f"the threshold is for {QUERIES_MIN:,} queries and more; this run had {most:,}"
        if most < QUERIES_MIN
        else "the factor lies between the thresholds",
    }[answer]
    return Finding(
        f"an order of magnitude over {rival} (the full paper: {published_factor} times at 100,000 queries)",
        f"{rival} takes "
        + ", ".join(f"{times(factor)} at {size:,}" for size, factor in factor_by_size.items())
        + " queries",
        f"at the largest size, {QUERIES_MIN:,} queries or more: agree from {AGREE:g}x, differs below {DIFFERS:g}x",
        answer,
        why,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    return [lines(rows, "Filtering time", ("queries", "queries"), log_x=True)]


EXPERIMENT = Experiment(
    name="yfilter-rivals",
    paper="YFilter",
    section="3.4 (1)",
    title="YFilter against XFilter and the hybrid",
    found="YFilter can provide order of magnitude performance improvements over both XFilter and the hybrid approach. "
    "(The full "
    "paper, at 100,000 distinct queries: 30 ms, 732 ms and 344 ms a document.)",
    parameters="distinct path queries, up to 6 steps, with * and //; their number varies",
    columns=("queries", "engine", "us", "matches", "build_s", "states", "bytes", "documents"),
    full=Sizes((1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000), 100),
    quick=Sizes((500, 1_000, 2_000, 5_000), 20, passes=2, cell_seconds=0.3),
    points=lambda sizes: [{"queries": queries} for queries in sizes.queries],
    measure=measure,
    verdict=verdict,
    panels=panels,
)
