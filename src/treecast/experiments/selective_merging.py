"""Merging: false positives against what is left to match (Selective, section VIII, promised for later).

One broker has many wants, subtrees of a document drawn at random. The thresholds of merging vary: d, the distance of
two roots, and r, the share of elements that merging adds. Shown are the subtrees that the broker asks for, the size of
the routing table of the broker above; the elements that nobody wants, as a share of the document; and the CPU time to
route one changed element in that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_least, at_most, distinct, pick, value
from treecast.experiments.selective_network import uniform_tree
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel
from treecast.selective.forwarding import Forwarding, MergeSettings
from treecast.selective.outline import Outline
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree

WANTS_MIN = 2_000
FANOUT, DEPTH = 4, 8  # 21,845 elements
DISTANCES = (1, 3, 4, 6)
"""1: nothing is merged, for no two roots are nearer than 2."""
ROUTES = 2_000


def points(sizes: Sizes) -> list[Point]:
    return [
        {"wants": wants, "distance": distance, "ratio": ratio}
        for wants in sizes.queries
        for distance in DISTANCES
        for ratio in sizes.values
    ]


def measure(session: Session, point: Point) -> list[Row]:
    outline = session.once("outline", lambda: Outline(uniform_tree((FANOUT,) * (DEPTH - 1))))
    session.note(f"a document of {len(outline):,} elements with {FANOUT} children each")
    random = Random(f"{session.seed} {point['wants']}")
    requests = Forwarding(outline)
    roots = random.sample(range(len(outline)), min(point["wants"], len(outline) - 1))
    for root in roots:
        requests.want(root)
    uncovered_count = len(requests.asked_roots())
    merging = clock(lambda: requests.merge(MergeSettings(point["distance"], point["ratio"]))).cpu
    table = RoutingTable(outline)
    for root in requests.asked_roots():
        table.subscribe("below", Subtree(root))
    changed_ids = [random.choice(roots) for _ in range(ROUTES)]
    lost_ids = [id for id in changed_ids if not table.subscribers(id)]
    if lost_ids:
        session.problems.append(f"merging loses {len(lost_ids)} of {ROUTES} wanted elements")
    routing = clock(lambda: [table.subscribers(id) for id in changed_ids]).cpu
    return [
        {
            **point,
            "covered": uncovered_count,
            "asked": len(requests.asked_roots()),
            "extra": requests.extra_elements() / len(outline),
            "merge_ms": merging * 1e3,
            "us": routing / ROUTES * 1e6,
        }
    ]


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["wants"] for row in rows)
    short = "" if most >= WANTS_MIN else f"a verdict takes {WANTS_MIN:,} wants; this run had {most:,}"
    main = pick(rows, wants=most)
    ratio = max(distinct(main, "ratio"))
    plain = value(main, "asked", distance=1, ratio=ratio)
    best = min(main, key=lambda row: row["asked"])
    shrink = plain / best["asked"] if plain else None
    default = MergeSettings()
    cheap = [row for row in main if row["distance"] <= default.distance and row["ratio"] <= default.ratio]
    extra = max((row["extra"] for row in cheap), default=None)
    return [
        Finding(
            "imperfect merging makes routing tables more compact than covering alone",
            f"{plain or 0:,.0f} subtrees by covering alone, {best['asked']:,} at the least (d < {best['distance']}, "
            f"r < {best['ratio']:g}), where {best['extra']:.1%} of the document is sent in vain",
            "agree from 1.5 times fewer, differs below 1.1",
            "inconclusive" if short else at_least(shrink, agree=1.5, differs=1.1),
            short,
            shrink,
        ),
        Finding(
            "the thresholds bound the false positives",
            f"at most {extra or 0:.1%} of the document with the defaults or less (d < {default.distance}, "
            f"r < {default.ratio})",
            "agree up to 25 % of the document, differs above 50 %",
            "inconclusive" if short else at_most(extra, agree=0.25, differs=0.5),
            short or "r bounds what one merge adds; many merges add up",
            extra,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    x = ("ratio", "threshold r")
    label_by_column = {
        "asked": ("What is left to match", "subtrees asked for"),
        "extra": ("False positives", "share of the document"),
        "us": ("Routing one element", "CPU µs"),
    }
    return [
        lines(rows, title, x, (column, label), key="distance", log_x=True, log_y=False)
        for column, (title, label) in label_by_column.items()
    ]


EXPERIMENT = Experiment(
    name="selective-merging",
    paper="Selective",
    section="IV-C, VIII",
    title="Merging: false positives against what is left to match",
    found="Merging makes routing tables more compact and costs false positives, which thresholds for d and r bound. "
    "Experiments on the trade-off are announced.",
    parameters="the thresholds d (1: no merging) and r vary; the wants of one broker are subtrees drawn at random",
    columns=("wants", "distance", "ratio", "covered", "asked", "extra", "merge_ms", "us"),
    full=Sizes((2_000,), 1, values=(0.0001, 0.001, 0.005, 0.01, 0.1)),
    quick=Sizes((500,), 1, values=(0.001, 0.005)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
