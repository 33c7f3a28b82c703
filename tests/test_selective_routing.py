"""MXB and SMXB trees, covering and merging: the paper's examples, and brute force on trees of all shapes."""

from __future__ import annotations

from math import log2
from random import Random

import pytest
from generators import subtree_cases
from support.subtree_rounds import forwarding_round, route_round

from treecast.selective.forwarding import Forwarding, MergeSettings, Requests
from treecast.selective.mxb import BLOCK_MAX, MxbTree
from treecast.selective.outline import Outline
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree, Subtrees

pytestmark = pytest.mark.house


class Paper:
    """The document of the paper's examples, and subscriptions in its notation."""

    def __init__(self) -> None:
        self.outline = Outline(subtree_cases.PAPER, spacing=1)
        self.table = RoutingTable(self.outline)

    def subscribe(self, recipient: str, text: str) -> None:
        for part in Subtrees.parse(text, self.outline).parts:
            self.table.subscribe(recipient, part)

    def id(self, pon: int) -> int:
        return next(id for id in self.outline if self.outline.label(id)[0] == pon)

    def route(self, pon: int) -> dict[str, str]:
        return {who: Subtrees(parts).to_text(self.outline) for who, parts in self.table.route(self.id(pon)).items()}


@pytest.fixture
def paper() -> Paper:
    found = Paper()
    found.subscribe("r1", "{(18, 1)}")
    found.subscribe("r2", "{(4, 2)}")
    found.subscribe("r3", "{(17, 11)}")
    return found


def test_example_2(paper: Paper) -> None:
    # The printed algorithm sends the whole document to r3, who asked for the last child: a leak.
    assert paper.route(18) == {"r1": "{(18,1)}", "r2": "{(4,2)}", "r3": "{(17,11)}"}
    assert paper.route(6) == {"r1": "{(6,1)}", "r2": "{(4,2)}"}
    assert paper.route(3) == {"r1": "{(3,3)}", "r2": "{(3,3)}"}
    assert paper.route(10) == {"r1": "{(10,7)}"}  # nobody below: those above still get it
    assert paper.route(15) == {"r1": "{(15,13)}", "r3": "{(15,13)}"}


def test_example_3(paper: Paper) -> None:
    paper.subscribe("r4", "{(10,7), (17,11)}")
    assert paper.route(18)["r4"] == "{(10,7), (17,11)}"
    assert paper.route(8) == {"r1": "{(8,8)}", "r4": "{(8,8)}"}
    assert paper.route(16) == {"r1": "{(16,16)}", "r3": "{(16,16)}", "r4": "{(16,16)}"}


def test_example_4(paper: Paper) -> None:
    paper.subscribe("r4", "{(10,7), (17,11)}")
    paper.subscribe("r5", "{(17,11) - (15,13)}")
    # The element itself, without the excluded subtree; and not at all what is inside that.
    assert paper.route(17)["r5"] == "{(17,11)-(15,13)}"
    assert paper.route(18)["r5"] == "{(17,11)-(15,13)}"
    assert paper.route(12)["r5"] == "{(12,12)}"
    assert paper.route(15).keys() == paper.route(13).keys() == {"r1", "r3", "r4"}
    assert paper.table.unsubscribe("r5", Subtree(paper.id(17), (paper.id(15),)))
    assert "r5" not in paper.route(17)


def test_tree_of_example_2_has_only_what_branches(paper: Paper) -> None:
    tree: MxbTree[str] = MxbTree(paper.outline)
    for pon in (4, 17):
        tree.add(paper.id(pon), "r")
    assert tree.height() == 2  # (6,1) is between (18,1) and (4,2), and nothing branches there


def test_routes_equal_brute_force() -> None:
    assert sum(route_round(seed) for seed in range(600)) > 1_000


def test_forwarding_equals_brute_force() -> None:
    assert sum(forwarding_round(seed) for seed in range(250)) > 60


def test_chains_are_one_step() -> None:
    outline = Outline([-1, *range(400)])
    tree: MxbTree[int] = MxbTree(outline)
    tree.add(399, 1)
    tree.steps = 0
    assert [place.element.id for place in tree.enclosing(400)] == [399]
    assert tree.steps == 2


def test_many_children_cost_a_logarithm_and_move_few() -> None:
    count = 6 * BLOCK_MAX
    outline = Outline([-1, *[0] * count])
    tree: MxbTree[int] = MxbTree(outline)
    order = list(range(1, count + 1))
    Random(1).shuffle(order)
    for id in order:
        tree.add(id, id)
    assert [place.element.id for place in tree] == list(range(1, count + 1))
    assert max(len(block) for block in tree._root.children._blocks) <= BLOCK_MAX
    for id in order[::2]:
        tree.discard(id, id)
    assert [place.element.id for place in tree] == sorted(order[1::2])


def test_cost_grows_with_the_logarithm() -> None:
    """Two children an element, as the paper assumes: ten times the subscriptions, a few places more."""
    costs = {}
    for levels in (7, 10, 13):
        size = 2**levels - 1
        outline = Outline(subtree_cases.in_document_order([-1, *[(place - 1) // 2 for place in range(1, size)]]))
        tree: MxbTree[int] = MxbTree(outline)
        leaves = [id for id in outline if not outline.children(id)]
        for id in leaves:
            tree.add(id, id)
        tree.descents = tree.steps = 0
        for id in leaves:
            tree.coverage(id)
        costs[levels] = tree.steps / tree.descents
        assert costs[levels] <= log2(len(leaves)) + 1
        assert tree.height() == levels


def test_merging_by_distance_and_ratio() -> None:
    outline = Outline(subtree_cases.PAPER, spacing=1)
    id_of = {outline.label(id)[0]: id for id in outline}

    def merged(pons: list[int], distance: int, ratio: float) -> list[int]:
        requests = Forwarding(outline)
        for pon in pons:
            requests.want(id_of[pon])
        requests.merge(MergeSettings(distance, ratio))
        return [outline.label(id)[0] for id in requests.asked_roots()]

    # Siblings: d = 2, which must be below the threshold; merging 2 and 3 adds their parent, 1 of 18 elements.
    assert merged([2, 3], 2, 1.0) == [2, 3]
    assert merged([2, 3], 3, 1 / 18) == [2, 3]
    assert merged([2, 3], 3, 1.01 / 18) == [4]
    # 2 and 5: d = 3 through 6, and 6, 1, 4, 3 are added.
    assert merged([2, 5], 3, 1.0) == [2, 5]
    assert merged([2, 5], 4, 4 / 18) == [2, 5]
    assert merged([2, 5], 4, 4.01 / 18) == [6]
    # What merging made covers and merges on: 2 and 3 to 4, 4 and 1 to 6.
    assert merged([1, 2, 3], 3, 2.01 / 18) == [6]
    assert merged([1, 2, 3], 3, 1.01 / 18) == [1, 4]


def test_removal_brings_back_what_was_hidden() -> None:
    outline = Outline(subtree_cases.PAPER, spacing=1)
    id_of = {outline.label(id)[0]: id for id in outline}
    requests = Forwarding(outline)
    for pon in (2, 3, 13, 6):
        requests.want(id_of[pon])
    assert requests.unwant(id_of[6]) == Requests((id_of[2], id_of[3]), (id_of[6],))
    assert requests.merge(MergeSettings(3, 0.1)).ask == (id_of[4],)
    assert requests.extra_elements() == 1
    assert requests.unwant(id_of[3]) == Requests((id_of[2],), (id_of[4],))
    assert requests.unwant(id_of[2]) == Requests((), (id_of[2],))
