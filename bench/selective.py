"""Selective publishing: what MXB trees cost up to a million subscriptions, what labels cost, and what an update moves.

Documents of three shapes: a hundred children everywhere, two children everywhere (the least that the paper assumes),
and one element with all the others as its children. Leaves are subscribed to in random order, then each operation is
measured on a sample of them. Steps are the places of the tree that an operation visits.

Labels: elements are inserted at one place again and again, and the labels that change are counted. Updates: one element
of a document of 10 MB changes; the groups are those who see everything, only titles, and only something else.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from math import log
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.measure import Report, clock, finish, options_of, run
from treecast.selective.mxb import MxbTree
from treecast.selective.outline import Outline
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SAMPLE = 2_000


def bush(leaves: int, fanout: int) -> list[int]:
    """The parents, in document order, of a tree with as many leaves and children everywhere."""
    parents = [-1]

    def add(parent: int, below: int) -> None:
        width = min(fanout, below)
        for child in range(width):
            part = below * (child + 1) // width - below * child // width
            parents.append(parent)
            if part > 1:
                add(len(parents) - 1, part)

    add(0, leaves)
    return parents


def shapes(leaves: int) -> dict[str, Callable[[], list[int]]]:
    return {
        "100 children": lambda: bush(leaves, 100),
        "2 children": lambda: bush(leaves, 2),
        "all in one element": lambda: bush(leaves, leaves),
    }


def measure(report: Report, sizes: tuple[int, ...]) -> None:
    for shape in shapes(1):
        for size in sizes:
            if shape == "2 children" and size > 100_000:
                continue  # two million elements: more memory than it is worth
            measure_tree(report, shape, size)
            gc.collect()


def measure_tree(report: Report, shape: str, size: int) -> None:
    outline = Outline(shapes(size)[shape]())
    leaves = [id for id in outline if not outline.children(id)]
    random = Random(size)
    random.shuffle(leaves)
    table = RoutingTable(outline)
    tree: MxbTree[str] = table._whole
    name = f"{shape}, {len(leaves):,} subscriptions"
    for id in leaves[min(SAMPLE, len(leaves) // 10) :]:
        tree.add(id, "r")
    sample = leaves[: min(SAMPLE, len(leaves) // 10)]
    fanout = {"100 children": 100, "2 children": 2}.get(shape, size)
    report.figure(f"{name}: height (log_t of them: {log(len(leaves), fanout):.1f})", tree.height(), "places")
    operations: dict[str, Callable[[int], object]] = {
        "subscribe": lambda id: table.subscribe("r", Subtree(id)),
        "covering": tree.coverage,
        "route": table.route,
        "unsubscribe": lambda id: table.unsubscribe("r", Subtree(id)),
    }
    for operation, act in operations.items():
        tree.steps = tree.descents = 0
        spent = clock(lambda act=act: [act(id) for id in sample])  # type: ignore[misc]
        report.figure(f"{name}: {operation}", spent.cpu / len(sample) * 1e6, "µs")
        if operation == "covering":
            report.figure(f"{name}: places visited", tree.steps / tree.descents, "places")


def measure_labels(report: Report, sizes: tuple[int, ...]) -> None:
    for place in ("first", "middle", "last", "random"):
        for size in sizes:
            random = Random(size)
            outline = Outline([-1])
            for count in range(size):
                at = {"first": 0, "middle": count // 2, "last": count, "random": random.randint(0, count)}[place]
                outline.insert(0, at)
            name = f"labels that change for an insertion, {place}, of {size:,} (log2: {log(size, 2):.1f})"
            report.figure(name, outline.relabels / size, "labels")


def feed(items: int, changed: int = -1) -> bytes:
    words = "words of a body that is about as long as a sentence or two of it, so that it is two hundred bytes " * 2
    rows = (
        f"<item id='{number}'><title>Title {number}</title><body>{words}{'!' * (number == changed)}</body></item>"
        for number in range(items)
    )
    return f"<feed><section>{''.join(rows)}</section><other/></feed>".encode()


def measure_update(report: Report, bytes_wanted: int) -> None:
    policies = Policies()
    for group, path in (("all", "/feed"), ("titles", "//title"), ("rest", "//other")):
        policies.grant(group, include=[path])
    publisher = Publisher("feed", policies, secret=bytes(32), signer=Ed25519PrivateKey.generate())
    first, second = (feed(bytes_wanted // 260, changed) for changed in (-1, 17))
    whole = clock(lambda: publisher.publish(first))
    versions = {group: publisher.version(group) for group in policies.groups()}
    groups: list[str] = []
    again = clock(lambda: groups.extend(publisher.publish(second)))
    sent = {group: publisher.package(group, since=versions[group]) for group in groups}
    name = f"one element of {len(second) / 1e6:.1f} MB changes"
    report.figure(f"{name}: sent to those who see it", len(sent["all"]), "bytes")
    report.figure(f"{name}: share of the document (bar: 1 %)", len(sent["all"]) / len(second) * 100, "%")
    others = sum(len(package) for group, package in sent.items() if group != "all")
    report.figure(f"{name}: sent to {len(versions) - 1} other groups (bar: nothing)", others, "bytes")
    report.figure(f"{name}: publishing it at first, three groups", whole.cpu, "s")
    report.figure(f"{name}: publishing the change, three groups", again.cpu, "s")


def main(arguments: list[str]) -> int:
    options, report = options_of("selective", __doc__.partition("\n")[0], arguments)
    measure_update(report, 1_000_000 if options.quick else 10_000_000)
    measure_labels(report, SIZES[:2] if options.quick else SIZES[:3])
    measure(report, SIZES[:2] if options.quick else SIZES)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
