"""How large the NFA becomes: by DTD (DHT-NFA, Figure 4) and with the number of queries (Figure 5c).

The machine alone, without a network. The paper says that its sets are distinct, but N distinct paths without predicates
end in N different states, so a million of them cannot have 225,000 states. Random sets are counted beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from treecast.engines.path_nfa import PathMachine
from treecast.experiments.dht_inputs import QUERIES_MIN, SETS, machine_of
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import TEN
from treecast.experiments.panels import bars, lines
from treecast.experiments.rules import at_least, between, pairs, pick, slope, times, value
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel

WORKLOADS = ("NITF", "aggregated")
DTDS = tuple(label for label, _, _ in TEN if label != "NITF")
FIGURES = {"NITF": "Figures 4, 5c", "aggregated": "Figure 5c", "auction": "Figure 4"}
PAPER = {"NITF": 225_000, "aggregated": 125_000, "auction": 592_199}


def points(sizes: Sizes) -> list[Point]:
    """The curves of Figure 5c, then one point for each further DTD of Figure 4."""
    curves: list[Point] = [
        {"workload": workload, "set": kind, "queries": queries}
        for workload in WORKLOADS
        for kind in SETS
        for queries in sizes.queries
    ]
    return curves + [{"workload": dtd, "set": "random", "queries": max(sizes.queries)} for dtd in DTDS]


def measure(session: Session, point: Point) -> list[Row]:
    workload, kind, queries = point["workload"], point["set"], point["queries"]
    if workload in DTDS and session.data is None:
        return []
    machines: list[tuple[PathMachine, int]] = []
    seconds = clock(lambda: machines.append(machine_of(session, workload, kind, queries)))
    machine, unique = machines[0]
    _, _, holders, children = machine.columns()
    return [
        {
            "workload": workload,
            "set": kind,
            "queries": queries,
            "distinct": unique,
            "states": len(machine),
            "accepting": sum(map(bool, holders)),
            "transitions": sum(children),
            "us": seconds.cpu / queries * 1e6,
        }
    ]


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    return [_size(rows, name, most, short) for name in PAPER] + [_ratio(rows, most, short), _growth(rows, most, short)]


def _size(rows: Sequence[Row], name: str, most: int, short: str) -> Finding:
    random = value(rows, "states", workload=name, set="random", queries=most)
    exact = value(rows, "states", workload=name, set="distinct", queries=most)
    unique = value(rows, "distinct", workload=name, set="random", queries=most)
    text = "not measured" if random is None else f"random: {random:,.0f} states of {unique:,.0f} distinct queries"
    if exact is not None:
        text += f"; distinct: {exact:,.0f}"
    return Finding(
        f"{name}: {PAPER[name]:,} states for a million queries ({FIGURES[name]})",
        text,
        "random: agree from 2/3 to 3/2 of that, differs below half or above twice",
        between(None if short or random is None else random / PAPER[name], 2 / 3, 3 / 2, slack=4 / 3),
        short
        or "N distinct paths without predicates have N accepting states, so the paper's figure cannot be of a million "
        "distinct ones; which queries a generator draws decides the rest",
        None if random is None else random / PAPER[name],
    )


def _ratio(rows: Sequence[Row], most: int, short: str) -> Finding:
    sizes = [value(rows, "states", workload=name, set="random", queries=most) for name in WORKLOADS]
    factor = sizes[0] / sizes[1] if sizes[0] and sizes[1] else None
    return Finding(
        "the machine of NITF is almost twice as large as that of the aggregated workload (Figure 5c)",
        f"{times(factor)} (random sets)",
        "agree from 1.4x to 2.5x, differs below 1x or above 3.5x",
        between(None if short else factor, 1.4, 2.5, slack=1.4),
        short or "ten DTDs of ours, of which some are larger than NITF: the paper's ten are not all named",
        factor,
    )


def _growth(rows: Sequence[Row], most: int, short: str) -> Finding:
    rises = {name: slope(pairs(rows, "queries", "states", workload=name, set="random")) for name in WORKLOADS}
    known_rises = [rise for rise in rises.values() if rise is not None]
    return Finding(
        "the machine grows with the queries (Figure 5c)",
        "random sets, states as a power of queries: "
        + ", ".join(f"{name} {rise:.2f}" for name, rise in rises.items() if rise is not None),
        "agree from a power of 0.4, differs below 0.1",
        at_least(None if short or not known_rises else min(known_rises), agree=0.4, differs=0.1),
        short or "less than 1, because queries share states and repeat",
        min(known_rises, default=None),
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["queries"] for row in rows)
    named_rows = [{**row, "curve": f"{row['workload']}, {row['set']}"} for row in rows if row["workload"] in WORKLOADS]
    by_dtd = [row for row in pick(rows, set="random", queries=most) if row["workload"] != "aggregated"]
    y = ("states", "states")
    return [
        lines(named_rows, "Figure 5c", ("queries", "queries"), y, key="curve", log_y=False),
        bars(by_dtd, "Figure 4", ("workload", ""), y, key="set", log_y=False),
    ]


EXPERIMENT = Experiment(
    name="dht-states",
    paper="DHT-NFA",
    section="Figures 4, 5c",
    title="The size of the NFA, by DTD and by the number of queries",
    found="A million queries of the Auction DTD have 592,199 states, of NITF almost 225,000, of the aggregated "
    "workload 125,000.",
    parameters="paths of up to 10 steps, 20 % *, 20 % //, no predicates; random and distinct sets. µs/doc: CPU time "
    "for drawing and adding, for each query of the set",
    columns=("workload", "set", "queries", "distinct", "states", "accepting", "transitions", "us"),
    full=Sizes((200_000, 400_000, 600_000, 800_000, 1_000_000), 1),
    quick=Sizes((1_000, 2_000, 5_000), 1),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
