"""DHT-NFA's experiments: the replay counts what simulated peers count, and verdicts follow their rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from treecast import experiments
from treecast.document import read
from treecast.engines.path_nfa import PathMachine
from treecast.experiments import dht_comparison, dht_load
from treecast.experiments.dht_variations import stored_states
from treecast.experiments.experiment import Sizes
from treecast.experiments.ring_load import RingAmounts
from treecast.experiments.ring_model import RingModel, place_of, state_keys, state_places
from treecast.overlay.chord import NfaSettings
from treecast.overlay.chord.identifiers import RING, place_of_key
from treecast.overlay.chord.nfa_peer import Method
from treecast.overlay.chord.routes import keys_of, parse, plan_query
from treecast.overlay.chord.shedding import MARK, state_of
from treecast.sim.chord.ring_network import RingNetwork
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.house

PEERS = 10
"""A hundredth of the paper's."""


@pytest.fixture(scope="module")
def workload() -> tuple[list[str], list[bytes]]:
    schema = Schema.news()
    queries = list(generate_queries(schema, 80, QuerySettings(distinct=False, depth_max=6), seed=1))
    return queries, list(generate_documents(schema, 3, DocumentSettings(bytes_target=600), seed=1))


def machine_of(queries: list[str]) -> PathMachine:
    machine = PathMachine()
    machine.add(queries, Schema.news().namespaces)
    return machine


def filled_network(queries: list[str], members: int, **settings: Any) -> tuple[RingModel, RingNetwork]:
    """A ring on paper and one of simulated peers, with the same places and the same queries."""
    ring = RingModel(PEERS, members)
    # All fingers are looked up soon, and nothing else happens often.
    chord = msgspec.structs.replace(ring.settings, finger_ms=100, stabilise_ms=1_000, sync_ms=2_000)
    net = RingNetwork(1, PEERS, chord, NfaSettings(**settings), settle_ms=3_000)
    for number, query in enumerate(queries):
        net.subscribe(f"p{number % PEERS}", f"q{number}", query, Schema.news().namespaces)
    net.settle()
    return ring, net


@pytest.mark.parametrize(("length", "members"), [(0, 1), (1, 1), (2, 1), (3, 1), (0, 3), (2, 2)])
def test_a_replay_counts_what_peers_count(workload: tuple[list[str], list[bytes]], length: int, members: int) -> None:
    queries, documents = workload
    ring, net = filled_network(queries, members, fragment_length=length, shed_rate=1.0, locations_max=0)
    machine = machine_of(queries)
    owners = ring.owners(machine)
    check_placement(ring, net, machine, owners)
    machine.place([ring.member_number(place) for place in state_places(machine)], ring.peer_numbers, ring.hops())
    replays = machine.replay_many([read(document) for document in documents], range(len(documents)), length)
    for number, (document, replay) in enumerate(zip(documents, replays, strict=True)):
        before = net.counts()
        published, _ = net.publish(f"p{number}", document)
        taken = net.counts() - before
        assert (taken["visits"], taken["lookup hops"]) == (replay.messages, replay.lookup_hops)
        assert taken["expansions"] == replay.visits
        # Peers go on with what arrives first, and not with what took longest.
        assert replay.messages == 1 or 2 < published.chain <= replay.chain
        before = net.counts()
        net.publish(f"p{number}", document, "iterative")
        taken = net.counts() - before
        assert (taken["expands"], taken["lookup hops"]) == (replay.visits, replay.iterative_lookup_hops)
    received = [0] * PEERS
    for state, count in enumerate(machine.received()):
        received[owners[state]] += count
    assert [net.peer(name).counts["visits received"] for name in net.names] == received


def check_placement(ring: RingModel, net: RingNetwork, machine: PathMachine, owners: list[int]) -> None:
    """A state is where the ring on paper has it."""
    for key, owner in zip(state_keys(machine), owners, strict=True):
        responsible = [name for name in net.names if net.peer(name).entries.owner_of(key) is not None]
        assert responsible == [f"p{owner}"]
        assert key in net.peer(f"p{owner}").entries.shelf.key_list()


