"""A ring, a network of brokers and one index on the same workload: messages, latency, spread of the load, work.

The paper compares nothing. Here every host has some of the subscriptions, and publishes some of the documents:

- *one index*: the first host has all subscriptions, in one index. A document is sent there, and to each host with a
  match from there.
- *brokers*: every host is a broker, with its own subscriptions and routing tables, and the root of a tree over all of
  them (`treecast.overlay.onyx`). A document goes along the tree of its publisher, where it is wanted.
- *ring*: every host is a peer of a DHT, with a part of the NFA (`treecast.overlay.chord`). Simulated peers; they
  remember where states are.

All three must deliver the same. A message is what one host sends to another; visits of a ring that travel together are
counted one by one, as the paper does, and their frames beside them. Latency is the longest chain of messages until the
last host knows of its matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import draw_documents, namespaces_of, news_schema
from treecast.experiments.panels import bars
from treecast.experiments.rules import at_least, pick, times
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.measure import clock
from treecast.model import Subscription
from treecast.overlay.chord import ChordSettings, NfaSettings
from treecast.overlay.chord.nfa_peer import Method
from treecast.overlay.onyx.routing import LOCAL, RoutingSettings, RoutingTable, Summary
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper
from treecast.overlay.onyx.trees import tree_of
from treecast.report import Panel
from treecast.sim.chord.ring_network import RingNetwork
from treecast.workload import QuerySettings, generate_queries

FAN_OUT = 3
DOCUMENT_BYTES = 4_800
LEVELS = 12
QUERIES_MIN = 500
INDEX, BROKERS = "one index", "brokers"
RINGS: dict[str, tuple[Method, dict[str, int]]] = {
    "ring, iterative": ("iterative", {"fragment_length": 0}),
    "ring, recursive": ("recursive", {"fragment_length": 0}),
    "ring, recursive, l = 3": ("recursive", {"fragment_length": 3}),
    "ring, recursive, 3 places": ("recursive", {"fragment_length": 0, "members": 3}),
}

Matches = set[tuple[int, str]]
"""Number of a document and id of a subscription."""


class Workload(NamedTuple):
    """Host number n has every nth subscription, and publishes every nth document."""

    hosts: int
    queries: list[str]
    namespaces: Mapping[str, str]
    documents: list[bytes]

    def host_of(self, subscription: str) -> int:
        return int(subscription) % self.hosts

    def publisher(self, document: int) -> int:
        return document % self.hosts

    def subscriptions(self, host: int | None = None) -> list[Subscription]:
        return [
            Subscription(str(number), query, namespaces=self.namespaces)
            for number, query in enumerate(self.queries)
            if host is None or number % self.hosts == host
        ]


class Figures(NamedTuple):
    """Of all documents together."""

    matches: Matches
    messages: int
    """For filtering."""
    frames: int
    lookups: int
    notifications: int
    chain: int
    """Summed over the documents."""
    load: Counter[int]
    """By host: what it has to do with documents, in messages that it receives."""
    cpu: float


def points(sizes: Sizes) -> list[Point]:
    systems = [INDEX, BROKERS, *RINGS]
    return [
        {"hosts": int(hosts), "queries": queries, "system": system}
        for hosts in sizes.values
        for queries in sizes.queries
        for system in systems
    ]


def measure(session: Session, point: Point) -> list[Row]:
    workload = _workload(session, point["hosts"], point["queries"])
    system = point["system"]
    session.say(f"{system}, {workload.hosts} hosts, {len(workload.queries):,} queries")
    expected: Figures = session.once(
        f"index {workload.hosts} {len(workload.queries)}", lambda: _one_index(workload), measured=True
    )
    figures = expected
    if system == BROKERS:
        figures = _brokers(workload)
    elif system in RINGS:
        method, settings = RINGS[system]
        figures = _ring(session, workload, method, settings)
    if figures.matches != expected.matches:
        wrong = figures.matches ^ expected.matches
        session.problems.append(f"{system} and one index disagree on {len(wrong):,} matches, first {min(wrong)}")
    count = len(workload.documents)
    load = [figures.load[host] for host in range(workload.hosts)]
    return [
        {
            **point,
            "messages": figures.messages / count,
            "frames": figures.frames / count,
            "lookups": figures.lookups / count,
            "notifications": figures.notifications / count,
            "chain": figures.chain / count,
            "largest": max(load) / max(sum(load), 1),
            "least": min(load) / max(sum(load), 1),
            "matches": len(figures.matches) / count,
            "documents": count,
            "us": figures.cpu / count * 1e6,
        }
    ]


def _workload(session: Session, hosts: int, count: int) -> Workload:
    schema = news_schema(session)
    documents = session.once(
        "documents", lambda: draw_documents(schema, session.sizes.documents, DOCUMENT_BYTES, LEVELS, session.seed)
    )
    session.note(f"documents: {len(documents)} drawn from the DTD, about {DOCUMENT_BYTES / 1000:.1f} KB each")
    settings = QuerySettings(distinct=False)
    queries = session.once(
        "queries", lambda: list(generate_queries(schema, max(session.sizes.queries), settings, seed=session.seed))
    )
    return Workload(hosts, queries[:count], namespaces_of([schema]), documents)


def _one_index(workload: Workload) -> Figures:
    index = Index()
    index.add_many(workload.subscriptions())
    matches_by_document: list[set[str]] = []
    seconds = clock(lambda: matches_by_document.extend({*index.match(document)} for document in workload.documents))
    messages = notifications = chain = 0
    for number, matches in enumerate(matches_by_document):
        # The first host has the index: nobody sends anything to itself.
        messages_sent = int(workload.publisher(number) != 0)
        hosts_told = {workload.host_of(id) for id in matches} - {0}
        messages += messages_sent
        notifications += len(hosts_told)
        chain += messages_sent + bool(hosts_told)
    load = Counter({0: len(workload.documents)})
    pairs = {(number, id) for number, matches in enumerate(matches_by_document) for id in matches}
    return Figures(pairs, messages, messages + notifications, 0, notifications, chain, load, seconds.cpu)


def _brokers(workload: Workload) -> Figures:
    names = [f"b{host:03}" for host in range(workload.hosts)]
    indexes = [Index() for _ in names]
    mapper, settings = SubscriptionMapper(), RoutingSettings()
    own = []
    for host, index in enumerate(indexes):
        rows = workload.subscriptions(host)
        index.add_many(rows)
        summary = Summary(settings)
        summary.update(mapper.map_many(rows))
        own.append(summary.query())
    tables: dict[int, dict[str, RoutingTable]] = {}
    for root in sorted({workload.publisher(number) for number in range(len(workload.documents))}):
        tree = tree_of(names[root], names, lambda one, other: 1.0, FAN_OUT)
        tables[root] = {name: RoutingTable(settings) for name in names}
        for name in sorted(names, key=lambda name: (-_depth(tree, name), name)):
            tables[root][name].update(LOCAL, own[names.index(name)])
            if name in tree:
                tables[root][tree[name]].update(name, tables[root][name].aggregate())
    matches: Matches = set()
    load: Counter[int] = Counter()

    def send(number: int, document: bytes) -> int:
        """Along the tree of its publisher; returns how deep it goes."""
        root = workload.publisher(number)
        pending, deepest = [(names[root], 0)], 0
        while pending:
            name, depth = pending.pop()
            host = names.index(name)
            load[host] += 1
            deepest = max(deepest, depth)
            (targets,) = tables[root][name].route([document])
            if LOCAL in targets:
                matches.update((number, id) for id in indexes[host].match(document))
            pending += [(target, depth + 1) for target in targets if target != LOCAL]
        return deepest

    depths: list[int] = []
    seconds = clock(lambda: depths.extend(send(number, each) for number, each in enumerate(workload.documents)))
    messages = sum(load.values()) - len(workload.documents)
    return Figures(matches, messages, messages, 0, 0, sum(depths), load, seconds.cpu)


def _depth(tree: Mapping[str, str], name: str) -> int:
    return 1 + _depth(tree, tree[name]) if name in tree else 0


def _ring(session: Session, workload: Workload, method: Method, settings: Mapping[str, int]) -> Figures:
    base = tuple(f"p{number}" for number in range(4))
    chord = ChordSettings(base=base, members=settings.get("members", 1), finger_ms=200)
    nfa = NfaSettings(fragment_length=settings["fragment_length"], shed_rate=1.0)
    net = RingNetwork(session.seed, workload.hosts, chord, nfa, settle_ms=5_000)
    for row in workload.subscriptions():
        net.subscribe(net.names[workload.host_of(row.id)], row.id, row.query, row.namespaces)
    net.settle()
    before, received_before = net.counts(), _expansions_by_host(net)
    matches: Matches = set()

    def publish() -> int:
        longest = 0
        for number, document in enumerate(workload.documents):
            result, matches_found = net.publish(net.names[workload.publisher(number)], document, method)
            if not result.is_complete:
                session.problems.append(f"document {number} is not complete")
            matches.update((number, id) for _, id in matches_found)
            longest += result.chain + bool(matches_found)  # then hosts are told
        return longest

    chains: list[int] = []
    seconds = clock(lambda: chains.append(publish()))
    new_counts = net.counts() - before
    messages = new_counts["visits"] + 2 * new_counts["expands"]
    load = Counter({host: count - received_before[host] for host, count in _expansions_by_host(net).items()})
    frames = new_counts["visit frames"] + 2 * new_counts["expands"]
    return Figures(
        matches, messages, frames, new_counts["lookup hops"], new_counts["notifications"], chains[0], load, seconds.cpu
    )


def _expansions_by_host(net: RingNetwork) -> Counter[int]:
    """By host: expansions of states, which is what a visit or a question makes a peer do."""
    return Counter({number: net.peer(name).counts["expansions"] for number, name in enumerate(net.names)})


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    hosts = max(row["hosts"] for row in rows)
    large = {row["system"]: row for row in pick(rows, queries=most, hosts=hosts)}
    ring, brokers, index = large["ring, recursive"], large[BROKERS], large[INDEX]
    message_texts = {name: f"{row['messages']:,.0f}" for name, row in large.items()}
    cost = ring["messages"] / max(brokers["messages"], 1)
    relief = index["largest"] / ring["largest"]
    return [
        Finding(
            "no coordinator has its price: a ring takes many more messages than a network of brokers (ours; the paper "
            "compares nothing)",
            f"messages a document: {', '.join(f'{name} {text}' for name, text in message_texts.items())}",
            "ring (recursive) over brokers: agree from 10x, differs below 2x",
            at_least(None if short else cost, agree=10, differs=2),
            short or "a message for each state and element, instead of one for each host",
            cost,
        ),
        Finding(
            "a ring spreads the work over its peers, where one index has it all (ours)",
            f"the busiest of {hosts} hosts: "
            + ", ".join(f"{name} {row['largest']:.0%}" for name, row in large.items())
            + f"; of the ring {times(relief)} less than of the index",
            "index over ring: agree from half of what equal shares would give, differs below a fifth of it",
            at_least(None if short else relief / hosts, agree=0.5, differs=0.2),
            short or "states differ in how often they are visited",
            relief / hosts,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["queries"] for row in rows)
    shown_rows = [
        {
            **row,
            "at": f"{row['hosts']} hosts",
            "busiest": 100 * row["largest"],
            "short": row["system"].removeprefix("ring, recursive, ").removeprefix("ring, ").removeprefix("one "),
        }
        for row in pick(rows, queries=most)
    ]
    x = ("at", "")
    figures: list[tuple[str, str, str]] = [
        ("Messages", "messages", "messages a document"),
        ("Latency", "chain", "messages, one after the other"),
        ("The busiest host", "busiest", "share of the work, %"),
        ("Work", "us", "CPU µs a document, of all hosts"),
    ]
    return [bars(shown_rows, title, x, (column, label), key="short") for title, column, label in figures]


EXPERIMENT = Experiment(
    name="dht-comparison",
    paper="DHT-NFA",
    section="past the paper",
    title="A ring, a network of brokers and one index on the same workload",
    found="Nothing: the paper compares its two methods with each other only.",
    parameters="every host has a part of the subscriptions and publishes a part of the documents. messages: for "
    "filtering; frames: as they travel together; lookups: hops; chain: until the last host knows; largest and least: "
    "shares of the work. µs/doc: CPU time of all hosts; of rings with the simulator",
    columns=(
        *("hosts", "queries", "system", "messages", "frames", "lookups", "notifications", "chain", "largest", "least"),
        *("matches", "documents", "us"),
    ),
    full=Sizes((1_000,), 20, values=(8, 16)),
    quick=Sizes((100,), 4, values=(6,)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
