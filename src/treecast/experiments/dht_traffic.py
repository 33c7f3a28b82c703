"""What a document takes in the distributed NFA: messages and latency (DHT-NFA, Figures 3, 5a-b and 6).

Counted by a replay of the machine (`treecast.engines.path_nfa`), with the places, fingers and lookups that peers have:
what simulated peers count is the same. Traffic is in messages, with and without the hops of lookups; latency is the
longest chain of both. Answers that tell a publisher the end of its document are not part of the paper, nor counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from treecast.engines.path_nfa import Replay
from treecast.experiments.dht_inputs import QUERIES_MIN, SETS, WORKLOADS, documents_of, machine_of, main_set, places_of
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.ring_model import RingModel
from treecast.experiments.rules import at_least, at_most, between, line, pairs, pick, times, value
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel

PEERS = 1_000


def points(sizes: Sizes) -> list[Point]:
    """Queries vary with 1,000 peers; then peers vary with the most queries."""
    all_points: list[Point] = []
    for kind in SETS:
        for workload in WORKLOADS:
            all_points += [{"workload": workload, "set": kind, "queries": n, "peers": PEERS} for n in sizes.queries]
            most = max(sizes.queries)
            all_points += [
                {"workload": workload, "set": kind, "queries": most, "peers": int(peers)}
                for peers in sizes.values
                if peers != PEERS
            ]
    return all_points


def measure(session: Session, point: Point) -> list[Row]:
    workload, peers = point["workload"], point["peers"]
    machine, unique = machine_of(session, workload, point["set"], point["queries"])
    documents = documents_of(session, workload)
    ring = RingModel(peers)
    hops = session.once(f"hops of {peers}", ring.hops)
    session.say(f"{workload}, {point['queries']:,} {point['set']} queries, {peers:,} peers")
    places = places_of(session, machine, f"{workload} {point['set']} {point['queries']}")
    machine.place([ring.member_number(place) for place in places], ring.peer_numbers, hops)
    machine.clear()
    random = Random(session.seed)
    publishers = [random.randrange(peers) for _ in documents]
    replays: list[Replay] = []
    seconds = clock(lambda: replays.extend(machine.replay_many(documents, publishers)))
    count = len(replays)

    def mean(*columns: str) -> float:
        return sum(float(getattr(replay, column)) for replay in replays for column in columns) / count

    questions = 2 * mean("visits")
    methods = {
        "recursive": (mean("messages"), mean("messages", "lookup_hops"), mean("chain")),
        "iterative": (questions, questions + mean("iterative_lookup_hops"), mean("iterative_chain")),
    }
    shared = {"distinct": unique, "states": len(machine), "documents": count, "us": seconds.cpu / count * 1e6}
    return [
        {**point, "method": method, "messages": messages, "with_lookups": with_lookups, "chain": chain, **shared}
        for method, (messages, with_lookups, chain) in methods.items()
    ]


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    full = pick(rows, workload="NITF", set=main_set(rows, workload="NITF", queries=most), queries=most, peers=PEERS)
    recursive, iterative = pick(full, method="recursive")[0], pick(full, method="iterative")[0]
    messages = iterative["messages"] / recursive["messages"]
    latency = iterative["chain"] / recursive["chain"]
    return [
        Finding(
            "the iterative method needs approximately twice the messages of the recursive one (Figure 3)",
            f"{times(messages)}: {iterative['messages']:,.0f} and {recursive['messages']:,.0f} a document; with "
            f"lookups {times(iterative['with_lookups'] / recursive['with_lookups'])}",
            "without lookups: agree from 1.5x to 2.5x, differs below 1.1x or above 3.4x",
            between(None if short else messages, 1.5, 2.5, slack=1.36),
            short
            or "a question and an answer, instead of one message; less than two, because a state that is reached "
            "twice with one element gets two messages, and one question",
            messages,
        ),
        Finding(
            "the recursive method's latency is more than ten times lower (Figure 3)",
            f"{times(latency)}: {iterative['chain']:,.0f} and {recursive['chain']:,.1f} hops",
            "agree from 10x, differs below 5x",
            at_least(None if short else latency, agree=10, differs=5),
            short,
            latency,
        ),
        *_curves(rows, most, short),
    ]


def _curves(rows: Sequence[Row], most: int, short: str) -> list[Finding]:
    only = pick(rows, method="recursive")
    findings = []
    for workload in WORKLOADS:
        for kind in SETS:
            labels = {"workload": workload, "set": kind, "peers": PEERS}
            curve = pairs(only, "queries", "messages", **labels)
            if not curve:
                continue
            fit = line(curve)
            findings.append(
                Finding(
                    f"{workload}, {kind}: traffic scales linearly with the number of queries (Figure 5a)",
                    "too few points" if fit is None else f"a line explains {fit.explained:.1%} of the variance",
                    "agree from 95 %, differs below 80 %",
                    at_least(None if short or fit is None else fit.explained, agree=0.95, differs=0.8),
                    short,
                    None if fit is None else fit.explained,
                )
            )
    findings.append(_flat(only, "queries", "Figure 5b", short, peers=PEERS))
    findings.append(_flat(pick(only, queries=most), "peers", "Figure 6", short))
    findings.append(_same_traffic(pick(only, queries=most), short))
    both = [value(only, "messages", workload=name, set="random", queries=most, peers=PEERS) for name in WORKLOADS]
    factor = both[0] / both[1] if both[0] and both[1] else None
    findings.append(
        Finding(
            "NITF has almost twice as many messages as the aggregated workload (Figure 5a)",
            f"{times(factor)} (random sets)",
            "agree from 1.4x to 2.5x, differs below 1x or above 3.5x",
            between(None if short else factor, 1.4, 2.5, slack=1.4),
            short
            or "our documents of NITF have many more elements than those of the aggregated workload, by the "
            "paper's own sizes; and a message is counted for each element and state",
            factor,
        )
    )
    return findings


def _flat(rows: Sequence[Row], x: str, figure: str, short: str, **at: int) -> Finding:
    """The longest chain without lookups does not depend on x; with them, on the logarithm of the peers."""
    spreads = {}
    for workload in WORKLOADS:
        for kind in SETS:
            chains = [chain for _, chain in pairs(rows, x, "chain", workload=workload, set=kind, **at)]
            if len(chains) > 1:
                spreads[f"{workload}, {kind}"] = max(chains) / min(chains)
    worst = max(spreads.values(), default=None)
    return Finding(
        f"latency is relatively unaffected by the number of {x} ({figure})",
        ", ".join(f"{name}: {times(factor)} between least and most" for name, factor in spreads.items()) or "one point",
        "agree up to 1.3x, differs above 2x",
        at_most(None if short else worst, agree=1.3, differs=2),
        short or "lookups included: they take a logarithm of the number of peers",
        worst,
    )


def _same_traffic(rows: Sequence[Row], short: str) -> Finding:
    """A message for each state and element, whoever has the state."""
    spreads = {"without lookups": 1.0, "with lookups": 1.0}
    for text, column in zip(spreads, ("messages", "with_lookups"), strict=True):
        for workload in WORKLOADS:
            for kind in SETS:
                figures = [figure for _, figure in pairs(rows, "peers", column, workload=workload, set=kind)]
                if len(figures) > 1:
                    spreads[text] = max(spreads[text], max(figures) / min(figures))
    several = len({row["peers"] for row in rows}) > 1
    worst = spreads["without lookups"]
    return Finding(
        "traffic is unaffected by the number of peers (Figure 6)",
        ", ".join(f"{factor:.2f}x {text}" for text, factor in spreads.items()) if several else "one point",
        "without lookups: agree up to 1.05x, differs above 1.3x",
        at_most(worst if several and not short else None, agree=1.05, differs=1.3),
        short or "a message for each state and element, whoever has the state",
        worst if several else None,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["queries"] for row in rows)
    named_rows = [{**row, "curve": f"{row['workload']}, {row['set']}"} for row in rows]
    recursive = pick(named_rows, method="recursive")
    nitf = pick(rows, workload="NITF", set=main_set(rows, workload="NITF", queries=most), peers=PEERS)
    by_queries = pick(recursive, peers=PEERS)
    messages, chain = ("messages", "messages a document"), ("chain", "hops, one after the other")
    queries = ("queries", "queries")
    return [
        lines(nitf, "Figure 3: messages", queries, messages, key="method"),
        lines(nitf, "Figure 3: latency", queries, chain, key="method"),
        lines(by_queries, "Figure 5a", queries, messages, key="curve", log_y=False),
        lines(by_queries, "Figure 5b", queries, chain, key="curve", log_y=False),
        lines(pick(recursive, queries=most), "Figure 6", ("peers", "peers"), chain, key="curve", log_y=False),
        lines(pick(recursive, queries=most), "Figure 6: messages", ("peers", "peers"), messages, key="curve"),
    ]


EXPERIMENT = Experiment(
    name="dht-traffic",
    paper="DHT-NFA",
    section="Figures 3, 5a-b, 6",
    title="Messages and latency of the distributed NFA",
    found="The iterative method needs about twice the messages of the recursive one, and more than ten times its "
    "latency. Traffic is linear in the queries and the same for all numbers of peers; latency depends on neither.",
    parameters="paths of up to 10 steps, 20 % *, 20 % //; fragments of length 0; queries or peers vary. "
    "µs/doc: CPU time of the replay",
    columns=(
        *("workload", "set", "queries", "peers", "method", "messages", "with_lookups", "chain", "distinct", "states"),
        *("documents", "us"),
    ),
    full=Sizes((200_000, 400_000, 600_000, 800_000, 1_000_000), 1_000, values=(1_000, 2_000, 3_000, 4_000, 5_000)),
    quick=Sizes((500, 1_000, 2_000), 10, values=(1_000,)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
