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
        parts_by_recipient = table.route(id)
        count += bool(parts_by_recipient)
        for who in "abcd":
            expected_ids = subtree_cases.meaning([part for one, part in model if one == who], outline) & inside
            sent_ids = [one for part in parts_by_recipient.get(who, ()) for one in elements_of(part, outline)]
            assert sorted(sent_ids) == sorted(expected_ids), "all that is wanted, nothing else, nothing twice"
            if expected_ids:
                assert Subtrees.of(parts_by_recipient[who], outline).parts == parts_by_recipient[who]
    return count


def _change(random: Random, outline: Outline, table: RoutingTable, model: Model) -> None:
    chance = random.random()
    if chance < 0.6:
        drawn_part = subtree_cases.part(random, outline, random.choice([0, 0, 2]))
        item = random.choice("abcd"), Subtree(drawn_part.root, tuple(dict.fromkeys(drawn_part.without)))
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
        removed_ids = set(outline.subtree(id))
        ended_subscriptions = table.forget(id)
        assert sorted(ended_subscriptions) == sorted(item for item in model if item[1].root in removed_ids)
        remaining_model: Model = []
        for who, part in model:
            item = who, Subtree(part.root, tuple(one for one in part.without if one not in removed_ids))
            if part.root not in removed_ids and item not in remaining_model:
                remaining_model.append(item)
        model[:] = remaining_model
        outline.remove(id)


def forwarding_round(seed: int) -> int:
    """Want, want no longer, merge. Returns how many pairs were merged."""
    random = Random(seed)
    outline = Outline(subtree_cases.parents(random, random.randint(1, 30)))
    requests = Forwarding(outline)
    tree: MxbTree[str] = MxbTree(outline)
    wanted_ids: list[int] = []
    asked_ids: set[int] = set()
    for _ in range(random.randint(1, 30)):
        chance = random.random()
        if chance < 0.55 or not wanted_ids:
            id = min(random.choices(list(outline), k=3), key=outline.size)  # small ones are left to be merged
            wanted_ids.append(id)
            tree.add(id, "x")
            change = requests.want(id)
        elif chance < 0.8:
            id = wanted_ids.pop(random.randrange(len(wanted_ids)))
            if id not in wanted_ids:
                tree.discard(id, "x")
            change = requests.unwant(id)
        else:
            change = requests.merge(MergeSettings(random.randint(1, 6), random.choice([0.05, 0.3, 1.0])))
        asked_ids = (asked_ids - set(change.cancel)) | set(change.ask)
        assert asked_ids == set(requests.asked_roots())
        _check_forwarding(outline, requests, set(wanted_ids), asked_ids)
        _check_coverage(outline, tree, set(wanted_ids), random.choice(list(outline)))
    return requests.merges


def _check_forwarding(outline: Outline, requests: Forwarding, wanted_ids: set[int], asked_ids: set[int]) -> None:
    assert set(requests.wanted_roots()) == wanted_ids
    for id in wanted_ids:
        assert any(outline.contains(one, id) for one in asked_ids), "all that is wanted is asked for"
    for id in asked_ids:
        assert any(outline.contains(id, one) for one in wanted_ids), "nothing is asked for in vain"
        assert not asked_ids.intersection(outline.ancestors(id)), "nothing is asked for twice"
    shown_elements = subtree_cases.meaning([Subtree(id) for id in wanted_ids], outline)
    sent_elements = subtree_cases.meaning([Subtree(id) for id in asked_ids], outline)
    assert requests.extra_elements() == len(sent_elements) - len(shown_elements)
    if not requests.merges:
        assert sent_elements == shown_elements


def _check_coverage(outline: Outline, tree: MxbTree[str], wanted_ids: set[int], id: int) -> None:
    before = tree.descents
    coverage = tree.coverage(id)
    assert tree.descents == before + 1, "covering and covered-by are found in one descent"
    above = [one for one in (id, *outline.ancestors(id)) if one in wanted_ids]
    inside = [
        one for one in outline.subtree(id) if one in wanted_ids and not wanted_ids.intersection(outline.ancestors(one))
    ]
    assert coverage.covering == (above[-1] if above else None)
    assert coverage.is_identical == (above == [id])
    assert list(coverage.covered) == ([] if above else inside)
