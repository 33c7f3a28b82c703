"""Routing by values before machines: nobody misses a document, nothing more is let through, and machines rest."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from treecast import Index, Subscription, _native
from treecast.document import read
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.routing import LOCAL, RoutingQuery, RoutingTable
from treecast.overlay.onyx.routing import map_subscription as map_one
from treecast.overlay.onyx.routing import table as table_module
from treecast.overlay.onyx.routing.routing_query import Conjunction, has_hole, write_query
from treecast.overlay.onyx.routing.value_sets import path_of, value_hashes
from treecast.wire import Codec

pytestmark = pytest.mark.house

NAMES = ("a", "b", "b", "c", "c", "d", "p:b", "e")
Values = dict[Conjunction, list[str]]

DECIDED: list[Conjunction] = [
    (("//b", "[#@x]"),),
    (("/a", "[#@x]"),),
    (("/a", "/b", "/c", "[#@x]"),),
    (("/a", "//b", "/c", "[#@y]"),),
    (("//b", "//c", "//b", "[#@x]"),),
    (("//b", "/*", "//c", "[#@x]"),),
    (("/a", "/*", "/b", "[#@y]"),),
    (("//c", "/*", "[#@x]"),),
    (("//*", "[#@y]"),),
    (("/*", "[#@y]"),),
    (("/a", "//\x01u\x02b", "[#@\x01v\x02y]"),),
    (("//\x01u\x02b", "/c", "[#@x]"),),
    (("//b", "/d", "[#.]"),),
    (("/*", "//c", "/*", "[#.]"),),
]
OPEN: list[Conjunction] = [
    (("//b", '[@y="1"]', "[#@x]"),),
    (("/a", "[#@x]", "/b"),),
    (("//b", "[#@x]", "[#@y]"),),
    (("//\x01u\x02*", "[#@x]"),),
    (("/a", "/c"), ("/a", "/d", "[#.]")),
    (("/a", "/b", "[#@x]"), ("/a", "/c")),
    (("//b", "//c"),),
    (("/a", "/d", "/d", '[@x="2"]'),),
]


def draw_document(random: Random) -> bytes:
    left = random.choice((3, 12, 40))

    def element(depth: int) -> str:
        nonlocal left
        left -= 1
        name = "a" if depth == 0 and random.random() < 0.8 else random.choice(NAMES)
        attributes = [f' {each}="{random.randrange(8)}"' for each in ("x", "y", "q:y", "z") if random.random() < 0.3]
        inner = str(random.randrange(8)) if random.random() < 0.4 else ""
        while left > 0 and depth < 7 and random.random() < 0.75:
            inner += element(depth + 1)
        spaces = " xmlns:p='u' xmlns:q='v'" if depth == 0 else ""
        return f"<{name}{spaces}{''.join(attributes)}>{inner}</{name}>"

    return element(0).encode()


def draw_values(random: Random, form: Conjunction) -> list[str]:
    return random.sample([str(number) for number in range(8)], random.choice((1, 2, 4))) if has_hole(form) else []


def update(table: RoutingTable, target: str, form: Conjunction, more: list[str], less: list[str] | None = None) -> None:
    """Tell the table of a form, or of values that come to it and go."""
    is_new = form not in table.collect(target).conjunctions
    came, went = (tuple(_native.sorted_values(value_hashes(each)) for _ in holes(form)) for each in (more, less or []))
    rows = [(form, came)] if has_hole(form) else []
    gone = RoutingQuery((), ((form, went),)) if less else None
    table.update(target, RoutingQuery((form,) if is_new else (), tuple(rows)), gone)


def holes(form: Conjunction) -> list[str]:
    return [token for path in form for token in path if token.startswith("[#")]


def exact_queries(form: Conjunction, values: list[str]) -> list[tuple[str, dict[str, str]]]:
    """What a form with one hole stands for, or a form without one."""
    if not has_hole(form):
        return [write_query(form)]

    def fill(token: str, value: str) -> str:
        return f'[{token[2:-1]}="{value}"]' if token.startswith("[#") else token

    filled = [tuple(tuple(fill(token, value) for token in path) for path in form) for value in values]
    return [write_query(each) for each in filled]


class Model:
    """What each target wants, and an index of exactly that."""

    def __init__(self, random: Random, forms: list[Conjunction], targets: int) -> None:
        self.random = random
        self.forms = forms
        self.held: dict[str, Values] = {f"t{number:02}": {} for number in range(targets)}

    def change(self, table: RoutingTable) -> None:
        random = self.random
        target, form = random.choice(list(self.held)), random.choice(self.forms)
        held = self.held[target]
        if form not in held:
            held[form] = draw_values(random, form)
            update(table, target, form, held[form])
        elif not has_hole(form) or random.random() < 0.3:
            del held[form]
            table.update(target, None, RoutingQuery((form,)))
        else:
            values = draw_values(random, form)
            came = [value for value in values if value not in held[form]]
            went = [value for value in held[form] if value not in values]
            held[form] = values
            update(table, target, form, came, went)

    def exact(self, documents: list[bytes]) -> list[tuple[str, ...]]:
        found: list[list[str]] = [[] for _ in documents]
        for target, forms in self.held.items():
            index, number = Index(seed=1), 0
            for form, values in forms.items():
                for query, namespaces in exact_queries(form, values):
                    index.add_many([Subscription(str(number), query, namespaces)])
                    number += 1
            for document, names in zip(documents, found, strict=True):
                names.extend([target] if index.match(document) else [])
        return [tuple(names) for names in found]

    def table(self) -> RoutingTable:
        table = RoutingTable(seed=1)
        for target, forms in self.held.items():
            for form, values in forms.items():
                update(table, target, form, values)
        return table


def by_machines(model: Model, monkeypatch: pytest.MonkeyPatch) -> RoutingTable:
    """A table whose forms all stay with the machines: any element of the name may have the value."""
    with monkeypatch.context() as patch:
        patch.setattr(table_module, "path_of", lambda _: [])
        return model.table()


def routed(table: RoutingTable) -> int:
    return _native.testing.routed(table._index._native)


@pytest.mark.parametrize("targets", [1, 4, 60])
@pytest.mark.parametrize("seed", range(3))
def test_values_say_what_the_subscriptions_say(seed: int, targets: int) -> None:
    """Exactly, while targets, forms and values come and go. No machine runs."""
    random = Random(f"decided {seed} {targets}")
    model, table = Model(random, DECIDED, targets), RoutingTable(seed=1)
    wanted = 0
    for _ in range(12):
        for _ in range(random.choice((1, 5, 20))):
            model.change(table)
        documents = [draw_document(random) for _ in range(20)]
        exact = model.exact(documents)
        assert table.route(documents) == exact
        wanted += sum(map(len, exact))
    assert wanted and routed(table) == 0
    for target in model.held:
        table.drop(target)
    assert table.route(documents) == [()] * 20


@pytest.mark.parametrize("seed", range(6))
def test_with_others_nobody_misses_a_document(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anybody get one that it would not get from machines alone."""
    random = Random(f"mixed {seed}")
    model, table = Model(random, DECIDED + OPEN, random.choice((2, 5))), RoutingTable(seed=1)
    # With two holes in one form it is enough that some values are right: as before.
    single = Model(random, [form for form in model.forms if len(holes(form)) < 2], 0)
    for _ in range(8):
        for _ in range(random.choice((1, 5, 20))):
            model.change(table)
        documents = [draw_document(random) for _ in range(20)]
        found, before = table.route(documents), by_machines(model, monkeypatch).route(documents)
        single.held = {name: {f: v for f, v in held.items() if f in single.forms} for name, held in model.held.items()}
        for exact, now, old in zip(single.exact(documents), found, before, strict=True):
            assert set(exact) <= set(now) <= set(old)
        links = [name for name in table.targets if random.random() < 0.6]
        for now, some in zip(found, table.route(documents, links), strict=True):
            assert some == (table.targets if links and set(links) <= set(now) else now)
    assert routed(table)


