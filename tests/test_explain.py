"""Explanations: golden texts, places, and near misses worked out with lxml."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import Vocabulary
from lxml import etree
from oracles.differential import PARSER
from oracles.ordered_patterns import Oracle, draw_pattern, draw_small_document

import treecast
from treecast import Index, _native
from treecast.index.explain import Condition, Explanation, Place, explain

NEWS = b"""<news>
  <item lang="en">
    <title>One</title>
  </item>
  <item lang="de" n='2'>
    <title>Zwei</title>
    <body>text <b>bold</b> &amp; more</body>
  </item>
</news>
"""
SPACED = b'<p:a xmlns:p="urn:1"><p:b x="1"/><b xmlns="urn:2" p:x="2"/></p:a>'

GOLDEN: list[tuple[bytes, str, dict[str, Any], str]] = [
    (
        NEWS,
        '/news/item[@lang = "de"][title]/body',
        {},
        """\
matches /news/item[@lang = "de"][title]/body
  /news  /news[1], line 1
  /item  /news[1]/item[2], line 5
         [@lang = "de"] is true: /news[1]/item[2]/@lang is "de"
         [title] is true: /news[1]/item[2]/title[1]
  /body  /news[1]/item[2]/body[1], line 7""",
    ),
    (
        NEWS,
        '/news/item[title][@lang = "fr"]/body',
        {},
        """\
does not match /news/item[title][@lang = "fr"]/body
  /news  /news[1], line 1
  /item  /news[1]/item[1], line 2
         [title] is true: /news[1]/item[1]/title[1]
         [@lang = "fr"] is false: /news[1]/item[1]/@lang is "en\"""",
    ),
    (
        NEWS,
        "//item[2]/body/text()[. = 'text ']",
        {},
        """\
matches //item[2]/body/text()[. = 'text ']
  //item   /news[1]/item[2], line 5
           [2] is true: it is number 2 of 2
  /body    /news[1]/item[2]/body[1], line 7
  /text()  /news[1]/item[2]/body[1]/text()[1], line 7
           [. = 'text '] is true: /news[1]/item[2]/body[1]/text()[1] is "text \"""",
    ),
    (
        NEWS,
        "//item[last()][3]",
        {},
        """\
does not match //item[last()][3]
  //item  /news[1]/item[1], line 2
          [last()] is false: it is number 1 of 2""",
    ),
    (
        NEWS,
        "/news/item/summary/p",
        {},
        """\
does not match /news/item/summary/p
  /news     /news[1], line 1
  /item     /news[1]/item[1], line 2
  /summary  nothing below /news[1]/item[1]; no element is called summary""",
    ),
    (
        NEWS,
        "/letter",
        {},
        """\
does not match /letter
  /letter  nothing; no element is called letter""",
    ),
    (
        NEWS,
        "//item[not(body)]/@lang | /news/letter",
        {},
        """\
matches //item[not(body)]/@lang | /news/letter
  by //item[not(body)]/@lang
  //item  /news[1]/item[1], line 2
          [not(body)] is true: there is none
  /@lang  /news[1]/item[1]/@lang, line 2""",
    ),
    (
        NEWS,
        "/letter/p | /news/item/summary | //p",
        {},
        """\
does not match /letter/p | /news/item/summary | //p
  nearest: /news/item/summary
  /news     /news[1], line 1
  /item     /news[1]/item[1], line 2
  /summary  nothing below /news[1]/item[1]; no element is called summary""",
    ),
    (
        NEWS,
        "//item[body and (@n = 3 or not(@lang))]",
        {},
        """\
does not match //item[body and (@n = 3 or not(@lang))]
  //item  /news[1]/item[1], line 2
          [body and (@n = 3 or not(@lang))] is false:
            body is false: there is none""",
    ),
    (
        NEWS,
        "/news[item[@n and not(@lang = 'en')]][contains(item/title, 'Two')]",
        {},
        """\
does not match /news[item[@n and not(@lang = 'en')]][contains(item/title, 'Two')]
  /news  /news[1], line 1
         [item[@n and not(@lang = 'en')]] is true: /news[1]/item[2]
         [contains(item/title, 'Two')] is false: /news[1]/item[1]/title[1], the first of 2, is "One\"""",
    ),
    (
        SPACED,
        "/q:a/q:b[@q:x]",
        {"namespaces": {"q": "urn:1"}},
        """\
does not match /q:a/q:b[@q:x]
  /q:a  /p:a[1], line 1
  /q:b  /p:a[1]/p:b[1], line 1
        [@q:x] is false: there is none; only the namespace differs: /p:a[1]/p:b[1]/@x, line 1, is in none, \
the query wants "urn:1\"""",
    ),
    (
        SPACED,
        "/a/b",
        {},
        """\
does not match /a/b
  /a  nothing; only the namespace differs: /p:a[1], line 1, is in "urn:1", the query wants none""",
    ),
    (
        SPACED,
        "/*[local-name()='a']/c:b",
        {"namespaces": {"c": "urn:3"}},
        """\
does not match /*[local-name()='a']/c:b
  /*    /p:a[1], line 1
        [local-name()='a'] is true: local-name() is "a"
  /c:b  nothing; only the namespace differs: /p:a[1]/p:b[1], line 1, is in "urn:1", \
the query wants "urn:3\"""",
    ),
    (
        b"<a><c/><b/></a>",
        "/a[b][c]",
        {"ordered": True},
        """\
does not match /a[b][c]
  /a  /a[1], line 1
      [b] is true: /a[1]/b[1]
      [c] is false: /a[1]/c[1], line 1, comes too early in this order""",
    ),
    (
        b"<a><c/><b/></a>",
        "/a[b]/c",
        {"ordered": True},
        """\
does not match /a[b]/c
  /a  /a[1], line 1
      [b] is true: /a[1]/b[1]
  /c  nothing in this order: /a[1]/c[1], line 1, starts too early""",
    ),
    (
        b"<a><c/><b/><c/></a>",
        "/a[b and @x]/c",
        {"ordered": True},
        """\
does not match /a[b and @x]/c
  /a  /a[1], line 1
      [b and @x] is false:
        @x is false: there is none; no attribute is called x""",
    ),
    (
        b"<a><b><c k='1'/></b><b/></a>",
        "/a[b[c[@k > 1]]/d or b[2][c]]",
        {},
        """\
does not match /a[b[c[@k > 1]]/d or b[2][c]]
  /a  /a[1], line 1
      [b[c[@k > 1]]/d or b[2][c]] is false:
        b[c[@k > 1]]/d is false: /a[1]/b[1] comes so far, but [c[@k > 1]] is false: /a[1]/b[1]/c[1] comes so far, but \
[@k > 1] is false: /a[1]/b[1]/c[1]/@k is "1"
        b[2][c] is false: /a[1]/b[1] comes so far, but [2] is false: it is number 1 of 2""",
    ),
]


