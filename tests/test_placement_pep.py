"""The placements that look into documents: hierarchies, patterns, reports, and the choice between them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from treecast import Index, QueryError, Subscription
from treecast.placement import (
    ByFilters,
    Choice,
    FilterSharing,
    Hierarchical,
    Pep,
    Placement,
    RootTag,
    choose,
    measure,
    survey,
    violations,
)

pytestmark = pytest.mark.house


def valued(count: int, *, values: int, seed: int = 1) -> list[tuple[str, str]]:
    """Queries that compare one of three things with a value; one in ten compares nothing."""
    random = Random(seed)
    queries = []
    for number in range(count):
        value = random.randrange(values)
        form = random.randrange(10)
        if form == 0:
            queries.append((f"q{number}", f"//title[p{value}]"))
        elif form < 5:
            queries.append((f"q{number}", f'/news/head[@topic = "t{value}"]//p'))
        elif form < 8:
            queries.append((f"q{number}", f'/news[lang = "l{value}"]'))
        else:
            queries.append(
                (f"q{number}", f'/news[head/@topic = "t{value}"][lang = "l{value}"]/item/price[. = {value}]')
            )
    return queries


def news(random: Random, values: int, items: int = 1) -> bytes:
    prices = "".join(f"<item><price>{random.randrange(values)}.0</price></item>" for _ in range(items))
    topic, lang = random.randrange(values), random.randrange(values)
    return f'<news><head topic="t{topic}"><p/></head><lang>l{lang}</lang>{prices}</news>'.encode()


def placed(placement: Placement, queries: list[tuple[str, str]]) -> Index:
    placement.add_many(queries)
    index = Index()
    index.add_many(queries)
    return index


def test_values_tell_documents_apart() -> None:
    random = Random(2)
    documents = [news(random, 400, items=3) for _ in range(100)]
    queries = valued(4000, values=400)
    pep, shared = Pep(41, documents=documents), FilterSharing(41)
    index = placed(pep, queries)
    placed(shared, queries)
    assert violations(pep, documents, [index.match(document) for document in documents]) == []
    assert [pattern.path for pattern in pep.patterns[:2]] == ["/news/head/@topic", "/news/lang"]
    assert pep.uncovered == pytest.approx(0.1, abs=0.03)
    found, whole = measure(pep, index, documents), measure(shared, index, documents)
    # One partition a pattern, and the one of those who do not care.
    assert found.fan_out <= 1 + len(pep.patterns) and whole.fan_out == 41
    assert found.bytes_moved < whole.bytes_moved / 8
    assert pep.skew < 1.5 and not pep.unbalanced
    assert "/news/lang (1.0 a document)" in pep.describe() and "pep: a document goes to" in found.describe()


def test_patterns_that_occur_once_are_preferred() -> None:
    queries = [(f"q{n}", f'/r[i/@k = "{n % 50}"][o/@k = "{n % 40}"]') for n in range(500)]
    often = b"<r>" + b"".join(f'<i k="{n}"/>'.encode() for n in range(20)) + b'<o k="7"/></r>'
    by_sample = Pep(11, documents=[often] * 3)
    placed(by_sample, queries)
    assert [pattern.path for pattern in by_sample.patterns] == ["/r/o/@k"]
    by_schema = Pep(11, once=["/r/o/@k"], documents=[often, b'<r><o k="1"/><o k="2"/></r>'])
    placed(by_schema, queries)
    assert [(pattern.path, pattern.repetition) for pattern in by_schema.patterns] == [("/r/o/@k", 1.0)]


def test_a_value_has_many_spellings() -> None:
    pep = Pep(30)
    queries = [(f"n{n}", f"/a[@v = {n}]") for n in range(50)] + [(f"s{n}", f'/a[@v = "{n}"]') for n in range(50)]
    index = placed(pep, queries)
    documents = [f'<a v="{text}"/>'.encode() for n in range(50) for text in (f"{n}", f"{n}.0", f" {n} ", f"0{n}")]
    assert violations(pep, documents, [index.match(document) for document in documents]) == []
    assert measure(pep, index, documents).fan_out <= 1


def test_partitions_stay_balanced() -> None:
    pep = Pep(21)
    queries = valued(2000, values=200)
    placed(pep, queries)
    for id, _ in queries[:1800]:
        pep.remove(id)
    later = [(f"new{n}", f'/order/line[@part = "p{n % 300}"]') for n in range(3000)]
    pep.add_many(later)
    assert pep.unbalanced and pep.uncovered > 0.5
    now = [*queries[1800:], *later]
    before = {id: pep.holders(id)[0] for id, _ in now}
    moves = pep.rebalance(now)
    assert not pep.unbalanced and pep.uncovered < 0.2
    assert moves == {id: (old, pep.holders(id)[0]) for id, old in before.items() if pep.holders(id)[0] != old}
    assert moves
    for wrong in ([("x", "no query")], [("x", "/a"), ("x", "/b")]):
        with pytest.raises(QueryError, match="TC1"):
            pep.rebalance(wrong)
    assert len(pep) == len(now)


def test_a_value_that_most_queries_ask_for_causes_no_imbalance() -> None:
    pep = Pep(9)
    queries = [(f"q{n}", f'/news[@topic = "{n % 50 if n % 2 else 0}"]') for n in range(1000)]
    placed(pep, queries)
    assert pep.skew > 3 and not pep.unbalanced  # nothing divides the queries of one value, so rebalancing is of no use
    for id, _ in queries[1::2]:
        pep.remove(id)
    assert pep.unbalanced
    pep.rebalance(queries[::2])
    assert not pep.unbalanced


@pytest.mark.parametrize("first", [[("all", "//x")], [("one", '/news[@lang = "en"]')]])
def test_patterns_chosen_for_a_few_do_not_hold_for_many(first: list[tuple[str, str]]) -> None:
    pep = Pep(9)
    pep.add_many(first)
    later = [(f"q{n}", f'/news[@topic = "t{n}"]') for n in range(200)]
    pep.add_many(later)
    assert pep.uncovered > 0.9 and pep.unbalanced
    pep.rebalance([*first, *later])
    assert pep.uncovered < 0.1 and not pep.unbalanced
    for id, _ in [*first, *later]:
        pep.remove(id)
    pep.add_many([("new", '/order[@part = "7"]')])  # nobody is there who would have to move
    assert [pattern.path for pattern in pep.patterns] == ["/order/@part"]


def test_values_that_come_and_go_leave_nothing_behind() -> None:
    pep = Pep(5)
    pep.add_many([("first", '/news[@topic = "t"]')])
    for number in range(100):
        assert pep.add("next", f'/news[@topic = "t{number}"]') == pep.remove("next")
    router = pep.router()
    assert isinstance(router, ByFilters) and list(router.filters.values()) == ['/news[@topic = "t"]']
    assert len(pep._tree._chain_list) == 2


def library(random: Random) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Three kinds of documents under one root, and a fourth under its own; queries on each."""
    kinds = {"book": "isbn author page", "disc": "track length label", "map": "scale region sheet"}
    queries, documents = [], []
    for number in range(900):
        kind = random.choice(list(kinds))
        name = random.choice(kinds[kind].split())
        queries.append((f"q{number}", random.choice((f"/library/{kind}/{name}", f"//{name}", f"/library//{name}[@k]"))))
    queries += [(f"o{number}", f"/order/line{number % 9}") for number in range(100)]
    for _ in range(120):
        kind = random.choice(list(kinds))
        names = random.sample(kinds[kind].split(), 2)
        inner = "".join(f"<{name} k='1'/>" for name in names)
        documents.append(f"<library><{kind}>{inner}</{kind}></library>".encode())
    return queries, documents + [b"<order><line1/></order>"] * 20


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_a_hierarchy_of_any_depth(levels: int) -> None:
    queries, documents = library(Random(levels))
    placement = Hierarchical(8, documents=documents[::2], levels=levels)
    index = placed(placement, queries)
    assert violations(placement, documents, [index.match(document) for document in documents]) == []
    report = measure(placement, index, documents)
    assert report.fan_out < {1: 9, 2: 7, 3: 5, 4: 4}[levels]
    assert "filters lead there" in placement.describe()


