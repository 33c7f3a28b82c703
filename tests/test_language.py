"""Expressions of XPath 1.0 that patterns cannot say, against lxml: tests/expressions.txt on a few documents."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from lxml import etree

import treecast

BOUND = {"p": "urn:p"}
EXPRESSIONS = (Path(__file__).parent / "expressions.txt").read_text().splitlines()
DOCUMENTS = [
    '<order id="o1" total="30"><line amount="10" code="A"><name> Big  apple </name></line><line amount="20" code="B">'
    "<name>Pear</name><note>n1<!--c1-->n2</note></line><?pi data x?><empty/></order>",
    '<?xml version="1.0"?><!-- top --><?style a?><r xmlns:p="urn:p" xml:lang="en-GB"><a x="1"><b>1</b><b>2</b>'
    '<c p:y="3">text<![CDATA[ cd ]]>more</c></a><a x="2"><b>5</b></a><p:q xml:lang="de"><b>7.5</b></p:q>tail</r>'
    "<!-- end -->",
    "<a><a><a><b>x</b></a><c/></a><b>y</b><b> z </b></a>",
    "<x/>",
    "<r><i k='3'/><i k='1'/><i k='2'/><j>3</j><j>NaN</j><j>-0</j><j>1e3</j></r>",
]


def holds(tree: etree._ElementTree, text: str) -> bool:
    """What lxml says of an expression, as a truth value."""
    value = tree.xpath(text, namespaces=BOUND)
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_expressions_are_what_lxml_says(document: str) -> None:
    index = treecast.Index(namespaces=BOUND)
    for text in EXPRESSIONS:
        index.add(text, text)
    tree = etree.ElementTree(etree.fromstring(document.encode()))
    expected = {text for text in EXPRESSIONS if holds(tree, text)}
    assert set(index.match(document.encode())) == expected
    with_comments = document.replace("</r>", "<!-- c --></r>").encode()
    commented = etree.ElementTree(etree.fromstring(with_comments))
    assert set(index.match(with_comments)) == {text for text in EXPRESSIONS if holds(commented, text)}


def test_canonical_texts_read_back() -> None:
    for text in EXPRESSIONS:
        query = treecast.Query(text, BOUND)
        again = treecast.Query(str(query), BOUND)
        assert again == query
        assert again.tree == query.tree
        assert str(again) == str(query)


def test_where_libxml2_differs_from_the_recommendation() -> None:
    """Section 4.4: the nearest integer; section 2.1: `/` selects the root."""
    index = treecast.Index()
    index.add("round", "round(0.49999999999999994) = 0")
    index.add("document", "/")
    index.add("digits", "string(0.1 + 0.2) = '0.30000000000000004'")
    index.add("following an attribute", "/a/@x/following::b")
    assert len(index.match(b"<a x='1'><b/></a>")) == 4


def test_an_expression_requires_what_the_machines_decide() -> None:
    """Nobody evaluates an expression whose requirement does not hold."""
    index = treecast.Index()
    for number in range(200):
        index.add(f"up {number}", f"//item[../@code = 'C{number}']")
        index.add(f"beside {number}", f"//item[preceding-sibling::item/@code = 'C{number}']")
        index.add(f"sum {number}", f"sum(//x{number}/@n) > 3 and count(//x{number}) > 1")
    assert index.match(b"<feed code='C7'><item code='C8'/><item/></feed>") == ["up 7", "beside 8"]


def test_covering_is_sound() -> None:
    same = treecast.Query("//a[count(b) > 2]")
    assert same.covers(treecast.Query("//a[count(b) > 2][c]"))
    assert treecast.Query("//a").covers(same)
    assert treecast.Query("//a//b").covers(treecast.Query("//a[b/../@x = 1]"))
    assert not same.covers(treecast.Query("//a[b]"))
    assert not same.covers(treecast.Query("//a[count(b) > 3]"))


def test_a_condition_delivers_no_elements() -> None:
    index = treecast.Index()
    for text in ("count(//a) > 1", "//comment()", "//a | //b/../node()"):
        with pytest.raises(treecast.QueryError) as caught:
            index.add("x", text, deliver="elements")
        assert caught.value.code == "TC118"
    index.add("x", "//b/..", deliver="elements")
    (delivery,) = index.render(b"<r><a><b/></a><a/><a><b/><b/></a></r>")
    assert delivery.payload == b"<a><b/></a><a><b/><b/></a>"


def test_too_much_work_is_undecided_and_holds_nobody_up() -> None:
    index = treecast.Index(limits=treecast.Limits(work_per_item_max=1))
    index.add("slow", "//i[count(preceding::i[count(preceding::i) > 1]) > 100000]")
    index.add("quick", "//i[2]")
    index.add("name", "name(/*) = 'r'")
    with pytest.warns(treecast.UndecidedWarning, match="TC340 the subscription 'slow' is undecided"):
        assert index.match(b"<r>" + b"<i/>" * 2_000 + b"</r>") == ["quick", "name"]
    assert index.match(b"<r><i/><i/></r>") == ["quick", "name"]


def test_a_count_is_a_place() -> None:
    """Small counts of children are patterns, which the machines decide."""
    for text, pattern in {
        "/a[count(b) > 0]": "/a[b]",
        "/a[count(b/c) = 0]": "/a[not(b/c)]",
        "/a[2 <= count(b)]": "/a[b[2]]",
        "/a[count(b) < 2]": "/a[not(b[2])]",
        "/a[count(b) = 2]": "/a[b[2] and not(b[3])]",
        "/a[@x and count(b) != 2]": "/a[@x and (not(b[2]) or b[3])]",
        "count(//b) >= 1": "//b != '' or //b = ''",
    }.items():
        found, meant = treecast.Query(text), treecast.Query(pattern)
        if text.startswith("/"):
            assert found == meant
        assert "count" not in str(found)
    index = treecast.Index()
    for count in range(6):
        for relation in ("=", "!=", "<", "<=", ">", ">="):
            index.add(f"{relation} {count}", f"/a[count(b) {relation} {count}]")
    for number in range(6):
        tree = etree.fromstring("<a>" + "<b/><c/>" * number + "</a>")
        expected = [id for id in index if tree.xpath(f"count(/a/b) {id}")]
        assert index.match(etree.tostring(tree)) == expected
