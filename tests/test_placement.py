"""Every placement finds each match in exactly one shard, also while subscriptions change."""

from __future__ import annotations

from random import Random

import pytest
from support.placements import MAKERS, answers, draw_population
from test_cases import CASES

from treecast import Index, QueryError, Subscription
from treecast.placement import DataSharing, FilterSharing, RootTag, moves, violations

pytestmark = pytest.mark.house

NAMES = sorted(MAKERS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shards", [1, 2, 5, 16])
def test_no_match_is_lost(name: str, shards: int) -> None:
    random = Random(f"{name} {shards}")
    for _ in range(3):
        subscriptions, documents = draw_population(random, queries=120, documents=60)
        placement = MAKERS[name](shards, documents[:20])
        placement.add_many(subscriptions)
        assert len(placement) == len(subscriptions)
        assert violations(placement, documents, answers(subscriptions, documents)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus(name: str) -> None:
    subscriptions = [
        Subscription(f"{number} {s.id}", s.query, s.namespaces or {}, case.ordered)
        for number, case in enumerate(CASES)
        for s in case.subscriptions
    ]
    documents = [case.document for case in CASES]
    placement = MAKERS[name](7, documents)
    placement.add_many(subscriptions)
    assert violations(placement, documents, answers(subscriptions, documents)) == []


@pytest.mark.parametrize("name", NAMES)
def test_subscriptions_come_and_go(name: str) -> None:
    random = Random(name)
    drawn, documents = draw_population(random, queries=150, documents=40)
    placement = MAKERS[name](6, documents[:10])
    held: list[Subscription] = []
    waiting = list(drawn)
    placement.add_many(waiting[:30])
    held, waiting = waiting[:30], waiting[30:]
    for _ in range(200):
        if waiting and (random.random() < 0.6 or not held):
            one = waiting.pop(random.randrange(len(waiting)))
            assert placement.add(one.id, one.query, namespaces=one.namespaces) == placement.holders(one.id)
            held.append(one)
        else:
            one = held.pop(random.randrange(len(held)))
            assert placement.remove(one.id)
            with pytest.raises(KeyError):
                placement.holders(one.id)
            waiting.append(one)
        if random.random() < 0.1:
            assert violations(placement, documents, answers(held, documents)) == []
    assert violations(placement, documents, answers(held, documents)) == []
    for one in held:
        placement.remove(one.id)
    assert len(placement) == 0
    placement.add_many(drawn)
    assert violations(placement, documents, answers(drawn, documents)) == []


@pytest.mark.parametrize("name", NAMES)
def test_invalid_input_changes_nothing(name: str) -> None:
    placement = MAKERS[name](3, [])
    placement.add_many([("a", "/a"), ("b", "//b")])
    holders, route = placement.holders("a"), placement.route([b"<a/>"])
    for bad in (
        [("c", "/c"), ("d", "d")],
        [("c", "/c"), ("a", "/c")],
        [("c", "/c"), ("c", "/d")],
        [Subscription("c", "/x:c")],
    ):
        with pytest.raises(QueryError):
            placement.add_many(bad)
        with pytest.raises(KeyError):
            placement.holders("c")
    with pytest.raises(KeyError):
        placement.remove("c")
    assert (len(placement), placement.holders("a"), placement.route([b"<a/>"])) == (2, holders, route)
    assert str(len(placement)) in placement.describe()


@pytest.mark.parametrize("shards", [0, -1, 1 << 17])
def test_the_number_of_shards_is_limited(shards: int) -> None:
    for kind in (DataSharing, FilterSharing, RootTag):
        with pytest.raises(ValueError):
            kind(shards)
    with pytest.raises(TypeError):
        DataSharing("4")  # type: ignore[arg-type]


def test_one_document_is_not_a_sequence() -> None:
    with pytest.raises(TypeError, match="sequence"):
        RootTag(4).route(b"<a/>")  # type: ignore[arg-type]


def test_the_checker_finds_what_is_lost_and_what_meets_twice() -> None:
    class Broken(FilterSharing):
        def holders(self, id: str) -> tuple[int, ...]:
            return {"lost": (9,), "twice": (0, 1)}.get(id, (0,))

    placement = Broken(2)
    placement.add_many([("lost", "/a"), ("twice", "/a"), ("good", "/a")])
    assert violations(placement, [b"<a/>"], [["lost", "twice", "good"]]) == [(0, "lost", 0), (0, "twice", 2)]


def test_filters_are_shared_and_equal_ones_stay_together() -> None:
    placement = FilterSharing(4)
    placement.add_many([(f"{number}", f"/a/b{number // 2}") for number in range(4000)])
    sizes = [0] * 4
    for number in range(4000):
        assert placement.holders(str(number)) == placement.holders(str(number // 2 * 2))
        sizes[placement.holders(str(number))[0]] += 1
    assert max(sizes) < 1.2 * min(sizes)


def test_clusters_are_sized_by_how_often_their_documents_come() -> None:
    placement = RootTag(8, frequencies={"often": 0.9, "rare": 0.1})
    placement.add_many([(f"{root}{n}", f"/{root}/x{n}") for root in ("often", "rare") for n in range(100)])
    assert len(placement.holders("often1")) >= 5 and len(placement.holders("rare1")) == 1
    documents = [f"<often n='{n}'/>".encode() for n in range(100)]
    routes = placement.route(documents)
    assert all(route is not None and len(route) == 1 for route in routes)
    assert {shard for route in routes for shard in route or ()} == set(placement.holders("often1"))


def test_a_root_less_query_makes_every_document_visit_its_cluster() -> None:
    placement = RootTag(4)
    placement.add_many([("a", "/a"), ("b", "/b")])
    assert placement.route([b"<a/>", b"<c/>", b"no document"]) == [placement.holders("a"), (), None]
    placement.add("any", "//x")
    assert placement.route([b"<c/>"]) == [placement.holders("any")]
    placement.add("new", "/new/x")
    assert len(set(placement.holders("new")) & set(placement.route([b"<new/>"])[0] or ())) == 1
    placement.remove("any")
    assert placement.route([b"<c/>"]) == [()]


def test_a_new_layout_tells_who_moves() -> None:
    queries = [(f"q{number}", f"/r{number % 10}/x") for number in range(100)]
    before = RootTag(6)
    before.add_many([])
    before.add_many(queries[:1])
    before.add_many(queries[1:])
    after = RootTag(6)
    after.add_many(queries)
    moved = moves(before, after, [id for id, _ in queries])
    assert moved and all(before.holders(id) == old and after.holders(id) == new for id, (old, new) in moved.items())
    assert moves(after, after, [id for id, _ in queries]) == {}


def test_a_part_of_an_index_takes_the_same_documents() -> None:
    index = Index(namespaces={"": "urn:d"}, entities={"who": "x"}, engine="xtrie")
    index.add("a", "/a")
    part = index.part(index.subscriptions())
    assert (part.engine, part["a"]) == ("xtrie", index["a"])
    assert part.match(b"<a xmlns='urn:d'>&who;</a>") == ["a"] and part.match(b"<a/>") == []
    assert index.part([("b", "/b")], engine="auto").match(b"<b/>") == ["b"]


def test_an_index_gives_its_subscriptions_back() -> None:
    index = Index(namespaces={"p": "urn:p"})
    index.add("a", "/p:a", ordered=True)
    index.add("b", "/b")
    index.add("c", "/q:c", namespaces={"q": "urn:q"}, deliver="elements")
    index.replace("a", "/p:z")
    index.remove("b")
    again = Index()
    again.add_many(index.subscriptions())
    assert [again["a"], again["c"]] == [index["a"], index["c"]] and len(again) == 2
    assert index.subscriptions().column("id").to_pylist() == ["a", "c"]
    assert Index().subscriptions().num_rows == 0
