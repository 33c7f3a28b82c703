"""How storage and filtering are spread over the peers (DHT-NFA, Figure 7): virtual nodes and load-shedding.

Storage is what a peer is responsible for, in states and in transitions: the paper defines it in transitions and quotes
states. Filtering is the messages that a peer receives. A state that more than a share of the documents visit has
copies; its visitors choose one of them or its owner at random, so each gets its part of the load, which is computed.

A peer that owns a large part of the ring gets a large part of everything, and copies lie on the same ring. So the
largest part of the ring that one peer owns is shown beside the largest load, and the load on other rings, with peers of
other names, beside the one that is compared with the paper.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import nlargest, nsmallest

from treecast.engines.path_nfa import PathMachine
from treecast.experiments.dht_inputs import QUERIES_MIN, SETS, WORKLOADS, documents_of, machine_of, main_set, places_of
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import bars, lines
from treecast.experiments.ring_load import RingAmounts
from treecast.experiments.ring_model import RingModel, place_of, state_keys
from treecast.experiments.rules import at_most, between, pick
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel

PEERS = 1_000
RATE, COPIES = 0.1, 10
PLAIN = (1, 1.0, 0)
PAPER = (3, RATE, COPIES)
# Places for each peer, share of the documents, copies; log2 of 1,000 is about 10.
VARIANTS = (PLAIN, (3, 1.0, 0), (10, 1.0, 0), (1, RATE, COPIES), PAPER, (10, RATE, COPIES))
SWEEPS = ((3, 0.05, COPIES), (3, 0.2, COPIES), (3, RATE, 5), (3, RATE, 20))
OTHER_RINGS = 20
RANKS = (1, 2, 5, 10, 25, 50, 801, 850, 900, 950, 1_000)
"""Of the peers, by load: the first 50 and the last 200 are the paper's pictures."""


def points(sizes: Sizes) -> list[Point]:
    return [
        {"workload": workload, "set": kind, "queries": max(sizes.queries), "variant": variant}
        for kind in SETS
        for workload in WORKLOADS
        for variant in (*VARIANTS, *SWEEPS)
    ]


def measure(session: Session, point: Point) -> list[Row]:
    workload, kind, queries = point["workload"], point["set"], point["queries"]
    members, rate, copies = point["variant"]
    machine, _ = machine_of(session, workload, kind, queries)
    name = f"{workload} {kind} {queries}"
    received_counts, documents = _visits(session, machine, name, workload)
    places = places_of(session, machine, name)
    session.say(f"{workload}, {kind}, {members} places, {copies} copies")
    ring = RingModel(PEERS, members)
    _, _, _, children = machine.columns()
    states, transitions = (
        RingAmounts(places, amounts).by_peer(ring) for amounts in (array("B", bytes([1]) * len(places)), children)
    )
    total = len(documents_of(session, workload))
    shared = [state for state, count in enumerate(documents) if copies and count > rate * total]
    amounts: list[RingAmounts] = []
    seconds = clock(lambda: amounts.append(place_amounts(machine, shared, copies, received_counts, places)))
    load = sorted(amounts[0].by_peer(ring), reverse=True)
    others = [_share([max(each)], each) for each in map(amounts[0].by_peer, _other_rings(session, members))]
    return [
        {
            "workload": workload,
            "set": kind,
            "queries": queries,
            "members": members,
            "rate": rate,
            "copies": copies,
            "states_200": _share(nlargest(200, states), states),
            "transitions_200": _share(nlargest(200, transitions), transitions),
            "first_50": _share(nlargest(50, load), load),
            "last_200": _share(nsmallest(200, load), load),
            "largest": _share([max(load)], load),
            "ring_largest": max(ring.shares()),
            "least_of_rings": min(others),
            "most_of_rings": max(others),
            "with_copies": len(shared),
            "notices": len(shared) * (PEERS * members - 1),
            **{f"load_{rank}": _share([load[rank - 1]], load) for rank in RANKS},
            "documents": total,
            "us": seconds.cpu / total * 1e6,
        }
    ]


