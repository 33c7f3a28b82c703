"""Plans of what is done to documents before links: what they allow, how they change, and that nobody notices."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from generators.link_sets import NOTHING, Drawing, outcome, same
from support.peer_network import Factory, PeerNetwork
from support.sanitized import fewer

from treecast.document import Document
from treecast.links import Restructuring, remainder_after
from treecast.model import Subscription
from treecast.overlay.broker import Broker
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.rows import DOCUMENTS, DocumentRow, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import (
    Command,
    Hello,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from treecast.overlay.messages import Document as Published
from treecast.overlay.onyx.control_messages import CatalogDelta, CatalogEntry, NewView
from treecast.overlay.onyx.early_plan import NOBODY, WHOLE, EarlyPlan, early_of_plan, is_restructured
from treecast.overlay.onyx.early_wants import EarlyWants
from treecast.overlay.onyx.link_formats import Arrival, LinkFormats
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Announce, Forward, Parcel, Plan
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.storage import Storage
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

USUAL = NetworkSettings()
ROUNDS = 80


def arrivals(*bodies: bytes) -> list[Arrival]:
    return LinkFormats(USUAL).read([Parcel(number, "s", "", 0, "text", body) for number, body in enumerate(bodies, 1)])


# --- the algebra ------------------------------------------------------------------------------------------------------


class Place:
    """A broker, reduced to what it and those behind it allow."""

    def __init__(self, parent: Place | None, settings: NetworkSettings = USUAL) -> None:
        self.parent = parent
        self.wants = EarlyWants(settings)
        self.plan = EarlyPlan(settings)
        self.children: list[Place] = []
        self.subscriptions: list[Subscription] = []
        self.name: str = "root" if parent is None else f"{parent.name}.{len(parent.children)}"
        if parent is not None:
            parent.children.append(self)

    def everyone(self) -> list[Place]:
        return [self, *(place for child in self.children for place in child.everyone())]

    def change(self, added: list[Subscription], removed: list[Subscription]) -> None:
        self.subscriptions = [one for one in self.subscriptions if one not in removed] + added
        if self.wants.change(added, removed) and self.plan.set("", self.wants.plan):
            self.tell()

    def tell(self) -> None:
        if self.parent is not None and self.parent.plan.set(self.name, self.plan.own):
            self.parent.tell()

    def receive(self, arrivals: list[Arrival], data: bytes, seen: Counter[str]) -> None:
        """What everybody makes of what arrives, one document or none, is what they make of the document."""
        is_part = bool(arrivals) and bool(arrivals[0].early)
        for subscription in self.subscriptions:
            expected = outcome(subscription, data)
            found = outcome(self.rest(subscription, arrivals[0].early), arrivals[0].body) if arrivals else NOTHING
            seen["delivered from a part"] += isinstance(expected, bytes) and is_part
            seen["remainder"] += is_part and is_restructured(arrivals[0].early)
            assert same(found, expected), f"{subscription.query} of {data!r} in {found!r}, not {expected!r}"
        work = self.plan.begin()
        for child in self.children:
            left, _ = work.apply(child.name, arrivals)
            seen["not sent"] += len(left) < len(arrivals)
            child.receive(left, data, seen)

    def rest(self, subscription: Subscription, mark: str) -> Subscription:
        """What is left to do."""
        if not is_restructured(mark):
            return subscription
        plan = self.plan.resolve(mark)
        assert plan is not None
        rest = remainder_after(early_of_plan(plan), subscription)
        assert rest is not None, f"{subscription.query} after {plan}"
        return rest

    def rebuilt(self) -> Plan:
        """What it should tell its parent, computed anew."""
        wants, plan = EarlyWants(USUAL), EarlyPlan(USUAL)
        wants.change(self.subscriptions, [])
        plan.set("", wants.plan)
        for child in self.children:
            plan.set(child.name, child.rebuilt())
        return plan.own


def grow(random: Random) -> Place:
    root = Place(None)
    for _ in range(random.choice([1, 2, 4, 6])):
        Place(random.choice(root.everyone()))
    return root


def test_every_subscription_makes_of_what_arrives_what_it_makes_of_the_document() -> None:
    """And so after every change, whatever was drawn; the plans are those that would be made anew."""
    seen: Counter[str] = Counter()
    for seed in range(fewer(ROUNDS)):
        drawing = Drawing(seed)
        root = grow(drawing.random)
        places = root.everyone()
        for _ in range(3):
            for subscription in drawing.family():
                drawing.random.choice(places).change([subscription], [])
            place = drawing.random.choice(places)
            place.change([], [one for one in place.subscriptions if drawing.random.random() < 0.5])
            for _ in range(2):
                data = drawing.document()
                root.receive(arrivals(data), data, seen)
            assert root.plan.own == root.rebuilt()
    assert min(seen["delivered from a part"], seen["not sent"], seen["remainder"]) > ROUNDS / 10, seen


def test_a_plan_is_one_value_for_a_link_and_goes_away_and_comes_back() -> None:
    wants = EarlyWants(USUAL)
    parts = [Subscription(str(n), f"/r/i[@x={n}][@y=1]", deliver="elements") for n in range(40)]
    wants.change(parts, [])
    assert wants.plan.steps == "keep /r/i[@y=1]", "what they have in common, however many"
    whole = Subscription("w", "/r")
    assert wants.change([whole], []) and wants.plan == WHOLE
    assert not wants.change([parts[0], whole], [whole]), "one of two is still there"
    assert wants.change([], [whole, parts[0]]) and wants.plan.steps == "keep /r/i[@y=1]"
    assert wants.change([], parts) and wants.plan == NOBODY
    list_of_steps = Subscription("l", "drop //i")
    assert wants.change([list_of_steps, parts[0]], []) and wants.plan == WHOLE, "it gets something of every document"
    assert wants.change([], [parts[0]]) and wants.plan == Plan("drop //i", empty=True), "alone it has steps to share"


def test_many_queries_are_looked_at_bit_by_bit_and_too_many_not_at_all() -> None:
    settings = NetworkSettings(plan_queries_max=8, plan_steps_max=2)
    wants = EarlyWants(settings)
    parts = [Subscription(str(n), f"/r/i[@x={n}]", deliver="elements") for n in range(10)]
    assert wants.change(parts[:5], []) and wants.plan == WHOLE
    assert not wants.refine(list) and not wants.refine(list), "5 queries, 2 in a turn"
    assert wants.refine(list) and wants.plan.steps.count("@x") == 5
    assert wants.change(parts[5:], []) and wants.plan == WHOLE, "2 more than there is room for"
    assert not wants.change([], [parts[9], parts[0]]) and wants.plan == WHOLE, "nobody knows what the last one was"
    assert not any(wants.refine(lambda: parts[1:9]) for _ in range(3))
    assert wants.refine(list) and wants.plan.steps.count("@x") == 8


def test_what_is_too_long_or_not_understood_is_not_done() -> None:
    plan = EarlyPlan(NetworkSettings(plan_bytes_max=30))
    assert plan.set("b1", Plan("keep /r/i[@x='1']")) and plan.own.steps
    assert plan.set("b2", Plan("keep /r/j[@x='1']")) and plan.own == WHOLE, "together they are too long"
    assert plan.plan("b2").steps, "each by itself is not"
    assert plan.set("b2", None) and plan.own.steps
    for wrong in (Plan("keep /r/i["), Plan("from /r/i drop //b"), Plan("keep /r/" + "i" * 40)):
        assert plan.set("b3", wrong) and plan.own == plan.plan("b3") == WHOLE
        whole = arrivals(b"<r><j/></r>")
        assert plan.begin().apply("b3", whole) == (whole, 0)
        assert plan.set("b3", None)
    assert plan.misunderstood == 2


def test_a_document_is_changed_once_for_all_links_with_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = EarlyPlan(USUAL)
    for name in ("b1", "b2"):
        plan.set(name, Plan("keep /r/i"))
    plan.set("b3", Plan("keep /r/j"))
    plan.set("b4", WHOLE)
    counts: list[int] = []
    apply_many = Restructuring.apply_many

    def count(action: Restructuring, documents: list[Document]) -> object:
        counts.append(len(documents))
        return apply_many(action, documents)

    monkeypatch.setattr(Restructuring, "apply_many", count)
    came = arrivals(b"<r><i>1</i><j/></r>", b"<r>")
    work = plan.begin()
    (first, saved), (second, _) = (work.apply(name, came) for name in ("b1", "b2"))
    assert first == second and first[0] is second[0] and counts == [1] and saved == 4
    assert [one.body for one in first] == [b"<r><i>1</i></r>", b"<r>"], "what cannot be read here goes as it is"
    assert [one.early != "" for one in first] == [True, False]
    assert work.apply("b4", came) == (came, 0)
    assert work.apply("b3", came)[0][0].body == b"<r><j/></r>"


def test_steps_that_were_done_are_not_done_again_and_others_stay_away() -> None:
    plan = EarlyPlan(USUAL)
    steps = {"b1": "drop /r/i[1]", "b2": "drop /r/i[1]; rename //i to j", "b3": "drop /r/i[1]; unwrap //i"}
    for name, text in steps.items():
        plan.set(name, Plan(text, empty=True))
    assert plan.own == Plan(steps["b1"], empty=True), "what all of them begin with"
    before = EarlyPlan(USUAL)
    before.set("this broker", plan.own)
    data = b"<r><i>1</i><i>2</i></r>"
    (came,), _ = before.begin().apply("this broker", arrivals(data))
    assert came.body == b"<r><i>2</i></r>" and is_restructured(came.early)
    assert plan.understands(Parcels.of([came.parcel]))
    work = plan.begin()
    assert work.apply("b1", [came]) == ([came], 0), "nothing is left to do"
    assert [work.apply(name, [came])[0][0].body for name in ("b2", "b3")] == [b"<r><j>2</j></r>", b"<r>2</r>"]
    assert plan.set("b1", Plan("drop /r/i[2]", empty=True)), "another list, while the document was on its way"
    assert plan.begin().apply("b1", [came]) == ([came], 0)
    assert not EarlyPlan(USUAL).understands(Parcels.of([came.parcel]))


def test_a_document_of_which_nothing_is_left_or_that_is_refused_goes_as_it_came() -> None:
    plan = EarlyPlan(USUAL)
    plan.set("b1", Plan("drop /r", empty=True))
    plan.set("b2", Plan("rename //@x to y", empty=True))
    plan.set("b3", Plan("keep /r/j"))
    whole = arrivals(b"<r x='1' y='1'/>")
    work = plan.begin()
    assert work.apply("b1", whole) == (whole, 0), "everyone gets an empty payload, and makes it where it is hosted"
    assert work.apply("b2", whole) == (whole, 0), "everyone gets a refusal"
    assert work.apply("b3", whole) == ([], len(whole[0].body))


# --- brokers ----------------------------------------------------------------------------------------------------------

NEWS = b"<news>" + b"".join(b'<item area="%d"><p>%s</p></item>' % (n, b"x" * 100) for n in range(10)) + b"</news>"
PART, OTHER = "/news/item[@area='1']", "/news/item[@area='2']"


class Network:
    """A chain of brokers, b1 the root of the only source, with a client at each; documents travel as text."""

    def __init__(self, **settings: Any) -> None:
        self.network = PeerNetwork()
        self.names = ["b1", "b2", "b3"]
        self.requests = dict.fromkeys(self.names, 0)
        self.leases: dict[str, int] = {}
        for name in self.names:
            self.network.add(name, self._factory(name, NetworkSettings(link_formats=(), **settings)))
        view = View(1, {name: BrokerInfo() for name in self.names}, {"b1": {"b2": "b1", "b3": "b2"}})
        for name in self.names:
            self.network.tell("registry", name, NewView(view))
            (welcome,) = self.network.tell(f"c-{name}", name, Hello(f"c-{name}"))
            assert isinstance(welcome, Welcome)
            self.leases[name] = welcome.lease
        self.network.run(1_000)
        self.network.tell("registry", "b1", CatalogDelta(0, 1, [CatalogEntry("s", "b1", 1)]))

    def _factory(self, name: str, settings: NetworkSettings) -> Factory:
        def make(storage: Storage, random: Random) -> NetworkBroker:
            return NetworkBroker(name, storage, random, network=settings, registries=("registry",))

        return make

    def ask(self, name: str, command: Command) -> None:
        self.requests[name] += 1
        self.network.tell(f"c-{name}", name, Request(self.requests[name], command, self.leases[name]))
        self.network.run(200)

    def publish(self) -> list[int]:
        """The size of the document on each link, from the root down."""
        before = len(self.network.sent)
        self.ask("b1", Publish("s", [Published(NEWS)]))
        messages = [message for _, _, message in self.network.sent[before:] if isinstance(message, Forward)]
        return [len(parcel.body) for message in messages for parcel in Parcels.read(message.documents)]

    def payloads(self, name: str) -> list[bytes]:
        """Of the last document there."""
        storage = self.network.storages[name]
        *_, (_, data) = storage.scan(DOCUMENTS, 0, 1_000)
        return [storage.body(number) for number in decode(data, DocumentRow).payloads]


def elements(id: str, query: str) -> Subscribe:
    return Subscribe(id, query, {}, False, "elements")


def test_documents_shrink_on_the_way_and_deliveries_do_not() -> None:
    network = Network()
    network.ask("b3", elements("q1", PART))
    network.ask("b2", elements("q2", OTHER))
    first, second = network.publish()
    assert second < first < len(NEWS) / 4
    items = [b'<item area="%d"><p>%s</p></item>' % (n, b"x" * 100) for n in range(10)]
    assert network.payloads("b3") == [items[1]] and network.payloads("b2") == [items[2]]
    saved = [network.network.peers[name].stats()["link_bytes_saved"] for name in ("b1", "b2")]
    assert saved == [len(NEWS) - first, first - second]


def test_with_plans_switched_off_documents_travel_whole() -> None:
    network = Network(plan_bytes_max=0)
    network.ask("b3", elements("q1", PART))
    assert network.publish() == [len(NEWS), len(NEWS)]


def test_whoever_wants_whole_documents_blocks_the_links_to_them_and_no_others() -> None:
    network = Network()
    network.ask("b3", elements("q1", PART))
    network.ask("b2", Subscribe("whole", "/news"))
    first, second = network.publish()
    assert first == len(NEWS) and second < len(NEWS) / 4
    assert network.payloads("b2") == [NEWS], "its own bytes"
    network.ask("b2", Unsubscribe("whole"))
    first, second = network.publish()
    assert first == second < len(NEWS) / 4, "the plan is back"
    plans = [message.plan for _, _, message in network.network.sent if isinstance(message, Announce) and message.base]
    assert plans[-1] is not None and plans[-1].steps and len(plans[-1].steps) < 100, "by a delta"


def test_what_a_root_sends_again_is_whole() -> None:
    network = Network()
    network.ask("b3", elements("q1", PART))
    network.network.cut.add(("b1", "b2"))
    network.ask("b1", Publish("s", [Published(NEWS)]))
    network.network.cut.clear()
    network.network.run(3_000)
    broker = network.network.peers["b3"]
    assert broker.repaired == 1
    assert network.payloads("b3") == [b'<item area="1"><p>%s</p></item>' % (b"x" * 100)]


def test_a_replay_leaves_out_what_came_without_the_parts_that_it_needs() -> None:
    storage = SimulatedStorage()
    broker = Broker("b1", storage, Random(1))
    for number, (id, query) in enumerate([("q1", PART), ("q2", "/news/item")], 1):
        broker.receive("client", Request(number, elements(id, query)), 0)
    plan = EarlyPlan(USUAL)
    plan.set("", Plan('keep /news/item[@area="1"]'))
    (mark,) = plan._known
    part = b'<news><item area="1"/></news>'
    for resolve, expected in ((plan.resolve, [part[6:-7], None]), (lambda mark: None, [None, None])):
        turn = Turn(0)
        broker.take("root", LinkFormats(USUAL).read([Parcel(7, "s", "", 0, "text", part, mark)]), turn, resolve)
        broker.finish(turn)
        row = broker._archive.rows.get(broker.last_document)
        assert row is not None and row.early is not None
        assert [broker.tail._match_again(id, row, {}) for id in ("q1", "q2")] == expected
        queues = [Queue(id, broker._subscriptions.expect(id), 0) for id in ("q1", "q2")]
        assert [broker._archive._render(queue, row) for queue in queues] == expected


def test_steps_that_all_share_are_done_once_and_the_rest_below() -> None:
    network = Network()
    network.ask("b3", Subscribe("q1", "drop //item[@area > 1]; rename //p to q; drop //@area"))
    network.ask("b2", Subscribe("q2", "drop //item[@area > 1]; unwrap //p"))
    first, second = network.publish()
    assert second < first < len(NEWS) / 4, "all steps of the only list behind the second link"
    item = b"<item%s>%s</item>"
    texts = [b'<item area="%d">%s</item>' % (n, b"x" * 100) for n in range(2)]
    assert network.payloads("b2") == [b"<news>" + b"".join(texts) + b"</news>"]
    renamed = item % (b"", b"<q>%s</q>" % (b"x" * 100)) * 2
    assert network.payloads("b3") == [b"<news>" + renamed + b"</news>"]
    network.ask("b3", elements("q3", PART))  # now the steps cannot be done before the links, and nothing else can
    assert network.publish() == [len(NEWS), len(NEWS)]
    network.ask("b3", Unsubscribe("q3"))
    assert network.publish() == [first, second]


def test_steps_with_expressions_are_left_to_brokers_below() -> None:
    """What is left of a list is written down, whatever its conditions are."""
    network = Network()
    network.ask("b3", Subscribe("q1", "drop //p; drop //item[@area * 2 > string-length(../item[3]/@area)]"))
    network.ask("b3", Subscribe("q2", "drop //p; rename //item to i"))
    first, second = network.publish()
    assert first == second < len(NEWS) / 4
    rest = b"".join(b'<i area="%d"></i>' % number for number in range(10))
    assert network.payloads("b3") == [b'<news><item area="0"></item></news>', b"<news>" + rest + b"</news>"]


def test_a_document_with_steps_that_nobody_knows_is_asked_for() -> None:
    network = Network()
    network.ask("b3", Subscribe("q1", "drop //p"))
    b1, b2, b3 = network.network.peers.values()
    b1.trees["b1"].plan._stages["b2"].mark = "s-unknown"
    network.publish()
    network.network.run(2_000)
    assert b2.unfit == 1 and b3.repaired == 1, "b2 does not pass on what it does not understand"
    assert network.payloads("b3") == [NEWS.replace(b"<p>" + b"x" * 100 + b"</p>", b"")]


def test_a_document_that_does_not_fit_all_subscriptions_is_asked_for() -> None:
    """It cannot happen, by the rules of coverage; if it does, nobody gets anything wrong."""
    network = Network()
    network.ask("b3", Subscribe("q1", "drop //p"))
    network.ask("b3", elements("q2", PART))
    plan = Plan("drop //p", empty=True)
    for name, target in (("b1", "b2"), ("b2", "b3")):
        network.network.peers[name].trees["b1"].plan.set(target, plan)
    network.publish()
    network.network.run(2_000)
    b3 = network.network.peers["b3"]
    assert b3.unfit >= 1 and b3.repaired == 1
    assert sorted(map(len, network.payloads("b3"))) == [129, len(NEWS) - 1_070]
