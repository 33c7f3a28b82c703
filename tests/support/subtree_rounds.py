"""One sequence of operations on routing tables and forwarding, with brute force as the judge. A seed decides all."""

from __future__ import annotations

from random import Random

from generators import subtree_cases

from treecast.selective.forwarding import Forwarding, MergeSettings
from treecast.selective.mxb import MxbTree
from treecast.selective.outline import Outline
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree, Subtrees, elements_of

Model = list[tuple[str, Subtree]]


def route_round(seed: int) -> int:
    """Subscribe, unsubscribe, change the document, route. Returns how many subtrees were routed to somebody."""
    random = Random(seed)
    outline = Outline(subtree_cases.parents(random, random.randint(1, 20)), spacing=random.choice([1, None]))
    table = RoutingTable(outline)
    model: Model = []
    count = 0
    for _ in range(random.randint(1, 25)):
        _change(random, outline, table, model)
        assert table.subscriptions == len(model)
        assert sorted(table.all()) == sorted(model)
        id = random.choice(list(outline))
        inside = set(outline.subtree(id))
        found = table.route(id)
        count += bool(found)
        for who in "abcd":
            wanted = subtree_cases.meaning([part for one, part in model if one == who], outline) & inside
            sent = [one for part in found.get(who, ()) for one in elements_of(part, outline)]
            assert sorted(sent) == sorted(wanted), "all that is wanted, nothing else, nothing twice"
            if wanted:
                assert Subtrees.of(found[who], outline).parts == found[who]
    return count


def _change(random: Random, outline: Outline, table: RoutingTable, model: Model) -> None:
    chance = random.random()
    if chance < 0.6:
        drawn = subtree_cases.part(random, outline, random.choice([0, 0, 2]))
        item = random.choice("abcd"), Subtree(drawn.root, tuple(dict.fromkeys(drawn.without)))
        table.subscribe(*item)
        if item not in model:
            model.append(item)
    elif chance < 0.8 and model:
        item = random.choice(model)
        model.remove(item)
        assert table.unsubscribe(*item)
        assert not table.unsubscribe(*item)
    elif chance < 0.9:
        parent = random.choice(list(outline))
        outline.insert(parent, random.randint(0, len(outline.children(parent))))
    elif len(outline) > 1:
        id = random.choice(list(outline)[1:])
        gone = set(outline.subtree(id))
        ended = table.forget(id)
        assert sorted(ended) == sorted(item for item in model if item[1].root in gone)
        kept: Model = []
        for who, part in model:
            item = who, Subtree(part.root, tuple(one for one in part.without if one not in gone))
            if part.root not in gone and item not in kept:
                kept.append(item)
        model[:] = kept
        outline.remove(id)


def forwarding_round(seed: int) -> int:
    """Want, want no longer, merge. Returns how many pairs were merged."""
    random = Random(seed)
    outline = Outline(subtree_cases.parents(random, random.randint(1, 30)))
    requests = Forwarding(outline)
    tree: MxbTree[str] = MxbTree(outline)
    wanted: list[int] = []
    asked: set[int] = set()
    for _ in range(random.randint(1, 30)):
        chance = random.random()
        if chance < 0.55 or not wanted:
            id = min(random.choices(list(outline), k=3), key=outline.size)  # small ones are left to be merged
            wanted.append(id)
            tree.add(id, "x")
            change = requests.want(id)
        elif chance < 0.8:
            id = wanted.pop(random.randrange(len(wanted)))
            if id not in wanted:
                tree.discard(id, "x")
            change = requests.unwant(id)
        else:
            change = requests.merge(MergeSettings(random.randint(1, 6), random.choice([0.05, 0.3, 1.0])))
        asked = (asked - set(change.cancel)) | set(change.ask)
        assert asked == set(requests.asked())
        _check_forwarding(outline, requests, set(wanted), asked)
        _check_coverage(outline, tree, set(wanted), random.choice(list(outline)))
    return requests.merges


def _check_forwarding(outline: Outline, requests: Forwarding, wanted: set[int], asked: set[int]) -> None:
    assert set(requests.wanted()) == wanted
    for id in wanted:
        assert any(outline.contains(one, id) for one in asked), "all that is wanted is asked for"
    for id in asked:
        assert any(outline.contains(id, one) for one in wanted), "nothing is asked for in vain"
        assert not asked.intersection(outline.ancestors(id)), "nothing is asked for twice"
    shown = subtree_cases.meaning([Subtree(id) for id in wanted], outline)
    sent = subtree_cases.meaning([Subtree(id) for id in asked], outline)
    assert requests.extra_elements() == len(sent) - len(shown)
    if not requests.merges:
        assert sent == shown


def _check_coverage(outline: Outline, tree: MxbTree[str], wanted: set[int], id: int) -> None:
    before = tree.descents
    found = tree.coverage(id)
    assert tree.descents == before + 1, "covering and covered-by are found in one descent"
    above = [one for one in (id, *outline.ancestors(id)) if one in wanted]
    inside = [one for one in outline.subtree(id) if one in wanted and not wanted.intersection(outline.ancestors(one))]
    assert found.covering == (above[-1] if above else None)
    assert found.is_identical == (above == [id])
    assert list(found.covered) == ([] if above else inside)
