"""Messages against flooding: where subscriptions are placed, how large a routing query may be (ONYX, 3.2, 4.2.1, 4.4).

Eight brokers, each the root of a tree over all of them; tables and trees as in a network, in one process. Items of
news have an area, a code of the area, and a topic. Half of the subscribers live where what they ask for happens.
Three placements: at random; at the nearest broker; PEP. A message is a document on a link. *Wanted* are the messages
that no routing can save: those on the way to a broker with a subscription that matches.

The paper gives no figures for this: the rules are ours, and count messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, pick, ratio, times, value
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.measure import clock
from treecast.model import Subscription
from treecast.overlay.onyx.routing import LOCAL, RoutingQuery, RoutingSettings, RoutingTable, Summary
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper
from treecast.overlay.onyx.trees import tree_of
from treecast.placement import Pep
from treecast.report import Panel

BROKERS, FAN_OUT = 8, 3
AREAS, CODES, TOPICS, ITEMS = 32, 60, 10, 3
RANDOM, NEAREST, PEP = "random", "nearest", "PEP"
QUERIES_MIN = 2_000
UNLIMITED = 1 << 30
NAMES = [f"b{number}" for number in range(BROKERS)]
LOCATIONS = {name: (number % 4, number // 4) for number, name in enumerate(NAMES)}


class Subscriber(NamedTuple):
    """Where somebody lives, by the nearest broker, and what they ask for."""

    near: int
    query: str


def draw_subscribers(count: int, random: Random) -> list[Subscriber]:
    return [_draw(random) for _ in range(count)]


def _draw(random: Random) -> Subscriber:
    near = random.randrange(BROKERS)
    is_at_home = random.random() < 0.5
    area = near * (AREAS // BROKERS) + random.randrange(AREAS // BROKERS) if is_at_home else random.randrange(AREAS)
    code = f"{area:02}-{random.randrange(CODES)}"
    if random.random() < 0.7:
        return Subscriber(near, f'/news[@area="{area:02}"]/item[@code="{code}"]')
    return Subscriber(near, f'/news[@area="{area:02}"]/item[@code="{code}"][topic="t{random.randrange(TOPICS)}"]')


def draw_document(random: Random) -> bytes:
    area = f"{random.randrange(AREAS):02}"
    items = "".join(
        f'<item code="{area}-{random.randrange(CODES)}"><topic>t{random.randrange(TOPICS)}</topic></item>'
        for _ in range(ITEMS)
    )
    return f'<news area="{area}">{items}</news>'.encode()


def points(sizes: Sizes) -> list[Point]:
    return [{"queries": queries, "budget": int(budget)} for queries in sizes.queries for budget in sizes.values]


def measure(session: Session, point: Point) -> list[Row]:
    subscribers = session.once(
        f"subscribers {point['queries']}", lambda: draw_subscribers(point["queries"], Random(f"{session.seed} who"))
    )
    random = Random(f"{session.seed} documents")
    documents = session.once("documents", lambda: [draw_document(random) for _ in range(session.sizes.documents)])
    session.note(f"documents: {len(documents)} of {ITEMS} items with one of {AREAS * CODES:,} codes, of {AREAS} areas")
    rows: list[Row] = []
    for placement in (RANDOM, NEAREST, PEP):
        session.say(f"{placement}, {len(subscribers):,} subscriptions, budget {point['budget']:,}")
        hosts = _place(placement, subscribers, session.seed)
        rows.append(_row(session, point, placement, hosts, documents))
    return rows


def _place(placement: str, subscribers: Sequence[Subscriber], seed: int) -> list[list[Subscription]]:
    """By broker its subscriptions."""
    random = Random(f"{seed} place")
    rows = [Subscription(str(number), each.query) for number, each in enumerate(subscribers)]
    if placement == PEP:
        pep = Pep(BROKERS)
        pep.add_many([(row.id, row.query) for row in rows])
        places = [pep.holders(row.id)[0] for row in rows]
    elif placement == NEAREST:
        places = [each.near for each in subscribers]
    else:
        places = [random.randrange(BROKERS) for _ in rows]
    hosts: list[list[Subscription]] = [[] for _ in range(BROKERS)]
    for row, place in zip(rows, places, strict=True):
        hosts[place].append(row)
    return hosts


def _row(
    session: Session, point: Point, placement: str, hosts: list[list[Subscription]], documents: Sequence[bytes]
) -> Row:
    settings = RoutingSettings(entries_max=point["budget"] or UNLIMITED)
    sample = Sample(settings.sample_max)
    sample.learn([draw_document(Random(f"{session.seed} sample {n}")) for n in range(settings.sample_max)])
    matches_by_host = [_match_each(rows, documents) for rows in hosts]
    network = _Network(settings, sample)
    build_seconds = clock(lambda: network.build(hosts))
    messages_sent = messages_needed = 0
    ways: list[set[str]] = []
    send_seconds = clock(
        lambda: ways.extend(network.send(NAMES[n % BROKERS], each) for n, each in enumerate(documents))
    )
    for number, brokers_reached in enumerate(ways):
        root = NAMES[number % BROKERS]
        here = {name for name, row in zip(NAMES, matches_by_host, strict=True) if row[number]}
        if not here <= brokers_reached:
            session.problems.append(f"document {number} does not reach {min(here - brokers_reached)}, {placement}")
        messages_sent += len(brokers_reached) - 1
        messages_needed += len(_ways(network.trees[root], here))
    count = len(documents)
    return {
        **point,
        "placement": placement,
        "us": send_seconds.cpu / len(documents) * 1e6,
        "sent": messages_sent / count,
        "wanted": messages_needed / count,
        "flooding": BROKERS - 1,
        "hosts": sum(map(sum, matches_by_host)) / count,
        "entries": network.largest,
        "build_us": build_seconds.cpu / point["queries"] * 1e6,
        "documents": count,
    }


def _match_each(rows: Sequence[Subscription], documents: Sequence[bytes]) -> list[bool]:
    index = Index()
    index.add_many(rows)
    return [bool(index.match(document)) for document in documents]


def _ways(tree: dict[str, str], brokers: set[str]) -> set[str]:
    """The brokers on the way from the root to these, without the root."""
    brokers_on_way: set[str] = set()
    for name in brokers:
        while name in tree and name not in brokers_on_way:
            brokers_on_way.add(name)
            name = tree[name]
    return brokers_on_way


class _Network:
    """The tables of all brokers in all trees."""

    def __init__(self, settings: RoutingSettings, sample: Sample) -> None:
        self._settings = settings
        self._sample = sample
        self.trees = {root: tree_of(root, NAMES, _cost, FAN_OUT) for root in NAMES}
        self._tables: dict[str, dict[str, RoutingTable]] = {}

    @property
    def largest(self) -> int:
        """The conjunctions of the largest table."""
        return max(len(table) for tables in self._tables.values() for table in tables.values())

    def build(self, hosts: list[list[Subscription]]) -> None:
        mapper = SubscriptionMapper()
        own: dict[str, RoutingQuery] = {}
        for name, rows in zip(NAMES, hosts, strict=True):
            summary = Summary(self._settings, sample=self._sample)
            summary.update(mapper.map_many(rows))
            own[name] = summary.query()
        for root, tree in self.trees.items():
            tables = self._tables[root] = {name: RoutingTable(self._settings, sample=self._sample) for name in NAMES}
            for name in sorted(NAMES, key=lambda name: (-_depth(tree, name), name)):
                tables[name].update(LOCAL, own[name])
                if name in tree:
                    tables[tree[name]].update(name, tables[name].aggregate())

    def send(self, root: str, document: bytes) -> set[str]:
        """The brokers that a document reaches."""
        brokers_reached, pending = {root}, [root]
        while pending:
            (targets,) = self._tables[root][pending.pop()].route([document])
            further = [name for name in targets if name != LOCAL]
            brokers_reached.update(further)
            pending += further
        return brokers_reached


def _cost(one: str, other: str) -> float:
    (x, y), (u, v) = LOCATIONS[one], LOCATIONS[other]
    return 1.0 + abs(x - u) + abs(y - v)


def _depth(tree: dict[str, str], name: str) -> int:
    return 1 + _depth(tree, tree[name]) if name in tree else 0


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} subscriptions; this run had {most:,}"
    large = pick(rows, queries=most)
    return [_flooding(large, short), _placing(large, short), _budget(large, short)]


def _flooding(rows: Sequence[Row], short: str) -> Finding:
    shares = {
        name: (value(rows, "sent", placement=name, budget=0) or 0.0) / (BROKERS - 1) for name in (RANDOM, NEAREST, PEP)
    }
    best = min(shares.values())
    return Finding(
        "content-driven routing sends documents only where they are wanted, instead of flooding the network",
        "messages, of flooding: " + ", ".join(f"{share:.0%} with {name}" for name, share in shares.items()),
        "the best placement, without a budget: agree up to 50 %, differs above 90 %",
        at_most(None if short else best, agree=0.5, differs=0.9),
        short or f"of {ITEMS} items a document, most are wanted by somebody; placement decides by how many brokers",
        best,
    )


def _placing(rows: Sequence[Row], short: str) -> Finding:
    factor = ratio(rows, RANDOM, PEP, key="placement", y="sent", budget=0)
    near = ratio(rows, RANDOM, NEAREST, key="placement", y="sent", budget=0)
    return Finding(
        "placing similar queries at one broker (PEP) reduces the brokers that a document has to reach",
        f"random placement sends {times(factor)} the messages of PEP, and {times(near)} those of the nearest broker",
        "random over PEP: agree from 1.5x, differs below 1.0x",
        at_least(None if short else factor, agree=1.5, differs=1.0),
        short or "the nearest broker helps as far as people ask for what happens near them: here, half of the time",
        factor,
    )


def _budget(rows: Sequence[Row], short: str) -> Finding:
    budgets = sorted(row["budget"] for row in pick(rows, placement=PEP) if row["budget"])
    factor_texts = []
    factors: list[float] = []
    for budget in budgets:
        messages_sent, exact = (
            value(rows, "sent", placement=PEP, budget=budget),
            value(rows, "sent", placement=PEP, budget=0),
        )
        if messages_sent and exact:
            factors.append(messages_sent / exact)
            factor_texts.append(f"{times(messages_sent / exact)} with {budget:,} entries")
    worst = max(factors, default=None)
    return Finding(
        "content generalisation reduces the size of routing tables, and with it their filtering power somewhat",
        f"messages with PEP, of those without a budget: {', '.join(factor_texts)}",
        "at the smallest budget: agree up to 1.5x, differs above 3x",
        at_most(None if short else worst, agree=1.5, differs=3),
        short or "PEP leaves each broker a range of values, which few rules can tell",
        worst,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["queries"] for row in rows)
    shown_rows = [{**row, "budget": row["budget"] or most} for row in pick(rows, queries=most)]
    return [
        lines(
            shown_rows,
            f"{most:,} subscriptions",
            ("budget", "entries of a routing query"),
            ("sent", "messages a document"),
            key="placement",
            log_x=True,
            log_y=False,
        )
    ]


EXPERIMENT = Experiment(
    name="onyx-routing",
    paper="ONYX",
    section="3.2, 4.2.1, 4.4",
    title="Messages against flooding, by placement and budget",
    found="Data flows only where it is wanted; queries are placed by location, load or content (PEP); generalisation "
    "keeps routing tables small and may let through more. The paper gives no figures for messages.",
    parameters=f"{BROKERS} brokers, a tree for each with up to {FAN_OUT} children a broker; subscriptions, their "
    "placement and the budget of a routing query vary (0: none)",
    columns=(
        *("queries", "budget", "placement", "us", "sent", "wanted", "flooding", "hosts", "entries", "build_us"),
        "documents",
    ),
    full=Sizes((2_000, 10_000), 400, values=(0, 1_000, 100, 10)),
    quick=Sizes((2_000,), 80, values=(0, 100, 10)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