def test_exclusive_sets_from_a_schema_and_from_documents_do_the_same() -> None:
    queries, documents = library(Random(3))
    sets = [
        {"isbn", "author", "page", "book"},
        {"track", "length", "label", "disc"},
        {"scale", "region", "sheet", "map"},
    ]
    seen, declared = Hierarchical(6, documents=documents), Hierarchical(6, exclusive=sets)
    for placement in (seen, declared):
        index = placed(placement, queries)
        assert violations(placement, documents, [index.match(document) for document in documents]) == []
        assert measure(placement, index, documents).fan_out <= 3.5, placement.describe()


def test_guards_stay_bounded() -> None:
    placement = Hierarchical(2, filters_max=4)
    placement.add_many([("a", "/a/x"), ("b", "/b/x")])
    for number in range(100):
        placement.add(f"q{number}", f"/r{number}/s/t")
    placement.add("any", "//*")
    router = placement.router()
    assert isinstance(router, ByFilters)
    assert sum(len(branch.filters or ()) for branch in router.branches if branch.shard is not None) <= 2 * 8 + 2
    for levels, filters_max in ((0, 4), (9, 4), (2, 0)):
        with pytest.raises(ValueError):
            Hierarchical(2, levels=levels, filters_max=filters_max)


def test_a_report_counts_what_happened() -> None:
    placement = RootTag(3)
    index = placed(placement, [("a", "/a"), ("b", "/b/c")])
    report = measure(placement, index, [b"<a/>", b"<b/>", b"<b><c/></b>", b"<c/>", b"<broken>", b"nothing"])
    assert (report.documents, report.fan_out, report.fan_out_max) == (4, 0.75, 1)
    assert report.false_forwards == pytest.approx(1 / 3) and report.bytes_moved == 4 + 4 + 11
    assert (report.balance, report.subscriptions_held) == (1.5, 2)
    assert measure(FilterSharing(2), Index(), []).fan_out == 0