@pytest.mark.parametrize(("document", "query", "options", "expected"), GOLDEN)
def test_golden(document: bytes, query: str, options: dict[str, Any], expected: str) -> None:
    assert str(explain(document, query, **options)) == expected


# --- reasons ---------------------------------------------------------------------------------------------------------

RECORDS = b"""<r><a n="5"><b>20x</b><date>2026-12-17</date></a><a n="7" Code="k"><b> 12 </b><c/></a><a/></r>"""
REASONS = [
    ("count(//a) > 1", "count(//a) is 3; //a selects /r[1]/a[1] and 2 more"),
    ("count(//d) > 1", "count(//d) is 0; there is no //d; no element is called d"),
    ("(//a)[1]", "it is number 1 of 3"),
    ("(//a | //b)[2]", "it is number 2 of 5"),
    ("//a[following-sibling::c]", "there is none"),
    ("//a[@n + 1 = 6]", '@n + 1 is 6; /r[1]/a[1]/@n is "5"'),
    ("//a[@n + 1 = 7]", '@n + 1 is 6; /r[1]/a[1]/@n is "5"'),
    ("//a[@z + 1 = 7]", "@z + 1 is NaN; there is no @z; no attribute is called z"),
    ('//b[normalize-space() = "12"]', 'normalize-space() is "12"; /r[1]/a[2]/b[1] is " 12 "'),
    ('//b[matches(., "^20")]', '/r[1]/a[1]/b[1] is "20x"'),
    ("//a[date > 5]", '/r[1]/a[1]/date[1] is "2026-12-17", which is no number in XPath 1.0'),
    (
        '//a[date < "2027-01-01"]',
        '/r[1]/a[1]/date[1] is "2026-12-17", which is no number in XPath 1.0; "2027-01-01" is no number in XPath 1.0',
    ),
    ("sum(//b) > 1", 'sum(//b) is NaN; /r[1]/a[1]/b[1], one of 2, is "20x", which is no number in XPath 1.0'),
    ("sum(//a/@n) = 12", 'sum(//a/@n) is 12; /r[1]/a[1]/@n is "5", /r[1]/a[2]/@n is "7"'),
    ("//r[a/b = 12]", '/r[1]/a[2]/b[1], one of 2, is " 12 "'),
    (
        "//r[a/@n = a/b]",
        '/r[1]/a[1]/@n is "5", /r[1]/a[2]/@n is "7"; /r[1]/a[1]/b[1] is "20x", /r[1]/a[2]/b[1] is " 12 "',
    ),
    ("//r[a/@n < a/b]", '/r[1]/a[1]/@n, one of 2, is "5"; /r[1]/a[2]/b[1], one of 2, is " 12 "'),
    ("//a[b = c = false()]", '/r[1]/a[1]/b[1] is "20x"; there is no c; b = c is false'),
    ("//a[position() mod 2 = 0]", "position() mod 2 is 0; it is number 2 of 3"),
    ("//a[last() - 1]", "last() - 1 is 2; it is number 2 of 3"),
    ("//a[not(c) and (b or @m)]", "not(c) is true (there is none), (b or @m) is true (b is true (/r[1]/a[1]/b[1]))"),
    ("//r[a | b]", "/r[1]/a[1] and 2 more"),
    ("//a[contains(concat(b, @n), '20')]", 'concat(b, @n) is "20x5"; /r[1]/a[1]/b[1] is "20x"; /r[1]/a[1]/@n is "5"'),
    ("//r[starts-with(a/b, '2')]", '/r[1]/a[1]/b[1], the first of 2, is "20x"'),
    ("//a[string-length(b)]", 'string-length(b) is 3; /r[1]/a[1]/b[1] is "20x"; it is number 1 of 3'),
    ("//a[lang('en')]", "there is no ancestor-or-self::*[@xml:lang][1]/@xml:lang"),
    ("//a[b[. = 'y']]", "/r[1]/a[1]/b[1] comes so far, but [. = 'y'] is false: /r[1]/a[1]/b[1] is \"20x\""),
    ("//b[../a = .]", 'there is no ../a; /r[1]/a[1]/b[1] is "20x"'),
    ("//a[true()]", "whatever the document holds"),
    ("'' = 1", '"" is no number in XPath 1.0'),
    ("1 div 0 = 0", "1 div 0 is Infinity"),
    ("1 div 3 = 0", "1 div 3 is 0.3333333333333333"),
    ("//a[@code]", "there is none; no attribute is called code; did you mean @Code?"),
    ("//a[dates]", "there is none; no element is called dates; did you mean date?"),
]


