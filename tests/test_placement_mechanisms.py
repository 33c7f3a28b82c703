"""Each mechanism of the placements has a test that fails when the mechanism is switched off.

`tools/mutants_python.py` switches them off, one at a time, and runs this file against each.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.placements import MAKERS, answers

from treecast import Index, Subscription
from treecast.placement import ByFilters, Hierarchical, Pep, Placement, Report, RootTag, measure, violations

pytestmark = pytest.mark.house

Queries = list[tuple[str, str]]


def filled(placement: Placement, queries: Queries) -> Index:
    placement.add_many(queries)
    index = Index()
    index.add_many(queries)
    return index


def report(placement: Placement, queries: Queries, documents: list[bytes]) -> Report:
    """What the placement costs, once it has been seen to lose nothing."""
    index = filled(placement, queries)
    assert violations(placement, documents, [index.match(document) for document in documents]) == []
    return measure(placement, index, documents)


# --- hierarchical: queries without a root ----------------------------------------------------------------------------

ROOTLESS = ["//x", "/*/x", "//*", "/*", "/a | /b", "//p[@k]", "/*[x]"]


@pytest.mark.parametrize("query", ROOTLESS)
def test_a_query_without_a_root_that_comes_later_sees_every_document(query: str) -> None:
    """As XTrie has it: what begins with `//` or `/*` is where every document comes, whatever its root."""
    placement = Hierarchical(4)
    placement.add_many([(f"{root}{n}", f"/{root}/y{n}") for root in "abcd" for n in range(5)])
    documents = [f"<{root}><x/><p k=''/></{root}>".encode() for root in ("a", "b", "c", "d", "unknown")]
    before = placement.route(documents)
    placement.add("later", query)
    matches = [["later"] if found else [] for found in answers([Subscription("later", query)], documents)]
    assert any(matches) and violations(placement, documents, matches) == []
    placement.remove("later")
    assert placement.route(documents) == before, "and with it goes what it alone needed"


def test_a_query_without_a_telling_name_that_comes_later_sees_every_document_of_its_root() -> None:
    """The same one and two levels further down: no name of an exclusive set, no name at all below the root."""
    documents = [f"<r><{kind}{n}/><{kind}{n + 1}/></r>".encode() for kind in "ab" for n in range(8)]
    placement = Hierarchical(6, documents=documents)
    placement.add_many([(f"{kind}{n}", f"/r/{kind}{n}") for kind in "ab" for n in range(8)])
    assert all(len(route or ()) < 4 for route in placement.route(documents))
    later = [Subscription("child", "/r/*"), Subscription("self", "/r"), Subscription("other", "/r[not(z)]")]
    for one in later:
        placement.add(one.id, one.query)
    assert violations(placement, documents, answers(later, documents)) == []


# --- hierarchical: exclusive sets ------------------------------------------------------------------------------------

KINDS, NAMES, SHOWN = 8, 30, 15


def letters(random: Random, count: int) -> list[bytes]:
    """Messages of one type, of several kinds: a head that all have, and half of the names that their kind has; one in
    a hundred has a name of another kind."""
    documents = []
    for number in range(count):
        kind = random.randrange(KINDS)
        names = [f"k{kind}n{name}" for name in random.sample(range(NAMES), SHOWN)]
        if number % 100 == 99:
            names[0] = f"k{(kind + 1) % KINDS}n{number % NAMES}"
        documents.append(f"<soap><head/><body>{''.join(f'<{name}/>' for name in names)}</body></soap>".encode())
    return documents


LETTERS: Queries = [(f"q{n}", f"/soap/body/k{n % KINDS}n{n // KINDS}") for n in range(KINDS * NAMES)]
ORDERS: Queries = [(f"o{n}", f"/order/line{n}") for n in range(60)]


@pytest.mark.parametrize("others", [0, 800])
def test_names_that_rarely_meet_divide_the_queries_of_one_type(others: int) -> None:
    """A message goes to the leaves of its kind: 2 of 16. By single names, its 15 are on nearly all of them.

    With `others`, most messages are of another type, so that what all of these have is in less than half of the whole
    sample: sets of the whole sample would hold every kind together.
    """
    orders = [f"<order><line{n % 60}/></order>".encode() for n in range(others)]
    sample, messages = letters(Random(1), 400) + orders, letters(Random(2), 60)
    queries = LETTERS + (ORDERS if others else [])
    apart = report(Hierarchical(16, documents=sample), queries, messages)
    together = report(Hierarchical(16, documents=sample, exclusive=[]), queries, messages)
    assert apart.fan_out <= 3 and together.fan_out > 8, (apart.fan_out, together.fan_out)
    exclusive = [{f"k{kind}n{name}" for name in range(NAMES)} for kind in range(KINDS)]
    by_schema = report(Hierarchical(16, exclusive=exclusive), queries, messages)
    assert by_schema.fan_out <= 3, by_schema.fan_out


# --- hierarchical: frequencies and guards ----------------------------------------------------------------------------


def work(placement: Placement, queries: Queries, documents: list[bytes]) -> Counter[int]:
    """By shard: the subscriptions that it holds times the documents that it sees."""
    held = Counter(shard for id, _ in queries for shard in placement.holders(id))
    seen = Counter(shard for route in placement.route(documents) for shard in route or ())
    return Counter({shard: held[shard] * seen[shard] for shard in held})


def test_clusters_are_sized_by_how_often_their_documents_come() -> None:
    """Two types with as many queries; nineteen of twenty messages are of the first. It gets nearly all shards."""
    queries = [(f"{root}{n}", f"/{root}/x{n}") for root in ("often", "rare") for n in range(200)]
    inner = "".join(f"<x{n}/>" for n in range(200))
    documents = [f"<{'rare' if n % 20 == 0 else 'often'}>{inner}</{'rare' if n % 20 == 0 else 'often'}>".encode()
                 for n in range(40)]  # fmt: skip
    sized, alike = Hierarchical(10, documents=documents), Hierarchical(10)
    for placement in (sized, alike):
        report(placement, queries, documents)

    def shards(placement: Placement, root: str) -> int:
        return len({placement.holders(f"{root}{n}") for n in range(200)})

    assert (shards(alike, "often"), shards(alike, "rare")) == (5, 5)
    assert (shards(sized, "often"), shards(sized, "rare")) == (9, 1)
    # So the busiest shard has less to do, though the messages are the same.
    assert max(work(sized, queries, documents).values()) < 0.7 * max(work(alike, queries, documents).values())


def test_a_leaf_is_guarded_by_what_it_holds() -> None:
    """Divided by text alone, a message would go to all eight leaves; their filters let it pass to the one it needs."""
    queries = [(f"q{n}", f"/r/a{n}/x") for n in range(64)]
    documents = [f"<r><a{n}><x/></a{n}></r>".encode() for n in range(64)] + [b"<r><z/></r>"] * 4
    guarded = report(Hierarchical(8, levels=2, filters_max=64), queries, documents)
    assert guarded.fan_out == 64 / 68 and guarded.false_forwards == 0
    coarse = report(Hierarchical(8, levels=2, filters_max=1), queries, documents)
    assert coarse.fan_out == 8, "one filter for all paths of a leaf tells nothing"


def test_the_guards_of_a_leaf_are_an_aggregate_of_it() -> None:
    """Few filters for many paths: those that the paths have in common, not what lets everything pass."""
    queries = [(f"q{n}", f"/r/g{n % 4}/x{n}") for n in range(40)]
    sample = [f"<r><g{n}><x{n}/></g{n}></r>".encode() for n in range(12)]
    placement = Hierarchical(1, filters_max=4, documents=sample)
    placement.add_many(queries)
    assert placement.route([b"<r><g1><x1/></g1></r>", b"<r><g9><x1/></g9></r>"]) == [(0,), ()]


def test_guards_of_what_comes_later_are_exact_while_there_is_room() -> None:
    placement = Hierarchical(2, levels=2, filters_max=8)
    placement.add_many([("a", "/r/a"), ("b", "/r/b"), ("c", "/r/c"), ("d", "/r/d")])
    for n in range(4):
        placement.add(f"later{n}", f"/r/e{n}/f")
    assert [len(route or ()) for route in placement.route([b"<r><e1><f/></e1></r>", b"<r><e1/></r>"])] == [1, 0]


# --- PEP -------------------------------------------------------------------------------------------------------------


def test_a_query_is_in_one_partition_and_a_document_in_each_at_most_once() -> None:
    random = Random(5)
    queries = [(f"q{n}", f'/m[a/@v = "{n % 40}"][b/@v = "{n % 30}"]') for n in range(600)]
    queries += [(f"free{n}", f"/m/c{n}") for n in range(20)]
    pep = Pep(11)
    documents = []
    for _ in range(40):  # the same values several times, in both patterns
        values = [random.randrange(40) for _ in range(6)]
        inner = "".join(f'<a v="{v}"/><b v="{v % 30}"/>' for v in values)
        documents.append(f"<m>{inner}</m>".encode())
    index = filled(pep, queries)
    held = Counter(shard for id, _ in queries for shard in pep.holders(id))
    assert all(len(pep.holders(id)) == 1 for id, _ in queries) and held.total() == len(queries)
    assert held[10] == 20, "without a pattern they are where every document comes"
    for document, route in zip(documents, pep.route(documents), strict=True):
        assert route is not None and len(route) == len(set(route))
        meetings = Counter(id for shard in route for id in index.match(document) if pep.holders(id) == (shard,))
        assert set(meetings.values()) <= {1} and set(meetings) == set(index.match(document))


def test_a_pattern_that_repeats_counts_for_less() -> None:
    """`i` is in every query and comes ten times; `o` and `p` are in one half each and come once. Two partitions at most
    see a message, where by `i` nearly all would."""
    queries = [(f"q{n}", f"/r[i/@k = {n % 60}][{'op'[n % 2]}/@k = {n % 60}]") for n in range(600)]
    random = Random(6)
    documents = []
    for _ in range(60):
        inner = "".join(f'<i k="{random.randrange(60)}"/>' for _ in range(10))
        documents.append(f'<r>{inner}<o k="{random.randrange(60)}"/><p k="{random.randrange(60)}"/></r>'.encode())
    once, blind = Pep(21, documents=documents[:20]), Pep(21)
    assert report(once, queries, documents).fan_out <= 2
    assert sorted(pattern.path for pattern in once.patterns) == ["/r/o/@k", "/r/p/@k"]
    assert report(blind, queries, documents).fan_out > 5


def test_a_pattern_that_repeats_gives_way_where_nothing_is_lost() -> None:
    """The greedy choice takes `a` first, for its coverage, and then `c`; with `c` there, `x` does what `a` did."""
    queries = [(f"ac{n}", f"/r[a/@k = {n}][c/@k = {n}]") for n in range(100)]
    queries += [(f"ax{n}", f"/r[a/@k = {n}][x/@k = {n}]") for n in range(100)]
    queries += [(f"c{n}", f"/r[c/@k = {n}]") for n in range(5)]

    def document(n: int, repeats: int) -> bytes:
        inner = "".join(f'<a k="{(n * 7 + turn * 31) % 100}"/>' for turn in range(repeats))
        return f'<r>{inner}<c k="{n % 100}"/><x k="{n * 3 % 100}"/></r>'.encode()

    sample = [document(n, 1 if n % 5 == 0 else 2) for n in range(20)]  # 1.8 times on average
    pep = Pep(21, documents=sample)
    found = report(pep, queries, [document(n, 12) for n in range(60)])
    assert sorted(pattern.path for pattern in pep.patterns) == ["/r/c/@k", "/r/x/@k"] and pep.uncovered == 0
    assert found.fan_out_max <= 2


def test_once_in_the_schema_is_trusted() -> None:
    twice = [b'<r><a k="1"/><a k="2"/><b k="1"/></r>'] * 4
    queries = [(f"q{n}", f"/r[a/@k = {n}][b/@k = {n}]") for n in range(40)]
    queries += [(f"a{n}", f"/r[a/@k = {n}]") for n in range(10)]
    by_sample, by_schema = Pep(5, documents=twice), Pep(5, documents=twice, once=["/r/a/@k"])
    for pep in (by_sample, by_schema):
        pep.add_many(queries)
    assert [pattern.path for pattern in by_sample.patterns] == ["/r/b/@k", "/r/a/@k"]
    assert [pattern.path for pattern in by_schema.patterns] == ["/r/a/@k"]


def test_buckets_are_cut_by_the_number_of_queries() -> None:
    """Value n is asked for by 600 / (n + 5) queries. Cut by the number of values, the first of ten buckets would hold
    more than four times the mean."""
    counts = {value: 600 // (value + 5) for value in range(1, 201)}
    queries = [(f"q{value} {n}", f"/r[@v = {value}]/x{n}") for value, count in counts.items() for n in range(count)]
    pep = Pep(11)
    pep.add_many(queries)
    held = Counter(pep.holders(id)[0] for id, _ in queries)
    mean = len(queries) / 10
    assert len(held) == 10 and max(held.values()) <= 1.3 * mean, held
    assert sum(counts[value] for value in range(1, 21)) > 4 * mean


def test_a_query_of_several_patterns_goes_by_any_of_them() -> None:
    """The paper's random choice, which follows from the text: the load is on all patterns, and the same after a
    restart."""
    queries = [(f"q{n}", f"/r[a/@k = {n % 50}][b/@k = {n % 40}]/x{n}") for n in range(400)]
    queries += [(f"a{n}", f"/r[a/@k = {n}]") for n in range(3)] + [(f"b{n}", f"/r[b/@k = {n}]") for n in range(3)]
    pep, again = Pep(9), Pep(9)
    pep.add_many(queries)
    again.add_many(queries)
    router = pep.router()
    assert isinstance(router, ByFilters) and len(pep.patterns) == 2
    by = Counter("a" if text.startswith("/r/a[") else "b" for text in router.filters.values())
    assert by["a"] > 25 and by["b"] > 25
    assert all(pep.holders(id) == again.holders(id) for id, _ in queries)


# --- root-tag --------------------------------------------------------------------------------------------------------


def test_a_sample_sizes_the_clusters_of_root_tags() -> None:
    queries = [(f"{root}{n}", f"/{root}/x{n}") for root in ("often", "rare") for n in range(50)]
    documents = [b"<often/>"] * 19 + [b"<rare/>"]
    sized, alike = RootTag(12, documents=documents), RootTag(12)
    for placement in (sized, alike):
        report(placement, queries, documents)
    assert len(sized.holders("often1")) > 5 * len(sized.holders("rare1"))
    assert len(alike.holders("often1")) <= 1 + len(alike.holders("rare1"))


# --- a population that changes ---------------------------------------------------------------------------------------

NAMED = ("a", "b", "c", "d", "e")


def draw(random: Random) -> str:
    """Small queries of every shape that placements tell apart; a third of them has no root."""
    root = random.choice(("/" + random.choice(NAMED), "/" + random.choice(NAMED), "//" + random.choice(NAMED)))
    root = random.choice((root, root, root, "/*", "//*"))
    step = random.choice(("", f"/{random.choice(NAMED)}", f"//{random.choice(NAMED)}", "/*"))
    value = random.choice(("", f'[@k = "{random.randrange(4)}"]', f"[@k = {random.randrange(4)}]", "[@k]"))
    return root + step + value + random.choice(("", "", f" | /{random.choice(NAMED)}/z", " | //z"))


def draw_document(random: Random) -> bytes:
    def element(depth: int) -> str:
        name, key = random.choice((*NAMED, "z")), random.choice(("", f' k="{random.randrange(5)}"'))
        inner = "".join(element(depth - 1) for _ in range(random.randint(0, 2))) if depth else ""
        return f"<{name}{key}>{inner}</{name}>"

    return element(3).encode()


@pytest.mark.parametrize("name", ["hierarchical", "pep", "root-tag"])
@pytest.mark.parametrize("seed", range(4))
def test_no_match_is_lost_while_everything_changes(name: str, seed: int) -> None:
    """The layout is that of a few queries with roots; then any come and go. After every fifth change each match meets
    in exactly one shard."""
    random = Random(f"{name} {seed}")
    documents = [draw_document(random) for _ in range(40)]
    placement = MAKERS[name](random.choice((2, 5, 9)), documents[: random.choice((0, 15))])
    held = {f"first{n}": f"/{NAMED[n % 5]}/{NAMED[n % 3]}[@k = {n % 4}]" for n in range(12)}
    placement.add_many(list(held.items()))
    for turn in range(120):
        if held and random.random() < 0.45:
            gone = random.choice(list(held))
            placement.remove(gone)
            del held[gone]
        else:
            held[f"q{turn}"] = draw(random)
            placement.add(f"q{turn}", held[f"q{turn}"])
        if turn % 5 == 0:
            found = answers([Subscription(id, query) for id, query in held.items()], documents)
            assert violations(placement, documents, found) == []
