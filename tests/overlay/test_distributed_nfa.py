"""The NFA spread over a ring: its matches are those of one index, and what it costs is what the paper says."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from support.ring_filtering import check, check_corpus, network
from test_cases import CASES

import treecast
from treecast.document import read
from treecast.overlay.chord.events import ROOT, Events, EventTree
from treecast.overlay.chord.nfa_peer import Method
from treecast.overlay.chord.routes import join, keys_of, parse, plan_query
from treecast.overlay.chord.shedding import MARK, state_of
from treecast.sim.faults import Partition

pytestmark = pytest.mark.house


CONFIGURATIONS: list[tuple[Method, dict[str, Any]]] = [
    ("recursive", {"fragment_length": 0}),
    ("recursive", {"fragment_length": 1, "members": 3, "shed_rate": 0.1}),
    ("recursive", {"fragment_length": 2, "whole_bytes_max": 0, "shed_rate": 0.1}),
    ("recursive", {"fragment_length": 3, "members": 2, "replicas": 3}),
    ("iterative", {"fragment_length": 0, "members": 3, "shed_rate": 0.1}),
    ("iterative", {"fragment_length": 1, "members": 2}),
    ("iterative", {"fragment_length": 2, "shed_rate": 0.1}),
    ("iterative", {"fragment_length": 3, "replicas": 2}),
]


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_matches_are_those_of_an_index(number: int) -> None:
    """Each configuration gets all subscriptions of the corpus, and every eighth of its documents."""
    method, settings = CONFIGURATIONS[number]
    check_corpus(CASES, method, settings, seed=number, takes=lambda place: place % 8 == number)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("shed_rate", [0.1, 1.0])
@pytest.mark.parametrize("method", ["recursive", "iterative"])
@pytest.mark.parametrize("length", range(4))
def test_every_combination(length: int, method: Method, shed_rate: float, members: int) -> None:
    """Of methods, lengths, load-shedding and virtual nodes; tests/long has them on the corpus."""
    random = Random(f"{length} {method} {shed_rate} {members}")
    net = network(fragment_length=length, shed_rate=shed_rate, members=members, shed_documents_min=2)
    index = treecast.Index()
    for number in range(12):
        query = draw_query(random)
        net.subscribe(random.choice(net.names), f"q{number}", query)
        index.add(f"q{number}", query)
    net.settle()
    check(net, index, [draw_document(random, 2).encode() for _ in range(4)], method)
    assert (net.counts()["states with copies"] > 0) is (shed_rate < 1)


def draw_query(random: Random) -> str:
    def path(steps: int) -> str:
        text = ""
        for _ in range(steps):
            text += random.choice(["/", "/", "//"]) + random.choice("abcd*")
            if random.random() < 0.25:
                text += random.choice(["[b]", "[c//d]", "[@x]", "[.//a/b]", "[not(c)]", "[2]"])
        return text

    return path(random.randint(1, 5))


def draw_document(random: Random, depth: int = 0) -> str:
    name, attribute = random.choice("abcd"), random.choice(["", " x='1'"])
    inside = "".join(draw_document(random, depth + 1) for _ in range(random.randint(0, 3 if depth < 5 else 0)))
    return f"<{name}{attribute}>{inside}</{name}>"


@pytest.mark.parametrize(("length", "method"), [(0, "recursive"), (1, "iterative"), (2, "recursive"), (3, "iterative")])
def test_random_workloads(length: int, method: Method) -> None:
    random = Random(length)
    net = network(fragment_length=length, members=1 + length % 3, shed_rate=[0.1, 1.0][length % 2])
    index = treecast.Index()
    queries = [draw_query(random) for _ in range(150)]
    for number, query in enumerate(queries):
        net.subscribe(random.choice(net.names), f"q{number}", query)
        index.add(f"q{number}", query)
    net.settle()
    check(net, index, [draw_document(random).encode() for _ in range(6)], method)
    hosts = {id: host for host, change in net.changes for id in [change.id]}
    for number in range(0, 150, 2):
        net.unsubscribe(hosts[f"q{number}"], f"q{number}")
        index.remove(f"q{number}")
    net.settle()
    check(net, index, [draw_document(random).encode() for _ in range(6)], method)


# --- queries ----------------------------------------------------------------------------------------------------------


def test_keys_are_unambiguous() -> None:
    texts = ["/ab/c", "/a/bc", "//a", "/a", "/*", "/p:a", "/q:a", "/p:*", "/a/b", "/a//b"]
    bindings = {"p": "urn:a}b", "q": "urn:a"}
    keys = {keys_of(plan_query(parse(text, namespaces=bindings)).parts[0].route)[-1] for text in texts}
    assert len(keys) == len(texts)
    assert keys_of(plan_query(parse("/p:*", namespaces={"p": "*"})).parts[0].route)[-1] == "/{%2A}*"


def test_parts_that_match_need_not_fit_together() -> None:
    plan = plan_query(parse("//a[b/c]//d[e]"))
    assert len(plan.parts) == 3 and not plan.needs_check

    def joins(text: bytes) -> bool:
        tree = EventTree(Events.of(read(text)))
        chains = {}
        for number, part in enumerate(plan.parts):
            last = part.steps[-1].label[2:]
            ends = [left for left in tree.events.left if tree.name(left)[1] == last]
            chains[number] = [tree.chain(left) for left in ends]
        return join(plan.parts, plan.groups[0], chains)

    assert joins(b"<a><b><c/></b><x><d><e/></d></x></a>")
    assert not joins(b"<r><a><b><c/></b></a><a><d><e/></d></a></r>")
    assert not joins(b"<a><b><c/></b><d/><x><e/></x></a>")


def test_what_a_join_cannot_decide_is_looked_at_again() -> None:
    for text in ("/a[b = 1]", "/a[b or c]", "/a[not(b)]", "/a[2]", "/a/@x", "/a/text()", "/a[/b]", "/a[b | c]"):
        assert plan_query(parse(text)).needs_check, text
    assert plan_query(parse("/a[b]/c"), ordered=True).needs_check
    assert not plan_query(parse("/a[b and c//d]/e | //f")).needs_check


def test_fragments_have_the_labels_of_the_whole() -> None:
    whole = Events.of(read(b"<a><b><c><d/></c></b><b><e/></b></a>"))
    tree = EventTree(whole)
    for left in whole.left:
        part = EventTree(whole.fragment(left))
        assert part.children(left) == tree.children(left) and part.chain(left) == tree.chain(left)
    assert whole.fragment(ROOT, 1).left == [1] and whole.fragment(2, 1).left == [1, 2, 3]


# --- indexing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 3])
def test_indexing_costs_a_message_for_each_state(length: int) -> None:
    net = network(fragment_length=length)
    net.subscribe("p2", "q", "/a//b/*")  # start, a, ε, b, *
    net.settle()
    assert net.counts()["index messages"] == 5


def test_a_state_goes_with_the_last_query_that_needs_it() -> None:
    net = network(replicas=3)
    for id, query in [("q1", "/a/b/c"), ("q2", "/a/b")]:
        net.subscribe("p4", id, query)
    net.settle()
    net.unsubscribe("p4", "q1")
    net.settle()

    def states() -> dict[str, int]:
        """Keys of states that have live entries, and how many peers hold them."""
        count: dict[str, int] = {}
        for name in net.names:
            shelf = net.peer(name).entries.shelf
            for key in shelf.key_list():
                count[key] = count.get(key, 0) + any(not entry.is_removed for entry in shelf.entries(key))
        return {key: held for key, held in count.items() if held}

    assert states() == {"": 3, "/{}a": 3, "/{}a/{}b": 3}


def test_a_changed_subscription_has_the_new_query_only() -> None:
    net = network()
    net.subscribe("p3", "q", "/a/b")
    net.settle()
    net.subscribe("p3", "q", "/a/c")
    net.settle()
    assert net.publish("p0", b"<a><b/></a>")[1] == [] and net.publish("p0", b"<a><c/></a>")[1] == [("p3", "q")]


def test_routing_tables_do_not_grow_with_queries() -> None:
    net = network(peers=8)
    before = [len(ring.fingers) + len(ring.successors) for name in net.names for ring in net.peer(name).members]
    for number in range(60):
        net.subscribe("p1", f"q{number}", f"/a/b{number}/c")
    net.settle()
    after = [len(ring.fingers) + len(ring.successors) for name in net.names for ring in net.peer(name).members]
    assert max(after) <= max(max(before), 7)


# --- documents --------------------------------------------------------------------------------------------------------


def test_a_document_is_visited_once_for_each_state_and_element() -> None:
    """A state is visited where it is reached, also by elements without children; ε needs no message."""
    net = network()
    net.subscribe("p1", "q", "/a//b")
    net.settle()
    before = net.counts()
    published, matches = net.publish("p2", b"<a><b/><c/></a>")
    # The start state, /a at a; then b: /a//b and the loop; c: the loop.
    assert (net.counts() - before)["visits"] == 5 and matches == [("p1", "q")]
    assert published.chain >= 3
    before = net.counts()
    net.publish("p2", b"<a><b/><c/></a>", "iterative")
    assert (net.counts() - before)["expands"] == (net.counts() - before)["answers"] == 5


def test_fragments_travel_where_a_document_is_large() -> None:
    net = network(whole_bytes_max=20)
    net.subscribe("p1", "path", "/a/b")
    net.subscribe("p1", "value", "/a[@x = 1]/b")
    net.settle()
    assert len(net.publish("p3", b"<a x='1'><b>" + b"<c/>" * 100 + b"</b></a>")[1]) == 2
    assert net.counts()["fetches"] == 1  # the predicate needs what did not travel


def test_a_publisher_learns_what_could_not_be_reached() -> None:
    net = network(peers=6, attempts_max=2, notify_attempts_max=1)
    for number in range(20):
        net.subscribe("p0", f"q{number}", f"/a/b{number}")
    net.settle()
    owner = next(name for name in net.names if net.peer(name).entries.owner_of("/{}a") is not None)
    others = [name for name in net.names if name != owner]
    fault = Partition([[owner], others], 0, 0)
    net.world.network.begin(fault)
    published, _ = net.publish(others[0] if others[0] != owner else others[1], b"<a><b1/></a>")
    assert not published.is_complete and published.unreachable[0] in ("", "/{}a")


def publish_small(id: str, peer: Any, now_ms: int) -> Any:
    return peer.publish(b"<a/>", id=id, now_ms=now_ms)


def test_a_publisher_with_too_many_documents_says_so() -> None:
    net = network(documents_max=1)
    for id in ("d1", "d2"):
        net.call("p0", partial(publish_small, id))
    net.wait("both", lambda: len(net.published) == 2)
    assert net.published["d1"].is_complete and net.published["d2"].unreachable == ("p0",)


def test_a_host_that_is_away_is_told_later_and_once() -> None:
    net = network()
    net.subscribe("p4", "q", "//b")
    net.settle()
    fault = Partition([["p4"], [name for name in net.names if name != "p4"]], 0, 0)
    net.call("p0", lambda peer, now_ms: peer.publish(b"<b><b/></b>", id="d", now_ms=now_ms))
    net.world.run(net.world.now_us // 1000 + 1)
    net.world.network.begin(fault)
    net.world.run(net.world.now_us // 1000 + 900)
    net.world.network.end(fault)
    net.wait("end of d", lambda: "d" in net.published)
    assert [match.subscription for _, match in net.matches] == ["q"]


def test_a_second_document_with_the_same_id_is_not_delivered_again() -> None:
    net = network()
    net.subscribe("p2", "q", "/a")
    net.settle()
    assert net.publish("p0", b"<a/>", id="d")[1] == [("p2", "q")]
    net.world.hosts["p2"].crash(1000)
    net.world.run(net.world.now_us // 1000 + 3000)
    del net.published["d"]
    net.publish("p0", b"<a/>", id="d")
    assert len(net.matches) == 1


# --- load-shedding ----------------------------------------------------------------------------------------------------


def test_copies_are_used_and_follow_later_changes() -> None:
    net = network(peers=8, shed_rate=0.1, shed_copies=4)
    net.subscribe("p1", "q", "/a/b")
    net.settle()
    for _ in range(12):
        net.publish("p2", b"<a><b/></a>")
    assert net.counts()["states with copies"] == 3
    assert net.counts()["notices"] == 3 * 7  # each of the others once
    stored = {key for name in net.names for key in net.peer(name).entries.shelf.key_list()}
    assert {state_of(key) for key in stored} == {"", "/{}a", "/{}a/{}b"} and "/{}a/{}b#4" in stored
    visited = [name for name in net.names if net.peer(name).counts["expansions"]]
    net.subscribe("p3", "later", "/a/b")
    net.unsubscribe("p1", "q")
    net.settle()
    for _ in range(12):
        assert net.publish("p2", b"<a><b/></a>")[1] == [("p3", "later")]
    spread = [name for name in net.names if net.peer(name).counts["expansions"]]
    assert len(spread) > len(visited) or len(visited) > 3
    owner = next(name for name in net.names if net.peer(name).entries.owner_of("") is not None)
    assert net.peer(owner).entries.shelf.entry("", MARK).value == b"4"


def test_without_load_shedding_nothing_is_copied() -> None:
    net = network(peers=8, shed_rate=1.0)
    net.subscribe("p1", "q", "/a/b")
    net.settle()
    for _ in range(12):
        net.publish("p2", b"<a><b/></a>")
    assert net.counts()["states with copies"] == 0
