"""Routing latency with and without priorities (ONYX, section 4.3.1, "dependency-aware priority scheduling").

One plan holds the routing queries of eight links, a transformation for each link, and local queries, whose share of all
queries varies. It runs with one queue for all operators, and with three queues and the wait queue; short-cuts are on
in both. Beside it stands what a broker of ours does: its routing table first, its own subscriptions after.

*Routed* is when the last operator ran that a route needed: then all links are known. The operators until then are
counted; times are CPU time. The paper gives no figures for this, only the argument, so the rules are ours.

The transformation of a link is an early projection on the path of the first query behind it. It has none of the query's
predicates, since the paper's condition is that it generalises what lies behind the link.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from treecast.document import Document, read
from treecast.engines.operators import Build, Outcome, Plan, RunSettings, Target, run_plan
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.operator_inputs import (
    LINKS,
    TWO_STAGES,
    check_links,
    draw_documents,
    draw_queries,
    index_of,
    link_name,
    routing_table,
)
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, pick, ratio, times, value
from treecast.experiments.session import Session
from treecast.index import Index
from treecast.report import Panel

ONE_QUEUE, PRIORITIES = "one queue", "priorities"
QUERIES_MIN = 1_000
SELECTIVITY = 0.2
MUCH = 0.5  # a share of local queries from which they matter
COUNTED = ("operators", "routed_after", "built", "waited")


@dataclass
class Stopwatch:
    """CPU time until the last link was chosen, and until all links were known."""

    begin: float = 0.0
    chosen: float = 0.0
    routed: float = 0.0

    def start(self) -> None:
        self.begin = self.chosen = self.routed = time.process_time()

    def __call__(self, target: Target | None) -> None:
        self.routed = time.process_time()
        if target is not None:
            self.chosen = self.routed


def points(sizes: Sizes) -> list[Point]:
    return [{"queries": queries, "local": share} for queries in sizes.queries for share in sizes.values]


def measure(session: Session, point: Point) -> list[Row]:
    count, share = point["queries"], point["local"]
    texts = draw_queries(session, count, SELECTIVITY)
    local = [text for number, text in enumerate(texts) if int((number + 1) * share) > int(number * share)]
    routes = [text for number, text in enumerate(texts) if int((number + 1) * share) == int(number * share)]
    link_queries = [(link_name(number % LINKS), text) for number, text in enumerate(routes)]
    documents = draw_documents(session)
    plan = _plan(link_queries, local)
    expected = index_of(local)
    rows: list[Row] = []
    for name, settings in ((ONE_QUEUE, RunSettings(priorities=False)), (PRIORITIES, RunSettings())):
        session.say(f"{name}, {len(texts):,} queries")
        outcomes = [run_plan(plan, read(document), settings) for document in documents]
        check_links(session, link_queries, documents, [one.links for one in outcomes], name)
        wrong = [n for n, one in enumerate(outcomes) if sorted(one.local) != sorted(expected.match(documents[n]))]
        if wrong:
            session.problems.append(f"{name} and the index disagree on the local queries of document {wrong[0]}")
        seconds, chosen_s, routed_s = _time(session, plan, documents, settings)
        nfa = session.fastest_pass(lambda: [plan.nfa.run(read(document)) for document in documents])
        rows.append(_row(point, name, len(documents), seconds, chosen_s, routed_s, nfa, outcomes))
    rows.append(_two_stages(session, point, link_queries, expected, documents))
    return rows


def _plan(link_queries: Sequence[tuple[str, str]], local: Sequence[str]) -> Plan:
    plan = Plan()
    first: dict[str, str] = {}
    for link, query in link_queries:
        plan.add_route(link, query)
        first.setdefault(link, query)
    for link, query in first.items():
        path = without_predicates(query)
        plan.add_transformation(link, path, _wrapping(path))
    for number, query in enumerate(local):
        plan.add_local(str(number), query)
    return plan


def without_predicates(query: str) -> str:
    """The path alone. (Literals here hold no bracket.)"""
    characters, depth = [], 0
    for character in query:
        depth += character == "["
        if not depth:
            characters.append(character)
        depth -= character == "]"
    return "".join(characters)


def _wrapping(path: str) -> Build:
    index = Index()
    index.add("early", f"for $n in {path} return <early>{{$n}}</early>")

    def build(document: Document) -> object:
        return index.render(document.data)

    return build


def _time(
    session: Session, plan: Plan, documents: Sequence[bytes], settings: RunSettings
) -> tuple[float, float, float]:
    """CPU seconds for all documents: in all, until the last link was chosen, until all links were known. Of the pass in
    which links were known soonest."""
    best = (0.0, 0.0, 0.0)
    seconds_spent = 0.0
    for number in range(session.sizes.passes):
        watch, sums = Stopwatch(), [0.0, 0.0, 0.0]
        for document in documents:
            watch.start()
            run_plan(plan, read(document), settings, watch)
            sums[0] += time.process_time() - watch.begin
            sums[1] += watch.chosen - watch.begin
            sums[2] += watch.routed - watch.begin
        if not number or sums[2] < best[2]:
            best = (sums[0], sums[1], sums[2])
        seconds_spent += sums[0]
        if seconds_spent >= session.sizes.cell_seconds:
            break
    return best


def _two_stages(
    session: Session, point: Point, link_queries: Sequence[tuple[str, str]], local: Index, documents: Sequence[bytes]
) -> Row:
    """A broker's own way. Links and routing are known at once: one call answers for all links."""
    table = routing_table(link_queries)
    links = [list(targets) for targets in table.route(documents)]
    check_links(session, link_queries, documents, links, TWO_STAGES)
    first = session.fastest_pass(lambda: [table.route([document]) for document in documents])
    second = session.fastest_pass(lambda: [local.match(document) for document in documents])
    outcomes = [Outcome(links=targets) for targets in links]
    return _row(point, TWO_STAGES, len(documents), first + second, first, first, 0.0, outcomes)