def mixed(seed: int) -> tuple[RoutingTable, list[bytes]]:
    random = Random(f"ways in {seed}")
    model, table = Model(random, DECIDED + OPEN[: seed % 2], 3), RoutingTable(seed=1)
    for _ in range(15):
        model.change(table)
    return table, [draw_document(random) for _ in range(40)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("format", ["binary", "text"])
def test_all_ways_in_say_the_same(seed: int, format: str) -> None:
    table, documents = mixed(seed)
    codec, bodies = Codec(format), Codec(format).encode_many([read(each) for each in documents])
    parcels = Parcels.of([Parcel(n, "s", "", 0, format, body) for n, body in enumerate(bodies, 1)])
    for links in (list(table.targets[:1]), list(table.targets)):
        expected = table.route(documents, links)
        assert table.route([read(each) for each in documents], links) == expected
        forms = table.route_forms(codec, bodies, links, [])
        assert forms is not None and forms[0] == expected
        routes = table.route_parcels(codec, parcels, links, LOCAL, None)
        published = table.publish(Index(seed=1), codec, documents, links) if format == "binary" else None
        for one in (routes, *(published[2:] if published else ())):
            assert one is not None
            chosen = {target: [p.number for p in one.choose(parcels, target)] for target in table.targets}
            assert chosen == {
                target: [n for n, row in enumerate(expected, 1) if target in row] for target in table.targets
            }


def test_no_machine_runs_where_values_decide() -> None:
    table, other = RoutingTable(seed=1), map_one(Subscription("", "//p[q]"))
    form: Conjunction = (("//b", "[#@x]"),)
    yes, no = b"<a><b x='1'/><b x='2'/></a>", b"<a><b x='3'/><c x='1'/></a>"

    def ran(documents: list[bytes], enough: list[str] | None = None) -> int:
        before = routed(table)
        table.route(documents, enough or [])
        return routed(table) - before

    update(table, "one", form, ["1", "2"])
    assert ran([yes, no]) == 0
    table.update("two", other)
    assert ran([yes, no]) == 2 and ran([yes, no], ["one"]) == 1, "two may want it; unless one is all that is asked for"
    table.update("one", other)
    table.drop("two")
    assert ran([yes, no]) == 1, "the same target: values have said yes to one of them"
    table.update("one", None, other)
    assert ran([yes, no]) == 0
    assert table.route([yes, no]) == [("one",), ()]
    # A form that does not say where the value stands, or more than that, is for the machines.
    for open_form in OPEN:
        table.drop("one")
        update(table, "one", open_form, ["1"] if has_hole(open_form) else [])
        assert ran([yes]) == 1, open_form


def test_a_value_counts_where_the_path_leads() -> None:
    table = RoutingTable(seed=1)
    update(table, "t", (("/a", "/b", "[#@x]"),), ["1"])
    documents = [b"<a><b x='0'/><c><b x='1'/></c></a>", b"<a><b x='1'/></a>", b"<a><b/></a>"]
    assert table.route(documents) == [(), ("t",), ()]
    table.update("other", map_one(Subscription("", "//p[q]")))
    assert table.route(documents) == [(), ("t",), ()] and routed(table) == 3, "also where machines run for others"


def test_names_that_come_later_are_known() -> None:
    """Both to documents and to forms."""
    table = RoutingTable(seed=1)
    update(table, "t", (("/a", "/b", "[#@x]"),), ["1"])
    assert table.route([b"<a><c y='1'/></a>", b"<a><b x='1'/></a>"]) == [(), ("t",)]
    update(table, "t", (("/a", "/c", "[#@y]"),), ["1"])
    assert table.route([b"<a><c y='1'/></a>"]) == [("t",)]
    table.update("t", None, RoutingQuery(((("/a", "/b", "[#@x]"),),)))
    update(table, "t", (("/d", "/e", "[#@z]"),), ["1"])
    documents = [b"<a><b x='1'/></a>", b"<d><e z='1'/></d>", b"<a><c y='1'/></a>", b"<e><d z='1'/></e>"]
    assert table.route(documents) == [(), ("t",), ("t",), ()] and routed(table) == 0


def test_names_that_a_reader_has_forgotten_are_looked_up_again() -> None:
    """Its table of names starts afresh when it has grown large: then other names have the numbers of these."""
    table = RoutingTable(seed=1)
    update(table, "t", (("/a", "/b", "[#@x]"),), ["1"])
    many = b"<a>%s</a>" % b"".join(b"<e%06d%s/>" % (number, b"e" * 200) for number in range(60_000))
    documents = [b"<a><b x='1'/></a>", many, b"<b><a x='1'/></b>", b"<a><b x='1'/></a>"]
    assert table.route(documents) == [("t",), (), (), ("t",)] and routed(table) == 0


def test_each_value_is_hashed_once_and_attributes_are_passed_once() -> None:
    """However many forms and places there are, and whoever asks."""
    table = RoutingTable(seed=1)
    for number in range(64):
        update(table, f"t{number % 5}", ((f"/a/e{number}"[:2], f"/e{number}", "[#@x]"),), ["none"])
        update(table, f"t{number % 5}", (("/a", "/e1", f'[@y="{number}"]', "[#@x]"),), ["none"])
        update(table, f"t{number % 5}", (("//*", f'[@y="{number}"]', "[#@x]"),), ["none"])
    document = b"<a>%s</a>" % b"".join(b"<e%d x='1' y='%d'/>" % (n % 3, n) for n in range(30))
    masks = table._masks
    assert table.route([document]) == [()] and routed(table) == 1
    assert _native.testing.values_hashed(masks) == 30 and _native.testing.values_passed(masks) == 60
    # And no further than where enough is known.
    update(table, "t0", (("//e2", "[#@x]"),), ["1"])
    assert table.route([document], ["t0"]) == [table.targets]
    assert 60 < _native.testing.values_passed(masks) < 60 + 60
    # Nor are values hashed whose targets are known.
    other = RoutingTable(seed=1)
    update(other, "t", (("/a", "[#@x]"),), ["1"])
    update(other, "t", (("/a", "/b", "[#.]"),), ["1"])
    update(other, "u", (("/a", "/c", "[#@x]"),), ["2"])
    assert other.route([b"<a x='1'>%s%s</a>" % (b"<d x='1'/>" * 9 + b"<c x='1'/>" * 8, b"<b>2</b>" * 9)]) == [("t",)]
    assert _native.testing.values_hashed(other._masks) == 9


def test_attributes_and_texts_that_decide_nothing_are_not_passed() -> None:
    table = RoutingTable(seed=1)
    update(table, "t", (("//*", "[#@x]"),), ["1"])
    masks, document = table._masks, b"<a x='1'>%s</a>" % (b"<b x='2'>1</b>" * 50)
    assert table.route([document]) == [("t",)] and _native.testing.values_passed(masks) < 10, "the only target is known"
    update(table, "u", (("/a", "/c", '[@y="1"]', "[#.]"),), ["1"])
    before = _native.testing.values_passed(masks)
    assert table.route([document.replace(b"1'>", b"3'>")]) == [()]
    assert _native.testing.values_passed(masks) - before == 51, "no element: nobody asked for the text of one"


@pytest.mark.parametrize("gap", ["/", "//"])
@pytest.mark.parametrize("steps", [63, 64, 65, 66])
def test_paths_are_followed_over_64_steps(steps: int, gap: str) -> None:
    """Longer ones are for the machines."""
    table = RoutingTable(seed=1)
    update(table, "t", (("/r", *[f"{gap}a"] * (steps - 1), "[#@x]"),), ["1"])

    def document(depth: int, value: str) -> bytes:
        return b"<r>%s<a x='%s'/>%s</r>" % (b"<a>" * (depth - 2), value.encode(), b"</a>" * (depth - 2))

    found = table.route([document(steps, "1"), document(steps - 1, "1"), document(steps, "2"), document(2, "1")])
    assert found == [("t",), (), (), ()] and (routed(table) == 0) == (steps <= 64)


def test_many_forms_of_one_place_are_for_the_machines() -> None:
    """A value is not looked up in any number of sets."""
    table = RoutingTable(seed=1)
    names = [f"n{number}" for number in range(30)]
    for name in names:
        update(table, name, (("/a", f"/{name}", "/b", "[#@x]"),), [name])
    documents = [b"<a><%s><b x='%s'/></%s></a>" % ((name.encode(),) * 3) for name in names]
    assert table.route(documents) == [(name,) for name in names] and routed(table) == 30
    for name in names[10:]:
        table.drop(name)
    assert table.route(documents) == [(name,) if n < 10 else () for n, name in enumerate(names)] and routed(table) == 30


def deep(depth: int, value: str, leaves: int) -> bytes:
    return b"<b>" * depth + f"<c><b x='{value}'/></c>".encode() * leaves + b"</b>" * depth


def much_text(value: str) -> bytes:
    return f"<a><b>{'x' * (2 << 20)}</b><b>{value}</b></a>".encode()


@pytest.mark.parametrize(
    ("path", "hole", "document"),
    [
        (("/a", *["//b"] * 50), "[#@x]", lambda value: deep(400, value, 200)),
        (("/a", "/b"), "[#.]", much_text),
    ],
)
def test_too_much_work_is_left_to_the_machines(
    path: tuple[str, ...], hole: str, document: Callable[[str], bytes]
) -> None:
    """They decide by the path, and by a value anywhere; where that is too much too, the path is enough."""
    table = RoutingTable(seed=1)
    update(table, "t", ((*path, hole),), ["1"])
    texts = [document("1"), document("2"), b"<a><b>1</b></a>"]
    found = table.route(texts)
    assert found[0] == (("t",) if hole == "[#.]" else ()) and found[2] == (("t",) if hole == "[#.]" else ())
    assert routed(table) == (2 if hole == "[#.]" else 1)


def test_more_targets_than_bits_and_fewer_again() -> None:
    form: Conjunction = (("/a", "[#@x]"),)
    table = RoutingTable(seed=1)
    for number in range(70):
        update(table, f"b{number}", form, [str(number)])
    assert "b3" in table.route([b"<a x='3'/>"])[0]
    for number in range(60, 70):
        table.drop(f"b{number}")
    assert table.route([b"<a x='3'/>", b"<a x='65'/>"]) == [("b3",), ()] and routed(table) == 0


@pytest.mark.parametrize(
    "form",
    [
        *OPEN,
        (("/a", "/@b", "[#.]"),),
        (("/a", "/text()", "[#.]"),),
        (("/a/b", "[#@x]"),),
        (("/child::a", "[#@x]"),),
        (("/.", "[#@x]"),),
        (("/a", "[#@x|@y]"),),
        (("/a", "[#@x/b]"),),
        (("/*[local-name()='a']", "[#@x]"),),
        (("[#@x]",),),
    ],
)
def test_other_forms_have_no_path(form: Conjunction) -> None:
    assert path_of(form) == []
