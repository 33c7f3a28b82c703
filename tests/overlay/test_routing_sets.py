"""Sets of values in routing queries: as precise as the values themselves, by deltas, and nobody misses a document."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec
import pytest

from treecast import Index, Subscription, _native
from treecast.errors import PeerError
from treecast.overlay.onyx.routing import LOCAL, Delta, RoutingQuery, RoutingSettings, RoutingTable, Summary, value_sets
from treecast.overlay.onyx.routing import map_subscription as map_one
from treecast.overlay.onyx.routing import summary as summary_module
from treecast.overlay.onyx.routing.routing_query import Conjunction, has_hole, holes_of
from treecast.overlay.onyx.routing.value_sets import value_hashes

pytestmark = pytest.mark.house

SMALL = RoutingSettings(entries_max=20, set_values_min=3)
SHAPES = (
    '/news/item[@code="{a}"]',
    '//item[@code="{a}"]',
    '/news/item[@code="{a}"][@lang="{l}"]',
    '/news/item[@code="{a}"]/p',
    '/news[head/@area="{l}"]/item[p="{a}"]',
    "/news/item[@code='{a}']/v[. > {n}]",
    '//p[. = "{a}"]',
    '/news/*[@code="{a}"]',
    '/news/item[starts-with(@code, "{a}")]',
    '/news/item[@code="{a}"][item/@code="{b}"]',
)
BROAD = ("/news/item", "//p", '/news/item[@lang="en"]', "/news/item[@code]", "/other")


def draw_query(random: Random, values: int, broad: float) -> str:
    if random.random() < broad:
        return random.choice(BROAD)
    a, b = (f"x{random.randrange(values)}" for _ in range(2))
    return random.choice(SHAPES).format(a=a, b=b, l=random.choice(("en", "de", "fr")), n=random.randrange(9))


def draw_document(random: Random, values: int) -> bytes:
    def item() -> str:
        inner = f"<p>x{random.randrange(values)}</p><v>{random.randrange(9)}</v>"
        inner += f'<item code="x{random.randrange(values)}"/>' if random.random() < 0.3 else ""
        return f'<item code="x{random.randrange(values)}" lang="{random.choice(("en", "de", "it"))}">{inner}</item>'

    head = f'<head area="{random.choice(("en", "de", "it"))}"/>'
    return f"<news>{head}{''.join(item() for _ in range(random.randint(1, 4)))}</news>".encode()


def conjunctions(subscriptions: Iterable[str]) -> list[Conjunction]:
    return [each for query in subscriptions for each in map_one(Subscription("s", query)).conjunctions]


def travelled(delta: Delta) -> Delta:
    return Delta(RoutingQuery.decode(delta.added.encode()), RoutingQuery.decode(delta.removed.encode()))


class Tree:
    """Two brokers with subscriptions, one in the middle with some of its own, and a root: all told by deltas."""

    def __init__(self, random: Random, settings: RoutingSettings) -> None:
        self.random = random
        self.held: dict[str, list[str]] = {"left": [], "right": [], LOCAL: []}
        self.brokers = {name: RoutingTable(settings, seed=1) for name in ("left", "right")}
        self.middle, self.root = RoutingTable(settings, seed=1), RoutingTable(has_parent=False, seed=1)
        self.known = RoutingQuery()

    def change(self, name: str, came: list[str], went: list[str]) -> None:
        rows = conjunctions(came), conjunctions(went)
        if name == LOCAL:
            self.tell(self.middle.update_many(LOCAL, *rows))
            return
        delta = travelled(self.brokers[name].update_many(LOCAL, *rows))
        self.tell(self.middle.update(name, delta.added, delta.removed))

    def tell(self, delta: Delta) -> None:
        delta = travelled(delta)
        self.known = delta.apply(self.known)
        self.root.update("middle", delta.added, delta.removed)

    def check(self, documents: list[bytes]) -> None:
        assert self.known == self.middle.aggregate() == self.middle.rebuilt() == self.root.collect("middle")
        for name, table in self.brokers.items():
            assert table.aggregate() == table.rebuilt() == self.middle.collect(name)
            query = self.middle.collect(name)
            assert self.middle.size(name) == (len(query), query.values)
        routes, up = self.middle.route(documents), self.root.route(documents)
        for name, held in self.held.items():
            index = Index(seed=1)
            index.add_many([Subscription(str(number), query) for number, query in enumerate(held)])
            for document, found, above in zip(documents, routes, up, strict=True):
                if index.match(document):
                    assert name in found and above == ("middle",), document


@pytest.mark.parametrize("seed", range(6))
def test_sets_change_by_deltas_and_nobody_misses_a_document(seed: int) -> None:
    check_tree(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_sets_change_by_deltas(seed: int) -> None:
    check_tree(seed)


def check_tree(seed: int) -> None:
    random = Random(f"sets {seed}")
    settings = RoutingSettings(
        entries_max=random.choice((12, 20, 40)),
        set_values_min=random.choice((2, 5)),
        values_max=random.choice((30, 1_000, 1_000)),
        revived_max=random.choice((5, 1_000)),
    )
    tree, values, broad = Tree(random, settings), random.choice((40, 200)), random.choice((0.0, 0.01))
    documents = [draw_document(random, values) for _ in range(40)]
    had_sets = False
    for turn in range(30):
        name = random.choice(list(tree.held))
        held = tree.held[name]
        went = [held.pop(random.randrange(len(held))) for _ in range(random.choice((0, 1, 5, 40))) if held]
        came = [draw_query(random, values, broad) for _ in range(random.choice((0, 1, 10, 60)))]
        held += came
        tree.change(name, came, went)
        aggregate = tree.middle.aggregate()
        assert len(aggregate) <= settings.entries_max and aggregate.values <= settings.values_max
        had_sets = had_sets or any(table.aggregate().sets for table in (tree.middle, *tree.brokers.values()))
        if turn % 6 == 5:
            tree.tell(tree.middle.refine())
            tree.check(documents)
    assert had_sets
    for name, held in tree.held.items():
        tree.change(name, [], held)
        tree.held[name] = []
    tree.tell(tree.middle.refine())
    assert tree.known == RoutingQuery() and not len(tree.middle) and not tree.middle.values


@pytest.mark.parametrize("values_min", [3, 1_000])
def test_any_attribute_has_no_set_and_no_beginning(values_min: int) -> None:
    """`@*` is equal to a text where one of the attributes is; a function would speak of the first."""
    settings = RoutingSettings(entries_max=20, set_values_min=values_min)
    table, root = RoutingTable(settings, seed=1), RoutingTable(has_parent=False, seed=1)
    queries = [f'/a/b[@*="x{number}"]' for number in range(60)]
    delta = travelled(table.update_many(LOCAL, conjunctions(queries), []))
    root.update("below", delta.added, delta.removed)
    assert len(root) <= settings.entries_max
    documents = [f'<a><b y="z" x="x{number}"/></a>'.encode() for number in range(60)]
    assert table.route(documents) == [(LOCAL,)] * 60
    assert root.route(documents) == [("below",)] * 60


@pytest.mark.parametrize("parts", [1, 40])
def test_values_in_any_order_are_told_apart(parts: int) -> None:
    """Thirty times the budget, at once and bit by bit: what is forwarded is what is wanted."""
    random = Random("any order")
    codes = random.sample(range(100_000), 3_000)
    table, parent = RoutingTable(RoutingSettings(entries_max=100)), RoutingTable()
    step = len(codes) // parts
    for first in range(0, len(codes), step):
        rows = conjunctions(f'/news/item[@code="x{code}"]' for code in codes[first : first + step])
        delta = table.update_many(LOCAL, rows, [])
        parent.update("child", delta.added, delta.removed)
    documents = [f'<news><item code="x{code}"/></news>'.encode() for code in (*codes[:50], *range(100_000, 100_500))]
    assert sum(map(bool, parent.route(documents))) == 50
    assert len(table.aggregate()) <= 100 and table.aggregate().values == 3_000
    assert len(table.aggregate().encode()) < 3_000 * 5 + 200


def test_one_subscription_more_is_one_value_more() -> None:
    table = RoutingTable(SMALL)
    table.update_many(LOCAL, conjunctions(f'/news/item[@code="x{n}"]' for n in range(100)), [])
    new = conjunctions(['/news/item[@code="new"]'])
    delta = table.update_many(LOCAL, new, [])
    form = (("/news", "/item", "[#@code]"),)
    assert delta == Delta(RoutingQuery((), ((form, (value_hashes(["new"]),)),)))
    assert table.update_many(LOCAL, new, []) == Delta(), "known already"
    assert table.update_many(LOCAL, [], new) == Delta()
    assert table.update_many(LOCAL, [], new) == Delta(RoutingQuery(), delta.added)


def test_what_became_a_set_comes_back() -> None:
    summary = Summary(SMALL)
    rows = conjunctions(f'/news/item[@code="x{n}"]' for n in range(100))
    summary.update(rows)
    assert summary.values == 100 and len(summary) == 1
    broader = conjunctions(["/news/item"])
    assert summary.update(broader).removed.conjunctions and not summary.query().values
    summary.update([], broader)
    assert summary.query().values == 100
    summary.update([], rows[3:])
    assert summary.query() == RoutingQuery.of(rows[:3])


def test_a_form_that_comes_back_with_what_is_in_it_counts_once() -> None:
    """Its values were counted twice, until nothing was left that could be dropped for them."""
    form: Conjunction = (("/a", "/b", "[#@x]"),)
    summary = Summary(RoutingSettings(entries_max=6, set_values_min=3, values_max=60), seed=1)
    summary.update(conjunctions(f'/a/b[@x="{number}"]' for number in range(40)))
    summary.update([form], (), [(form, (value_hashes(["z"]),), (b"",))])
    for turn in range(4):
        summary.update(conjunctions(["/a/b"]))
        summary.update(conjunctions([f'/a/b[@x="new{turn}"]']))
        summary.update((), conjunctions(["/a/b"]))
        assert summary.query().conjunctions == (form,) and summary.query().values == 42 + turn


def test_beyond_the_budget_of_values_the_largest_set_lets_any_value_through() -> None:
    summary = Summary(RoutingSettings(entries_max=20, set_values_min=3, values_max=120))
    summary.update(conjunctions(f'/news/item[@code="x{n}"]' for n in range(90)))
    summary.update(conjunctions(f'/news/head[@area="x{n}"]' for n in range(30)))
    assert summary.values == 120
    summary.update(conjunctions(['/news/item[@code="new"]']))
    assert str(summary.query()) == "/news/head[#@area] or /news/item" and summary.query() == summary.rebuilt()


def test_tests_that_stay_are_dropped_when_they_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Languages stay beside the codes as long as there are few; so far more of them do not use up the budget."""
    monkeypatch.setattr(value_sets, "FORMS_EACH", 4)
    monkeypatch.setattr(summary_module, "FORMS_EACH", 4)
    summary = Summary(RoutingSettings(entries_max=20, set_values_min=3))
    for languages in (2, 30):
        rows = [f'/news/item[@code="x{n}"][@lang="{languages}-{n % languages}"]' for n in range(150)]
        summary.update(conjunctions(rows))
        assert summary.query() == summary.rebuilt()
        assert (len(summary), summary.values) == ((2, 150) if languages == 2 else (1, 150 + 32))


