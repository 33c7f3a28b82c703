"""XTrie as documents grow (XTrie, Raw XTrie Performance)."""

from __future__ import annotations

from collections.abc import Sequence

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import namespaces_of
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, figure, line, pairs, slope
from treecast.experiments.session import Session
from treecast.experiments.ten_types import expressions, messages, schemas_of, tags_of
from treecast.report import Panel

VARIANTS = ("xtrie-single-path", "xtrie")


def points(sizes: Sizes) -> list[Point]:
    return [{"size": int(size), "queries": max(sizes.queries)} for size in sizes.values]


def measure(session: Session, point: Point) -> list[Row]:
    documents = messages(session, point["size"])
    queries = expressions(session, point["queries"])
    length = sum(map(len, documents)) / len(documents)
    return session.rows(
        VARIANTS,
        queries,
        documents,
        namespaces=namespaces_of(schemas_of(session)),
        tags=tags_of(documents),
        length=length,
    )


def verdict(rows: Sequence[Row]) -> list[Finding]:
    findings = []
    for engine in VARIANTS:
        curve = pairs(rows, "tags", engine=engine)
        fit, power = line(curve), slope(curve)
        enough = len(curve) >= 4 and curve[-1][0] >= 8 * curve[0][0]
        match_curve = pairs(rows, "tags", "matches", engine=engine)
        answer = at_least(fit.explained if fit and enough else None, agree=0.97, differs=0.85)
        findings.append(
            Finding(
                f"performance decreases linearly with the length of the documents ({engine})",
                f"{figure(fit.base if fit else None, 0)} µs + {figure(fit.rise if fit else None, 2)} µs a tag explains "
                f"{figure(fit.explained if fit else None, 3)} of the variance, from {curve[0][0]:,.0f} tags to "
                f"{curve[-1][0]:,.0f}; time grows as tags to the power of {figure(power)}, matches from "
                f"{match_curve[0][1]:,.0f} to "
                f"{match_curve[-1][1]:,.0f} a document",
                "over a range of 8 to 1 or more: agree if a line explains 0.97 of the variance, differs below 0.85",
                answer,
                "" if enough else "the sizes do not reach far enough apart",
            )
        )
    return findings


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("tags", "tags per document")
    only = [row for row in rows if row["engine"] == VARIANTS[0]]
    return [
        lines(rows, "Filtering time", x, log_x=True),
        lines(only, "Matches per document", x, ("matches", "matches"), log_x=True, log_y=False),
    ]


EXPERIMENT = Experiment(
    name="xtrie-length",
    paper="XTrie",
    section="Raw XTrie Performance",
    title="XTrie as documents grow",
    found="The performance of the nonparallel XTrie algorithms decreases linearly with the number of XPath "
    "expressions, as well as with "
    "the length of the XML documents.",
    parameters="distinct single-path expressions over ten document types, 10 % * and //; the size of the documents "
    "varies",
    columns=("tags", "length", "engine", "us", "matches", "queries", "states", "build_s", "documents"),
    full=Sizes((20_000,), 30, values=(1_500, 3_000, 6_000, 12_000, 24_000, 48_000)),
    quick=Sizes((1_000,), 10, values=(1_000, 4_000, 16_000), passes=2, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
