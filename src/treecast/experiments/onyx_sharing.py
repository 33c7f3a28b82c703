"""Work avoided by short-cuts in a combined operator network (ONYX, section 4.2.1, "sharing among routing queries").

The routing queries of eight links, three ways: a network of operators for each link, which stops when its link is
chosen; one combined network, which runs to its end; the combined network that leaves out what leads only to links that
were chosen. Beside them stands what a broker of ours does: one index over all routing queries, which has no operators.

The paper gives no figures for this, only the argument, so the rules are ours. They are about operators and predicates,
which are counted, and not about time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from treecast.document import read
from treecast.engines.operators import Outcome, Plan, RunSettings, run_plan
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.operator_inputs import (
    LINKS,
    TWO_STAGES,
    check_links,
    draw_documents,
    draw_queries,
    link_name,
    routing_table,
)
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, pick, ratio, times, value
from treecast.experiments.session import Session
from treecast.report import Panel

SEPARATE, COMBINED, SHORT = "a network a link", "combined", "combined, short-cuts"
QUERIES_MIN = 100  # behind each link
COUNTED = ("operators", "skipped", "predicates", "tuples")


def points(sizes: Sizes) -> list[Point]:
    return [
        {"selectivity": selectivity, "queries": queries} for selectivity in sizes.values for queries in sizes.queries
    ]


def measure(session: Session, point: Point) -> list[Row]:
    texts = draw_queries(session, LINKS * point["queries"], point["selectivity"])
    routes = [(link_name(number % LINKS), text) for number, text in enumerate(texts)]
    documents = draw_documents(session)
    combined_plan = _plan(routes)
    apart = [_plan([route for route in routes if route[0] == link_name(number)]) for number in range(LINKS)]
    short, whole = RunSettings(), RunSettings(short_cuts=False)
    variants = ((SEPARATE, apart, short), (COMBINED, [combined_plan], whole), (SHORT, [combined_plan], short))
    rows: list[Row] = []
    expected: list[list[str]] | None = None
    for name, plans, settings in variants:
        session.say(f"{name}, {len(texts):,} queries")
        outcomes = _run_all(plans, documents, settings)
        links = [sorted(link for one in each for link in one.links) for each in outcomes]
        if expected is not None and links != expected:
            session.problems.append(f"{name} and {SEPARATE} choose different links with {len(texts):,} queries")
        expected = expected or links
        seconds = session.fastest_pass(partial(_run_all, plans, documents, settings))
        nfa = session.fastest_pass(partial(_run_machines, plans, documents))
        counts = {key: sum(getattr(one, key) for each in outcomes for one in each) / len(documents) for key in COUNTED}
        rows.append(_row(session, point, name, seconds, nfa, counts, links))
    check_links(session, routes, documents, expected or [], SHORT)
    session.say(f"{TWO_STAGES}, {len(texts):,} queries")
    table = routing_table(routes)
    links_chosen = [list(links) for links in table.route(documents)]
    check_links(session, routes, documents, links_chosen, TWO_STAGES)
    seconds = session.fastest_pass(lambda: [table.route([document]) for document in documents])
    rows.append(_row(session, point, TWO_STAGES, seconds, 0.0, dict.fromkeys(COUNTED, 0.0), links_chosen))
    return rows


def _plan(routes: Sequence[tuple[str, str]]) -> Plan:
    plan = Plan()
    for link, query in routes:
        plan.add_route(link, query)
    return plan


def _run(plans: Sequence[Plan], document: bytes, settings: RunSettings) -> list[Outcome]:
    content = read(document)
    return [run_plan(plan, content, settings) for plan in plans]


def _run_all(plans: Sequence[Plan], documents: Sequence[bytes], settings: RunSettings) -> list[list[Outcome]]:
    return [_run(plans, document, settings) for document in documents]


def _run_machines(plans: Sequence[Plan], documents: Sequence[bytes]) -> None:
    """Reading and the NFA alone."""
    for document in documents:
        for plan in plans:
            plan.nfa.run(read(document))


def _row(
    session: Session,
    point: Point,
    name: str,
    seconds: float,
    nfa: float,
    counts: dict[str, float],
    links: Sequence[Sequence[str]],
) -> Row:
    documents = session.sizes.documents
    return {
        **point,
        "plan": name,
        "us": seconds / documents * 1e6,
        "nfa_us": nfa / documents * 1e6,
        **counts,
        "links": sum(map(len, links)) / documents,
        "documents": documents,
    }


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most, widest = max(row["queries"] for row in rows), max(row["selectivity"] for row in rows)
    short = "" if most >= QUERIES_MIN else f"a verdict takes {QUERIES_MIN} queries a link; this run had {most}"
    large = pick(rows, queries=most)
    return [_once(large, widest, short), _waste(large, short), _no_more(large, short)]


def _once(rows: Sequence[Row], widest: float, short: str) -> Finding:
    factor = ratio(rows, SEPARATE, SHORT, key="plan", y="operators", selectivity=widest)
    return Finding(
        "what routing queries have in common is processed once in a combined network; where that is much, the benefit "
        "is tremendous",
        f"networks of {LINKS} links run {times(factor)} as many operators as the combined one, and take "
        f"{times(ratio(rows, SEPARATE, SHORT, key='plan', selectivity=widest))} as long "
        f"({times(ratio(rows, SEPARATE, SHORT, key='plan', y='nfa_us', selectivity=widest))} for the NFA alone)",
        "operators at the largest selectivity: agree from 1.5x, differs below 1.0x",
        at_least(None if short else factor, agree=1.5, differs=1.0),
        short or "drawn queries share paths more than selections; the NFA runs once instead of once a link",
        factor,
    )


def _waste(rows: Sequence[Row], short: str) -> Finding:
    shares = {}
    for selectivity in sorted({row["selectivity"] for row in rows}):
        share_left = ratio(rows, SHORT, COMBINED, key="plan", y="predicates", selectivity=selectivity)
        shares[selectivity] = None if share_left is None else 1 - share_left
    best = max((share for share in shares.values() if share is not None), default=None)
    return Finding(
        "a combined network that runs to its end does work that leads only to targets that were reached",
        "short-cuts leave out "
        + ", ".join(
            f"{share:.0%} of the predicates at selectivity {at:g} ({_links(rows, at)} links chosen)"
            for at, share in shares.items()
            if share is not None
        ),
        "the largest share: agree from 30 %, differs below 10 %",
        at_least(None if short else best, agree=0.3, differs=0.1),
        short or "the more queries a link has and the easier they are met, the sooner it is chosen",
        best,
    )


def _no_more(rows: Sequence[Row], short: str) -> Finding:
    factors = [
        ratio(rows, SHORT, SEPARATE, key="plan", y="predicates", selectivity=selectivity)
        for selectivity in sorted({row["selectivity"] for row in rows})
    ]
    known_factors = [factor for factor in factors if factor is not None]
    worst = max(known_factors, default=None)
    return Finding(
        "processing for duplicate targets is left out, so sharing costs nothing that separate networks would save",
        f"with short-cuts the combined network evaluates {', '.join(map(times, factors))} as many predicates as "
        f"the networks of the links, which stop when their link is chosen",
        "the largest factor: agree up to 1.0x, differs above 1.1x",
        at_most(None if short else worst, agree=1.0, differs=1.1),
        short or "the order of operators is another one in a combined network, so a link may be chosen later",
        worst,
    )


def _links(rows: Sequence[Row], selectivity: float) -> str:
    return f"{value(rows, 'links', plan=SHORT, selectivity=selectivity) or 0:.1f}"


def panels(rows: Sequence[Row]) -> list[Panel]:
    widest = max(row["selectivity"] for row in rows)
    x = ("queries", "routing queries a link")
    counted_rows = [row for row in rows if row["plan"] != TWO_STAGES]
    title = f"Selectivity {widest:g}"
    return [
        lines(
            counted_rows, title, x, ("predicates", "predicates a document"), key="plan", log_x=True, selectivity=widest
        ),
        lines(rows, title, x, key="plan", log_x=True, selectivity=widest),
    ]


EXPERIMENT = Experiment(
    name="onyx-sharing",
    paper="ONYX",
    section="4.2.1",
    title="Short-cuts in a combined operator network",
    found="All routing queries of a routing table are one combined operator network, so that common portions are "
    "processed once. Naive ways of executing it may perform wasteful work: processing that only leads to targets that "
    "have already been reached has to be ignored at run time. The paper gives no figures.",
    parameters=f"{LINKS} links; routing queries a link and the selectivity of a predicate vary. The operators are "
    "Python, over the published NFA; the two indexes are ours",
    columns=("selectivity", "queries", "plan", "us", "nfa_us", *COUNTED, "links", "documents"),
    full=Sizes((10, 30, 100, 300), 20, values=(0.05, 0.2, 0.8), passes=2, cell_seconds=0.5),
    quick=Sizes((10, 30), 5, values=(0.1, 0.5), passes=1, cell_seconds=0.2),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
