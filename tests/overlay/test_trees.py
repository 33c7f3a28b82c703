"""Trees of a network: they span, are short, have bounded degree, and change little."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pytest

from treecast.overlay.onyx.trees import REBUILD_FACTOR, changed_parents, cost_by_location, tree_of
from treecast.overlay.onyx.view import BrokerInfo, View, first_epoch, problem_of

pytestmark = pytest.mark.house


def draw_brokers(random: Random, count: int) -> dict[str, BrokerInfo]:
    return {
        f"b{number:02}": BrokerInfo(f"10.0.0.{number}:9000", (random.uniform(0, 10), random.uniform(0, 10)))
        for number in range(count)
    }


def view_of(brokers: dict[str, BrokerInfo], trees: dict[str, dict[str, str]]) -> View:
    return View(first_epoch(2), brokers, trees)


@pytest.mark.parametrize("fan_out_max", [1, 2, 4])
def test_trees_span_and_have_room(fan_out_max: int) -> None:
    random = Random(7)
    for count in (1, 2, 3, 10, 30):
        brokers = draw_brokers(random, count)
        root = random.choice(sorted(brokers))
        tree = tree_of(root, brokers, cost_by_location(brokers), fan_out_max)
        view = view_of(brokers, {root: tree})
        assert problem_of(view) is None
        assert all(len(view.children(root, broker)) <= fan_out_max for broker in brokers)
        assert tree == tree_of(root, sorted(brokers, reverse=True), cost_by_location(brokers), fan_out_max)


def test_thirty_brokers_with_eight_roots_are_shallow_and_their_view_is_small() -> None:
    brokers = draw_brokers(Random(1), 30)
    costs = cost_by_location(brokers)
    view = view_of(brokers, {root: tree_of(root, brokers, costs, 4) for root in sorted(brokers)[:8]})
    # Two levels below the root have room for 20 brokers: three is the least possible depth.
    assert {view.depth(root) for root in view.roots()} == {3}
    assert len(msgspec.msgpack.encode(view)) < 4_000


def test_few_parents_change_when_a_broker_comes_or_goes() -> None:
    random = Random(3)
    brokers = draw_brokers(random, 30)
    costs = cost_by_location(brokers)
    rebuilt = 0
    tree = tree_of("b00", brokers, costs, 4)
    for gone in sorted(brokers)[1:]:
        without = {name: info for name, info in brokers.items() if name != gone}
        after = tree_of("b00", without, costs, 4, tree)
        # Its children have to look for another parent; nobody else has to.
        children = sum(parent == gone for parent in tree.values())
        rebuilt += changed_parents(tree, after) != children
        # When it comes back, it is attached somewhere.
        rebuilt += changed_parents(after, tree_of("b00", brokers, costs, 4, after)) != 0
    assert rebuilt == 0, "only a tree that has become much worse is built anew"


def test_a_tree_that_has_become_bad_is_built_anew() -> None:
    names = [f"b{number:02}" for number in range(20)]
    chain = {later: earlier for earlier, later in pairwise(names)}

    def cost(one: str, other: str) -> float:
        return 1.0

    assert tree_of("b00", names, cost, 4, chain) == tree_of("b00", names, cost, 4)
    # Within bounds it stays.
    short = {"b01": "b00", "b02": "b01"}
    assert tree_of("b00", names[:3], cost, 4, short) == short
    assert REBUILD_FACTOR * 2 >= 3


def test_a_tree_of_another_shape_is_repaired() -> None:
    """Too many children, and a parent that is gone with all above it."""
    names = [f"b{number}" for number in range(6)]

    def cost(one: str, other: str) -> float:
        return 1.0

    star = dict.fromkeys(names[1:], "b0")
    tree = tree_of("b0", names, cost, 2, star)
    view = view_of({name: BrokerInfo() for name in names}, {"b0": tree})
    assert problem_of(view) is None and len(view.children("b0", "b0")) == 2
    with pytest.raises(ValueError, match="fan_out_max"):
        tree_of("b0", names, cost, 0)


def test_views_that_make_no_sense_are_recognised() -> None:
    brokers = {name: BrokerInfo() for name in "abc"}
    assert problem_of(view_of(brokers, {"a": {"b": "a", "c": "b"}})) is None
    for tree in ({"b": "a"}, {"b": "c", "c": "b"}, {"b": "a", "c": "x"}, {"b": "a", "c": "b", "a": "c"}):
        assert problem_of(view_of(brokers, {"a": tree})) is not None
    assert problem_of(view_of(brokers, {"x": {"a": "x", "b": "x", "c": "x"}})) is not None