def _visits(session: Session, machine: PathMachine, name: str, workload: str) -> tuple[Sequence[int], Sequence[int]]:
    """Messages and documents by state: the same for all variants."""

    def count() -> tuple[Sequence[int], Sequence[int]]:
        documents = documents_of(session, workload)
        session.say(f"{name}: {len(documents):,} documents")
        machine.clear()
        machine.replay_many(documents)
        return machine.received(), machine.documents()

    return session.last("visits", name, count)


def place_amounts(
    machine: PathMachine, shared: Sequence[int], copies: int, received_counts: Sequence[int], places: Sequence[int]
) -> RingAmounts:
    """What is received at each place: the load of a state that has copies is that of all who hold it."""
    keys = state_keys(machine) if shared else []
    amounts, everywhere = array("d", received_counts), array("Q", places)
    for state in shared:
        part = received_counts[state] / (copies + 1)
        amounts[state] = part
        for copy in range(1, copies + 1):
            everywhere.append(place_of(keys[state], copy))
            amounts.append(part)
    return RingAmounts(everywhere, amounts)


def _other_rings(session: Session, members: int) -> list[RingModel]:
    def make() -> list[RingModel]:
        return [RingModel(PEERS, members, name=f"ring {number} peer ") for number in range(1, OTHER_RINGS + 1)]

    return session.once(f"rings of {members} places", make)


def _share(some: Sequence[float], all: Sequence[float]) -> float:
    return sum(some) / max(sum(all), 1)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    # A run for Figure 7a has no copies.
    workloads = [name for name in WORKLOADS if pick(rows, workload=name, copies=COPIES)]
    return [*_storage(rows, short), *(finding for name in workloads for finding in _filtering(rows, name, short))]


def _at(rows: Sequence[Row], workload: str, kind: str, variant: tuple[int, float, int]) -> Row:
    members, rate, copies = variant
    return pick(rows, workload=workload, set=kind, members=members, rate=rate, copies=copies)[0]


def _storage(rows: Sequence[Row], short: str) -> list[Finding]:
    findings = []
    for variant, expected, text in ((PLAIN, 0.53, "one id"), (VARIANTS[1], 0.38, "three virtual nodes")):
        row_by_set = {kind: _at(rows, "NITF", kind, variant) for kind in SETS if pick(rows, workload="NITF", set=kind)}
        share = row_by_set[main_set(rows, workload="NITF")]["states_200"]
        findings.append(
            Finding(
                f"with {text} the first 200 of 1,000 peers hold {expected:.0%} of the states (NITF, Figure 7a)",
                "; ".join(
                    f"{kind}: {row['states_200']:.1%} of the states, {row['transitions_200']:.1%} of the transitions"
                    for kind, row in row_by_set.items()
                ),
                "distinct if it was measured, states: agree within 4 points, differs beyond 8",
                at_most(None if short else abs(share - expected), agree=0.04, differs=0.08),
                short or "it is what random places on a ring give, whatever is stored",
                share,
            )
        )
    return findings


def _filtering(rows: Sequence[Row], workload: str, short: str) -> list[Finding]:
    kind = main_set(rows, workload=workload)
    before, after = (_at(rows, workload, kind, variant) for variant in (PLAIN, PAPER))
    return [
        Finding(
            f"{workload}: without balancing the first 50 peers receive almost 20 % of the requests (Figures 7b, 7c)",
            f"{before['first_50']:.1%}; the last 200 {before['last_200']:.2%}, the first alone {before['largest']:.2%}",
            "agree from 15 % to 30 %, differs below 10 % or above 45 %",
            between(None if short else before["first_50"], 0.15, 0.3, slack=1.5),
            short,
            before["first_50"],
        ),
        Finding(
            f"{workload}: with virtual nodes and load-shedding no peer receives more than 0.3 % (Figures 7b, 7c)",
            f"{after['largest']:.2%} at most; first 50 {after['first_50']:.1%}, last 200 {after['last_200']:.1%}; "
            f"{after['with_copies']:,} states have copies, which {after['notices']:,} notices tell",
            "agree up to 0.4 %, differs above 0.8 %",
            at_most(None if short else after["largest"], agree=0.004, differs=0.008),
            short or _why(rows, workload, kind, after),
            after["largest"],
        ),
    ]


