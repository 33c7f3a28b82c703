"""Clauses, conditions on values, and the limit on the items that building a payload may visit."""

from __future__ import annotations

import pytest
from lxml import etree

import treecast
from treecast.model import DeliveryLimits

MANY = b"<r>" + b"<a>t</a>" * 2000 + b"</r>"
FEW = b"<r>" + b"<a>t</a>" * 20 + b"</r>"
NEWS = (
    b'<news><item id="1" lang="en"><title>First &amp; last</title><p><b>b</b></p></item>'
    b'<item id="2"><title>Second</title><p/></item><item id="3" lang="de"><title/></item></news>'
)


def deliver(text: str, data: bytes) -> treecast.Delivery:
    index = treecast.Index(delivery_limits=DeliveryLimits(bindings_max=2500))
    index.add("q", text)
    (delivery,) = index.render(data)
    return delivery


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for $i in $msg//item where $i/@lang where $i/p for $p in $i/p return <t>{$p/b}</t>", b"<t><b>b</b></t>"),
        # counts and what variables hold, in conditions
        ("for $i in $msg//item where count($i/p) = 1 return <t>{$i/@id}</t>", b'<t id="1"/><t id="2"/>'),
        ("for $i in $msg/news where count($i//item) > 2 return count($i//item)", b"3"),
        ("for $i in $msg/news return if (count($i/item) < 3) then 'few' else 'many'", b"many"),
        (
            "let $l := 'Second' for $i in $msg//item[title = $l] let $n := 2 where $i/@id >= $n return $l",
            b"Second",
        ),
        (
            "for $i in $msg//item let $n := count($i/p), $t := string($i/title) order by $n, $t descending "
            "return <t>{$t}</t>",
            b"<t/><t>Second</t><t>First &amp; last</t>",
        ),
        # comments
        ("(: it's :) for $i in (: \" :) $msg//item[1] return <t>(: {'c'} :)</t>", b"<t>(: c :)</t>"),
        # line ends are one character, as in XML
        (
            "for $i in $msg/news return ('a\r\nb', <t u='c\r\nd\re'><![CDATA[f\r\ng\rh]]>\r\ni</t>)",
            b'a\nb<t u="c d e">f\ng\nh\ni</t>',
        ),
    ],
)
def test_clauses(text: str, expected: bytes) -> None:
    assert deliver(text, NEWS) == treecast.Delivery("q", expected)


@pytest.mark.parametrize(
    "text",
    [
        "for $r in $msg/r, $a in $r/a return <o n='{count($r/a | $r/@k)}'/>",
        "for $r in $msg/r, $a in $r/a return if ($r/b/c = 'x' or $r/a = 'x') then 1 else 2",
        "for $r in $msg/r, $a in $r/a return string($r/a[b][last()])",
        "for $r in $msg/r, $a in $r/a order by count($r/a[b] | $a/b) return <o/>",
        "for $r in $msg/r, $a in $r/a return $r/text()",
    ],
)
def test_visited_items_are_limited(text: str) -> None:
    refused = deliver(text, MANY).refused
    assert isinstance(refused, treecast.LimitError)
    assert isinstance(refused, treecast.DocumentError)
    assert refused.code == "TC332"
    assert "bindings_max" in str(refused)
    assert deliver(text, FEW).refused is None


def test_a_text_is_not_searched_for_each_binding() -> None:
    delivery = deliver("for $r in $msg/r, $a in $r/a where not(contains($r, 'none')) return <o/>", MANY)
    assert delivery.refused is None
    assert delivery.payload == b"<o/>" * 2000


def test_a_count_that_is_always_the_same_is_taken_once() -> None:
    delivery = deliver("for $a in $msg//a return <o n='{count($msg//a[text()])}'/>", MANY)
    assert delivery.refused is None
    assert delivery.payload == b'<o n="2000"/>' * 2000


PREFIXES = b'<a xmlns:p="urn:1"><b p:x="1"/><b xmlns:p="urn:3" p:y="2"/></a>'


@pytest.mark.parametrize(
    "inner",
    ["<out>{$x/b/@*}</out>", "<p:out>{$x/b[2]/@*}</p:out>", "<out p:z='0'>{$x/b[2]/@*}</out>"],
    ids=["an attribute before", "its own name", "its own attribute"],
)
def test_a_prefix_that_a_tag_uses_is_not_bound_again_in_it(inner: str) -> None:
    """Though it was bound further out, and attributes may bind it to something else inside."""
    index = treecast.Index(namespaces={"p": "urn:1"})
    index.add("q", f"<p:row>{{for $x in $msg/a return {inner}}}</p:row>")
    (delivery,) = index.render(PREFIXES)
    (out,) = etree.fromstring(delivery.payload)
    assert out.get("{urn:3}y") == "2"
    assert out.get("{urn:1}x", out.get("{urn:1}z", out.tag)) in ("1", "0", "{urn:1}out")