@pytest.mark.parametrize(("query", "reason"), REASONS)
def test_a_reason_names_each_value(query: str, reason: str) -> None:
    explanation = explain(RECORDS, query)
    (condition,) = explanation.steps[-1].conditions
    assert condition.holds is explanation.matched
    assert condition.reason == reason


def test_operands_are_data() -> None:
    explanation = explain(RECORDS, "//a[@n * 2 > date]")
    product, date, number = explanation.steps[0].conditions[0].operands
    assert (product.text, product.type, product.value) == ("@n * 2", "number", "10")
    assert (number.text, number.type, number.use, number.value, number.count) == ("@n", "items", "first", "5", 1)
    assert (date.text, date.use, date.not_numbers) == ("date", "any", ("2026-12-17",))
    assert [place.path for place in date.places] == ["/r[1]/a[1]/date[1]"]
    told = json.loads(json.dumps(explain(RECORDS, "number(//date) = 1").to_dict(), allow_nan=False))
    assert [operand["value"] for operand in told["steps"][0]["conditions"][0]["operands"]] == ["NaN", "2026-12-17"]


def test_long_values_of_operands_are_cut() -> None:
    (condition,) = explain(b"<a>" + b"x" * 500 + b"</a>", "/a[concat(., 'y') = 'z']").steps[0].conditions
    assert [operand.value for operand in condition.operands] == ["x" * 200 + "…"] * 2
    assert condition.reason == f'concat(., \'y\') is "{"x" * 60}…"; /a[1] is "{"x" * 60}…"'