def _why(rows: Sequence[Row], workload: str, kind: str, after: Row) -> str:
    variant_rows = [row for row in pick(rows, workload=workload, set=kind, members=3) if row["copies"]]
    best = min(row["largest"] for row in variant_rows)
    many = _at(rows, workload, kind, VARIANTS[-1])
    here, there = (
        f"{row['least_of_rings']:.2%} to {row['most_of_rings']:.2%} on {OTHER_RINGS} rings of peers with other names"
        for row in (after, many)
    )
    return (
        f"what is left is the ring's: one peer owns {after['ring_largest']:.2%} of it, and copies lie on the same "
        f"ring; the largest load is {here}. Other numbers of copies and rates give {best:.2%} at best, as the paper "
        f"says. With {many['members']} places for each peer it is {many['largest']:.2%}, and {there}. Telling all "
        "peers of so many states is no small matter"
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    shown_rows = [
        {**row, "balance": f"{row['members']} places" + (f", {row['copies']} copies" if row["copies"] else "")}
        for row in rows
        if row["set"] == main_set(rows, workload=row["workload"])
        and row["rate"] in (1.0, RATE)
        and row["copies"] in (0, COPIES)
    ]
    shown_rows = [{**row, "states": 100 * row["states_200"], "load": 100 * row["largest"]} for row in shown_rows]
    plain = [row for row in shown_rows if not row["copies"]]
    ranks = [
        {"curve": f"{row['workload']}, {row['balance']}", "rank": rank, "load": 100 * row[f"load_{rank}"]}
        for row in shown_rows
        for rank in RANKS
        if (row["members"], row["rate"], row["copies"]) in (PLAIN, PAPER)
    ]
    first, last = ([row for row in ranks if (row["rank"] <= 50) is is_first] for is_first in (True, False))
    x, y = ("rank", "peer, by load"), ("load", "requests, %")
    return [
        bars(
            plain, "Figure 7a", ("workload", ""), ("states", "states of the first 200, %"), key="balance", log_y=False
        ),
        lines(first, "Figure 7b: the first 50", x, y, key="curve", log_y=False),
        lines(last, "Figure 7c: the last 200", x, y, key="curve", log_y=False),
        bars(shown_rows, "The first peer", ("workload", ""), ("load", "requests of the first peer, %"), key="balance"),
    ]


EXPERIMENT = Experiment(
    name="dht-load",
    paper="DHT-NFA",
    section="Figures 7a-c",
    title="Storage and filtering load of the peers",
    found="The first 200 of 1,000 peers hold 53 % of the states, with 3 virtual nodes 38 %. The first 50 receive "
    "almost 20 % of the requests and the last 200 nearly none; with load-shedding no peer receives more than 0.3 %.",
    parameters=f"{PEERS:,} peers; 1, 3 or 10 places on the ring for each; a state that more than 10 % of the documents "
    "visit gets 10 copies; other rates and numbers of copies beside it. load_n: the share of the nth peer by load. "
    f"least and most_of_rings: the largest load on {OTHER_RINGS} other rings. µs/doc: CPU time for spreading the load",
    columns=(
        *("workload", "set", "queries", "members", "rate", "copies", "states_200", "transitions_200", "first_50"),
        *("last_200", "largest", "ring_largest", "least_of_rings", "most_of_rings", "with_copies", "notices"),
        *(f"load_{rank}" for rank in RANKS),
        *("documents", "us"),
    ),
    full=Sizes((1_000_000,), 1_000),
    quick=Sizes((2_000,), 20),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