def test_what_comes_at_once_joins_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "_ROUND", 10)
    monkeypatch.setattr(summary_module, "_GROUP_MIN", 4)
    summary = Summary(SMALL)
    for first in (0, 15):
        summary.update(conjunctions(f'/news/item[@code="x{n}"]' for n in range(first, first + 15)))
        assert summary.query() == summary.rebuilt()
    assert (len(summary), summary.values) == (1, 30)


def test_without_a_budget_of_values_there_are_no_sets() -> None:
    summary = Summary(RoutingSettings(entries_max=20, set_values_min=3, values_max=0))
    summary.update(conjunctions(f'/news/item[@code="x{n}"]' for n in range(90)))
    assert not any(map(has_hole, summary.query().conjunctions)) and len(summary) <= 20


def test_generalising_ends_where_nothing_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the budget then, and nothing is lost."""
    monkeypatch.setattr(Summary, "_drop_holes", lambda summary: {})
    summary = Summary(RoutingSettings(entries_max=20, set_values_min=3))
    queries = [f'/news/item[@code="x{n}"]' for n in range(90)]
    summary.update(conjunctions(queries[:80]))
    summary.settings = msgspec.structs.replace(summary.settings, values_max=10)
    summary.update(conjunctions(queries[80:]))
    assert summary.values > 10
    table = RoutingTable()
    table.update("b", summary.query())
    assert table.route([b'<news><item code="x89"/></news>']) == [("b",)]


def test_sets_that_do_not_fit_are_refused_and_change_nothing() -> None:
    form: Conjunction = (("/a", "[#@x]"),)
    table = RoutingTable()
    one, two = value_hashes(["1"]), value_hashes(["2"])
    table.update("b", RoutingQuery((form,), ((form, (one,)),)))
    before = table.aggregate()
    for more, less in (
        (RoutingQuery((), ((form, (one,)),)), RoutingQuery()),  # there already
        (RoutingQuery(), RoutingQuery((), ((form, (two,)),))),  # not there
        (RoutingQuery((), (((("/a", "[#@y]"),), (one,)),)), RoutingQuery()),  # of no form that is
    ):
        with pytest.raises(PeerError, match="do not fit"):
            table.update("b", more, less)
        assert table.aggregate() == before
    assert table.route([b"<a x='1'/>", b"<a x='2'/>", b"<a/>"]) == [("b",), (), ()]
    first, last = sorted((one, two))
    for wrong in (one[:3], last + first):
        with pytest.raises(PeerError, match="routing query"):
            RoutingQuery.decode(RoutingQuery((form,), ((form, (wrong,)),)).encode())
    for token in ("[#x]", "[#@x='1']", "[#@*]", "[#]"):
        with pytest.raises(PeerError, match="routing query"):
            RoutingQuery.decode(RoutingQuery(((("/a", token),),)).encode())


def test_an_announcement_in_full_takes_the_place_of_values() -> None:
    form: Conjunction = (("/a", "[#@x]"),)
    table = RoutingTable()
    rows = [RoutingQuery((form,), ((form, (_native.sorted_values(value_hashes(some)),)),)) for some in ("12", "23")]
    for target in ("b", "c"):
        table.update(target, rows[0])
    assert not table.replace("b", rows[0])
    assert table.replace("b", rows[1]).added == RoutingQuery((), ((form, (value_hashes("3"),)),))
    documents = [f"<a x='{n}'/>".encode() for n in (1, 2, 3)]
    assert table.route(documents) == [("c",), ("b", "c"), ("b",)]
    assert Delta.between(rows[0], rows[1]).apply(rows[0]) == rows[1]
    assert table.drop("c").removed == RoutingQuery((), ((form, (value_hashes("1"),)),))


def test_each_hole_needs_a_value_of_its_own() -> None:
    form: Conjunction = (("/a", "//\x01u\x02b", "[#@\x01v\x02y]"), ("/a", "/c", "[#.]"))
    assert holes_of(form) == (("\x01u\x02b", "@\x01v\x02y"), ("c", "."))
    table = RoutingTable()
    table.update("b", RoutingQuery((form,), ((form, (value_hashes(["1"]), value_hashes(["one two"]))),)))
    text = "<a xmlns:p='u' xmlns:q='v'><p:b q:y='{}' y='1'/><c>one{}<!-- -->two</c></a>"
    documents = [text.format(*row).encode() for row in (("1", " "), ("2", " "), ("1", ""))]
    assert table.route(documents) == [("b",), (), ()]


def test_more_targets_than_bits_get_what_matches_the_form() -> None:
    form: Conjunction = (("/a", "[#@x]"),)
    table = RoutingTable()
    for number in range(70):
        row = RoutingQuery((form,), ((form, (value_hashes([str(number)]),)),))
        table.update(f"b{number}", row)
    (found,) = table.route([b"<a x='3'/>"])
    assert {"b3", *(f"b{number}" for number in range(63, 70))} <= set(found)
    for number in range(70):
        table.drop(f"b{number}")
    assert not len(table) and not table.values


def test_a_set_is_what_a_dictionary_is() -> None:
    """Values with bits, of any number, that come and go."""
    random = Random("value set")
    hashes = [value_hashes([str(number)]) for number in range(500)]
    values, model = _native.ValueSet(), dict.fromkeys(hashes, 0)
    for _ in range(300):
        bit, some = 1 << random.randrange(3), random.sample(hashes, random.choice((1, 5, 100)))
        before = {each for each in hashes if model[each]}
        is_more = random.random() < (0.7 if len(before) < 250 else 0.3)
        for each in some:
            model[each] = model[each] | bit if is_more else model[each] & ~bit
        after = {each for each in hashes if model[each]}
        changed = (values.add if is_more else values.remove)(bit, b"".join(some))
        assert changed == b"".join(sorted(after ^ before))
        assert len(values) == len(after)
        assert values.values(bit) == b"".join(sorted(each for each in hashes if model[each] & bit))
    counts = _native.ValueSet()
    assert counts.count(hashes[0] * 2) == hashes[0] and counts.uncount(hashes[0]) == b""
    assert counts.uncount(hashes[0]) == hashes[0] and not len(counts)