@pytest.mark.parametrize(
    ("query", "stop"),
    [
        ("//b/../c/d", "/d  nothing below /r[1]/a[2]/c[1]; no element is called d"),
        ("//c/following-sibling::b", "/following-sibling::b  nothing from /r[1]/a[2]/c[1]"),
        ("(//a/c)[1]/b", "/b      nothing below /r[1]/a[2]/c[1]"),
        ("//record", "//record  nothing; no element is called record"),
        ("/r/bb", "/bb  nothing below /r[1]; no element is called bb; did you mean b?"),
        ("/R/a", "/R  nothing; no element is called R; did you mean r?"),
        ("//a/@code", "/@code  nothing below /r[1]/a[1]; no attribute is called code; did you mean @Code?"),
    ],
)
def test_near_misses_on_every_axis(query: str, stop: str) -> None:
    """And the most similar name, where the document has none that is written so."""
    assert " ".join(str(explain(RECORDS, query)).splitlines()[-1].split()) == " ".join(stop.split())


def test_paths_on_every_axis_are_shown_step_by_step() -> None:
    explanation = explain(RECORDS, "(//c/preceding-sibling::b)[1]/../following-sibling::a")
    assert [(step.text, step.place.path) for step in explanation.steps] == [
        ("//c", "/r[1]/a[2]/c[1]"),
        ("/preceding-sibling::b", "/r[1]/a[2]/b[1]"),
        ("(//c/preceding-sibling::b)", "/r[1]/a[2]/b[1]"),
        ("/..", "/r[1]/a[2]"),
        ("/following-sibling::a", "/r[1]/a[3]"),
    ]


@pytest.mark.parametrize(
    "query",
    [
        "//a[1]" * 256,
        "/a" + "/[b]" * 1300,
        "/a[" + " and ".join(["b != '1'"] * 1600) + "]",
        "/a[" + "(" * 60 + "b" + ")" * 60 + "]",
        "/a" + "[b" * 30 + "]" * 30,
    ],
)
def test_the_longest_queries_are_explained(query: str) -> None:
    """As written they have more entries than as patterns; no limit but that of patterns holds."""
    index = Index()
    index.add("q", query)
    explanation = index.explain(b"<a><b/></a>", "q")
    assert explanation.matched == bool(index.match(b"<a><b/></a>"))
    assert str(explanation)


# --- places ----------------------------------------------------------------------------------------------------------


def place(document: bytes, query: str, **options: Any) -> Place:
    explanation = explain(document, query, **options)
    assert explanation.matched
    return explanation.steps[-1].place


def test_byte_ranges_of_elements_attributes_and_texts() -> None:
    item = place(NEWS, "//item[2]")
    assert (item.path, item.line, item.column) == ("/news[1]/item[2]", 5, 3)
    assert NEWS[item.start : item.end].startswith(b'<item lang="de"')
    assert NEWS[item.start : item.end].endswith(b"</item>")
    number = place(NEWS, "//@n")
    assert (number.path, NEWS[number.start : number.end], number.value) == ("/news[1]/item[2]/@n", b"n='2'", "2")
    second = place(NEWS, "//body/text()[2]")
    assert (second.path, NEWS[second.start : second.end]) == ("/news[1]/item[2]/body[1]/text()[2]", b" &amp; more")
    assert second.value == " & more"


def test_namespace_declarations_are_passed_over() -> None:
    document = b"""<a xmlns:p = 'urn:1' x = "'>" xmlns='' p:y='"'/>"""
    found = place(document, "/a/@q:y", namespaces={"q": "urn:1"})
    assert (found.path, document[found.start : found.end], found.value) == ("/a[1]/@p:y", b"""p:y='"'""", '"')


def test_texts_between_all_kinds_of_markup() -> None:
    document = b"<a>\n1<!-- <b> -->2<![CDATA[<x>]]>3<?p > ?><b>no</b><![CDATA[]]>4<b/></a>"
    texts = [place(document, f"/a/text()[{number}]") for number in range(1, 4)]
    assert [document[text.start : text.end] for text in texts] == [b"\n1", b"2<![CDATA[<x>]]>3", b"<![CDATA[]]>4"]
    assert [text.value for text in texts] == ["\n1", "2<x>3", "4"]


def test_an_entity_that_stands_for_nothing_widens_the_range() -> None:
    document = b"<a>&none;<b/>x</a>"
    found = place(document, "/a/text()", entities={"none": ""})
    assert found.value == "x"
    assert b"x" in document[found.start : found.end]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "iso-8859-1", "windows-1252"])
def test_ranges_are_of_the_document_as_given(encoding: str) -> None:
    declared = "" if encoding.startswith("utf-") else f'<?xml version="1.0" encoding="{encoding}"?>'
    text = f'{declared}<é>\r\n <ü x="ö"/>\r ü<b/></é>'
    document = text.encode(encoding)
    if encoding == "utf-16-be":
        document = b"\xfe\xff" + document
    bare = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)
    attribute = place(document, "//@x")
    assert document[attribute.start : attribute.end].decode(bare) == 'x="ö"'
    assert (attribute.line, attribute.column) == (2, 5)
    element = place(document, "//b")
    assert document[element.start : element.end].decode(bare) == "<b/>"
    assert (element.line, element.column) == (3, 3)


