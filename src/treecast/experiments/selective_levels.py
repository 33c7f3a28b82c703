"""Subscription groups and bandwidth at the levels of a network (Selective, section VI, Figures 7 to 9).

Five levels with 2, 4, 6, 8 and 10 brokers, each of which knows all brokers of the adjacent levels. Documents of more
than 1,000 elements with the same amount of text each, so that elements count for bandwidth. 250 groups with distinct
subtrees, chosen at random, at random brokers of the last level; averages of several runs. The paper gives neither the
shape of its documents nor its thresholds of merging. Shapes are varied here: 2, 4 or 10 children an element, and 1.5,
which is 1 and 2 in turn and gives deep documents. The thresholds are the defaults of `MergeSettings`; everything is
run with covering alone as well, to see what merging does.

Groups are the distinct subtrees in the routing tables of a level, in total. Bandwidth is what a level sends downwards
when every element changes once. Along a path it is what travels on the connections from the source to a group, averaged
over all groups. With more levels than five, or fewer, the paper's inference about scalability is looked at. `union` is
what at least one group wants: no network can send less, so it bounds the decrease.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, between, distinct, pairs, pick
from treecast.experiments.selective_network import SelectiveNetwork, uniform_tree
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel
from treecast.selective.forwarding import MergeSettings

GROUPS, LEVELS, SWEEP = 250, 5, (3, 7)
CHILDREN = {1.5: (2, 1) * 8, 2: (2,) * 9, 4: (4,) * 5, 10: (10,) * 3}
"""The children of the elements of each level of a document, by their average: 1,021, 1,023, 1,365 or 1,111 elements."""
POLICIES = ("first-fit", "best-fit")
SHAPE = 4
"""The fan-out with which the number of levels is varied."""


def points(sizes: Sizes) -> list[Point]:
    all_points: list[Point] = [
        {"groups": groups, "fanout": fanout, "levels": LEVELS, "policy": policy, "merging": merging}
        for merging in ("yes", "no")
        for groups in sizes.queries
        for fanout in sizes.values
        for policy in POLICIES
    ]
    if max(sizes.queries) >= GROUPS:
        all_points += [
            {"groups": max(sizes.queries), "fanout": SHAPE, "levels": levels, "policy": policy, "merging": "yes"}
            for levels in SWEEP
            for policy in POLICIES
        ]
    return all_points


def measure(session: Session, point: Point) -> list[Row]:
    parents = uniform_tree(CHILDREN[point["fanout"]])
    merge = MergeSettings() if point["merging"] == "yes" else MergeSettings(distance=1)  # no two are nearer than 2
    runs = session.sizes.documents
    session.note(f"a document of {len(parents):,} elements for fan-out {point['fanout']:g}; averages of {runs} runs")
    groups: list[list[int]] = []
    bandwidths: list[list[int]] = []
    paths: list[list[float]] = []
    unions: list[int] = []
    seconds = 0.0
    for number in range(runs):
        session.say(f"{point['policy']}, {point['levels']} levels, run {number + 1}")
        network = SelectiveNetwork(session.seed + number, parents, point["levels"], point["policy"], merge)
        roots = Random(f"{session.seed} {number}").sample(range(len(parents)), point["groups"])

        def act(network: SelectiveNetwork = network, roots: list[int] = roots) -> None:
            for place, root in enumerate(roots):
                network.subscribe(f"g{place}", root)
            for _ in range(2 * point["levels"]):  # merging at one level gives the next one something to do
                network.tick()

        seconds += clock(act).cpu
        network.publish_all()
        groups.append(network.group_counts())
        bandwidths.append(network.bandwidths())
        paths.append(network.path_bandwidths())
        unions.append(len({id for root in roots for id in network.source.outline.subtree(root)}))
    return [
        {
            **point,
            "level": place + 1,
            "subscriptions": _mean([one[place] for one in groups]),
            "bandwidth": _mean([one[place] for one in bandwidths]),
            "path": _mean([one[place + 1] for one in paths]),
            "union": _mean(unions),
            "us": seconds / runs / point["groups"] * 1e6,
            "runs": runs,
        }
        for place in range(point["levels"])
    ]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["groups"] for row in rows)
    short = "" if most >= GROUPS else f"a verdict takes {GROUPS} groups; this run had {most}"
    main = pick(rows, groups=most, levels=LEVELS, merging="yes")
    covering = pick(rows, groups=most, levels=LEVELS, merging="no")
    return [
        _falls(main, "subscriptions", "SP1: fewer groups at each level nearer to the publisher", short),
        _falls(main, "bandwidth", "SP2: less bandwidth at each level nearer to the publisher", short),
        _falls(covering, "bandwidth", "SP2 with covering alone, without what merging adds", short),
        _falls(main, "path", "SP3: along a path, less bandwidth at each level nearer to the subscribers", short),
        _better(main, "subscriptions", "Best Fit reduces the number of groups more than First Fit", short),
        _better(main, "bandwidth", "Best Fit needs less bandwidth than First Fit", short),
        *(_rate(main, "subscriptions", 0.12, policy, short) for policy in POLICIES),
        *(_rate(main, "bandwidth", 0.14, policy, short) for policy in POLICIES),
        _scales(pick(rows, groups=most, fanout=SHAPE), short),
    ]


def _curves(rows: Sequence[Row], column: str) -> dict[tuple[int, str], list[float]]:
    """By shape and policy, from level 1 down."""
    return {
        (fanout, policy): [figure for _, figure in pairs(rows, "level", column, fanout=fanout, policy=policy)]
        for fanout in distinct(rows, "fanout")
        for policy in distinct(rows, "policy")
    }


def _falls(rows: Sequence[Row], column: str, claim: str, short: str) -> Finding:
    curves = _curves(rows, column)
    is_down = column == "path"
    steps = [
        (before > after) if is_down else (before < after)
        for curve in curves.values()
        for before, after in pairwise(curve)
    ]
    share = sum(steps) / len(steps) if steps else None
    curve_texts = "; ".join(
        f"{policy}, {fanout:g} children: {_series(curve)}" for (fanout, policy), curve in curves.items()
    )
    return Finding(
        claim,
        f"from level 1 to {LEVELS}: {curve_texts}",
        "agree if all steps of all curves do, differs if more than one in ten does not",
        "inconclusive" if short else at_least(share, agree=1.0, differs=0.9),
        short,
        share,
    )


def _better(rows: Sequence[Row], column: str, claim: str, short: str) -> Finding:
    curves = _curves(rows, column)
    factors = {
        fanout: curves[fanout, "first-fit"][0] / max(curves[fanout, "best-fit"][0], 1e-9)
        for fanout in distinct(rows, "fanout")
        if curves.get((fanout, "first-fit")) and curves.get((fanout, "best-fit"))
    }
    worst = min(factors.values(), default=None)
    factor_texts = ", ".join(f"{factor:.2f} with {fanout:g} children" for fanout, factor in factors.items())
    return Finding(
        claim,
        f"First Fit has so many times as much at level 1: {factor_texts}",
        "agree if First Fit has at least 1.05 times as much for every shape, differs if less for one",
        "inconclusive" if short else at_least(worst, agree=1.05, differs=1.0),
        short,
        worst,
    )


def _rate(rows: Sequence[Row], column: str, expected: float, policy: str, short: str) -> Finding:
    rates = {
        fanout: (curve[-1] - curve[0]) / (len(curve) - 1) / curve[-1]
        for (fanout, name), curve in _curves(rows, column).items()
        if name == policy and len(curve) > 1 and curve[-1]
    }
    mean = sum(rates.values()) / len(rates) if rates else None
    rate_texts = ", ".join(f"{rate:.1%} with {fanout:g} children" for fanout, rate in rates.items())
    bounds = {
        row["fanout"]: (1 - row["union"] / row["bandwidth"]) / (LEVELS - 1)
        for row in pick(rows, policy=policy, level=LEVELS)
    }
    bound_texts = ", ".join(f"{most:.1%} with {fanout:g}" for fanout, most in bounds.items())
    what = "number of groups" if column == "subscriptions" else "bandwidth"
    return Finding(
        f"{policy}: the {what} falls by about {expected:.0%} of the initial value a level",
        rate_texts,
        f"on average: agree from {0.75 * expected:.1%} to {1.25 * expected:.1%}, "
        f"differs below {0.5 * expected:.1%} or above {1.875 * expected:.1%}",
        "inconclusive" if short else between(mean, 0.75 * expected, 1.25 * expected, slack=1.5),
        short
        or "it depends on how much the subtrees of groups overlap, which follows from the shape of the document: with "
        "many children most subtrees drawn at random are single elements, which cover nothing"
        + (
            f". What groups want together bounds it, whatever the network does: {bound_texts}"
            if column == "bandwidth"
            else ""
        ),
        mean,
    )


def _scales(rows: Sequence[Row], short: str) -> Finding:
    factors = {}
    for policy in POLICIES:
        tops = {row["levels"]: row["subscriptions"] for row in pick(rows, policy=policy, level=1)}
        if min(SWEEP) in tops and max(SWEEP) in tops:
            factors[policy] = tops[min(SWEEP)] / max(tops[max(SWEEP)], 1e-9)
    worst = min(factors.values()) if len(factors) == len(POLICIES) else None
    factor_texts = ", ".join(f"{factor:.2f} with {policy}" for policy, factor in factors.items())
    return Finding(
        "with more levels there is more to cover and to merge",
        f"{min(SWEEP)} levels leave so many times as many groups at level 1 as {max(SWEEP)}: "
        f"{factor_texts or 'not measured'}",
        "agree from 1.1 for both policies, differs below 1",
        "inconclusive" if short else at_least(worst, agree=1.1, differs=1.0),
        short,
        worst,
    )


def _series(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.0f}" for number in numbers)


def panels(rows: Sequence[Row]) -> list[Panel]:
    shown_rows = pick(rows, levels=LEVELS, merging="yes")
    titles = {
        "subscriptions": ("Figure 7: groups", "distinct subtrees"),
        "bandwidth": ("Figure 8: bandwidth", "elements"),
        "path": ("Figure 9: bandwidth along a path", "elements"),
    }
    return [
        lines(
            pick(shown_rows, fanout=fanout),
            f"{title}, {fanout:g} children",
            ("level", "level"),
            (column, label),
            key="policy",
            log_y=False,
        )
        for column, (title, label) in titles.items()
        for fanout in distinct(shown_rows, "fanout")
    ]


EXPERIMENT = Experiment(
    name="selective-levels",
    paper="Selective",
    section="VI, Figures 7-9",
    title="Groups and bandwidth at the levels of a network",
    found="From the subscribers to the publishers the number of groups falls by about 12 % of the initial value a "
    "level and the bandwidth by about 14 %; along a path from the publishers to the subscribers bandwidth falls. "
    "Best Fit reduces both more than First Fit.",
    parameters="the level, the policy and the fan-out of the document vary; 250 groups, five levels (3 and 7 for one "
    "finding); `--documents` is the number of runs that are averaged",
    columns=(
        *("groups", "fanout", "levels", "policy", "merging", "level"),
        *("subscriptions", "bandwidth", "path", "union", "us", "runs"),
    ),
    full=Sizes((GROUPS,), 10, values=(1.5, 2, 4, 10)),
    quick=Sizes((GROUPS,), 1, values=(4, 10)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
