"""MXB trees: their height and the cost of their operations, up to a million distinct subscriptions (Selective, IV-B).

Every element of a document is subscribed to, in random order, so that there are as many distinct subscriptions as
elements. Documents have 2, 10 or 100 children everywhere; one is a chain, in which the paper's logarithm does not hold:
there a tree with a subscription at each element is as deep as the document, and one with a single subscription is one
place. Places are those of the tree that an operation visits. Beside the CPU times stands what an element costs that is
sent: its publisher derives its token and its key, computes its digest and seals it, and a subscriber opens it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from math import log
from random import Random

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.rules import at_most
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.report import Panel
from treecast.selective.digests import element_digest
from treecast.selective.keys import Keys, seal, unseal
from treecast.selective.outline import Outline
from treecast.selective.package import element_about
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree

SHAPES = {"2 children": 2, "10 children": 10, "100 children": 100, "chain": 1}
CHAIN_MAX = 2_000
"""Each operation visits all elements above: more would measure patience."""
SAMPLE = 1_000
VERDICT_MIN = 1_000_000
COLUMNS = (
    *("shape", "subscriptions", "height", "log_t", "places"),
    *("subscribe_us", "covering_us", "us", "unsubscribe_us", "sending_us"),
)
"""`us` is route."""
RECORD = b'["item",[["id","1234"]],[["",""]],["about as much text as an element has, a sentence or two"]]'


def points(sizes: Sizes) -> list[Point]:
    return [
        {"shape": shape, "subscriptions": size}
        for shape in SHAPES
        for size in sizes.queries
        if shape != "chain" or size <= CHAIN_MAX
    ]


def complete_tree(size: int, fanout: int) -> list[int]:
    """The parents, in document order, of a tree in which elements have so many children, level by level, or none."""
    parents: list[int] = []
    waiting = [(0, -1)]  # the number by levels, the place of the parent in document order
    while waiting:
        number, parent = waiting.pop()
        place = len(parents)
        parents.append(parent)
        first = number * fanout + 1
        waiting.extend((child, place) for child in reversed(range(first, min(first + fanout, size))))
    return parents


def measure(session: Session, point: Point) -> list[Row]:
    size, fanout = point["subscriptions"], SHAPES[point["shape"]]
    outline = Outline(complete_tree(size, fanout))
    table = RoutingTable(outline)
    tree = table._whole
    random = Random(f"{session.seed} {size}")
    ids = list(outline)
    random.shuffle(ids)
    sample = ids[: min(SAMPLE, size // 2)]
    for id in ids:
        tree.add(id, "r")
    height = tree.height()
    for id in sample:
        tree.discard(id, "r")
    gc.collect()
    gc.freeze()  # the collector need not look at a million elements before each of the times
    operations: dict[str, Callable[[int], object]] = {
        "subscribe": lambda id: table.subscribe("r", Subtree(id)),
        "covering": tree.coverage,
        "route": table.subscribers,
        "unsubscribe": lambda id: table.unsubscribe("r", Subtree(id)),
    }
    row: Row = {**point, "height": height, "log_t": log(size, fanout) if fanout > 1 else size}
    for name, act in operations.items():
        tree.steps = tree.descents = 0
        seconds = clock(lambda act=act: [act(id) for id in sample])  # type: ignore[misc]
        row["us" if name == "route" else f"{name}_us"] = seconds.cpu / len(sample) * 1e6
        if name == "route":
            row["places"] = tree.steps / tree.descents
    row["sending_us"] = clock(_send_elements).cpu / SAMPLE * 1e6
    session.note(
        "sending: the token and the key of an element of 90 bytes are derived; it is digested, sealed and opened"
    )
    gc.unfreeze()
    return [{column: row[column] for column in COLUMNS}]


def _send_elements() -> None:
    """What is done about elements that travel, but for routing and the network."""
    keys = Keys(bytes(32))
    for id in range(SAMPLE):
        token = keys.token("document", "group", id)
        key = keys.element("document", token, 1)
        element_digest("document", token, b"", 1, RECORD, [])
        context = element_about("document", token)
        assert unseal(key, seal(key, RECORD, context), context) == RECORD


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["subscriptions"] for row in rows)
    short = "" if most >= VERDICT_MIN else f"a verdict takes {VERDICT_MIN:,} subscriptions; this run had {most:,}"
    bushes = [row for row in rows if row["shape"] != "chain"]
    excess = max(row["height"] - row["log_t"] for row in bushes)
    excess_places = max(row["places"] - row["log_t"] for row in bushes)
    deepest = max((row["height"] for row in rows if row["shape"] == "chain"), default=0)
    return [
        Finding(
            "the height of the tree is logarithmic in the number of distinct subscriptions",
            f"at most log_t(n) + {excess:.1f}, with 2, 10 and 100 children",
            "agree up to log_t(n) + 2, differs above log_t(n) + 4",
            "inconclusive" if short else at_most(excess, agree=2, differs=4),
            short or f"not in chains, where it is the depth: {deepest:,}",
            excess,
        ),
        Finding(
            "route, subscribe and unsubscribe take a time that is logarithmic in the number of distinct subscriptions",
            f"operations visit at most log_t(n) + {excess_places:.1f} places on average",
            "agree up to log_t(n) + 2, differs above log_t(n) + 4",
            "inconclusive" if short else at_most(excess_places, agree=2, differs=4),
            short,
            excess_places,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    bushes = [row for row in rows if row["shape"] != "chain"]
    x = ("subscriptions", "distinct subscriptions")
    label_by_column = {
        "height": ("Height of the tree", "places"),
        "places": ("Places visited by an operation", "places"),
        "us": ("Route", "CPU µs"),
        "subscribe_us": ("Subscribe", "CPU µs"),
        "unsubscribe_us": ("Unsubscribe", "CPU µs"),
        "log_t": ("log_t of the subscriptions", "places"),
    }
    return [
        lines(bushes, title, x, (column, label), key="shape", log_x=True, log_y=False)
        for column, (title, label) in label_by_column.items()
    ]


EXPERIMENT = Experiment(
    name="selective-trees",
    paper="Selective",
    section="IV-B, V-C",
    title="MXB trees: height and cost up to a million subscriptions",
    found="Route, subscribe and unsubscribe take O(log_t n) for n distinct subscriptions and t children an element. "
    "No measurement is shown.",
    parameters="the number of subscriptions and the number of children vary; every element is subscribed to",
    columns=COLUMNS,
    full=Sizes((1_000, 10_000, 100_000, 1_000_000), 1),
    quick=Sizes((300, 1_000), 1),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