def short_of_room(queries: list[tuple[str, str]], shards: int, documents: Sequence[bytes] = ()) -> Choice:
    return choose(queries, shards, index_bytes=3000, worker_bytes_max=1000, documents=documents)


def test_the_choice_says_why() -> None:
    random = Random(4)
    many = valued(500, values=100)
    assert choose(many, 4, index_bytes=1000).placement.name == "data-sharing"
    books, shelves = library(random)
    choices = {
        "root-tag": short_of_room([(f"q{n}", f"/r{n % 9}/x{n}") for n in range(500)], 8),
        "pep": short_of_room(many, 8, [news(random, 100)]),
        "hierarchical": short_of_room(books, 8, shelves),
        "filter-sharing": short_of_room([(f"q{n}", f"//a[b{n}]") for n in range(50)], 1),
    }
    for name, choice in choices.items():
        assert choice.placement.name == name and choice.why.startswith(f"{name}: the index takes"), choice.why
        assert len(choice.placement) > 0
    everywhere = [(f"q{n}", f"//a[position() = {n}]") for n in range(200)]
    choice = short_of_room(everywhere, 40, [b"<a><a/></a>"] * 5)
    assert choice.placement.name == "filter-sharing" and "would still send" in choice.why
    guess = short_of_room(everywhere, 4)
    assert guess.placement.name == "hierarchical" and "without a sample" in guess.why


def test_many_subscriptions_are_placed_in_bulk() -> None:
    """The small twin of a million: every placement takes twenty thousand in one go, as an Arrow table."""
    import pyarrow as pa

    queries = valued(20_000, values=3000)
    table = pa.table({"id": [id for id, _ in queries], "query": [query for _, query in queries]})
    assert len(survey(table)) == 20_000
    random = Random(9)
    documents = [news(random, 3000) for _ in range(20)]
    index = Index()
    index.add_many(table)
    matches = [index.match(document) for document in documents]
    for placement in (FilterSharing(16), RootTag(16), Pep(16), Hierarchical(16, documents=documents)):
        placement.add_many(table)
        assert violations(placement, documents, matches) == []
        assert placement.add("one", "/news", namespaces=Subscription("", "").namespaces) == placement.holders("one")
