"""What it takes to index queries on a ring, for fragments of any length (DHT-NFA, 4 and 6): messages and tables.

Simulated peers, not a replay: the messages are those that they send, and the tables those that they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import namespaces_of, news_schema
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_most, pick
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.overlay.chord import ChordSettings, NfaSettings
from treecast.overlay.chord.routes import keys_of, parse, plan_query
from treecast.report import Panel
from treecast.sim.chord.ring_network import RingNetwork
from treecast.workload import QuerySettings, generate_queries

PEERS = 12
LENGTHS = (0, 1, 2, 3)
QUERIES_MIN = 200


def points(sizes: Sizes) -> list[Point]:
    return [{"l": length} for length in LENGTHS]


def measure(session: Session, point: Point) -> list[Row]:
    """A row for each number of queries: they are added to those before."""
    schema = news_schema(session)
    namespaces = namespaces_of([schema])
    queries = session.once(
        "queries",
        lambda: list(
            generate_queries(schema, max(session.sizes.queries), QuerySettings(distinct=False), seed=session.seed)
        ),
    )
    session.say(f"fragments of length {point['l']}")
    base = ("p0", "p1", "p2", "p3")
    # Places that are remembered would be counted with what peers know of the ring.
    settings = NfaSettings(fragment_length=point["l"], shed_rate=1.0, locations_max=0)
    net = RingNetwork(session.seed, PEERS, ChordSettings(base=base, finger_ms=100), settings, settle_ms=3_000)
    empty = _members_known(net)
    rows: list[Row] = []
    first_number = 0
    for count in session.sizes.queries:
        new_queries = queries[first_number:count]
        before = net.counts()["index messages"]

        def subscribe(new_queries: list[str] = new_queries, first_number: int = first_number) -> None:
            for number, query in enumerate(new_queries, start=first_number):
                net.subscribe(net.names[number % PEERS], f"q{number}", query, namespaces)
            net.settle()

        seconds = clock(subscribe)
        states = sum(_states(query, namespaces) for query in new_queries)
        messages = net.counts()["index messages"] - before
        first_number = count
        rows.append(
            {
                **point,
                "queries": count,
                "states": states / len(new_queries),
                "messages": messages / len(new_queries),
                "known_before": empty,
                "known": _members_known(net),
                "us": seconds.cpu / len(new_queries) * 1e6,
            }
        )
    return rows


def _states(query: str, namespaces: Mapping[str, str]) -> int:
    """States on the way of a query, the start state among them."""
    plan = plan_query(parse(query, namespaces=namespaces))
    return sum(len(keys_of(part.route)) for part in plan.parts)


def _members_known(net: RingNetwork) -> float:
    """Members that a peer knows, on average."""
    rings = [ring for name in net.names for ring in net.peer(name).members]
    return sum(len({*ring.successors, *ring.fingers.values()}) for ring in rings) / len(rings)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    off = max(abs(row["messages"] / row["states"] - 1) for row in rows)
    growth = max(row["known"] / row["known_before"] for row in rows)
    by_length = {row["l"]: row["messages"] for row in pick(rows, queries=most)}
    return [
        Finding(
            "indexing costs as many messages as the query has states, whatever l",
            ", ".join(f"l = {length}: {messages:.2f}" for length, messages in by_length.items())
            + f" messages a query; off by {off:.1%} at most",
            "agree up to 1 %, differs above 10 %",
            at_most(None if short else off, agree=0.01, differs=0.1),
            short,
            off,
        ),
        Finding(
            "routing tables do not grow with the number of queries",
            f"{growth:.2f}x of those without queries, at most",
            "agree up to 1.05x, differs above 1.2x",
            at_most(None if short else growth, agree=1.05, differs=1.2),
            short,
            growth,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    named_rows = [{**row, "length": f"l = {row['l']}"} for row in rows]
    x = ("queries", "queries")
    return [
        lines(named_rows, "Indexing", x, ("messages", "messages a query"), key="length", log_y=False),
        lines(named_rows, "Routing tables", x, ("known", "members that a peer knows"), key="length", log_y=False),
    ]


EXPERIMENT = Experiment(
    name="dht-indexing",
    paper="DHT-NFA",
    section="4, 6",
    title="Messages for indexing a query, and routing tables",
    found="Indexing a query takes as many messages as it has states, whatever l is.",
    parameters=f"{PEERS} simulated peers with 3 copies of each entry; random queries; lookups are not counted. µs/doc: "
    "CPU time for each query, of all peers and of the simulator",
    columns=("l", "queries", "states", "messages", "known_before", "known", "us"),
    full=Sizes((100, 200, 400), 1),
    quick=Sizes((20, 40), 1),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
