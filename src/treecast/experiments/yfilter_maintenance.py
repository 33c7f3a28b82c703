"""What it costs to add and remove single queries (YFilter, sections 2.2 and 3.4, finding 3)."""

from __future__ import annotations

from collections.abc import Sequence

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_documents, news_queries
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_most, figure, pairs, ratio, slope, times, value
from treecast.experiments.session import REFERENCE, Session, as_table
from treecast.index import Index
from treecast.measure import Answers, clock
from treecast.report import Panel

ENGINES = (REFERENCE, "yfilter", "hybrid", "xfilter")
QUERIES_MIN = 10_000
ROUNDS = 3


def points(sizes: Sizes) -> list[Point]:
    return [{"queries": queries} for queries in sizes.queries]


def measure(session: Session, point: Point) -> list[Row]:
    """Add queries one by one to an index of a given size, and remove them again."""
    changes = session.sizes.queries[0]
    queries = news_queries(session, point["queries"] + changes)
    base, new_queries = queries[: point["queries"]], queries[point["queries"] :]
    documents = news_documents(session)
    steps = sum(query.replace("//", "/").count("/") + query.count("//") for query in new_queries)
    rows, expected = [], None
    for engine in ENGINES:
        session.say(f"{engine}, {len(base):,} queries")
        index = Index(engine=engine)
        index.add_many(as_table(base))
        before, filtering = index.stats().states, session.fastest(index, documents)[0]
        add, remove = _change(index, len(base), new_queries)
        _add(index, len(base), new_queries)
        states = index.stats().states - before
        answers = _answers(index, documents, len(queries))
        _remove(index, len(base), new_queries)
        after = _answers(index, documents, len(queries))
        if expected is None:
            expected = answers, after
        else:
            session.compare(engine, queries, expected[0], answers)
            session.compare(engine, queries, expected[1], after)
        rows.append(
            {
                "queries": len(base),
                "engine": engine,
                "add_us": add / len(new_queries) * 1e6,
                "remove_us": remove / len(new_queries) * 1e6,
                "us": filtering / len(documents) * 1e6,
                "new_states": states / len(new_queries),
                "steps": steps / len(new_queries),
                "changes": len(new_queries),
                "documents": len(documents),
            }
        )
    return rows


def _change(index: Index, first: int, queries: Sequence[str]) -> tuple[float, float]:
    """CPU seconds to add all of them one by one, and to remove them again; the fastest of some rounds."""
    adds, removals = [], []
    for _ in range(ROUNDS):
        adds.append(clock(lambda: _add(index, first, queries)).cpu)
        removals.append(clock(lambda: _remove(index, first, queries)).cpu)
    return min(adds), min(removals)


def _add(index: Index, first: int, queries: Sequence[str]) -> None:
    for number, query in enumerate(queries, first):
        index.add(str(number), query)


def _remove(index: Index, first: int, queries: Sequence[str]) -> None:
    for number in range(first, first + len(queries)):
        index.remove(str(number))


def _answers(index: Index, documents: Sequence[bytes], queries: int) -> Answers:
    return Answers.of_table(index.match_many(documents, threads=1), len(documents), range(queries))


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    add, remove = (value(rows, column, engine="yfilter", queries=most) for column in ("add_us", "remove_us"))
    filtering = value(rows, engine="yfilter", queries=most)
    share = (add + remove) / filtering if add and remove and filtering else None
    growth = slope(pairs(rows, "queries", "add_us", engine="yfilter"))
    new_states, steps = (value(rows, column, engine="yfilter", queries=most) for column in ("new_states", "steps"))
    new_share = new_states / steps if new_states is not None and steps else None
    rivals = {
        rival: ratio(rows, rival, "yfilter", y="add_us", queries=most) for rival in ("hybrid", "xfilter", REFERENCE)
    }
    return [
        Finding(
            "the maintenance cost of the NFA structure is small",
            f"at {most:,} queries an addition takes {figure(add, 1)} µs and a removal {figure(remove, 1)} µs, parsing "
            f"the query "
            f"included; filtering a document takes {figure(filtering, 0)} µs. An addition takes "
            + ", ".join(f"{times(factor)} as long in {rival}" for rival, factor in rivals.items()),
            f"with {QUERIES_MIN:,} queries or more: agree if a change (one added, one removed) costs at most a tenth "
            f"of filtering "
            "one document, differs above its whole",
            at_most(None if short else share, agree=0.1, differs=1.0),
            short,
        ),
        Finding(
            "construction is incremental: a change does not depend on how many queries there are",
            f"an addition grows as queries to the power of {figure(growth)}",
            "agree up to 0.25, differs above 0.6",
            at_most(None if short else growth, agree=0.25, differs=0.6),
            short or "what growth there is comes from memory: a larger machine fits the caches less",
        ),
        Finding(
            "the sharing of structure keeps changes small",
            f"at {most:,} queries a new query of {figure(steps, 1)} transitions makes {figure(new_states, 2)} states",
            "agree if at most half of the states that a query needs are new, differs above nine tenths",
            at_most(None if short else new_share, agree=0.5, differs=0.9),
            short,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("queries", "queries there are")
    return [
        lines(rows, "To add one query", x, ("add_us", "CPU µs"), log_x=True, log_y=False),
        lines(rows, "To remove one query", x, ("remove_us", "CPU µs"), log_x=True, log_y=False),
    ]


EXPERIMENT = Experiment(
    name="yfilter-maintenance",
    paper="YFilter",
    section="3.4 (3)",
    title="Adding and removing queries",
    found="The maintenance cost (i.e., as queries are added and removed) of the NFA structure is small, due to the "
    "incremental "
    "construction that a nondeterministic version of a FSM enables and due to the sharing of structure inherent in "
    "the NFA "
    "approach.",
    parameters="distinct path queries, up to 6 steps; as many as the smallest size are added one by one to more and "
    "more",
    columns=("queries", "engine", "add_us", "remove_us", "us", "new_states", "steps", "changes", "documents"),
    full=Sizes((1_000, 5_000, 20_000, 50_000, 100_000), 30),
    quick=Sizes((200, 1_000, 3_000), 5, passes=2, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
