"""YFilter and its rivals on DTDs of different character (YFilter, section 3.4, finding 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import draw_documents, namespaces_of, query_settings, several_schemas
from treecast.experiments.panels import bars
from treecast.experiments.rules import at_least, at_most, distinct, extreme, ratio, times, value
from treecast.experiments.session import Session
from treecast.report import Panel
from treecast.workload import generate_queries

ENGINES = ("yfilter", "hybrid", "xfilter")
QUERIES_MIN = 10_000
DTDS_MIN = 3
DTDS = 8  # six of a data directory and the two that ship


def points(sizes: Sizes) -> list[Point]:
    return [{"place": place, "queries": max(sizes.queries)} for place in range(DTDS)]


def measure(session: Session, point: Point) -> list[Row]:
    schemas = several_schemas(session)
    if point["place"] >= len(schemas):
        return []
    schema = schemas[point["place"]]
    session.note(schema.summary())
    settings = query_settings(distinct=False)
    queries = list(generate_queries(schema, point["queries"], settings, seed=session.seed))
    documents = draw_documents(schema, session.sizes.documents, seed=session.seed)
    labels: dict[str, Any] = {"dtd": schema.name, "elements": len(schema.reachable), "distinct": len(set(queries))}
    return session.rows(ENGINES, queries, documents, namespaces=namespaces_of([schema]), **labels)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    dtds = distinct(rows, "dtd")
    enough = len(dtds) >= DTDS_MIN and max(row["queries"] for row in rows) >= QUERIES_MIN
    short = f"a verdict takes {DTDS_MIN} DTDs and {QUERIES_MIN:,} queries; this run had {len(dtds)} DTDs"
    best = {}
    for dtd in dtds:
        rivals = [ratio(rows, rival, "yfilter", dtd=dtd) for rival in ("hybrid", "xfilter")]
        best[dtd] = min(factor for factor in rivals if factor is not None)
    mean = math.exp(sum(map(math.log, best.values())) / len(best))
    slowest = extreme([(dtd, value(rows, engine="yfilter", dtd=dtd)) for dtd in dtds], max)
    fastest = extreme([(dtd, value(rows, engine="yfilter", dtd=dtd)) for dtd in dtds], min)
    assert slowest and fastest
    behind = [
        f"{dtd} ({value(rows, 'distinct', engine='yfilter', dtd=dtd):,.0f} distinct queries)"
        for dtd, factor in best.items()
        if factor < 1
    ]
    return [
        Finding(
            "performs well using a number of DTDs with different characteristics",
            "the better rival takes "
            + ", ".join(f"{times(factor)} on {dtd}" for dtd, factor in best.items())
            + f", {times(mean)} on average",
            "agree if the better rival takes as long or longer on (geometric) average over the DTDs, differs if it "
            "takes less "
            "than 0.8x",
            at_least(mean if enough else None, agree=1.0, differs=0.8),
            (
                f"a rival is ahead on {', '.join(behind)}: with few distinct queries there is little to share"
                if behind
                else ""
            )
            if enough
            else short,
        ),
        Finding(
            "no DTD is a bad case",
            f"from {fastest[1]:,.0f} µs a document ({fastest[0]}) to {slowest[1]:,.0f} µs ({slowest[0]})",
            "agree if the slowest DTD takes at most 10x the time of the fastest for documents of the same size, "
            "differs "
            "above 30x",
            at_most(slowest[1] / fastest[1] if enough else None, agree=10, differs=30),
            "recursive DTDs have more distinct paths and deeper documents" if enough else short,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    only = [row for row in rows if row["engine"] == "yfilter"]
    return [
        bars(rows, "Filtering time", ("dtd", "")),
        bars(only, "Distinct queries of those drawn", ("dtd", ""), ("distinct", "distinct queries"), log_y=False),
    ]


EXPERIMENT = Experiment(
    name="yfilter-dtds",
    paper="YFilter",
    section="3.4 (2)",
    title="YFilter on several DTDs",
    found="The NFA-based approach was also shown to perform well using a number of DTDs with different "
    "characteristics.",
    parameters="random path queries, up to 6 steps, 20 % *, 20 % //; documents of 3.8 KB; the DTD varies",
    columns=("dtd", "elements", "engine", "us", "matches", "distinct", "queries", "states", "build_s", "documents"),
    full=Sizes((100_000,), 30),
    quick=Sizes((1_000,), 10, passes=2, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
