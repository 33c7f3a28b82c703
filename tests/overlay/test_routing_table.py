"""Routing tables: nobody misses a document, deltas give what a rebuilt table has, generalisation keeps its budget."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.placements import draw_population, drawn_paths
from test_papers import ONYX
from test_papers_transformations import TIDES, article

from treecast import Index, Subscription
from treecast.errors import PeerError
from treecast.experiments.onyx_schema import shorten
from treecast.overlay.onyx.routing import (
    LOCAL,
    Delta,
    RoutingQuery,
    RoutingSettings,
    RoutingTable,
    Summary,
    generalising,
)
from treecast.overlay.onyx.routing import map_subscription as map_one
from treecast.overlay.onyx.routing import summary as summary_module
from treecast.overlay.onyx.routing.covering import covers, follows
from treecast.overlay.onyx.routing.mapping import shared
from treecast.overlay.onyx.routing.routing_query import TRUE, Conjunction
from treecast.overlay.onyx.routing.source_schema import possible
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.house


def routed(query: str) -> RoutingQuery:
    return map_one(Subscription("s", query))


def population(random: Random, count: int) -> tuple[list[Subscription], list[bytes]]:
    """Queries of the whole language, and many that cover each other."""
    subscriptions, documents = draw_population(random, queries=count // 3, documents=25)
    for number in range(count - len(subscriptions)):
        path = drawn_paths(random, ("a", "b"))
        if random.random() < 0.5:
            path += f'[@x="{random.choice("123")}"]' if random.random() < 0.5 else f"[{random.choice('abc')}]"
        subscriptions.append(Subscription(f"p{number}", path))
    return subscriptions, documents


class Network:
    """A table under random changes, and what its targets have, kept beside it."""

    def __init__(self, random: Random, settings: RoutingSettings) -> None:
        self.random = random
        self.table = RoutingTable(settings, seed=random.randrange(1 << 30))
        self.subscriptions, self.documents = population(random, 90)
        self.held: dict[str, list[Subscription]] = {name: [] for name in ("b1", "b2", "b3", LOCAL)}
        self.parent = RoutingQuery()

    def take(self, delta: Delta) -> None:
        gone, have = set(delta.removed.conjunctions), set(self.parent.conjunctions)
        assert gone <= have
        assert not set(delta.added.conjunctions) & have
        self.parent = delta.apply(self.parent)
        assert self.parent == self.table.aggregate()

    def change(self) -> None:
        target = self.random.choice(list(self.held))
        held = self.held[target]
        draw = self.random.random()
        if draw < 0.06:
            held.clear()
            self.take(self.table.drop(target))
        elif draw < 0.12:
            kept = self.random.sample(held, len(held) // 2)
            self.held[target] = kept
            self.take(self.table.replace(target, RoutingQuery.of(c for s in kept for c in map_one(s).conjunctions)))
            # A replacement counts each conjunction once.
            self.held[target] = list({map_one(each): each for each in kept}.values())
            self.take(self.table.replace(target, RoutingQuery()))
            for each in self.held[target]:
                self.take(self.table.update(target, map_one(each)))
        else:
            came = self.random.sample(self.subscriptions, self.random.choice((0, 1, 1, 2, 10)))
            went = [held.pop(self.random.randrange(len(held))) for _ in range(self.random.randint(0, 6)) if held]
            held += came
            more = [c for each in came for c in map_one(each).conjunctions]
            less = [c for each in went for c in map_one(each).conjunctions]
            self.take(self.table.update_many(target, more, less))

    def check_routes(self) -> None:
        wanting: dict[bytes, set[str]] = {document: set() for document in self.documents}
        for target, held in self.held.items():
            index = Index()
            index.add_many([Subscription(str(n), s.query, s.namespaces, s.ordered) for n, s in enumerate(held)])
            for document in self.documents:
                if index.match(document):
                    wanting[document].add(target)
        parent = RoutingTable()
        parent.update("child", self.parent)
        above = parent.route(self.documents)
        for document, targets, up in zip(self.documents, self.table.route(self.documents), above, strict=True):
            assert list(targets) == sorted(targets)
            assert wanting[document] <= set(targets)
            assert not targets or up == ("child",)  # what a target gets comes through the parent


@pytest.mark.parametrize("entries_max", [1000, 12, 1])
def test_deltas_give_what_a_rebuilt_table_has(entries_max: int) -> None:
    check_changes(1, entries_max)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_deltas_give_what_a_rebuilt_table_has(seed: int) -> None:
    for entries_max in (1000, 12, 1):
        check_changes(seed, entries_max)


def check_changes(seed: int, entries_max: int) -> None:
    random = Random(f"routing table {seed} {entries_max}")
    network = Network(random, RoutingSettings(entries_max=entries_max, revived_max=random.choice((3, 1000))))
    for turn in range(60):
        network.change()
        assert network.table.aggregate() == network.table.rebuilt()
        assert len(network.parent) <= entries_max
        if turn % 20 == 19:
            network.take(network.table.refine())
            assert network.table.aggregate() == network.table.rebuilt()
            network.check_routes()
    for target in network.held:
        network.take(network.table.drop(target))
    network.take(network.table.refine())
    assert network.parent == RoutingQuery()
    assert len(network.table) == 0


@pytest.mark.parametrize("entries_max", [60, 25, 4])
def test_many_at_once_lose_nothing(entries_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large groups of values are generalised before they are compared: the table is still what a rebuilt one has."""
    monkeypatch.setattr(summary_module, "_ROUND", 10)
    monkeypatch.setattr(summary_module, "_GROUP_MIN", 4)
    monkeypatch.setattr(generalising, "_MERGED_MAX", 40)
    random = Random(f"many at once {entries_max}")
    subscriptions, documents = population(random, 60)
    subscriptions += [
        Subscription(f"v{number}", query)
        for number, query in enumerate(
            f'{random.choice(("/a", "/a/b", "//b"))}[@x="{random.choice("123")}{random.randrange(9)}"]'
            + random.choice(("", "", "/c", '[@y="1"]', f'[starts-with(@y, "{random.choice("12")}")]'))
            for _ in range(200)
        )
    ]
    documents += [
        f'<a x="{random.randrange(40)}"><b x="{random.randrange(40)}" y="{random.randrange(30)}"><c/></b></a>'.encode()
        for _ in range(40)
    ]
    table, parent = RoutingTable(RoutingSettings(entries_max=entries_max, revived_max=1000)), RoutingQuery()
    held: list[Subscription] = []
    for count in (150, 60, 40):
        came, subscriptions = subscriptions[-count:], subscriptions[:-count]
        went = random.sample(held, len(held) // 3)
        held = [each for each in held if each not in went] + came
        rows = [[c for each in part for c in map_one(each).conjunctions] for part in (came, went)]
        parent = table.update_many("b", *rows).apply(parent)
        assert parent == table.aggregate() == table.rebuilt()
        assert len(parent) <= entries_max
        above, index = RoutingTable(), Index()
        above.update("child", parent)
        index.add_many(held)
        wanted = [bool(index.match(document)) for document in documents]
        assert all(up or not one for one, up in zip(wanted, above.route(documents), strict=True))
    assert table.drop("b").apply(parent) == RoutingQuery()


def test_selective_subscriptions_stay_selective_in_bulk() -> None:
    """20 times the budget at once: what is let through is what is wanted, not every document that has a code."""
    random = Random("selective")
    codes = [f"c{area}-{random.randrange(2000)}" for area in range(8) for _ in range(250)]
    documents = [f'<news><item code="c{area}-{n}"/></news>'.encode() for area in range(64) for n in (3, 500, 1999)]
    rows = [c for code in codes for c in routed(f'/news/item[@code="{code}"]').conjunctions]
    for sample in (None, documents[::5]):
        table = RoutingTable(RoutingSettings(entries_max=100))
        table.route(sample or [])
        table.update_many("b", rows, ())
        parent = RoutingTable()
        parent.update("child", table.aggregate())
        assert len(table.aggregate()) <= 100
        assert sum(map(bool, parent.route(documents))) <= 8 * 3  # those of the eight areas, of 64


def test_a_guess_is_made_good_when_documents_have_come() -> None:
    """Rules of a bulk load that came before any document are chosen anew, once; the parent is told by a delta. Without
    sets of values: those need no guess here."""
    table = RoutingTable(RoutingSettings(entries_max=40, sample_max=32, set_values_min=10**6))
    rows = [f'/news[head/@area="a{n % 8}"][item/@code="x{n * 7919 % 999}"]' for n in range(300)]
    table.update_many("b", [c for row in rows for c in routed(row).conjunctions], ())
    known = table.aggregate()
    documents = [f'<news><head area="a{n % 64}"/><item code="x{n * 31 % 999}"/></news>'.encode() for n in range(200)]
    assert not table.refine()
    table.route(documents)
    guessed = RoutingTable()
    guessed.update("child", known)
    delta = table.refine()
    assert delta
    assert delta.apply(known) == table.aggregate() == table.rebuilt()
    judged = RoutingTable()
    judged.update("child", table.aggregate())
    assert sum(map(bool, judged.route(documents))) < sum(map(bool, guessed.route(documents)))
    assert not table.refine()


def test_what_a_broker_wants_itself_is_indexed_when_it_routes() -> None:
    table = RoutingTable()
    table.update(LOCAL, routed("/a/b"))
    table.update("child", routed("/a"))
    assert table.route([b"<a><b/></a>", b"<a/>"]) == [(LOCAL, "child"), ("child",)]
    table.update(LOCAL, routed("/c"), routed("/a/b"))
    assert table.route([b"<a><b/></a>", b"<c/>"]) == [("child",), (LOCAL,)]
    empty = RoutingTable()
    empty.update(LOCAL, routed("/a"))
    empty.update(LOCAL, None, routed("/a"))
    assert empty.route([b"<a/>"]) == [()]


def maximal(conjunctions: set[Conjunction]) -> set[Conjunction]:
    """Those that no other covers, by a look at every pair."""
    return {
        each
        for each in conjunctions
        if not any(
            covers(other, each, follows) and (other < each or not covers(each, other, follows))
            for other in conjunctions
            if other != each
        )
    }


@pytest.mark.parametrize("seed", range(2))
def test_a_summary_shows_what_nothing_covers(seed: int) -> None:
    random = Random(f"summary {seed}")
    subscriptions, _ = population(random, 100)
    conjunctions = [c for each in subscriptions for c in map_one(each).conjunctions]
    summary, counts = Summary(), Counter[Conjunction]()
    for _ in range(15):
        came = random.sample(conjunctions, random.choice((1, 5, 40)))
        held = list(counts.elements())
        went = random.sample(held, min(len(held), random.choice((1, 5, 40))))
        summary.update(came, went)
        counts = counts + Counter(came) - Counter(went)
        assert set(summary.query().conjunctions) == maximal(set(counts))


def test_what_was_covered_comes_back() -> None:
    summary = Summary()
    summary.update([*routed("/a/b").conjunctions, *routed("/a[@x=1]/c").conjunctions])
    delta = summary.update(routed("//a").conjunctions)
    assert (str(delta.added), str(delta.removed)) == ("//a", "/a/b or /a[@x=1]/c")
    delta = summary.update((), routed("//a").conjunctions)
    assert (str(delta.added), str(delta.removed)) == ("/a/b or /a[@x=1]/c", "//a")


def test_a_removal_that_brings_back_much_waits() -> None:
    summary = Summary(RoutingSettings(revived_max=10))
    summary.update(c for n in range(50) for c in routed(f"/a/b{n}").conjunctions)
    wide = routed("/a").conjunctions
    summary.update(wide)
    assert not summary.update((), wide)
    assert summary.is_late
    delta = summary.refine()
    assert (len(delta.added), str(delta.removed)) == (50, "/a")
    assert not summary.is_late
    assert not summary.refine()


def test_rules_go_when_there_is_room() -> None:
    """And not before half of the budget is free: a table at its limit does not change with every subscription."""
    summary = Summary(RoutingSettings(entries_max=20))
    rows = [routed(f'/a/b[@x="{n}"]').conjunctions for n in range(100)]
    for row in rows:
        summary.update(row)
    rules = summary.rules
    assert '/a/b[starts-with(@x, "1")]' in str(RoutingQuery.of(rules))
    changes = [summary.update((), row) for row in rows[:95]]
    # Each rule goes once; and what is visible by itself changes with its subscription.
    assert sum(bool(change) for change in changes) <= len(rules) + 20
    assert len(summary) == 5
    assert summary.rules == ()


def test_generalisation_prefers_what_loses_little() -> None:
    values = [c for n in range(30) for c in routed(f'/a/b/c[@x="{n}"]').conjunctions]
    others = [c for name in "defgh" for c in routed(f"/a/{name}").conjunctions]
    summary = Summary(RoutingSettings(entries_max=10))
    summary.update([*values, *others])
    assert str(summary.query()) == "/a/b/c or /a/d or /a/e or /a/f or /a/g or /a/h"


def test_nothing_in_common_is_true() -> None:
    summary = Summary(RoutingSettings(entries_max=1))
    summary.update([*routed("/a/b").conjunctions, *routed("//c").conjunctions])
    assert summary.query() == RoutingQuery.of([TRUE])
    assert shared([*routed("/a/b").conjunctions, *routed("//c").conjunctions]) == TRUE


def test_removed_but_never_added() -> None:
    table = RoutingTable()
    table.update("b", routed("/a"))
    for query in (routed("/b"), RoutingQuery.of([TRUE])):
        with pytest.raises(PeerError) as caught:
            table.update("b", routed("/c"), query)
        assert caught.value.code == "TC404"
    with pytest.raises(PeerError):
        table.update("other", None, routed("/a"))
    with pytest.raises(ValueError, match="more often"):
        Summary().update((), routed("/a").conjunctions)
    assert str(table.aggregate()) == str(table.collect("b")) == "/a"


@pytest.mark.parametrize(
    "bad",
    [
        (("/a", "[@x=]"),),
        (("/a", "[@x=]"), ("?/a",)),  # what an index would not see, since a pattern says all of it
        (("/a",), ("/a\x03",)),  # or a document has one root element
    ],
)
def test_what_is_no_query_changes_nothing(bad: Conjunction) -> None:
    table = RoutingTable()
    with pytest.raises(PeerError) as caught:
        table.update("b", RoutingQuery.of([bad, (("/b",),)]))
    assert caught.value.code == "TC404"
    assert (len(table), table.targets, table.route([b"<b/>"])) == (0, (), [()])


def test_who_wants_everything_is_not_matched() -> None:
    table = RoutingTable()
    table.update("all", RoutingQuery.of([TRUE]))
    assert table.route([b"<a/>", b"no document"]) == [("all",), ("all",)]
    assert table.unread == 0
    table.update("some", routed("/b"))
    assert table.route([b"<a/>", b"<b/>"]) == [("all",), ("all", "some")]
    assert table.aggregate().is_true


def test_a_document_that_cannot_be_read_goes_on() -> None:
    table = RoutingTable()
    table.update("x", routed("/x"))
    table.update("y", routed("/y"))
    assert table.route([b"<x/>", b"<x", b"<y/>"]) == [("x",), ("x", "y"), ("y",)]
    assert table.unread == 1


def test_a_shared_conjunction_is_one() -> None:
    table = RoutingTable()
    query = routed("/a[b][c]")
    for target in ("u", "v", "w"):
        table.update(target, query)
    assert len(table) == 1
    assert table.route([b"<a><b/><c/></a>"]) == [("u", "v", "w")]
    table.drop("v")
    assert table.route([b"<a><b/><c/></a>"]) == [("u", "w")]


# ONYX.

AREA = '/nitf/head/pubdata[@edition.area="SF"]'


def test_figure_4() -> None:
    """Broker 1 routes by the area: to Broker 2, to Broker 4, or to none."""
    table = RoutingTable()
    for broker, area in (("Broker 2", "NY"), ("Broker 4", "SF")):
        table.update(broker, routed(f'/nitf/head/pubdata[@edition.area= "{area}"]'))
    documents = [article(area, "Stock").encode() for area in ("NY", "SF", "LA")]
    assert table.route(documents) == [("Broker 2",), ("Broker 4",), ()]


def test_figure_6() -> None:
    """Box (a): Q1 and Q2 at Broker 5. (b): its routing query. (c): the table of Broker 4. (d): what represents it."""
    q1, q2, q3 = routed(ONYX["Q1"]), routed(ONYX["Q2"]), routed(TIDES)
    broker5 = RoutingTable()
    broker5.update(LOCAL, q1)
    broker5.update(LOCAL, q2)
    assert broker5.aggregate() == RoutingQuery.of([*q1.conjunctions, *q2.conjunctions])  # (b)

    broker4 = RoutingTable(RoutingSettings(entries_max=1))
    broker4.update("Broker 5", broker5.aggregate())
    broker4.update("Broker 6", q3)
    assert broker4.collect("Broker 5") == broker5.aggregate()  # (c)
    assert broker4.collect("Broker 6") == q3
    assert len(broker4) == 3
    assert str(broker4.aggregate()) == AREA  # (d)
    # The method of the paper by itself: only the paths common to all disjuncts.
    assert RoutingQuery.of([shared([*q1.conjunctions, *q2.conjunctions, *q3.conjunctions])]) == broker4.aggregate()


def test_texts_that_begin_alike_share_a_rule() -> None:
    codes = [f"{area}-{n}" for area in ("ab", "cd") for n in range(10, 40)]
    for entries_max, beginnings in ((10, ["ab-1", "ab-2", "ab-3", "cd-1", "cd-2", "cd-3"]), (2, ["ab-", "cd-"])):
        summary = Summary(RoutingSettings(entries_max=entries_max))
        summary.update(c for code in codes for c in routed(f'//item[@code="{code}"]').conjunctions)
        assert str(summary.query()) == " or ".join(f'//item[starts-with(@code, "{text}")]' for text in beginnings)


def test_a_sample_decides_which_rule_is_better() -> None:
    """Every document has a head, few have a note: without the sample, both look alike."""
    table = RoutingTable(RoutingSettings(entries_max=10))
    table.route([b"<a><head/></a>"] * 30 + [b"<a><note/></a>"] + [b"<a><head/><note x='1'/></a>"])
    for name in ("head", "note"):
        table.update_many(name, [c for n in range(6) for c in routed(f'/a/{name}[@x="{n}"]').conjunctions], ())
    assert "/a/note" in str(table.aggregate()).split(" or ")
    assert "/a/head" not in str(table.aggregate()).split(" or ")


def test_what_a_source_cannot_send() -> None:
    schema = Schema.news()
    documents = list(generate_documents(schema, 15, DocumentSettings(bytes_target=3_000), seed=7))
    queries = list(generate_queries(schema, 120, QuerySettings(predicates=1, nested=0.5, depth_max=6), seed=7))
    for text in queries:
        query = routed(text)
        assert possible(query, schema) == query, text  # each can match: they are drawn from the schema
    mapped = [routed(text) for text in queries]
    for query, shorter in zip(mapped, (shorten(query, schema) for query in mapped), strict=True):
        one, other = RoutingTable(), RoutingTable()
        one.update("b", query)
        other.update("b", shorter)
        assert one.route(documents) == other.route(documents)
    root = schema.root
    for impossible in (f"/{root}/nowhere", f"/{root}[@nothing=1]", "/other", f"//{root}/{root}"):
        assert not possible(routed(impossible), schema)
