"""DHT-NFA's experiments: the replay counts what simulated peers count, and verdicts follow their rules."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from treecast import experiments
from treecast.document import read
from treecast.engines.path_nfa import PathMachine
from treecast.experiments.dht_variations import stored_states
from treecast.experiments.experiment import Sizes
from treecast.experiments.ring_model import RingModel, place_of, state_keys
from treecast.overlay.chord import NfaSettings
from treecast.overlay.chord.identifiers import place_of_key
from treecast.overlay.chord.routes import keys_of, parse, plan_query
from treecast.sim.chord.ring_network import RingNetwork
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.house

PEERS = 10
"""A hundredth of the paper's."""


@pytest.fixture(scope="module")
def workload() -> tuple[list[str], list[bytes]]:
    schema = Schema.news()
    queries = list(generate_queries(schema, 150, QuerySettings(distinct=False, depth_max=6), seed=1))
    return queries, list(generate_documents(schema, 3, DocumentSettings(bytes_target=800), seed=1))


def machine_of(queries: list[str]) -> PathMachine:
    machine = PathMachine()
    machine.add(queries, Schema.news().namespaces)
    return machine


@pytest.mark.parametrize("length", range(4))
def test_a_replay_counts_what_peers_count(workload: tuple[list[str], list[bytes]], length: int) -> None:
    queries, documents = workload
    ring = RingModel(PEERS)
    # All fingers are looked up soon, and nothing else happens often.
    settings = msgspec.structs.replace(ring.settings, finger_ms=100, stabilise_ms=1_000, sync_ms=2_000)
    nfa_settings = NfaSettings(fragment_length=length, shed_rate=1.0, locations_max=0)
    net = RingNetwork(1, PEERS, settings, nfa_settings, settle_ms=3_000)
    for number, query in enumerate(queries):
        net.subscribe(f"p{number % PEERS}", f"q{number}", query, Schema.news().namespaces)
    net.settle()
    machine = machine_of(queries)
    owners = ring.owners(machine)
    machine.place(owners, ring.hops(), PEERS)
    for number, document in enumerate(documents):
        replay = machine.replay(read(document), length, number)
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


def test_load() -> None:
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
                    messages = queries * factor * times
                    chain = 40.0 if method == "recursive" else 40.0 * changed.get("latency", 12.0)
                    chain *= changed.get("growth", 1.0) if peers > 1_000 else 1.0
                    row = {"workload": workload, "set": kind, "queries": queries, "peers": peers, "method": method}
                    rows.append({**row, "messages": messages, "with_lookups": 3 * messages, "chain": chain})
    return rows


def test_the_verdict_on_traffic() -> None:
    assert set(answers("dht-traffic", traffic_rows())) == {"agree"}
    assert answers("dht-traffic", traffic_rows(iterative=1.0))[0] == "differs"
    assert answers("dht-traffic", traffic_rows(latency=3.0))[1] == "differs"
    assert answers("dht-traffic", traffic_rows(growth=2.5))[-2] == "differs"
    assert answers("dht-traffic", traffic_rows(nitf=9.0))[-1] == "differs"
