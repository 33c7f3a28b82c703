"""Bytes that links save by what is done before them: early projection and early restructuring (ONYX, 3.2 and 4.2.2).

Fifteen brokers in a binary tree; documents are published at its root. Each is a batch of articles of several areas, as
in the paper's example, with images, comments and tables. Behind each broker are subscribers of two areas. In half of
the points they want articles (projection), in the others documents without images and comments, with lists for tables,
and then one step of their own (restructuring). A share of the subscribers wants whole documents instead: at any
broker, or together at as few brokers as possible.

What is measured is the query and the data plane of the brokers themselves, without connections: plans, routing, changes
of documents, the formats of links, and the subscribers' own index, beside the same brokers without plans. Deliveries
have to be equal, byte by byte.

The paper gives no figures for this, only the argument, so the rules are ours. Bytes are counted; CPU time is that of
all brokers together, in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import news_schema
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, distinct, pick, ratio, value
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.measure import clock
from treecast.model import Subscription
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.messages import SubscriptionOptions
from treecast.overlay.onyx.early_index import EarlyIndexes
from treecast.overlay.onyx.early_plan import EarlyPlan, EarlyWork, is_restructured
from treecast.overlay.onyx.early_wants import EarlyWants
from treecast.overlay.onyx.link_formats import TEXT, Arrival, LinkFormats
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.onyx.routing import RoutingTable
from treecast.overlay.onyx.routing.mapping import map_subscription
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.report import Panel
from treecast.workload import DocumentSettings, generate_documents

BROKERS = 15
AREAS = 24
AREAS_HERE = 2  # that the subscribers of one broker want
ARTICLES = 12  # of a document
ARTICLE_BYTES = 600
LOCAL = ""
PROJECTION, RESTRUCTURING = "projection", "restructuring"
ANYWHERE, TOGETHER = "anywhere", "together"
EARLY, WHOLE = "early", "whole"
SHARED = "drop //image, //comment; rename //table to list"
OWN = ("unwrap //note", "drop //list", "drop //@id", "drop //article[@area='{area}']")
SUBSCRIBERS_MIN = 10  # of one broker
DOCUMENTS_MIN = 20

PayloadByDelivery = dict[tuple[str, int], bytes]
"""Payloads by subscription and document."""


def points(sizes: Sizes) -> list[Point]:
    return [
        {"kind": kind, "share": share, "placing": placing}
        for kind in (PROJECTION, RESTRUCTURING)
        for share in sizes.values
        for placing in ((ANYWHERE, TOGETHER) if share else (ANYWHERE,))
    ]


# -- inputs


def draw_documents(session: Session) -> list[bytes]:
    """Batches of articles drawn from the schema, each with an area, an image, a comment and a table."""

    def draw() -> list[bytes]:
        count = session.sizes.documents
        session.note(f"documents: {count} batches of {ARTICLES} articles drawn from the DTD")
        settings = DocumentSettings(bytes_target=ARTICLE_BYTES, depth_max=8)
        articles = generate_documents(news_schema(session), count * ARTICLES, settings, seed=session.seed)
        random = Random(session.seed)
        return [b"<batch>%s</batch>" % b"".join(_articles(articles, random)) for _ in range(count)]

    return session.once("batches", draw)


def _articles(documents: Iterator[bytes], random: Random) -> Iterator[bytes]:
    for _ in range(ARTICLES):
        text = next(documents)
        body = text[text.rindex(b"?>") + 2 :] if text.startswith(b"<?xml") else text
        image = random.randbytes(200).hex().encode()
        rows = b"".join(b"<row>%d</row>" % random.randrange(1_000) for _ in range(4))
        extras = b"<image>%s</image><comment><note>seen</note></comment><table>%s</table>" % (image, rows)
        yield b'<article area="%s" id="%d">%s%s</article>' % (
            *(_area(random.randrange(AREAS)).encode(), random.randrange(1_000_000)),
            *(extras, body),
        )


def _area(number: int) -> str:
    return f"a{number % AREAS}"


def draw_subscriptions(session: Session, point: Point) -> dict[int, list[Subscription]]:
    """By broker. The first broker is the root: what its own subscribers want crosses no link."""
    random = Random(session.seed)
    here = session.sizes.queries[-1]
    count = here * (BROKERS - 1)
    whole = round(count * point["share"])
    places = list(range(count))
    if point["placing"] == ANYWHERE:
        random.shuffle(places)
    wanting = set(places[:whole])  # together: the first brokers are filled up with them
    # A preorder from the leaves of one branch: those that are together share as much of their way as they can.
    order = sorted(range(1, BROKERS), key=lambda broker: (_branch(broker), -broker))
    subscriptions_by_broker: dict[int, list[Subscription]] = {broker: [] for broker in range(BROKERS)}
    for place in range(count):
        broker = order[place // here]
        area = _area(broker * AREAS_HERE + random.randrange(AREAS_HERE))
        subscriptions_by_broker[broker].append(
            _subscription(f"q{place}", area, point["kind"], place in wanting, random)
        )
    return subscriptions_by_broker


def _branch(broker: int) -> int:
    """The child of the root that a broker is below."""
    while broker > 2:
        broker = (broker - 1) // 2
    return broker


def _subscription(id: str, area: str, kind: str, is_whole: bool, random: Random) -> Subscription:
    path = f"/batch/article[@area='{area}']"
    if is_whole:
        return Subscription(id, path)
    if kind == RESTRUCTURING:
        return Subscription(id, f"{SHARED}; {random.choice(OWN).format(area=area)}")
    if random.random() < 0.5:
        return Subscription(id, path, deliver="elements")
    return Subscription(id, f"for $n in $msg/batch/article where $n/@area = '{area}' return <hit>{{$n/table}}</hit>")


# -- brokers


class Place:
    """A broker's planes, without connections. Its children are told by `connect`, the leaves first."""

    def __init__(self, name: str, subscriptions: Sequence[Subscription], settings: NetworkSettings) -> None:
        self.name = name
        self.children: list[Place] = []
        self.format = settings.link_formats[0]
        self.formats = LinkFormats(settings)
        self.plan = EarlyPlan(settings)
        self.table = RoutingTable()
        self.index = Index()
        self.index.add_many(list(subscriptions))
        rows = [(one.id, _row(one)) for one in subscriptions]
        self._remainders = EarlyIndexes(lambda: rows, self.index.limits)
        wants = EarlyWants(settings)
        wants.change(subscriptions, [])
        while not wants.is_settled:
            wants.refine(list)
        self.plan.set(LOCAL, wants.plan)
        queries = [map_subscription(one) for one in subscriptions]
        self.table.update_many(LOCAL, [part for query in queries for part in query.conjunctions], [])

    def connect(self, child: Place) -> None:
        self.children.append(child)
        self.table.update(child.name, child.table.aggregate())
        self.plan.set(child.name, child.plan.own)

    def receive(self, parcels: Sequence[Parcel], run: Run) -> None:
        """What a broker does with documents that have come, and all behind it."""
        arrivals = self.formats.read(parcels)
        arrivals_by_target: dict[str, list[Arrival]] = {
            name: [] for name in (LOCAL, *(child.name for child in self.children))
        }
        for arrival, targets in zip(arrivals, self.table.route([one.content for one in arrivals]), strict=True):
            for target in targets:
                arrivals_by_target[target].append(arrival)
        work = self.plan.begin()
        for child in self.children:
            changed_arrivals = run.change(work, child.name, arrivals_by_target[child.name])
            parcels_sent = self.formats.write(changed_arrivals, self.format)
            run.links += len(parcels_sent)
            run.text_bytes += sum(len(arrival.body) for arrival in changed_arrivals)
            run.wire_bytes += sum(len(parcel.body) for parcel in parcels_sent)
            child.receive(parcels_sent, run)
        self._serve(arrivals_by_target[LOCAL], run)

    def _serve(self, arrivals: Sequence[Arrival], run: Run) -> None:
        for arrival in arrivals:
            index: Index | None = self.index
            if is_restructured(arrival.early):
                plan = self.plan.resolve(arrival.early)
                index = self._remainders.find(arrival.early, plan, 1) if plan else None
            if index is None:
                run.unfit += 1
                continue
            for delivery in index.render(arrival.content):
                run.delivered[delivery.subscription, arrival.number] = delivery.payload


