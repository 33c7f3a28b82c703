"""`map`: a routing query matches whatever its subscription matches, and the papers' examples come out as printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest
from generators.constructors import PREFIXES, URIS, draw_material
from generators.step_lists import ListDrawer
from generators.transformations import TransformationDrawer
from support.placements import draw_population
from support.rounds_conditions import condition_words
from test_cases import CASES
from test_papers import ONYX
from test_papers_transformations import STOCKS, TIDES

from treecast import Index, QueryError, Subscription
from treecast.errors import PeerError
from treecast.overlay.onyx.routing import RoutingQuery, RoutingSettings, map_subscription
from treecast.overlay.onyx.routing.routing_query import TRUE, write_query
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper

pytestmark = pytest.mark.house

SETTINGS = {
    "usual": RoutingSettings(),
    "narrow": RoutingSettings(conjunctions_max=2, paths_max=2),
    "exact": RoutingSettings(exact=True),
}


def mapped(query: str, settings: RoutingSettings | None = None, **given: object) -> str:
    return str(map_subscription(Subscription("s", query, **given), settings))  # type: ignore[arg-type]


def wanted(queries: Sequence[RoutingQuery], documents: Sequence[bytes]) -> list[set[int]]:
    """By document, the queries that want it, as one index says."""
    index = Index()
    index.add_many(
        Subscription(f"{number} {place}", *write_query(conjunction))
        for number, query in enumerate(queries)
        for place, conjunction in enumerate(query.conjunctions)
    )
    return [{int(id.split()[0]) for id in index.match(document)} for document in documents]


def check(subscriptions: Sequence[Subscription], documents: Sequence[bytes], settings: RoutingSettings) -> int:
    """How many pairs of subscription and document only the routing query matches; the other way round there is none."""
    index = Index()
    index.add_many(subscriptions)
    queries = [map_subscription(subscription, settings) for subscription in subscriptions]
    assert all(len(query) <= settings.conjunctions_max for query in queries)
    assert all(RoutingQuery.decode(query.encode()) == query for query in queries)
    superfluous = 0
    for document, routed in zip(documents, wanted(queries, documents), strict=True):
        ids = set(index.match(document))
        matched = {number for number, each in enumerate(subscriptions) if each.id in ids}
        lost = [(subscriptions[number], str(queries[number]), document) for number in matched - routed]
        assert lost == []
        superfluous += len(routed - matched)
    return superfluous


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_of_the_whole_language(name: str, seed: int) -> None:
    random = Random(f"routing {name} {seed}")
    check(*draw_population(random, queries=120, documents=30), SETTINGS[name])


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_is_lost_of_the_corpus(name: str) -> None:
    subscriptions = [
        Subscription(f"{number} {each.id}", each.query, each.namespaces or {}, case.ordered)
        for number, case in enumerate(CASES)
        for each in case.subscriptions
    ]
    check(subscriptions, [case.document for case in CASES], SETTINGS[name])


def accepted(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    index, found = Index(), []
    for each in subscriptions:
        try:
            index.add(each.id, each.query, namespaces=each.namespaces)
        except QueryError:
            continue
        found.append(each)
    return found


def test_nothing_is_lost_of_transformations() -> None:
    random = Random("routing of transformations")
    for _ in range(2):
        bound = {prefix: random.choice(URIS) for prefix in PREFIXES[:2]}
        flwr = TransformationDrawer(random, bound)
        lists = ListDrawer(random, condition_words(random, namespaces=True))
        drawn = [Subscription(f"f{number}", flwr.query().text, bound) for number in range(20)]
        for number in range(10):
            steps = lists.steps()
            drawn.append(Subscription(f"l{number}", steps.text, dict(lists.words.prefixes)))
        subscriptions = accepted(drawn)
        assert len(subscriptions) > 15
        check(subscriptions, [draw_material(random, bound) for _ in range(20)], SETTINGS["usual"])


def test_exact_patterns_are_exact() -> None:
    """What a conjunction relaxes, the pattern beside it does not: but for order, as an index says it."""
    random = Random("routing exactly")
    subscriptions, documents = draw_population(random, queries=150, documents=40)
    relaxed = check(subscriptions, documents, SETTINGS["usual"])
    exact = check(subscriptions, documents, SETTINGS["exact"])
    assert exact == 0
    assert relaxed > 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a[b]/c", "/a/b and /a/c"),
        ("/a[b/c[d]][e]/f", "/a/b/c/d and /a/e and /a/f"),
        ("/a[b]/b/c", "/a/b/c"),  # implied: left out
        ("/a[@x=1][@y]/b", "/a[@x=1][@y]/b"),  # predicates of one step stay together
        ("/a[@x=1 and c]/b", "/a[@x=1]/b and /a[@x=1]/c"),
        ("/a[b/@x=1]", "/a/b[@x=1]"),
        ("/a[b='v']", '/a/b[.="v"]'),
        ("/a/@x", "/a[@x]"),
        ("/a//@x", "/a//@x"),
        ("/a[.//@x > 3]", "/a//@x[.>3]"),
        ("/a[contains(b, 'x')]", '/a/b[contains(., "x")]'),
        ("/a[contains(b, '')]", "/a"),  # true without any b
        ("/a[text()[contains(., 'x')]]", '/a[text()[contains(., "x")]]'),
        ("/a[b][2]/c[last()]", "/a/b and /a/c"),
        ("/a[not(b)]/c", "/a/c"),
        ("/a[not(@x=1)]/c", "/a[not(@x=1)]/c"),
        ("/a[b or c]", "/a/b or /a/c"),
        ("/a[@x=1 or @x=2]", "/a[@x=1 or @x=2]"),
        ("/a[b or not(c)]/d", "/a/d"),
        ("/a[b | c]/d", "/a/b and /a/d or /a/c and /a/d"),
        ("/a | /b[c]", "/a or /b/c"),
        ("/a | /*", "true"),
        ("/a/b | //b | /a[b]/c", "//b"),
        ("/a//descendant::text()[2]", "/a//text()"),
        ("/a/*[local-name()='b']", '/a/*[local-name()="b"]'),
        ("//a[/b/c]", "//a and /b/c"),
        ("/a[/b]", "nothing"),  # a document has one root
        ("/a[@x=1]/b[/a[@y]/c]", "/a[@x=1][@y]/b and /a[@x=1][@y]/c"),
        ("/a/self::b", "nothing"),
        ("/*/self::b/c", "/b/c"),
        ("/a/descendant-or-self::b/c", "/a//b/c"),
        ("/a[@x='1'][@x='2']", "nothing"),
        ("$msg/a/b[//c]", "/a/b//c"),
        ("drop //x", "true"),
        ("//*", "true"),
        ("for $a in $msg/x for $b in $a/y where $b/@z=1 and count($a/k)>2 return <q/>", "/x/k and /x/y[@z=1]"),
    ],
)
def test_map(query: str, expected: str) -> None:
    assert mapped(query) == expected


def test_settings_of_a_subscription() -> None:
    assert mapped("//p:a[@p:b=1]/c", namespaces={"p": "urn:p"}) == "//{urn:p}a[@{urn:p}b=1]/c"
    assert mapped("//q:a", namespaces={"q": "urn:p"}) == mapped("//p:a", namespaces={"p": "urn:p"})
    assert mapped("/a[b][c]", ordered=True, deliver="elements") == "/a/b and /a/c"


def test_limits_only_widen() -> None:
    many = "/a" + "".join(f"[b{n} or c{n}]" for n in range(12)) + "/d"
    few = map_subscription(Subscription("s", many), RoutingSettings(conjunctions_max=8))
    assert 1 <= len(few) <= 8
    wide = "/a" + "".join(f"[b{n}]" for n in range(100))
    (conjunction,) = map_subscription(Subscription("s", wide), RoutingSettings(paths_max=5)).conjunctions
    assert len(conjunction) == 5
    union = " | ".join(f"/a/b{n}" for n in range(100))
    assert mapped(union, RoutingSettings(conjunctions_max=10)) == "/a"


def test_equal_subscriptions_have_equal_queries() -> None:
    texts = ["/a[c][b]/d", "/a[b and c]/d", "/a[c]/d[/a/b]", "for $x in $msg/a where $x/b and $x/c return $x/d"]
    first, second, third, fourth = (map_subscription(Subscription("s", text)) for text in texts)
    assert first == second == third
    assert hash(first) == hash(second)
    assert str(fourth) == "/a/b and /a/c"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        RoutingQuery.of([(("/a",),)]).encode()[:-1],
        b"\x92\x91\xa2/a\x91\x91\x91\x05",  # a number of no token
        b"\x92\x91\xa2/a\x91\x91\x91\xff",  # less than 0
        b"\x92\x91\xa2ab\x91\x91\x91\x00",  # no step
        b"\x92\x91\xa2/a\x91\x91\x90",  # an empty path
        b"\x92\x91\xa2/\xff\x91\x91\x91\x00",  # no UTF-8
        b"\x92\x92\xa2/a\xa1/\x91\x91\x93\x00\x01\x00",  # a step without a name: /a//a as /a, /, /a
    ],
)
def test_what_cannot_be_decoded(data: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        RoutingQuery.decode(data)
    assert caught.value.code == "TC404"


@pytest.mark.parametrize(
    "path",
    [
        ("/a", "/", "/b"),
        ("/a", "//"),
        ("/a", "[b[c", "[d]]]"),
        ("/a", '[@x="', '[1"]'),
        ("/a|", "/b"),
        ("/a/b",),
        ("/.",),
        ("/a[b]/c",),
        ("/\x01u", "[\x02a]"),
        ("/\x01u\x02",),
        ("//@x", "/a"),
        ("/a", "//text()", "//b"),
    ],
)
def test_tokens_that_only_together_are_a_query_cannot_be_decoded(path: tuple[str, ...]) -> None:
    """A generalisation that leaves some of them out would be none."""
    with pytest.raises(PeerError, match="not a path") as caught:
        RoutingQuery.decode(RoutingQuery.of([(path,)]).encode())
    assert caught.value.code == "TC404"


def test_true_and_nothing_travel() -> None:
    for query in (RoutingQuery(), RoutingQuery.of([TRUE])):
        assert RoutingQuery.decode(query.encode()) == query
    assert RoutingQuery.of([TRUE]).is_true
    assert not RoutingQuery()


# ONYX, Figure 5(a).
AREA = '/nitf/head/pubdata[@edition.area="SF"]'
STOCK = '/nitf//tobject.subject[@tobject.subject.type="Stock"]'
FISHING = '/nitf//tobject.subject[@tobject.subject.matter="fishing"]'
SERIES = '/nitf//series[@series.name="Tide Forecasts"]'


def test_figure_5() -> None:
    """Q1 and Q2 have two paths each: that of nitf alone is implied by both."""
    assert mapped(ONYX["Q1"]) == f"{STOCK} and {AREA}"
    assert mapped(ONYX["Q2"]) == f"{FISHING} and {AREA}"
    assert mapped(TIDES) == f"{SERIES} and {AREA}"
    assert mapped(STOCKS) == f"{STOCK} and {AREA}"


@pytest.mark.parametrize("seed", range(1))
def test_shapes_give_the_same(seed: int) -> None:
    """Also where values repeat, contradict or imply each other; a shape is learnt with other literals than it meets."""
    random = Random(f"shapes {seed}")
    subscriptions, _ = draw_population(random, queries=150, documents=1)
    values = ("1", "2", "17", "3.5", "17.50", "007", '"17"', "'17'", '"x"', "'x'", '"xy"', "''", '""', "'\"'", '"<=2"')
    forms = (
        "/a[@x={0}][@y={1}]/b", "//a[@x={0} or @y={1}]", "/a[b={0}][c={1}]", "/a[b={0}]/b[@x={1}]", "/a[{0}=@x]",
        "//a[contains(@x, 'v{2}')][@x={0}]", "//a[starts-with(b, {3})][c]", "/a[@x>{0}][@x<{1}]", "//*[.={0}]/b[.={1}]",
        "/a[b[@x={0} or @y={1}]][c[@x={1} or @y={0}]]", "//a[2]/b[position()<{2}]", "//a[not(@x={0})][@x={1}]",
        "//a[@x={0}] | //b[@x={1}]", "/a[@x={0} or b={1}]/c", "$msg/a[//b={0}]", "/h2[a-2={0}]/b3[@x={1}]",
    )  # fmt: skip
    for number in range(400):
        chosen = [random.choice(values) for _ in range(2)]
        text = random.choice(forms).format(*chosen, random.choice((1, 2, 17)), random.choice(values[6:]))
        subscriptions.append(Subscription(f"f{number}", text))
    for settings in SETTINGS.values():
        mapper = SubscriptionMapper(settings)
        for subscription in accepted(subscriptions):
            assert mapper.map(subscription) == map_subscription(subscription, settings), subscription
    assert 20 < mapper.shapes < 400


def test_shapes_are_forgotten_when_there_are_too_many() -> None:
    mapper = SubscriptionMapper(RoutingSettings(shapes_max=3))
    for number in range(10):
        mapper.map(Subscription("s", f"/a/b{number}"))
        assert mapper.shapes <= 3
    assert str(RoutingQuery.of(mapper.map_many([Subscription("s", "/a"), Subscription("t", "/b")]))) == "/a or /b"