def _row(
    point: Point,
    name: str,
    documents: int,
    seconds: float,
    chosen_s: float,
    routed_s: float,
    nfa: float,
    outcomes: Sequence[Outcome],
) -> Row:
    def mean(key: str) -> float:
        return float(sum(getattr(one, key) for one in outcomes) / documents)

    return {
        **point,
        "plan": name,
        "us": max(seconds / documents * 1e6, 1e-3),
        "chosen_us": chosen_s / documents * 1e6,
        "routed_us": routed_s / documents * 1e6,
        "nfa_us": nfa / documents * 1e6,
        **{key: mean(key) for key in COUNTED},
        "links": sum(len(one.links) for one in outcomes) / documents,
        "documents": documents,
    }


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["queries"] for row in rows)
    share = max(row["local"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN:,} queries; this run had {most:,}"
    short = short or ("" if share >= MUCH else f"a verdict takes a share of local queries of {MUCH:g}")
    large = pick(rows, queries=most)
    return [
        _not_delayed(large, share, short),
        _sooner(large, share, short),
        _waiting(large, short),
        _cost(large, short),
    ]


def _not_delayed(rows: Sequence[Row], share: float, short: str) -> Finding:
    factor = ratio(rows, ONE_QUEUE, PRIORITIES, key="plan", y="routed_after", local=share)
    return Finding(
        "routing should not be delayed by the processing for local queries",
        "operators until all links are known: "
        + "; ".join(
            f"{value(rows, 'routed_after', plan=ONE_QUEUE, local=at):.0f} in one queue and "
            f"{value(rows, 'routed_after', plan=PRIORITIES, local=at):.0f} with priorities with {at:.0%} local queries"
            for at in sorted({row["local"] for row in rows})
        ),
        "at the largest share of local queries: agree if one queue takes 1.5x as many, differs below 1.1x",
        at_least(None if short else factor, agree=1.5, differs=1.1),
        short or "operators that routes and local queries share run in the first class, so priorities do not lose them",
        factor,
    )


def _sooner(rows: Sequence[Row], share: float, short: str) -> Finding:
    factor = ratio(rows, ONE_QUEUE, PRIORITIES, key="plan", y="routed_us", local=share)
    routed_us = value(rows, "routed_us", plan=PRIORITIES, local=share)
    nfa = value(rows, "nfa_us", plan=PRIORITIES, local=share)
    part = f"{nfa / routed_us:.0%}" if nfa is not None and routed_us else "—"
    return Finding(
        "priorities give routing a fast path",
        f"with {share:.0%} local queries, one queue takes {times(factor)} as long until all links are known; reading "
        f"and the NFA, which every query waits for, are {part} of the time with priorities; two indexes know the links "
        f"after {times(ratio(rows, TWO_STAGES, PRIORITIES, key='plan', y='routed_us', local=share))} of it",
        "at the largest share of local queries: agree from 1.3x, differs below 1.0x",
        at_least(None if short else factor, agree=1.3, differs=1.0),
        short or "one machine for all queries is shared work, and it is also work that routing has to wait for",
        factor,
    )


def _waiting(rows: Sequence[Row], short: str) -> Finding:
    built_count = sum(row["built"] for row in pick(rows, plan=PRIORITIES))
    eager_count = sum(row["built"] for row in pick(rows, plan=ONE_QUEUE))
    share_avoided = 1 - built_count / eager_count if eager_count else None
    return Finding(
        "a transformation is executed only if its link was chosen",
        f"transformations built a document, of all shares: {built_count:.1f} with the wait queue, {eager_count:.1f} "
        f"without",
        "the share of transformations that the wait queue avoids: agree from 20 %, differs below 5 %",
        at_least(None if short else share_avoided, agree=0.2, differs=0.05),
        short
        or f"{LINKS} links with many queries each are nearly all chosen, and nothing is avoided; with fewer queries "
        "a link is chosen more rarely than its transformation, which generalises them, would match",
        share_avoided,
    )


def _cost(rows: Sequence[Row], short: str) -> Finding:
    factors = [
        ratio(rows, PRIORITIES, ONE_QUEUE, key="plan", y="operators", local=at)
        for at in sorted({row["local"] for row in rows})
    ]
    worst = max((factor for factor in factors if factor is not None), default=None)
    return Finding(
        "the order of operators changes, not the work that is shared",
        f"with priorities {', '.join(map(times, factors))} as many operators run as in one queue",
        "the largest factor: agree up to 1.05x, differs above 1.2x",
        at_most(None if short else worst, agree=1.05, differs=1.2),
        short or "short-cuts leave out a little more or less where targets are reached in another order",
        worst,
    )


def panels(rows: Sequence[Row]) -> list[Panel]:
    most = max(row["queries"] for row in rows)
    x = ("local", "share of local queries")
    plans = [row for row in rows if row["plan"] != TWO_STAGES]
    title = f"{most:,} queries"
    return [
        lines(plans, title, x, ("routed_after", "operators until all links are known"), key="plan", queries=most),
        lines(rows, title, x, ("routed_us", "CPU µs until all links are known"), key="plan", queries=most),
        lines(rows, title, x, key="plan", queries=most),
    ]


EXPERIMENT = Experiment(
    name="onyx-priorities",
    paper="ONYX",
    section="4.3.1",
    title="Routing latency with and without priorities",
    found="Routing and incremental transformation are on the critical path of messages, and should not be delayed by "
    "the processing for local queries; a transformation is useful only if its link is chosen. Hence three "
    "first-come queues and a wait queue. The paper gives no figures.",
    parameters=f"{LINKS} links with a transformation each; the share of local queries varies, predicates have a "
    f"selectivity of {SELECTIVITY:g}. The operators are Python, over the published NFA; the two indexes are ours",
    columns=(
        "queries", "local", "plan", "us", "chosen_us", "routed_us", "nfa_us", *COUNTED, "links", "documents",
    ),
    full=Sizes((200, 1_000), 20, values=(0.1, 0.3, 0.5, 0.7, 0.9), passes=3, cell_seconds=1.0),
    quick=Sizes((200,), 5, values=(0.1, 0.5, 0.9), passes=1, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)  # fmt: skip
