"""Values that functions make of one item: the shared machines compare them, and say what lxml says.

Work is counted, not timed: `looked_at` says how many entries were tested one by one, and counts the steps of rechecks.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from generators.derivations import NAMESPACES, draw_document, draw_query
from lxml import etree
from oracles.differential import AFTERWARDS, WAYS, Query, Setting, compare
from support.counted_work import COUNT, ITEMS, count_work
from support.sanitized import fewer

from treecast import Index


def drawn(random: Random, count: int) -> list[Query]:
    namespaces = tuple(NAMESPACES.items())
    return [Query(text, text, namespaces, namespaces) for text in (draw_query(random) for _ in range(count))]


@pytest.mark.parametrize("seed", range(3))
def test_drawn(seed: int) -> None:
    random = Random(f"derivations/{seed}")
    queries, documents = drawn(random, fewer(500)), [draw_document(random) for _ in range(8)]
    assert compare(queries, documents, [Setting("bulk", seed=seed)]) == len(queries) * len(documents)


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way_in(way: str) -> None:
    random = Random("derivations/ways")
    queries, documents = drawn(random, fewer(80)), [draw_document(random) for _ in range(4)]
    settings = [Setting(way, cache="none", simd=0, seed=7, afterwards=afterwards) for afterwards in AFTERWARDS]
    assert compare(queries, documents, settings) == len(queries) * len(documents)


def answers(queries: list[str], document: str) -> tuple[list[int], list[int]]:
    """What we match, and what lxml does."""
    index = Index(namespaces=NAMESPACES)
    index.add_many((str(place), query) for place, query in enumerate(queries))
    tree = etree.fromstring(document.encode())
    wanted = [place for place, query in enumerate(queries) if tree.xpath(f"boolean({query})", namespaces=NAMESPACES)]
    return [int(match) for match in index.match(document.encode())], wanted


TESTS = (
    *('normalize-space({}) = ""', 'normalize-space({}) != ""', 'normalize-space({}) = "x"', "string-length({}) = 0"),
    *(
        "string-length({}) > 0",
        "string-length({}) < 3",
        "string-length({}) >= 2",
        'string({}) = ""',
        'string({}) = " "',
    ),
    *('not(normalize-space({}) = "x")', "not(normalize-space({}))", 'contains(normalize-space({}), "x y")'),
    *(
        'starts-with(normalize-space({}), "x")',
        'translate({}, "xy ", "XY") = "XY"',
        "number({}) = 5",
        "number({}) != 5",
    ),
    *("{} * 2 = 10", "10 div {} = 2", "floor({}) = 5", "-({}) = -5", "string-length(normalize-space({})) <= 1"),
    *('substring({}, 2) = ""', 'substring({}, 1, 1) = "x"', 'substring-before({}, " ") = "x"', 'name({}) = "b"'),
    *('concat("<", {}, ">") = "<>"', 'contains(concat(" ", normalize-space({}), " "), " y ")', 'local-name({}) = ""'),
    *('concat({}, "-", @u) = "x-x"', 'concat("x", {}, "-") = "xx y-"', "round({}) < 6", 'namespace-uri({}) = "urn:p"'),
)
ITEM_PATHS = (".", "b", "@u", "p:b", "text()", "b/b", "..", "b | c", "ancestor::r")
CONTENTS = (
    *(
        "",
        "<b/>",
        "<b> </b>",
        "<b>x</b>",
        "<b> x  y </b><b>x</b>",
        "<b>5</b>",
        "<b>&#160;x</b>",
        "<c>x</c>",
        "x",
        " x ",
    ),
    *(
        "x<!--c-->y",
        "<b>x<!--c--> y</b>",
        "<p:b>x</p:b>",
        '<b xmlns="urn:p">x</b>',
        "<b><![CDATA[ x ]]></b>",
        "<b>é</b>",
    ),
    *("<b><b>x</b></b>", "<b/><b>x</b>", "<b>-5</b>", "<b>5.5</b>", "<b>x y</b>", "<c/>5", "<b>" + " " * 400 + "</b>"),
    *("<b>" + "x " * 300 + "</b>", "<b>" + "<c>x </c>" * 300 + "</b>", "<b>" + "<c/>" * 300 + "x</b>"),
)


@pytest.mark.parametrize("attribute", ["", ' u="x"', ' u=""', ' u=" x  y "', ' u="5"'])
def test_corners(attribute: str) -> None:
    queries = [f"//a[{test.format(path)}]" for test in TESTS for path in ITEM_PATHS]
    for content in CONTENTS:
        document = f'<r xmlns:p="urn:p"><a{attribute}>{content}</a></r>'
        matched, wanted = answers(queries, document)
        assert [queries[place] for place in sorted({*matched} ^ {*wanted})] == [], document


def item_of(place: int) -> str:
    return f'<item code="C{place}" both="C{place}-en"><code> C{place}  d </code>{"<m/>" * place}</item>'


DECIDED: dict[str, tuple[Callable[[int], str], int]] = {
    "normalize-space() of a child": (lambda place: f'//item[normalize-space(code) = "C{place} d"]', ITEMS),
    "normalize-space() of the element": (lambda place: f'//code[normalize-space() = "C{place} d"]', ITEMS),
    "contains() of it": (lambda place: f'//item[contains(normalize-space(code), "C{place} d")]', ITEMS),
    "not": (lambda place: f'/list[not(item[normalize-space(code) = "C{place} d"])]', COUNT - ITEMS),
    "string()": (lambda place: f'//item[string(@code) = "C{place}"]', ITEMS),
    "string-length()": (lambda place: f"//item[string-length(@code) > {place}]", 3),
    "string-length() = 0": (lambda place: f'//item[@code = "C{place}"][string-length(code) = 0]', 0),
    "name()": (lambda place: f'//*[name() = "item"][@code = "C{place}"]', ITEMS),
    "starts-with(name())": (lambda place: f'//*[starts-with(name(), "it")][@code = "C{place}"]', ITEMS),
    "local-name() of an attribute": (lambda place: f'//item[local-name(@code) = "code" and @code = "C{place}"]', ITEMS),
    "translate()": (lambda place: f'//item[translate(@code, "C", "c") = "c{place}"]', ITEMS),
    "substring-before()": (lambda place: f'//item[substring-before(@both, "-") = "C{place}"]', ITEMS),
    "words": (lambda place: f'//item[contains(concat(" ", normalize-space(@code), " "), " C{place} ")]', ITEMS),
    "arithmetic": (lambda place: f"//item[string-length(@code) * 2 + 1 = {place}]", 2),
    "count() of many": (lambda place: f'//item[count(m) >= 12][@code = "C{place}"]', ITEMS - 12),
}


def test_counters_that_only_gauges_read() -> None:
    _, matched = count_work(lambda place: f"//item[m[position() >= {place + 1}]]", item_of)
    assert matched == ITEMS - 1
    _, matched = count_work(lambda place: f"//item[count(m) >= {place + 1}]", item_of)
    assert matched == ITEMS - 1


@pytest.mark.parametrize("name", DECIDED)
def test_what_machines_decide_is_not_rechecked(name: str) -> None:
    """A recheck takes at least a step for each of the items."""
    query, matches = DECIDED[name]
    work, matched = count_work(query, item_of)
    assert matched == matches
    assert work <= 2 * COUNT


def test_a_concatenation_is_rechecked_where_a_part_of_it_fits() -> None:
    _, matched = count_work(lambda place: f'//item[concat(@code, "-", "en", "") = "C{place}-en"]', item_of)
    assert matched == ITEMS
    rare, matched = count_work(lambda place: f'//item[concat(@code, "-", code) = "C{place + ITEMS}-x"]', item_of)
    assert matched == 0
    assert rare <= COUNT


def test_too_many_derivations_are_rechecked() -> None:
    """Each item would pay for each of them. Whoever stays at `2 * COUNT` rechecks nothing."""
    work, matched = count_work(lambda place: f"//item[string-length(@code) + {place} = 3]", item_of)
    assert matched == 2
    assert work > 2 * COUNT


def test_what_queries_have_in_common_is_asked_once() -> None:
    """Counting the items takes a step for each of them, and for all that stands between."""
    shared, matched = count_work(lambda place: f"count(//m[.. != 'x']) mod 1000 = {780 + place}", item_of)
    assert matched == 1
    apart, matched = count_work(lambda place: f"count(//m[.. != 'x{place}']) mod 1000 = {780 + place}", item_of)
    assert matched == 1
    assert shared * 20 < apart


def test_nested_values_are_read_once() -> None:
    """Every element contains the text of those below; each byte is mapped once for the document, not once for each."""
    depth = 200
    document = "<a> x </a>".join(("<a>" * depth, "</a>" * depth)).replace(" x ", " x  y " * 20_000)
    queries = ['//a[contains(normalize-space(), "y x y z")]', "//a[string-length(normalize-space()) = 1]"]
    queries += [
        '//a[normalize-space() = "x"]',
        '//a[contains(translate(., "y", "z"), "x  z x")]',
        "//a[string-length() = 2]",
    ]
    queries += ['//a[contains(normalize-space(), "y x y x")]', '//a[starts-with(normalize-space(), "x y x")]']
    index = Index()
    index.add_many((str(place), query) for place, query in enumerate(queries))
    assert index.match(document.encode()) == ["5", "6"]


def test_saved_indexes_keep_derivations(tmp_path: object) -> None:
    index = Index()
    index.add_many((str(place), query(place)) for place, (query, _) in enumerate(DECIDED.values()))
    document = b'<list><item code="C0"><code> C0  d </code></item></list>'
    before = index.match(document)
    path = f"{tmp_path}/saved.tcx"
    index.save(path)
    assert Index.load(path).match(document) == before
