"""Where the time goes: parsing, path matching, collecting results (YFilter, sections 2.1 and 3.4, finding 1)."""

from __future__ import annotations

from collections.abc import Sequence

from treecast import measure as measuring
from treecast.experiments.experiment import Answer, Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_documents, news_queries
from treecast.experiments.rules import at_least, pick
from treecast.experiments.session import REFERENCE, Session
from treecast.report import Panel, Series

ENGINES = ("yfilter", REFERENCE)
PARTS = (("parse_us", "parsing"), ("match_us", "matching"), ("emit_us", "collecting results"))


def measure(session: Session, point: Point) -> list[Row]:
    queries, documents = news_queries(session, point["queries"]), news_documents(session)
    effort = measuring.Effort(budget_seconds=4 * session.sizes.cell_seconds, passes=session.sizes.passes, unseen=1.0)
    session.rows(ENGINES, queries, documents)  # for the sake of the answers
    rows = []
    for engine in ENGINES:
        session.say(f"{engine}, {len(queries):,} queries, split")
        cell = measuring.cell(engine, queries, documents, effort=effort, isolated=False)
        rows.append(
            {
                "queries": len(queries),
                "engine": engine,
                "us": cell.warm.cpu * 1e6,
                "parse_us": cell.parse.cpu * 1e6,
                "match_us": cell.match.cpu * 1e6,
                "emit_us": cell.emit.cpu * 1e6,
                "lxml_parse_us": cell.lxml_parse.cpu * 1e6,
                "matches": cell.matches,
                "documents": cell.documents,
            }
        )
    return rows


def verdict(rows: Sequence[Row]) -> list[Finding]:
    own_rows = sorted(pick(rows, engine="yfilter"), key=lambda row: row["queries"])
    findings = [_matching_outweighed(own_rows, "parse_us", "treecast's own reader")]
    if all(row["lxml_parse_us"] for row in own_rows):
        findings.append(_matching_outweighed(own_rows, "lxml_parse_us", "a general parser (lxml's, libxml2)"))
    return findings


def _matching_outweighed(rows: Sequence[Row], parse: str, reader: str) -> Finding:
    """In how many cases, from 1,000 queries on, parsing and collecting take longer than matching."""
    cases = [row for row in rows if row["queries"] >= 1_000]
    sizes_outweighed = [row["queries"] for row in cases if row[parse] + row["emit_us"] > row["match_us"]]
    share = len(sizes_outweighed) / len(cases) if len(cases) >= 3 else None
    answer: Answer = at_least(share, agree=0.5, differs=0.2)
    cost_texts = "; ".join(
        f"{row['queries']:,}: {row[parse]:,.0f} + {row['match_us']:,.0f} + {row['emit_us']:,.0f}" for row in rows
    )
    upto = f", that is up to {max(sizes_outweighed):,} queries" if sizes_outweighed else ""
    why = f"matching is outweighed in {len(sizes_outweighed)} of {len(cases)} cases{upto}"
    if answer != "agree" and rows:
        last = rows[-1]
        why += (
            f". At {last['queries']:,} queries a document is parsed in {last[parse]:,.0f} µs, its results are handed "
            f"over in "
            f"{last['emit_us']:,.0f} µs as a table of numbers (ids gathered at accepting states count as matching), "
            f"and the NFA "
            f"takes {last['match_us']:,.0f} µs. The paper has no figures for its own parser and collection, which "
            f"must have "
            "been slower by far against its NFA"
        )
    return Finding(
        f"in many cases path matching is outweighed by parsing and collecting results; here with {reader}",
        f"µs a document, parsing + matching + collecting, by queries: {cost_texts}",
        "of three sizes or more from 1,000 queries on: agree if parsing and collecting outweigh matching in half of "
        "them, differs "
        "below a fifth",
        answer,
        why,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    all_panels = []
    for engine in ENGINES:
        own_rows = pick(rows, engine=engine)
        sizes = [f"{row['queries']:,}" for row in own_rows]
        totals = [sum(row[column] for column, _ in PARTS) for row in own_rows]
        series = [
            Series(name, sizes, [100 * row[column] / total for row, total in zip(own_rows, totals, strict=True)])
            for column, name in PARTS
        ]
        all_panels.append(Panel(engine, "queries", "% of the time", series, kind="stacked"))
    return all_panels


EXPERIMENT = Experiment(
    name="yfilter-cost-split",
    paper="YFilter",
    section="2.1, 3.4 (1)",
    title="Parsing, matching, collecting",
    found="Path processing using YFilter is sufficiently fast that in many cases it is outweighed by other costs for "
    "XML filtering "
    "such as document parsing and result collection.",
    parameters="distinct path queries, up to 6 steps; their number varies",
    columns=(
        "queries", "engine", "us", "parse_us", "match_us", "emit_us", "lxml_parse_us", "matches", "documents",
    ),
    full=Sizes((100, 1_000, 3_000, 10_000, 30_000, 100_000), 100),
    quick=Sizes((100, 1_000, 2_000, 5_000), 20, passes=2, cell_seconds=0.2),
    points=lambda sizes: [{"queries": queries} for queries in sizes.queries],
    measure=measure,
    verdict=verdict,
    panels=panels,
)  # fmt: skip
