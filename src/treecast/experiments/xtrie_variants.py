"""XTrie's variant for single paths against that for trees (XTrie, Raw XTrie Performance)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treecast.engines.xtrie import tables
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import namespaces_of
from treecast.experiments.panels import lines
from treecast.experiments.rules import between, pick, ratio, times
from treecast.experiments.session import REFERENCE, Session
from treecast.experiments.ten_types import expressions, messages, schemas_of, tags_of
from treecast.report import Panel

QUERIES_MIN = 10_000
BRANCHES = 2.0
SAMPLE = 500
# What is measured: the engine, what it is given.
SINGLE = "single paths, single-path variant"
SAME = "single paths, tree variant"
TREES = "trees, unordered"
ORDERED = "trees, ordered"


def measure(session: Session, point: Point) -> list[Row]:
    documents, namespaces = messages(session), namespaces_of(schemas_of(session))
    session.note(f"messages: {len(documents)}, {tags_of(documents):.0f} tags each on average")
    paths = expressions(session, point["queries"])
    trees = expressions(session, point["queries"], nested=BRANCHES)
    session.note(f"trees: the same paths with {BRANCHES:g} nested paths each")
    rows = session.rows(("xtrie-single-path", "xtrie"), paths, documents, namespaces=namespaces)
    for row in rows:
        row["substrings"] = substrings(paths, namespaces)
    for row, kind in zip(rows, (f"single paths, {REFERENCE}", SINGLE, SAME), strict=True):
        row["kind"] = kind
    for kind, is_ordered in ((TREES, False), (ORDERED, True)):
        tree_rows = session.rows(("xtrie",), trees, documents, ordered=is_ordered, namespaces=namespaces)
        for row in tree_rows:
            row["substrings"] = substrings(trees, namespaces)
            row["kind"] = kind if row["engine"] == "xtrie" else f"{kind}, {REFERENCE}"
        rows += tree_rows
    return rows


def substrings(queries: Sequence[str], namespaces: Mapping[str, str]) -> float:
    """How many an expression has on average, by the first ones."""
    sample = queries[:SAMPLE]
    return len(tables(sample, namespaces=namespaces).rows) / len(sample)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    enough = most >= QUERIES_MIN
    factors = {kind: ratio(rows, kind, SINGLE, key="kind", queries=most) for kind in (SAME, TREES, ORDERED)}
    answer = between(factors[ORDERED] if enough else None, 5, 20, slack=1.6)
    return [
        Finding(
            "the variant for tree-structured expressions is approximately one order of magnitude slower",
            f"with {most:,} filters the tree variant takes {times(factors[ORDERED])} (ordered trees), "
            f"{times(factors[TREES])} "
            f"(unordered trees) and {times(factors[SAME])} (the same single paths) of the single-path variant's time",
            f"with {QUERIES_MIN:,} filters or more, ordered trees: agree from 5x to 20x, differs below 3.1x or above "
            f"32x",
            answer,
            f"a verdict takes {QUERIES_MIN:,} filters; this run had {most:,}"
            if not enough
            else _why(rows, most, factors),
        )
    ]


def _why(rows: Sequence[Row], most: int, factors: dict[str, float | None]) -> str:
    """Of the factor, what the algorithm adds on the same input, and what the larger expressions add."""
    same, trees, ordered = factors[SAME], factors[TREES], factors[ORDERED]
    if not same or not trees or not ordered:
        return ""
    single, tree, in_order = (pick(rows, kind=kind, queries=most)[0] for kind in (SINGLE, TREES, ORDERED))
    return (
        f"on the same single paths the tree variant costs {times(same)}. Trees cost {times(trees / same)} more: each "
        f"has "
        f"{tree['substrings']:.1f} substrings against {single['substrings']:.1f}, and each is a row of the table to "
        f"be tried. "
        f"Order costs another {times(ordered / trees)}: fewer match ({in_order['matches']:,.0f} a message against "
        f"{tree['matches']:,.0f}), and what has not matched is tried again at each further occurrence"
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    shown_rows = [row for row in rows if row["kind"] in (SINGLE, SAME, TREES, ORDERED)]
    return [
        lines(
            shown_rows, "Filtering time", ("queries", "filters"), ("us", "CPU µs per message"), key="kind", log_x=True
        )
    ]


EXPERIMENT = Experiment(
    name="xtrie-variants",
    paper="XTrie",
    section="Raw XTrie Performance",
    title="XTrie for single paths and for trees",
    found="The performance of the variant for tree-structured expressions is approximately one order of magnitude "
    "slower than that of "
    "the variant optimised for single-path expressions.",
    parameters="distinct expressions over ten document types, 10 % * and //; trees have two nested paths; messages of "
    "about 100 tags",
    columns=("queries", "kind", "engine", "us", "matches", "substrings", "states", "bytes", "documents"),
    full=Sizes((2_000, 5_000, 10_000, 20_000, 50_000), 30),
    quick=Sizes((500, 1_000, 2_000), 10, passes=2, cell_seconds=0.2),
    points=lambda sizes: [{"queries": queries} for queries in sizes.queries],
    measure=measure,
    verdict=verdict,
    panels=panels,
)
