"""Selection Postponed against Inline (YFilter, sections 3.3 and 3.4, finding 4).

SP gains what path matching prunes, so there are two kinds of query sets: paths drawn at random, which repeat and many
of which match a document, and distinct paths, few of which match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from treecast.errors import QueryLimitError
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import DOCUMENT_BYTES, RELEASE_DOCUMENTS, news_documents, news_schema, query_settings
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, pairs, pick, ratio, times
from treecast.experiments.session import Session
from treecast.report import Panel
from treecast.workload import DocumentSettings, NumberRange, Schema, Values, generate_documents, generate_queries

ENGINES = ("yfilter", "yfilter-inline")
NUMBERS = Values({"@*": NumberRange(1, 20)})
SET_KINDS = ("random paths", "distinct paths")
QUERIES_MIN = 10_000
DRAWS_PER_QUERY_MAX = 200


def points(sizes: Sizes) -> list[Point]:
    return [
        {"paths": kind, "predicates": int(predicates), "queries": queries}
        for kind in SET_KINDS
        for predicates in sizes.values
        for queries in sizes.queries
    ]


def measure(session: Session, point: Point) -> list[Row]:
    key = f"{point['paths']} {point['predicates']}"
    all_queries = session.once(key, lambda: draw(session, point, max(session.sizes.queries)))
    queries, documents = all_queries[: point["queries"]], numbered_documents(session)
    # How many would match without predicates: what is left for SP to test.
    structural = session.rows((), [path_of(query) for query in queries], documents)[0]["matches"]
    labels = {"paths": point["paths"], "predicates": point["predicates"], "structural": structural}
    return session.rows(ENGINES, queries, documents, **labels)


def numbered_documents(session: Session) -> list[bytes]:
    """Documents of the release, whose attributes are all numbers; or the available ones."""
    session.note("predicates: [@attribute=n]; the attributes of the documents have values from 1 to 20")
    if session.data and (session.data / RELEASE_DOCUMENTS).is_dir():
        return news_documents(session)
    settings = DocumentSettings(bytes_target=DOCUMENT_BYTES, depth_max=8, attributes=0.5, values=NUMBERS)

    def read() -> list[bytes]:
        schema, count = with_numbers(news_schema(session)), session.sizes.documents
        session.note(f"documents: {count} drawn from the DTD, about {DOCUMENT_BYTES / 1000:.1f} KB each")
        return list(generate_documents(schema, count, settings, seed=session.seed))

    return session.once("numbered documents", read)


def draw(session: Session, point: Point, count: int) -> list[str]:
    """Queries with a given number of predicates each; in one kind of set no two have the same path."""
    settings = query_settings(predicates=point["predicates"], values=NUMBERS, distinct=False)
    source = generate_queries(
        with_numbers(news_schema(session)), count * DRAWS_PER_QUERY_MAX, settings, seed=session.seed
    )
    queries = list(with_distinct_paths(source, count)) if point["paths"] == SET_KINDS[1] else first(source, count)
    if len(queries) < count:
        message = f"the DTD gave only {len(queries):,} distinct paths of the {count:,} asked for"
        raise QueryLimitError(message, code="TC381", hint=f"ask for {len(queries):,} queries")
    return queries


def with_numbers(schema: Schema) -> Schema:
    """The same elements; every attribute may have any value, as in the documents of the release."""
    elements = {
        name: replace(
            element,
            attributes=tuple(
                replace(attribute, kind="CDATA", values=(), fixed=None) for attribute in element.attributes
            ),
        )
        for name, element in schema.elements.items()
    }
    return replace(schema, elements=elements)


def first(source: Iterator[str], count: int) -> list[str]:
    return [query for query, _ in zip(source, range(count), strict=False)]


def with_distinct_paths(source: Iterator[str], count: int) -> Iterator[str]:
    known_paths: set[str] = set()
    for query in source:
        path = path_of(query)
        if path not in known_paths:
            known_paths.add(path)
            yield query
            if len(known_paths) == count:
                return


def path_of(query: str) -> str:
    """Without its predicates. (Literals here hold no bracket.)"""
    return re.sub(r"\[[^\]]*\]", "", query)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    enough = most >= QUERIES_MIN
    short = "" if enough else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    large = pick(rows, queries=most)
    factors = {
        (kind, number): ratio(large, "yfilter-inline", "yfilter", paths=kind, predicates=number)
        for kind in SET_KINDS
        for number in sorted({row["predicates"] for row in rows})
    }
    mean = {kind: geometric_mean([factors[key] for key in factors if key[0] == kind]) for kind in SET_KINDS}
    every = geometric_mean(list(factors.values())) if enough else None
    pruning = mean[SET_KINDS[1]] / mean[SET_KINDS[0]] if enough and all(mean.values()) else None  # type: ignore[operator]
    shares = {kind: share_matching(large, kind) for kind in SET_KINDS}
    return [
        Finding(
            "SP performs much better than Inline",
            f"with {most:,} queries Inline takes "
            + "; ".join(
                ", ".join(f"{times(factors[kind, number])} with {number}" for k, number in factors if k == kind)
                + f" predicates ({kind})"
                for kind in SET_KINDS
            ),
            f"with {QUERIES_MIN:,} queries or more: agree from 2x on (geometric) average, differs below 1.2x",
            at_least(every, agree=2.0, differs=1.2),
            short
            or "least with one predicate on paths of which many match: there is little to prune, and both spend their "
            "time on assigning elements to steps at the accepting state",
        ),
        Finding(
            "SP uses path matching to prune the set of queries whose predicates are looked at",
            "; ".join(
                f"{kind}: {shares[kind]:.0%} match without predicates, Inline {times(mean[kind])}" for kind in SET_KINDS
            ),
            "agree if the factor is larger by 1.2x where fewer paths match, differs if it is smaller",
            at_least(pruning, agree=1.2, differs=1.0),
            short,
        ),
        _future_work(rows, most, short),
    ]


def _future_work(rows: Sequence[Row], most: int, short: str) -> Finding:
    """Inline's cost follows the predicates, SP's does not: a failed predicate saves Inline nothing."""
    growth = {}
    for engine in ENGINES:
        curves = [pairs(rows, "predicates", engine=engine, paths=kind, queries=most) for kind in SET_KINDS]
        growth[engine] = geometric_mean([curve[-1][1] / curve[0][1] if len(curve) > 1 else None for curve in curves])
    sp, inline = growth["yfilter"], growth["yfilter-inline"]
    excess = inline / sp if inline and sp and not short else None
    return Finding(
        "early evaluation cannot eliminate future work",
        f"from the fewest to the most predicates a query, Inline's time becomes {times(inline)}, SP's {times(sp)}",
        "agree if Inline's time grows by 1.4x more than SP's, differs if it grows less than SP's",
        at_least(excess, agree=1.4, differs=1.0),
        short
        or "SP stops at the first assignment that fails; Inline has looked at every predicate of every step reached "
        "by then",
    )


def share_matching(rows: Sequence[Row], kind: str) -> float:
    own_rows = pick(rows, paths=kind, engine="yfilter")
    return float(sum(row["structural"] for row in own_rows) / sum(row["queries"] for row in own_rows))


def geometric_mean(figures: Sequence[float | None]) -> float | None:
    positive_figures = [figure for figure in figures if figure]
    return math.exp(sum(map(math.log, positive_figures)) / len(positive_figures)) if positive_figures else None


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["predicates"] for row in rows)
    return [
        lines(
            rows,
            f"{kind.capitalize()}, {most} predicates a query",
            ("queries", "queries"),
            log_x=True,
            paths=kind,
            predicates=most,
        )
        for kind in SET_KINDS
    ]


EXPERIMENT = Experiment(
    name="yfilter-predicates",
    paper="YFilter",
    section="3.4 (4)",
    title="Selection Postponed against Inline",
    found="For value-based predicates, the SP approach was found to perform much better than the Inline approach: "
    "early predicate "
    "evaluation cannot eliminate future work, whereas SP uses path matching to prune the set of queries for which "
    "predicates "
    "need to be considered.",
    parameters="path queries, up to 6 steps, 20 % *, 20 % //, with predicates on attributes; queries and predicates a "
    "query vary",
    columns=(
        "paths", "predicates", "queries", "engine", "us", "matches", "structural", "states", "build_s", "documents",
    ),
    full=Sizes((1_000, 3_000, 10_000, 30_000), 50, values=(1, 2, 4)),
    quick=Sizes((500, 1_000), 10, values=(1, 3), passes=2, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)  # fmt: skip