def test_long_values_are_cut() -> None:
    document = b"<a>" + "é".encode() * 500 + b"</a>"
    assert place(document, "/a").value == "é" * 100 + "…"
    assert len(str(explain(document, "/a[. = 1]"))) < 200


def test_paths_count_siblings_of_the_same_name() -> None:
    document = b'<a xmlns:p="u"><b/><p:b/><c/><b/><p:b/></a>'
    assert place(document, "/a/b[2]").path == "/a[1]/b[2]"
    assert place(document, "/a/q:b[2]", namespaces={"q": "u"}).path == "/a[1]/p:b[2]"


# --- drawn -----------------------------------------------------------------------------------------------------------


def all_conditions(explanation: Explanation) -> list[Condition]:
    waiting = [condition for step in explanation.steps for condition in step.conditions]
    for condition in waiting:
        waiting.extend(condition.parts)
    return waiting


def test_explanations_agree_with_the_answer() -> None:
    """Whatever the query: the same answer as the evaluator, the first item selected, only true conditions on it."""
    random = Random("explain")
    tiny = Vocabulary.tiny(random)
    drawer = ConditionDrawer(random, Vocabulary(tiny.elements, (("", "x"), ("", "y"))))
    seen = {True: 0, False: 0}
    for _ in range(120):
        document = draw_valued_document(random)
        for query in [drawer.query().text for _ in range(10)]:
            explanation = explain(document, query)
            selected = _native.select(document, query.encode())
            assert explanation.matched == bool(selected), query
            seen[explanation.matched] += 1
            conditions = [condition.holds for step in explanation.steps for condition in step.conditions]
            failed = explanation.miss is not None and explanation.miss.kind == "condition"
            assert conditions == [True] * (len(conditions) - failed) + [False] * failed, query
            if explanation.matched:
                last = explanation.steps[-1].place
                assert (last.kind, last.path) == first_path(document, selected[0]), query
            for condition in all_conditions(explanation):
                assert condition.reason
            assert json.loads(json.dumps(explanation.to_dict()))["matched"] == explanation.matched
    assert min(seen.values()) > 100


def first_path(document: bytes, item: tuple[int, int]) -> tuple[str, str]:
    """The kind and path of an item, by treecast's columns and lxml's paths."""
    kind, index = item
    table = treecast.read(document)
    element = index if kind == 0 else table.attributes[index][0] if kind == 1 else table.texts[index][0]
    path = path_in(list(etree.fromstring(document, PARSER).iter(etree.Element))[element])
    if kind == 0:
        return "element", path
    if kind == 1:
        return "attribute", f"{path}/@{table.attributes[index][1][1]}"
    number = 1 + sum(1 for parent, _ in table.texts[:index] if parent == element)
    return "text", f"{path}/text()[{number}]"


def path_in(element: Any) -> str:
    before = [other for other in element.itersiblings(preceding=True) if other.tag == element.tag]
    above = element.getparent()
    return f"{path_in(above) if above is not None else ''}/{element.tag}[{len(before) + 1}]"


def test_near_misses_against_lxml() -> None:
    """The longest prefix that some element reaches, the first such element, the first false predicate: from lxml."""
    random = Random("near miss")
    tiny = Vocabulary.tiny(random)
    drawer = ConditionDrawer(random, Vocabulary(tiny.elements, (("", "x"), ("", "y"))), positions=False)
    misses = {"condition": 0, "step": 0}
    for _ in range(1500):
        document = draw_valued_document(random, elements_max=15)
        tree = etree.ElementTree(etree.fromstring(document, PARSER))
        steps = []
        for _ in range(random.randint(1, 4)):
            test = random.choice(("/", "//")) + random.choice(("a", "b", "c", "*"))
            conditions = [drawer.condition(2, "element")[0] for _ in range(random.choice((0, 0, 1, 2)))]
            steps.append((test, conditions))
        whole = [test + "".join(f"[{condition}]" for condition in conditions) for test, conditions in steps]
        explanation = explain(document, "".join(whole))
        if tree.xpath("".join(whole)):
            assert explanation.matched
            continue
        reached = [n for n in range(1, len(steps) + 1) if tree.xpath("".join(whole[: n - 1]) + steps[n - 1][0])]
        assert explanation.miss is not None
        misses[explanation.miss.kind] += 1
        assert len(explanation.steps) == max(reached, default=0), whole
        if not reached:
            assert explanation.miss.text == steps[0][0]
            continue
        depth = max(reached)
        full = bool(tree.xpath("".join(whole[:depth])))
        first = tree.xpath("".join(whole[:depth]) if full else "".join(whole[: depth - 1]) + steps[depth - 1][0])[0]
        assert explanation.steps[-1].place.path == path_in(first), whole
        if full:
            assert (explanation.miss.kind, explanation.miss.text) == ("step", steps[depth][0])
            continue
        false = [c for c in steps[depth - 1][1] if not first.xpath(f"boolean(self::*[{c}])")]
        assert explanation.failed is not None
        assert explanation.failed.text == f"[{false[0]}]", whole
    assert min(misses.values()) > 100


