"""Routing tables that know the schema (left for later by ONYX, section 4.2.1): sizes and cost.

The routing table of a root whose source sends documents of one DTD, checked; the subscribers also ask for documents of
another DTD. Three tables: as it is; without what no document of the source can match (pruning by a source description);
and with paths that begin where the DTD leaves no choice of what is above (parents that the schema implies left out).
"""

from __future__ import annotations

from collections.abc import Sequence

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import DOCUMENT_BYTES, query_settings
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_most, pick, ratio, times
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.model import Subscription
from treecast.overlay.onyx.routing import RoutingQuery, RoutingSettings, RoutingTable
from treecast.overlay.onyx.routing.covering import split
from treecast.overlay.onyx.routing.routing_query import PATTERN, Path, is_plain
from treecast.overlay.onyx.routing.source_schema import possible
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper
from treecast.report import Panel
from treecast.workload import DocumentSettings, Schema, generate_documents, generate_queries

PLAIN, PRUNED, SHORT = "as it is", "possible", "possible, shortened"
QUERIES_MIN = 1_000


def shorten(query: RoutingQuery, schema: Schema) -> RoutingQuery:
    """The query with paths that begin where the schema leaves no choice of what is above."""
    if schema.missing:
        return query
    return RoutingQuery.of(
        tuple(sorted(dict.fromkeys(_shorter(path, schema) for path in conjunction)))
        for conjunction in query.conjunctions
    )


def _shorter(path: Path, schema: Schema) -> Path:
    """The path without first steps that say nothing: no tests, and the only way to the step after them."""
    if path[0][0] == PATTERN:
        return path
    steps = split(path)
    keep = 0
    parents = {
        name: [above for above in schema.elements if name in schema.children(above)] for name in {s.name for s in steps}
    }
    if steps[0].gap or steps[0].name != schema.root or parents[steps[0].name]:
        return path
    for place in range(1, len(steps)):
        step, above = steps[place], steps[place - 1]
        if step.gap or above.tests or not is_plain(step.name) or parents[step.name] != [above.name]:
            break
        keep = place
    if not keep:
        return path
    tokens_dropped = keep  # the tokens of steps without tests
    return ("/" + path[tokens_dropped], *path[tokens_dropped + 1 :])


def points(sizes: Sizes) -> list[Point]:
    return [{"queries": queries} for queries in sizes.queries]


def measure(session: Session, point: Point) -> list[Row]:
    schema, other = Schema.news(), Schema.records()
    settings = query_settings(predicates=1.0, wildcard=0.05, descendant=0.15, depth_min=3)
    half = point["queries"] // 2
    texts = [
        *generate_queries(schema, half, settings, seed=session.seed),
        *generate_queries(other, half, settings, seed=session.seed),
    ]
    document_settings = DocumentSettings(bytes_target=DOCUMENT_BYTES)
    documents = list(generate_documents(schema, session.sizes.documents, document_settings, seed=session.seed))
    session.note("DTDs: the two schemas that ship with treecast; the source sends news")
    mapper = SubscriptionMapper()
    query = RoutingQuery.of(c for text in texts for c in mapper.map(Subscription("", text)).conjunctions)
    forms: dict[str, list[RoutingQuery]] = {PLAIN: [query], PRUNED: [], SHORT: []}
    prepare_seconds = {PLAIN: 0.0}
    prepare_seconds[PRUNED] = clock(lambda: forms[PRUNED].append(possible(query, schema))).cpu
    prepare_seconds[SHORT] = (
        prepare_seconds[PRUNED] + clock(lambda: forms[SHORT].append(shorten(forms[PRUNED][0], schema))).cpu
    )
    rows: list[Row] = []
    expected: list[tuple[str, ...]] | None = None
    for name, (form,) in forms.items():
        session.say(f"{name}, {point['queries']:,} queries")
        table = RoutingTable(RoutingSettings(entries_max=1 << 30))
        build_seconds = clock(lambda table=table, form=form: table.update("link", form))  # type: ignore[misc]
        routes = table.route(documents)
        if expected is not None and routes != expected:
            session.problems.append(f"a table {name} routes otherwise than one {PLAIN}")
        expected = routes
        seconds = session.fastest_pass(lambda table=table: table.route(documents))  # type: ignore[misc]
        rows.append(
            {
                **point,
                "table": name,
                "us": seconds / len(documents) * 1e6,
                "entries": len(table),
                "steps": sum(token[0] == "/" for c in form.conjunctions for path in c for token in path),
                "bytes": len(form.encode()),
                "told": len(table.aggregate()),
                "prepare_us": prepare_seconds[name] / point["queries"] * 1e6,
                "build_us": build_seconds.cpu / point["queries"] * 1e6,
                "documents": len(documents),
            }
        )
    return rows


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    large = pick(rows, queries=most)
    return [_pruning(large, short), _shortening(large, short), _cost(large, short)]


def _pruning(rows: Sequence[Row], short: str) -> Finding:
    share = ratio(rows, PRUNED, PLAIN, key="table", y="entries")
    return Finding(
        "what a source says of its documents prunes the flow of queries to it",
        f"{times(share)} of the entries are left where half of the queries ask for another kind of document",
        "entries left: agree up to 0.6x, differs above 0.9x",
        at_most(None if short else share, agree=0.6, differs=0.9),
        short or "no query of the other DTD is left, and none of this one is lost",
        share,
    )


def _shortening(rows: Sequence[Row], short: str) -> Finding:
    steps = ratio(rows, SHORT, PRUNED, key="table", y="steps")
    entries = ratio(rows, SHORT, PRUNED, key="table", y="entries")
    size = ratio(rows, SHORT, PRUNED, key="table", y="bytes")
    return Finding(
        "parents that the schema implies can be left out of routing tables, which makes them smaller",
        f"{times(steps)} of the steps, {times(entries)} of the entries and {times(size)} of the bytes are left",
        "steps left: agree up to 0.8x, differs above 0.95x",
        at_most(None if short else steps, agree=0.8, differs=0.95),
        short or "where an element has one possible parent; below recursive elements there is a choice",
        steps,
    )


def _cost(rows: Sequence[Row], short: str) -> Finding:
    factor = ratio(rows, SHORT, PLAIN, key="table")
    prepare = max((row["prepare_us"] for row in rows), default=0.0)
    return Finding(
        "smaller tables route faster",
        f"routing takes {times(factor)} of the time of the table as it is; preparing takes {prepare:.0f} µs a query",
        "time to route: agree up to 0.9x, differs above 1.1x",
        at_most(None if short else factor, agree=0.9, differs=1.1),
        short or "a shared machine passes over states that no document reaches, so size alone costs little",
        factor,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("queries", "queries")
    return [
        lines(rows, "Entries of the table", x, ("entries", "conjunctions"), key="table", log_x=True),
        lines(rows, "Time to route", x, key="table", log_x=True),
    ]


EXPERIMENT = Experiment(
    name="onyx-schema",
    paper="ONYX",
    section="4.2.1",
    title="Routing tables that know the schema",
    found="Leaving out parent-child relations that a schema implies, and using descriptions of sources to prune the "
    "flow of queries, are left for later. The paper gives no figures.",
    parameters="half of the queries are for the source's DTD, half for another; their number varies; no budget",
    columns=(
        *("queries", "table", "us", "entries", "steps", "bytes", "told", "prepare_us", "build_us"),
        "documents",
    ),
    full=Sizes((1_000, 4_000, 16_000), 200, passes=3, cell_seconds=1.0),
    quick=Sizes((1_000,), 40, passes=2, cell_seconds=0.3),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
