"""What DHT-NFA promised for later: fragments of different length `l`, and queries with more `*` and `//`.

A longer fragment saves messages, since a hop consumes the events of l+1 levels, and costs storage, since a state is
stored wherever it is at most l transitions away. More `*` and `//` make more states active at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from treecast.engines.path_nfa import PathMachine, Replay
from treecast.experiments.dht_inputs import documents_of
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.inputs import namespaces_of, news_schema
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, pairs, times
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel
from treecast.workload import QuerySettings, generate_queries

LENGTHS = (0, 1, 2, 3)
QUERIES_MIN = 100_000
USUAL = 0.2


def points(sizes: Sizes) -> list[Point]:
    most = max(sizes.queries)
    lengths: list[Point] = [{"varies": "l", "value": length, "queries": most} for length in LENGTHS]
    shares: list[Point] = [
        {"varies": varies, "value": value, "queries": most} for varies in ("*", "//") for value in sizes.values
    ]
    return lengths + shares


def measure(session: Session, point: Point) -> list[Row]:
    varies, value, count = point["varies"], point["value"], point["queries"]
    share = {"*": "wildcard", "//": "descendant"}.get(varies)

    def draw() -> PathMachine:
        session.say(f"{varies} {value}: {count:,} queries")
        settings = QuerySettings(distinct=False, **({share: value} if share else {}))
        schema = news_schema(session)
        new_machine = PathMachine()
        new_machine.add(generate_queries(schema, count, settings, seed=session.seed), namespaces_of([schema]))
        return new_machine

    machine = session.last("machine", (varies if share else "", value if share else USUAL), draw)
    length = value if varies == "l" else 0
    documents = documents_of(session, "NITF")
    replays: list[Replay] = []
    seconds = clock(lambda: replays.extend(machine.replay_many(documents, length=length)))
    return [
        {
            **point,
            "states": len(machine),
            "stored": stored_states(machine, length),
            "messages": sum(replay.messages for replay in replays) / len(replays),
            "chain": sum(replay.chain for replay in replays) / len(replays),
            "documents": len(replays),
            "us": seconds.cpu / len(replays) * 1e6,
        }
    ]


def stored_states(machine: PathMachine, length: int) -> int:
    """States and their copies, at all peers: a state is stored for each state that is near enough above it."""
    parents, labels, _, _ = machine.columns()
    names = machine.labels()
    total = 0
    for state in range(len(parents)):
        steps = 0
        while steps <= length:
            total += 1
            if state == 0:
                break
            steps += names[labels[state]] is not None
            state = parents[state]
    return total


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    messages, stored_states_by_length = (pairs(rows, "value", column, varies="l") for column in ("messages", "stored"))
    saving, cost = messages[0][1] / messages[-1][1], stored_states_by_length[-1][1] / stored_states_by_length[0][1]
    findings = [
        Finding(
            "l controls the traffic",
            f"l = {messages[-1][0]:.0f} takes {times(1 / saving)} the messages of l = 0, and {times(cost)} the storage",
            "agree if the longest fragments take at most half the messages, differs if they take more than 0.9x",
            at_most(None if short else 1 / saving, agree=0.5, differs=0.9),
            short or "a hop consumes the events of l+1 levels; a state is stored wherever it is near",
            1 / saving,
        )
    ]
    for varies in ("*", "//"):
        curve = pairs(rows, "value", "messages", varies=varies)
        growth = curve[-1][1] / curve[0][1]
        findings.append(
            Finding(
                f"more {varies}: evaluated by the paper, and to appear in its extended version",
                f"{times(growth)} the messages at {curve[-1][0]:.0%} as at {curve[0][0]:.0%}",
                "no figure to agree with; agree if there are more, differs if there are fewer",
                at_least(None if short else growth, agree=1.0, differs=1.0),
                short,
                growth,
            )
        )
    return findings


def panels(rows: Sequence[Row]) -> list[Panel]:
    y = ("messages", "messages a document")
    shares = [row for row in rows if row["varies"] != "l"]
    return [
        lines([row for row in rows if row["varies"] == "l"], "Fragments", ("value", "l"), y, key="varies", log_y=False),
        lines(shares, "More * and //", ("value", "probability"), y, key="varies", log_y=False),
    ]


EXPERIMENT = Experiment(
    name="dht-variations",
    paper="DHT-NFA",
    section="6",
    title="Longer fragments, and more * and //",
    found="The paper has evaluated more non-determinism and different values of l, and left the results for later.",
    parameters="random NITF queries of up to 10 steps, 20 % * and 20 % // unless varied; no lookups. µs/doc: CPU time "
    "of the replay",
    columns=("varies", "value", "queries", "states", "stored", "messages", "chain", "documents", "us"),
    full=Sizes((1_000_000,), 1_000, values=(0.0, 0.2, 0.4, 0.6)),
    quick=Sizes((1_000,), 5, values=(0.0, 0.2, 0.4)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
