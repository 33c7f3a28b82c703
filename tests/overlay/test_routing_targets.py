"""Routing by targets: what an index answers instead of ids, and when it stops looking."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from treecast import _native
from treecast.document import read, read_many
from treecast.index import Index
from treecast.index.routing import Question
from treecast.model import Subscription
from treecast.overlay.onyx.routing import RoutingTable, map_subscription
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.house

SCHEMA = Schema.news()
DOCUMENTS = list(generate_documents(SCHEMA, 40, DocumentSettings(bytes_target=800), seed=3))
QUERIES = list(generate_queries(SCHEMA, 120, QuerySettings(depth_max=5), seed=3))
BAD = b"<a>"


def filled(targets: int, seed: int = 1) -> RoutingTable:
    """A table that has seen additions and removals."""
    random, table = Random(seed), RoutingTable(seed=1)
    wanted = [map_subscription(Subscription("", query)) for query in QUERIES]
    for query in wanted:
        table.update(f"b{random.randrange(targets)}", query)
    for query in random.sample(wanted, 40):
        for target in table.targets:
            if set(query.conjunctions) <= set(table.collect(target).conjunctions):
                table.update(target, None, query)
    return table


def by_numbers(table: RoutingTable, documents: list[bytes], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    with monkeypatch.context() as patch:
        patch.setattr(RoutingTable, "_has_bits", lambda _: False)
        return table.route(documents)


@pytest.mark.parametrize("targets", [1, 3, 60, 70])
def test_bits_and_numbers_find_the_same_targets(targets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(targets)
    documents = [*DOCUMENTS, BAD]
    kept: list[Any] = [*read_documents(), BAD]
    found = table.route(documents)
    assert found == by_numbers(table, documents, monkeypatch) == table.route(kept)
    assert found[-1] == table.targets and (len(set(found)) > 1 or targets < 60) and table.unread in (0, 3)


def read_documents() -> list[object]:
    return list(read_many(DOCUMENTS))


def test_targets_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(5)
    for target in ("b1", "b3"):
        table.drop(target)
        assert table.route(DOCUMENTS) == by_numbers(table, DOCUMENTS, monkeypatch)
    table.update("new", map_subscription(Subscription("", "/*")))
    assert all("new" in found for found in table.route(DOCUMENTS))
    table._index.compact()  # slots are renumbered
    assert table.route(DOCUMENTS) == by_numbers(table, DOCUMENTS, monkeypatch)


def test_with_enough_links_chosen_the_others_count_as_wanting_it() -> None:
    table = filled(4)
    links = ["b0", "b1", "stranger"]
    for exact, found in zip(table.route(DOCUMENTS), table.route(DOCUMENTS, links), strict=True):
        assert found == (table.targets if {"b0", "b1"} <= set(exact) else exact)
    assert table.route(DOCUMENTS[:1], ["stranger"]) == [table.targets], "no link wants anything: nothing is looked for"


def test_routing_is_over_when_every_link_is_chosen() -> None:
    """What plain paths have answered, no tree pattern is tested for, and no query evaluated."""
    index, targets = Index(seed=1), _native.Targets()
    index.add("0", "//item")
    for number in range(1, 200):
        index.add(str(number), f"//item[@a='{number % 7}'][position() < {number}]")
    for number in range(200):
        targets.set(number, 1 if number % 2 == 0 else 2)
    document = read(b"<r>%s<b/></r>" % b"".join(b"<item a='%d'/>" % n for n in range(7)))

    def work(enough: int) -> tuple[list[int], int]:
        before = _native.testing.looked_at(index._native)
        masks, unread = index.route([document], Question(targets, enough, 0))
        assert not unread
        return masks, _native.testing.looked_at(index._native) - before

    index.route([document], Question(targets, 0, 0))
    (all_found, whole), (some, short) = work(0), work(1)
    assert all_found == [3] and some == [1] and short == 0 < whole
    targets.set(0, 0)
    assert work(1)[0][0] & 1 and index.route([document], Question(targets, 4, 4)) == ([4], []), "known before it begins"
