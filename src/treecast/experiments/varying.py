"""Shared by the experiments on `*` and on `//`: one probability is varied, and YFilter compared with its rivals.

There are two kinds of query sets. If queries are drawn at random, as the paper's generator does, they repeat, and the
share of `*` or `//` also changes how many of them are distinct. So there is a second set in which all queries are
distinct, with the same number at each share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treecast.experiments.experiment import Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_documents, news_schema, query_settings
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, distinct, extreme, pairs, pick, ratio, times, value
from treecast.experiments.session import Session
from treecast.report import Panel
from treecast.workload import generate_queries

ENGINES = ("yfilter", "hybrid", "xfilter")
KINDS = ("distinct", "random")
STEPS = 8  # with six, plain paths are too few to be distinct
QUERIES_MIN = 10_000
ROBUST, FRAIL = 4.0, 10.0
COLUMNS = ("kind", "share", "engine", "us", "matches", "distinct", "queries", "states", "build_s", "documents")
FULL = Sizes((30_000,), 50, values=(0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9))
QUICK = Sizes((2_000,), 10, values=(0.0, 0.2, 0.5, 0.9), passes=2, cell_seconds=0.3)


@dataclass(frozen=True)
class Varied:
    """What is varied: its sign, the field of QuerySettings, and why it costs what it costs."""

    sign: str
    setting: str
    costs: str
    """Why a larger share may take YFilter longer."""
    spares: str
    """Why it may not slow XFilter down."""

    def points(self, sizes: Sizes) -> list[Point]:
        return [
            {"kind": kind, "share": share, "queries": max(sizes.queries)} for kind in KINDS for share in sizes.values
        ]

    def measure(self, session: Session, point: Point) -> list[Row]:
        changes = {"distinct": point["kind"] == "distinct", self.setting: point["share"]}
        settings = query_settings(depth_max=STEPS, **changes)
        queries = list(generate_queries(news_schema(session), point["queries"], settings, seed=session.seed))
        session.note(f"queries: {point['queries']:,} drawn from the DTD; distinct ones, and random ones, which repeat")
        labels = {"kind": point["kind"], "share": point["share"], "distinct": len(set(queries))}
        return session.rows(ENGINES, queries, news_documents(session), **labels)

    def verdict(self, rows: Sequence[Row]) -> list[Finding]:
        findings = []
        for kind in distinct(rows, "kind"):
            own_rows = pick(rows, kind=kind)
            findings += [self._robust(own_rows, kind), self._efficient(own_rows, kind)]
        return findings

    def _robust(self, rows: Sequence[Row], kind: str) -> Finding:
        without = value(rows, engine="yfilter", share=0.0)
        enough = max(row["queries"] for row in rows) >= QUERIES_MIN
        times_by_share = pairs(rows, "share", engine="yfilter")
        worst = extreme(times_by_share, max)
        factor = worst[1] / without if worst and without else None
        some = [us for share, us in times_by_share if share]
        range_factor = max(some) / min(some) if some else None
        others = {
            rival: max(us for _, us in pairs(rows, "share", engine=rival)) / (value(rows, engine=rival, share=0.0) or 1)
            for rival in ("hybrid", "xfilter")
        }
        return Finding(
            f"robust under varying proportions of {self.sign} ({kind} queries)",
            ", ".join(f"{us:,.0f} µs at {share:g}" for share, us in times_by_share)
            + f"; the worst share takes {times(factor)} the time of none, and {times(range_factor)} that of the best "
            f"other share ("
            + ", ".join(f"{rival}: {times(other)}" for rival, other in others.items())
            + " the time of none)",
            f"with {QUERIES_MIN:,} queries or more: agree if the worst share takes at most {ROBUST:g}x the time of "
            f"none, "
            f"differs above {FRAIL:g}x",
            at_most(factor if enough else None, agree=ROBUST, differs=FRAIL),
            self.costs if enough else f"this run had fewer than {QUERIES_MIN:,} queries",
        )

    def _efficient(self, rows: Sequence[Row], kind: str) -> Finding:
        enough = max(row["queries"] for row in rows) >= QUERIES_MIN
        factor_texts, worst, behind = [], [], []
        for rival in ("hybrid", "xfilter"):
            factors = [(share, ratio(rows, rival, "yfilter", share=share)) for share in distinct(rows, "share")]
            least, most = extreme(factors, min), extreme(factors, max)
            if least and most:
                worst.append(least[1])
                factor_texts.append(
                    f"{rival} takes {times(least[1])} (at {least[0]:g}) to {times(most[1])} (at {most[0]:g})"
                )
                ahead = ", ".join(f"{share:g}" for share, factor in factors if factor is not None and factor < 1)
                behind += [f"{rival} is ahead at {ahead}"] if ahead else []
        numbers = pick(rows, engine="yfilter")
        why = f"{'; '.join(behind)}. {self.spares}" if behind else ""
        if behind and min(row["distinct"] for row in numbers) < QUERIES_MIN:
            few = min(row["distinct"] for row in numbers), max(row["distinct"] for row in numbers)
            why += f"; of the random queries only {few[0]:,} to {few[1]:,} are distinct, too few for sharing to pay"
        return Finding(
            f"efficient whatever the proportion of {self.sign} ({kind} queries)",
            "; ".join(factor_texts) + " of YFilter's time",
            "agree if neither rival is faster at any share, differs if one is faster by more than a fifth",
            at_least(min(worst) if worst and enough else None, agree=1.0, differs=0.8),
            why if enough else f"this run had fewer than {QUERIES_MIN:,} queries",
        )

    def panels(self, rows: Sequence[Row]) -> list[Panel]:
        x = ("share", f"probability of {self.sign} at a step")
        return [lines(rows, f"{kind.capitalize()} queries", x, kind=kind) for kind in distinct(rows, "kind")]


WILDCARDS = Varied(
    "*",
    "wildcard",
    "every element takes every * transition of the active states, so more of them are active at once",
    "A * is no state in XFilter, only a distance between two states, so more * make its machines smaller, while the "
    "NFA has a "
    "transition for each",
)
DESCENDANTS = Varied(
    "//",
    "descendant",
    "a //-child state stays active in the whole subtree and is probed for each element in it",
    "XFilter finds what waits for an element by the element's name, at any depth, while the NFA probes every active "
    "//-child "
    "state",
)