def _row(one: Subscription) -> SubscriptionRow:
    return SubscriptionRow(one.query, dict(one.namespaces), one.ordered, one.deliver, SubscriptionOptions(), 0, 0)


class Run:
    """What one pass over the documents came to. With `times_early` it times what is done before links, and only that:
    a clock tidies memory first, which takes time itself."""

    def __init__(self, times_early: bool = False) -> None:
        self.links = self.text_bytes = self.wire_bytes = self.unfit = 0
        self.early_seconds = self.seconds = 0.0
        self.delivered: PayloadByDelivery = {}
        self._times_early = times_early

    def change(self, work: EarlyWork, target: str, arrivals: list[Arrival]) -> list[Arrival]:
        changed_arrivals: list[Arrival] = []

        def apply() -> None:
            changed_arrivals.extend(work.apply(target, arrivals)[0])

        if self._times_early:
            self.early_seconds += clock(apply).cpu
        else:
            apply()
        return changed_arrivals


def build(subscriptions: dict[int, list[Subscription]], settings: NetworkSettings) -> Place:
    """The root of the tree."""
    places = [Place(f"b{broker}", subscriptions[broker], settings) for broker in range(BROKERS)]
    for broker in range(BROKERS - 1, 0, -1):
        places[(broker - 1) // 2].connect(places[broker])
    return places[0]


def measure(session: Session, point: Point) -> list[Row]:
    documents = draw_documents(session)
    parcels = [Parcel(number, "s", "", 0, TEXT, body) for number, body in enumerate(documents, 1)]
    subscriptions = draw_subscriptions(session, point)
    rows: list[Row] = []
    expected: PayloadByDelivery | None = None
    for plan, settings in ((WHOLE, NetworkSettings(plan_bytes_max=0)), (EARLY, NetworkSettings())):
        session.say(f"{point['kind']}, {plan}, {point['share']:g} whole, {point['placing']}")
        root = build(subscriptions, settings)
        best = _fastest(session, root, parcels)
        if expected is not None and (best.delivered != expected or best.unfit):
            session.problems.append(f"deliveries differ with {point}")
        expected = best.delivered
        rows.append({**point, "plan": plan, **_figures(best, len(documents))})
    return rows


def _fastest(session: Session, root: Place, parcels: Sequence[Parcel]) -> Run:
    best: Run | None = None
    seconds = 0.0
    for _ in range(session.sizes.passes):
        run = Run()
        run.seconds = clock(lambda run=run: root.receive(parcels, run)).cpu  # type: ignore[misc]
        best = run if best is None or run.seconds < best.seconds else best
        seconds += run.seconds
        if seconds > session.sizes.cell_seconds:
            break
    assert best is not None
    timing = Run(times_early=True)
    root.receive(parcels, timing)
    best.early_seconds = timing.early_seconds
    return best


def _figures(run: Run, documents: int) -> dict[str, Any]:
    return {
        "links": run.links / documents,
        "text_bytes": run.text_bytes / documents,
        "wire_bytes": run.wire_bytes / documents,
        "us": run.seconds / documents * 1e6,
        "early_us": run.early_seconds / documents * 1e6,
        "deliveries": len(run.delivered) / documents,
        "documents": documents,
    }


# -- verdict


def verdict(rows: Sequence[Row]) -> list[Finding]:
    least = min(row["documents"] for row in rows)
    short = "" if least >= DOCUMENTS_MIN else f"a verdict takes {DOCUMENTS_MIN} documents; this run had {least}"
    return [_smaller(rows, short), _less_work(rows, short), _blocking(rows, short)]


def saving(rows: Sequence[Row], **where: Any) -> float | None:
    """The share of the bytes of text that need not travel."""
    share_left = ratio(rows, EARLY, WHOLE, key="plan", y="text_bytes", **where)
    return None if share_left is None else 1 - share_left


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{100 * share:.0f} %"


def _smaller(rows: Sequence[Row], short: str) -> Finding:
    savings = {kind: saving(rows, kind=kind, share=0, placing=ANYWHERE) for kind in (PROJECTION, RESTRUCTURING)}
    worst = min((share for share in savings.values() if share is not None), default=None)
    wire = {
        kind: ratio(rows, EARLY, WHOLE, key="plan", y="wire_bytes", kind=kind, share=0, placing=ANYWHERE)
        for kind in savings
    }
    return Finding(
        "incremental transformation helps reduce message sizes",
        "without subscribers to whole documents, links save "
        + ", ".join(
            f"{_percent(share)} of the text by {kind} ({_percent(1 - (wire[kind] or 1))} on the wire)"
            for kind, share in savings.items()
        ),
        "agree if both save at least 30 % of the text on all links together, differs if one saves less than 10 %",
        "inconclusive" if short else at_least(worst, agree=0.3, differs=0.1),
        short or "all links count, those near the root, behind which more is wanted, as well",
        worst,
    )


def _less_work(rows: Sequence[Row], short: str) -> Finding:
    where = {"kind": RESTRUCTURING, "share": 0, "placing": ANYWHERE}
    factor = ratio(rows, EARLY, WHOLE, key="plan", y="us", **where)
    other = ratio(rows, EARLY, WHOLE, key="plan", y="us", **{**where, "kind": PROJECTION})
    own = value(rows, "early_us", plan=EARLY, **where)
    whole = value(rows, "us", plan=WHOLE, **where)
    part = None if own is None or not whole else own / whole
    return Finding(
        "it avoids repeated work at multiple brokers",
        f"all brokers together take {_times(factor)} the CPU time with early restructuring, of which the steps before "
        f"links are {_percent(part)} of what it was without, and {_times(other)} with early projection",
        "restructuring: agree up to 1.0 times the time without, differs above 1.25 times",
        "inconclusive" if short else at_most(factor, agree=1.0, differs=1.25),
        short or "the first steps are done once a link with a plan of its own, and not once a subscriber",
        factor,
    )


def _times(factor: float | None) -> str:
    return "—" if factor is None else f"{factor:.2f} times"


def _blocking(rows: Sequence[Row], short: str) -> Finding:
    shares = [share for share in distinct(rows, "share") if share]
    most = saving(rows, kind=PROJECTION, share=0, placing=ANYWHERE)
    small = min(shares, default=None)
    savings = {
        placing: [(share, saving(rows, kind=PROJECTION, share=share, placing=placing)) for share in shares]
        for placing in (ANYWHERE, TOGETHER)
    }
    saving_together = dict(savings[TOGETHER]).get(small) if small is not None else None
    share = saving_together / most if saving_together is not None and most else None
    return Finding(
        "a subscriber to whole documents blocks what would be done before the links to it (4.2.2, condition 3), so "
        "where they are decides what is saved",
        "; ".join(
            f"{placing}: "
            + ", ".join(f"{_percent(share_saved)} with {_percent(part)} of them" for part, share_saved in points)
            for placing, points in savings.items()
        ),
        f"with the smallest share of them placed together, {_percent(small)}: agree if at least half of the saving is "
        "left, differs below a quarter",
        "inconclusive" if short else at_least(share, agree=0.5, differs=0.25),
        short,
        share,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    """Over the share of subscribers to whole documents."""
    x = ("share", "share of subscribers to whole documents")
    all_panels = []
    for kind in (PROJECTION, RESTRUCTURING):
        some = [
            {**row, "brokers": WHOLE if row["plan"] == WHOLE else f"early, {row['placing']}"}
            for row in rows
            if row["kind"] == kind and (row["plan"] == EARLY or row["placing"] == ANYWHERE)
        ]
        some += [{**row, "brokers": f"early, {TOGETHER}"} for row in pick(some, plan=EARLY, share=0)]
        all_panels.append(lines(some, f"{kind}: text on links", x, ("text_bytes", "bytes per document"), key="brokers"))
        all_panels.append(lines(some, f"{kind}: CPU of all brokers", x, ("us", "µs per document"), key="brokers"))
    return all_panels


EXPERIMENT = Experiment(
    name="onyx-early",
    paper="ONYX",
    section="3.2, 4.2.2",
    title="Bytes saved by what is done before links",
    found="Transforming messages in the course of routing, by early projection and early restructuring, helps reduce "
    "message sizes and avoids repeated work at multiple brokers. The paper gives no figures. What can be done depends "
    "on all queries downstream of a link.",
    parameters=f"{BROKERS} brokers in a binary tree, {AREAS_HERE} of {AREAS} areas at each, documents of {ARTICLES} "
    "articles; the share of subscribers that want whole documents, at any broker or together. Bytes of text on all "
    "links, and as they travel; CPU of all brokers in one process, per document",
    columns=(
        *("kind", "share", "placing", "plan", "links", "text_bytes", "wire_bytes", "us", "early_us"),
        *("deliveries", "documents"),
    ),
    full=Sizes((100,), 100, values=(0, 0.001, 0.01, 0.1, 0.5), passes=3),
    quick=Sizes((20,), 20, values=(0, 0.01, 0.1), passes=2, cell_seconds=0.5),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
