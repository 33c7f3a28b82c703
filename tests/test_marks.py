"""Comments, processing instructions, children of any kind: the shared machines decide them as lxml does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from generators.marks import MarkDrawer
from lxml import etree
from oracles.differential import AFTERWARDS, WAYS, Setting, compare
from support.counted_work import COUNT, ITEMS, count_work
from support.sanitized import fewer

from treecast import Index
from treecast.index.explain import explain

DECIDED: dict[str, tuple[Callable[[int], str], int]] = {
    "a comment": (lambda place: f'//item[comment() = "c{place}"]', ITEMS),
    "a comment of a path": (lambda place: f'//item/comment()[. = "c{place}"]', ITEMS),
    "a comment below": (lambda place: f'//list[.//comment() = "c{place}"]', ITEMS),
    "a target": (lambda place: f'//item[processing-instruction("p{place}")]', ITEMS),
    "a target with a value": (lambda place: f'//item[processing-instruction("p{place}") = "v"]', ITEMS),
    "an instruction": (lambda place: f'//processing-instruction("p{place}")', ITEMS),
    "an instruction with any target": (lambda place: f'//item[@code = "C{place}"][processing-instruction()]', ITEMS),
    "what has a comment": (lambda place: f'//comment()[. = "c{place}"]/parent::item', ITEMS),
    "node()": (lambda place: f'//item[@code = "C{place}"]/node()', ITEMS),
    "no node()": (lambda place: f'//item[@code = "C{place}"][not(node())]', 0),
    "two attributes": (lambda place: f'//item[concat(@code, "-", @lang) = "C{place}-en"]', ITEMS),
}


def item(place: int) -> str:
    return f'<item code="C{place}" lang="en"><!--c{place}--><?p{place} v?></item>'


@pytest.mark.parametrize("name", DECIDED)
def test_they_are_not_rechecked(name: str) -> None:
    query, wanted = DECIDED[name]
    work, matches = count_work(query, item)
    assert (matches, work <= 2 * COUNT) == (wanted, True), work


def test_contains_is_rechecked_where_a_comment_has_the_text() -> None:
    work, matches = count_work(lambda place: f'//item[contains(comment(), "c{place}x")]', item)
    assert (matches, work <= 2 * COUNT) == (0, True)


@pytest.mark.parametrize("seed", range(4))
def test_drawn(seed: int) -> None:
    drawer = MarkDrawer(Random(f"marks/{seed}"))
    queries, documents = drawer.queries(fewer(400)), [drawer.document() for _ in range(10)]
    assert compare(queries, documents, [Setting("bulk", seed=seed)]) == len(queries) * len(documents)


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way_in(way: str) -> None:
    drawer = MarkDrawer(Random("marks/ways"))
    queries, documents = drawer.queries(fewer(80)), [drawer.document() for _ in range(4)]
    settings = [Setting(way, cache="none", simd=0, seed=7, afterwards=afterwards) for afterwards in AFTERWARDS]
    assert compare(queries, documents, settings) == len(queries) * len(documents)


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("/comment()", "<!--x--><a/>"),
        ("/comment()", "<a><!--x--></a>"),
        ('/processing-instruction("xml-stylesheet")', '<?xml version="1.0"?><?xml-stylesheet href="x"?><a/>'),
        ('//a[comment() = "x\ny"]', "<a><!--x\r\ny--></a>"),
        ('//a[processing-instruction("p") = "x\n"]', "<a><?p  x\r?></a>"),
        ("//a/node()", "<a/>"),
        ("//a/node()", "<a><?p?></a>"),
        ("//a/node()", "<a x='1'><!----></a>"),
        ("//a[not(node())]", "<a><b/><a/></a>"),
        ('//processing-instruction("b")/preceding-sibling::b', "<a><b/><?b?></a>"),
        ('//processing-instruction("b")/preceding-sibling::b', "<a><?b?><b/><?b?></a>"),
        ("//a[comment() > 1]", "<a><!--1--><!--2--></a>"),
        ("//a[contains(comment(), 'x')]", "<a><!--y--><!--x--></a>"),
        ("//comment()[not(node())]", "<a><!--x--></a>"),
        ("//a[concat(@x, '-', @y) = '-1']", "<a y='1'/>"),
        ("//a[concat(@x, '-', @y) = '1-2-3']", "<a x='1-2' y='3'/>"),
    ],
)
def test_edges(query: str, document: str) -> None:
    """One by one, in a machine of many, and explained."""
    tree = etree.fromstring(document.encode()).getroottree()
    wanted = bool(tree.xpath(f"boolean({query})"))
    alone, many = Index(), Index()
    alone.add("q", query)
    many.add_many([("q", query), *((str(place), f'//a[comment() = "c{place}"]') for place in range(100))])
    assert [index.match(document.encode()) == ["q"] for index in (alone, many)] == [wanted, wanted]
    assert explain(document.encode(), query).matched == wanted


def test_a_document_type_has_no_comments_of_the_document() -> None:
    """XPath 1.0, section 5; libxml2 takes them for its own."""
    index = Index()
    index.add_many([("c", "//comment()"), ("p", "//processing-instruction()"), ("n", "//a[comment()]")])
    assert index.match(b"<!DOCTYPE a [<!--x--><?p 1?>]><a/>") == []


@pytest.mark.parametrize("shared", ["/*", "//b", "/b | //a", "//a/@x"])
@pytest.mark.parametrize("order", [1, -1])
def test_what_queries_share_is_found_again_where_one_asks_for_comments(shared: str, order: int) -> None:
    """With comments and instructions everything behind them has another number."""
    forms = ("({}) <= (//./..)", "0 = sum({})", "({}) = (//node())", "count({}) > 1")
    texts = [form.format(shared) for form in forms[::order]]
    document = b'<!-- 1 --><?p 2?><b>x<!--3--><a x="4">5</a><b>6</b><a x="7"/></b>'
    index = Index()
    index.add_many([(text, text) for text in texts])
    tree = etree.fromstring(document).getroottree()
    assert index.match(document) == [text for text in texts if tree.xpath(f"boolean({text})")]
