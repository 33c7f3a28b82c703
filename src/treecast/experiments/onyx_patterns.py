"""Exact patterns instead of disjunctive normal form: precision against cost (left for later by ONYX, section 4.2.1).

Routing queries of eight links, two ways: as disjunctions of conjunctions of absolute paths, which forget that two paths
meet in one element; and with the whole tree pattern of each subscription beside its paths. Both are matched by one
index. What is forwarded without need and what routing takes are counted, and how large the routing queries are.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.operator_inputs import LINKS, link_name
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, pick, times, value
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.measure import clock
from treecast.model import Subscription
from treecast.overlay.onyx.routing import RoutingSettings, RoutingTable
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper
from treecast.report import Panel

PATHS, EXACT = "paths", "tree patterns"
QUERIES_MIN = 100
TOPICS, PLACES, ITEMS = 60, 60, 12


def draw_query(random: Random) -> str:
    """Two things of one element, or of an element and what is in it."""
    topic, place = random.randrange(TOPICS), random.randrange(PLACES)
    form = random.random()
    if form < 0.4:
        return f'/news/item[topic="t{topic}"][place="p{place}"]'
    if form < 0.7:
        return f'//item[@kind="k{random.randrange(8)}"][topic="t{topic}"]//person[@at="p{place}"]'
    if form < 0.9:
        return f'/news/item[topic="t{topic}" or topic="t{topic + 1}"][price > {random.randrange(90, 99)}]'
    return f'/news/item[place="p{place}"][not(person)]'


def draw_document(random: Random) -> bytes:
    items = "".join(
        f'<item kind="k{random.randrange(8)}"><topic>t{random.randrange(TOPICS)}</topic>'
        f"<place>p{random.randrange(PLACES)}</place><price>{random.randrange(100)}</price>"
        f'<p>Some words <person at="p{random.randrange(PLACES)}"/></p></item>'
        for _ in range(random.randrange(ITEMS))
    )
    return f"<news>{items}</news>".encode()


def points(sizes: Sizes) -> list[Point]:
    return [{"queries": queries} for queries in sizes.queries]


def measure(session: Session, point: Point) -> list[Row]:
    random = Random(f"{session.seed} documents")
    documents = session.once("documents", lambda: [draw_document(random) for _ in range(session.sizes.documents)])
    draw = Random(f"{session.seed} queries")
    links = {link_name(n): [draw_query(draw) for _ in range(point["queries"])] for n in range(LINKS)}
    links_by_document = _links_by_document(links, documents)
    session.note(f"documents: {len(documents)} of up to {ITEMS} items; queries ask for two things of one item")
    rows: list[Row] = []
    for name in (PATHS, EXACT):
        session.say(f"{name}, {point['queries']:,} queries a link")
        settings = RoutingSettings(exact=name == EXACT, entries_max=1 << 30)
        table = RoutingTable(settings)
        build_seconds = clock(lambda table=table, settings=settings: _build(table, links, settings))  # type: ignore[misc]
        routes = table.route(documents)
        for number, (targets, links_needed) in enumerate(zip(routes, links_by_document, strict=True)):
            if not links_needed <= set(targets):
                session.problems.append(f"{name} keeps document {number} from {min(links_needed - set(targets))}")
        seconds = session.fastest_pass(lambda table=table: table.route(documents))  # type: ignore[misc]
        messages_sent, count = sum(map(len, routes)), len(documents)
        rows.append(
            {
                **point,
                "form": name,
                "us": seconds / count * 1e6,
                "sent": messages_sent / count,
                "wanted": sum(map(len, links_by_document)) / count,
                "precision": sum(map(len, links_by_document)) / max(1, messages_sent),
                "entries": len(table),
                "bytes": len(table.aggregate().encode()),
                "build_us": build_seconds.cpu / (LINKS * point["queries"]) * 1e6,
                "documents": count,
            }
        )
    return rows


def _links_by_document(links: dict[str, list[str]], documents: Sequence[bytes]) -> list[set[str]]:
    links_by_document: list[set[str]] = [set() for _ in documents]
    for link, queries in links.items():
        index = Index()
        index.add_many([Subscription(str(number), query) for number, query in enumerate(queries)])
        for document_links, document in zip(links_by_document, documents, strict=True):
            if index.match(document):
                document_links.add(link)
    return links_by_document


def _build(table: RoutingTable, links: dict[str, list[str]], settings: RoutingSettings) -> None:
    mapper = SubscriptionMapper(settings)
    for link, queries in links.items():
        table.update_many(link, mapper.map_many(Subscription("", query) for query in queries), ())


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN} queries a link; this run had {most}"
    return [_precision(rows, short), _cost(pick(rows, queries=most), short)]


def _precision(rows: Sequence[Row], short: str) -> Finding:
    gains = {}
    for queries in sorted({row["queries"] for row in rows}):
        loose, exact = (
            value(rows, "sent", queries=queries, form=PATHS),
            value(rows, "sent", queries=queries, form=EXACT),
        )
        gains[queries] = None if not loose or exact is None else 1 - exact / loose
    known_gains = [gain for gain in gains.values() if gain is not None]
    best = max(known_gains, default=None)
    gain_texts = [
        f"{gain:.0%} fewer with {queries} queries a link" for queries, gain in gains.items() if gain is not None
    ]
    precisions = [row["precision"] for row in rows if row["form"] == EXACT]
    return Finding(
        "a form other than disjunctive normal form could filter more precisely",
        f"tree patterns send {', '.join(gain_texts)}; {min(precisions, default=0):.0%} of what they send is wanted",
        "the largest share of messages saved: agree from 20 %, differs below 5 %",
        at_least(None if short else best, agree=0.2, differs=0.05),
        short or "paths forget which element they met in; the more queries a link has, the less that matters",
        best,
    )


def _cost(rows: Sequence[Row], short: str) -> Finding:
    loose, exact = value(rows, form=PATHS), value(rows, form=EXACT)
    factor = exact / loose if exact and loose else None
    sizes = [value(rows, "bytes", form=form) or 1.0 for form in (PATHS, EXACT)]
    return Finding(
        "a more precise form costs more: that is why routing queries are relaxed",
        f"routing takes {times(factor)} as long with tree patterns; routing queries have {times(sizes[1] / sizes[0])} "
        "the bytes",
        "time to route: agree from 1.2x, differs below 1.0x",
        at_least(None if short else factor, agree=1.2, differs=1.0),
        short or "one index matches both forms at about the same cost, so here precision is nearly free",
        factor,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("queries", "queries a link")
    return [
        lines(rows, "Messages", x, ("sent", "links a document"), key="form", log_x=True, log_y=False),
        lines(rows, "Time to route", x, key="form", log_x=True),
    ]


EXPERIMENT = Experiment(
    name="onyx-patterns",
    paper="ONYX",
    section="4.2.1",
    title="Exact patterns instead of disjunctive normal form",
    found="Routing queries are disjunctions of conjunctions of absolute linear paths, relaxed and so less precise; "
    "other forms are left for later. The paper gives no figures.",
    parameters=f"{LINKS} links; queries a link vary; no budget",
    columns=(
        *("queries", "form", "us", "sent", "wanted", "precision", "entries", "bytes", "build_us"),
        "documents",
    ),
    full=Sizes((30, 100, 300, 1_000), 400, passes=3, cell_seconds=1.0),
    quick=Sizes((30, 100), 80, passes=2, cell_seconds=0.3),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