@pytest.mark.parametrize("method", ["recursive", "iterative"])
def test_load_shedding_is_what_peers_do(workload: tuple[list[str], list[bytes]], method: Method) -> None:
    """The same states get copies, the copies are where the ring has them, and each gets its part of the visits."""
    queries, documents = workload
    members, copies, rate, rounds = 3, 3, 0.6, 5
    ring, net = filled_network(
        queries, members, shed_rate=rate, shed_copies=copies, shed_documents_min=len(documents), locations_max=0
    )
    machine = machine_of(queries)
    machine.replay_many([read(document) for document in documents])
    # A peer counts from the first visit of a state on. After two rounds it decides as the replay does.
    for document in documents * 2:
        net.publish("p0", document, method)
    net.world.run(net.world.now_us // 1000 + 2_000)
    keys, visited = state_keys(machine), machine.documents()
    shared = {keys[state] for state, count in enumerate(visited) if count > rate * len(documents)}
    assert 0 < len(shared) < len(keys)
    marked = {
        key for name in net.names for key in net.peer(name).entries.shelf.key_list()
        if state_of(key) == key and net.peer(name).entries.shelf.entry(key, MARK) is not None
    }  # fmt: skip
    assert marked == shared
    assert net.counts()["notices"] == len(shared) * (PEERS * members - 1)
    for key in shared:
        for copy in range(1, copies + 1):
            holder = net.peer(f"p{ring.owner(place_of(key, copy))}")
            assert f"{key}#{copy}" in holder.entries.shelf.key_list()
    machine.clear()
    replays = machine.replay_many([read(document) for document in documents] * rounds)
    before, expanded = net.counts(), [net.peer(name).counts["expansions"] for name in net.names]
    for document in documents * rounds:
        net.publish("p0", document, method)
    taken = net.counts() - before
    messages = taken["visits"] if method == "recursive" else taken["expands"]
    # A state that is reached twice with one element is expanded at two copies, if they are chosen so.
    assert sum(replay.visits for replay in replays) <= taken["expansions"] <= messages
    if method == "iterative":
        assert messages == sum(replay.visits for replay in replays)
    load = place_amounts(machine, [state for state, key in enumerate(keys) if key in shared], copies).by_peer(ring)
    seen = [net.peer(name).counts["expansions"] - count for name, count in zip(net.names, expanded, strict=True)]
    # Chance chooses the copies: what peers get is near what is computed, and far from what owners would get alone.
    alone = RingAmounts(state_places(machine), machine.visited()).by_peer(ring)
    assert apart(seen, load) < 0.12 < apart(seen, alone)


def place_amounts(machine: PathMachine, shared: list[int], copies: int) -> RingAmounts:
    return dht_load.place_amounts(machine, shared, copies, machine.visited(), state_places(machine))


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The share of the load that would have to be moved."""
    return sum(abs(x / sum(one) - y / sum(other)) for x, y in zip(one, other, strict=True)) / 2


def test_documents_are_replayed_together_as_one_by_one(workload: tuple[list[str], list[bytes]]) -> None:
    """Label paths are shared by documents, and publishers are not."""
    queries, documents = workload
    read_documents = [read(document) for document in documents] + [read(b"<unknown><news/></unknown>")]
    ring, machine = RingModel(PEERS, 2), machine_of(queries)
    machine.place([ring.member_number(place) for place in state_places(machine)], ring.peer_numbers, ring.hops())
    for length in (0, 2):
        machine.clear()
        single = [machine.replay(each, length, number) for number, each in enumerate(read_documents)]
        counts = [list(machine.received()), list(machine.visited()), list(machine.documents())]
        paths = machine.path_count()
        machine.clear()
        assert machine.replay_many(read_documents, range(len(read_documents)), length) == single
        assert [list(machine.received()), list(machine.visited()), list(machine.documents())] == counts
        assert machine.path_count() > paths
    # More documents than have a bit each.
    machine.clear()
    machine.replay_many([read_documents[0]] * 1_030)
    assert max(machine.documents()) == 1_030


def test_places_that_are_none_are_refused() -> None:
    machine = machine_of(["/a"])
    with pytest.raises(ValueError, match="one place for each state"):
        machine.place([0], [0], b"\0")
    with pytest.raises(ValueError, match="a place that is none"):
        machine.place([0, 2], [0, 1], bytes(4))
    with pytest.raises(ValueError, match="hops for each peer and place"):
        machine.place([0, 1], [0, 1], bytes(3))
    machine.place([0, 1], [0, 1], bytes(4))
    with pytest.raises(ValueError, match="no peer"):
        machine.replay(read(b"<a/>"), 0, 2)


@pytest.mark.parametrize("members", [1, 3])
def test_hops_on_paper_are_steps_of_peers(members: int) -> None:
    """The table, the walk from answer to answer."""
    ring, random = RingModel(40, members), Random(1)
    hops, walks = ring.hops(), ring.walks()
    for _ in range(400):
        peer, place = random.randrange(40), random.randrange(RING)
        assert hops[peer * 40 * members + ring.member_number(place)] == walks.hops(peer, place)


def test_states_have_the_keys_of_peers(workload: tuple[list[str], list[bytes]]) -> None:
    queries, _ = workload
    machine = machine_of(queries)
    namespaces = Schema.news().namespaces
    routes = [part.route for query in queries for part in plan_query(parse(query, namespaces=namespaces)).parts]
    keys = {key for route in routes for key in keys_of(route)}
    assert sorted(state_keys(machine)) == sorted(keys)
    assert place_of("/{}a", 3) == place_of_key("/{}a#3") and place_of("/{}a") == place_of_key("/{}a")


def test_elements_of_one_label_path_are_counted_together() -> None:
    machine = machine_of(["/a/b", "//b"])
    replay = machine.replay(read(b"<a><b/><b/></a>"))
    # The start state; at a: /a and the loop; at each b: /a/b, //b and the loop.
    assert replay.messages == replay.visits == 1 + 2 + 2 * 3
    assert sum(machine.received()) == 9 and list(machine.documents()) == [1] * 5
    machine.clear()
    assert not any(machine.received())


def test_a_state_reached_twice_is_visited_once() -> None:
    machine = machine_of(["//a//b"])
    replay = machine.replay(read(b"<a><a><b/></a></a>"))
    assert replay.messages > replay.visits


def test_a_ring_explains_the_spread_of_storage() -> None:
    """53 % and 38 % are what random places give: about 52 % for one id a peer, about 38 % for three."""
    random = Random(1)
    places = [random.randrange(1 << 63) for _ in range(40_000)]
    for members, share in ((1, 0.52), (3, 0.38)):
        ring = RingModel(1_000, members)
        held = [0] * 1_000
        for place in places:
            held[ring.owner(place)] += 1
        assert sum(sorted(held)[-200:]) / len(places) == pytest.approx(share, abs=0.02)


def test_hops_grow_as_the_logarithm() -> None:
    means = []
    for peers in (50, 200):
        hops = RingModel(peers).hops()
        means.append(sum(hops) / len(hops))
    assert 0.6 < means[1] - means[0] < 1.4


def test_copies_of_states_are_counted_by_length() -> None:
    machine = machine_of(["/a//b"])  # start, a, ε, b
    # By root: start 1 3 4, a 2 3 3, ε 1 2 2, b 1 1 1.
    assert [stored_states(machine, length) for length in (0, 1, 2)] == [5, 9, 10]


def answers(name: str, rows: list[dict[str, Any]]) -> list[str]:
    return [finding.answer for finding in experiments.find(name).verdict(rows)]


def test_small_runs_are_inconclusive() -> None:
    outcome = experiments.perform(experiments.find("dht-states"), Sizes((200, 400), 1))
    assert {row["set"] for row in outcome.rows} == {"random", "distinct"} and not outcome.problems
    assert outcome.answer == "inconclusive"
    for row in outcome.rows:
        assert row["accepting"] <= row["distinct"] and row["transitions"] == row["states"] - 1
        if row["set"] == "distinct":
            assert row["accepting"] == row["queries"]


def test_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dht_load, "OTHER_RINGS", 2)
    outcome = experiments.perform(experiments.find("dht-load"), Sizes((300,), 5))
    plain = [row for row in outcome.rows if row["members"] == 1 and row["workload"] == "NITF"]
    before, after = (next(row for row in plain if bool(row["copies"]) is has) for has in (False, True))
    assert after["largest"] < before["largest"] and after["with_copies"] > 0 == before["with_copies"]
    assert after["notices"] == after["with_copies"] * 999
    paper = {**before, "queries": 1_000_000, "states_200": 0.53, "first_50": 0.2, "largest": 0.003}
    rows = []
    for row in outcome.rows:
        balanced = {**paper, "states_200": 0.38} if row["members"] == 3 else paper
        rows.append({**row, **{name: balanced[name] for name in ("queries", "states_200", "first_50", "largest")}})
    assert set(answers("dht-load", rows)) == {"agree"}
    assert "differs" in answers("dht-load", [{**row, "largest": 0.02} for row in rows])


def traffic_rows(**changed: float) -> list[dict[str, Any]]:
    rows = []
    for workload, factor in (("NITF", changed.get("nitf", 2.0)), ("aggregated", 1.0)):
        for kind in ("random", "distinct"):
            for queries, peers in [(500_000, 1_000), (1_000_000, 1_000), (1_000_000, 5_000)]:
                for method, times in (("recursive", 1.0), ("iterative", changed.get("iterative", 2.0))):
                    messages = queries * factor * times * (changed.get("by_peers", 1.0) if peers > 1_000 else 1.0)
                    chain = 40.0 if method == "recursive" else 40.0 * changed.get("latency", 12.0)
                    chain *= changed.get("growth", 1.0) if peers > 1_000 else 1.0
                    row = {"workload": workload, "set": kind, "queries": queries, "peers": peers, "method": method}
                    rows.append({**row, "messages": messages, "with_lookups": 3 * messages, "chain": chain})
    return rows


def test_the_verdict_on_traffic() -> None:
    assert set(answers("dht-traffic", traffic_rows())) == {"agree"}
    assert answers("dht-traffic", traffic_rows(iterative=1.0))[0] == "differs"
    assert answers("dht-traffic", traffic_rows(latency=3.0))[1] == "differs"
    assert answers("dht-traffic", traffic_rows(growth=2.5))[-3] == "differs"
    assert answers("dht-traffic", traffic_rows(by_peers=1.5))[-2] == "differs"
    assert answers("dht-traffic", traffic_rows(nitf=9.0))[-1] == "differs"


def test_lookups_on_growing_rings() -> None:
    outcome = experiments.perform(experiments.find("dht-lookups"), Sizes((1,), 1, values=(50, 100, 200)))
    assert outcome.answer == "inconclusive" and [row["peers"] for row in outcome.rows] == [50, 100, 200] * 2
    large = [{**row, "peers": 50 * row["peers"]} for row in outcome.rows]
    assert answers("dht-lookups", large) == ["agree"] * 3
    assert answers("dht-lookups", [{**row, "hops": row["peers"] ** 0.5} for row in large])[1] == "differs"


def test_indexing_takes_a_message_for_each_state() -> None:
    outcome = experiments.perform(experiments.find("dht-indexing"), Sizes((10, 20), 1))
    assert {row["l"] for row in outcome.rows} == {0, 1, 2, 3}
    assert all(row["messages"] == row["states"] and row["known"] == row["known_before"] for row in outcome.rows)
    rows = [{**row, "queries": 200} for row in outcome.rows]
    assert answers("dht-indexing", rows) == ["agree", "agree"]
    assert answers("dht-indexing", [{**row, "messages": 9.0, "known": 9.0} for row in rows]) == ["differs", "differs"]


def test_workloads_are_taken_apart() -> None:
    outcome = experiments.perform(experiments.find("dht-workloads"), Sizes((200,), 3))
    assert {row["dtds"] for row in outcome.rows} == {"NITF", "ten"}, "without a data directory there are no others"
    for row in outcome.rows:
        assert row["each"] == pytest.approx(row["messages"] / row["elements"])
        assert row["paths"] <= row["elements"] and row["all_paths"] <= row["paths"] * row["documents"]
    small, large = ([row for row in outcome.rows if row["size"] == size] for size in (4_800, 36_500))
    assert all(row["messages"] > 4 * other["messages"] for row, other in zip(large, small, strict=False))


def test_a_ring_brokers_and_one_index_deliver_the_same() -> None:
    outcome = experiments.perform(experiments.find("dht-comparison"), Sizes((20,), 2, values=(5,)))
    assert not outcome.problems
    rows = {row["system"]: row for row in outcome.rows}
    assert len({row["matches"] for row in rows.values()}) == 1 and rows["brokers"]["matches"] > 0
    assert rows["one index"]["largest"] == 1.0 > rows["ring, recursive"]["largest"]
    assert rows["brokers"]["messages"] <= 4 < rows["ring, recursive"]["messages"] < rows["ring, iterative"]["messages"]
    assert rows["ring, recursive, l = 3"]["messages"] < rows["ring, recursive"]["messages"]
    assert rows["ring, recursive"]["chain"] < rows["ring, iterative"]["chain"]


def test_a_delivery_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dht_comparison, "_ring", lambda session, workload, method, settings: NOTHING)
    outcome = experiments.perform(experiments.find("dht-comparison"), Sizes((20,), 2, values=(5,)))
    assert len(outcome.problems) == len(dht_comparison.RINGS) and "disagree" in outcome.problems[0]


NOTHING = dht_comparison.Figures(set(), 1, 1, 1, 1, 1, Counter({0: 1}), 1.0)