def test_ordered_patterns_against_brute_force() -> None:
    random = Random("ordered explanations")
    seen = {True: 0, False: 0, "early": 0}
    for _ in range(100):
        document = draw_small_document(random)
        oracle = Oracle(document)
        for pattern in [draw_pattern(random) for _ in range(10)]:
            query = pattern.written(branch=False)
            explanation = explain(document, query, ordered=True)
            matched = bool(oracle.selected(pattern))
            assert (explanation.matched, explanation.miss is None) == (matched, matched), query
            seen[matched] += 1
            seen["early"] += "too early" in str(explanation)
            if matched:
                last = explanation.steps[-1].place
                selected = _native.select(document, query.encode(), (), True)
                assert (last.kind, last.path) == first_path(document, selected[0]), query
                assert all(condition.holds for step in explanation.steps for condition in step.conditions)
    assert min(seen.values()) > 10


# --- of an index -----------------------------------------------------------------------------------------------------


def test_index_explains_its_subscriptions() -> None:
    index = Index(namespaces={"x": "urn:1"}, entities={"e": "!"})
    index.add("q1", "/x:a/y:b", namespaces={"y": "urn:2"})
    index.add("q2", "/a[b][c]", ordered=True)
    explanation = index.explain(SPACED, "q1")
    assert explanation.matched
    assert [step.place.path for step in explanation.steps] == ["/p:a[1]", "/p:a[1]/b[1]"]
    assert index.explain(bytearray(b"<a>&e;<b/><c/></a>"), "q2").matched
    assert not index.explain(memoryview(b"<a>&e;<c/><b/></a>"), "q2").matched
    with pytest.raises(KeyError):
        index.explain(NEWS, "q3")
    with pytest.raises(treecast.DocumentError):
        index.explain(b"<a>", "q1")
    with pytest.raises(TypeError):
        index.explain(None, "q1")  # type: ignore[arg-type]


def test_limits_of_the_index_hold() -> None:
    index = Index(limits=treecast.Limits(depth_max=2))
    index.add("q1", "//a")
    with pytest.raises(treecast.LimitError):
        index.explain(b"<a><a><a/></a></a>", "q1")


@pytest.mark.parametrize(("query", "options", "code"), [("a", {}, "TC104"), ("/a[2]", {"ordered": True}, "TC112")])
def test_queries_are_refused_as_when_added(query: str, options: dict[str, Any], code: str) -> None:
    with pytest.raises(treecast.QueryError, match=code):
        explain(NEWS, query, **options)


def test_the_guide_shows_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from treecast.cli import main

    guide = (Path(__file__).parent.parent / "docs" / "guide" / "explain.md").read_text()
    document = re.search(r"```xml\n(.*?)```", guide, re.DOTALL)
    assert document
    (tmp_path / "news.xml").write_text(document[1])
    shown = re.findall(r"\$ treecast explain -q '([^']*)' news.xml\n(.*?)```", guide, re.DOTALL)
    assert len(shown) == 3
    for query, printed in shown:
        assert main(["explain", "-q", query, str(tmp_path / "news.xml")]) == 0
        assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == printed
    examples = re.findall(r"`(\[.*?\])` is (true|false): (.*) \|\n", guide)
    assert len(examples) == 7
    item = b'<item n="6"><tag>a</tag><tag>b</tag><date>2026-12-17</date></item>'
    for condition, truth, reason in examples:
        (said,) = explain(item, f"/item{condition}").steps[0].conditions
        assert said.sentence == f"{condition} is {truth}: {reason}"
