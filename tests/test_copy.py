"""Parts of a document copied into an output: slices of the source with the namespaces that they need."""

from __future__ import annotations

import pytest
from lxml import etree

from treecast import _native

ATOM = b'<a xmlns="urn:a" xmlns:x="urn:x"><b x:k="1"><c xmlns=""><d/></c></b><e xmlns:y="urn:y"><f/></e></a>'


def copy(data: bytes, element: int, *in_force: tuple[str, str], entities: dict[str, str] | None = None) -> bytes:
    given = None if entities is None else _native.Entities(entities)
    return _native.testing.copy_element(data, element, list(in_force), given)


@pytest.mark.parametrize(
    ("element", "in_force", "expected"),
    [
        (0, [], ATOM),
        (1, [], b'<b xmlns="urn:a" xmlns:x="urn:x" x:k="1"><c xmlns=""><d/></c></b>'),
        (1, [("x", "urn:x")], b'<b xmlns="urn:a" x:k="1"><c xmlns=""><d/></c></b>'),
        (1, [("", "urn:a"), ("x", "urn:other")], b'<b xmlns:x="urn:x" x:k="1"><c xmlns=""><d/></c></b>'),
        # the default namespace was taken back: nothing to say unless the output has one
        (2, [], b'<c xmlns:x="urn:x" xmlns=""><d/></c>'),
        (3, [], b'<d xmlns:x="urn:x"/>'),
        (3, [("", "urn:o")], b'<d xmlns:x="urn:x" xmlns=""/>'),
        (3, [("", "urn:o"), ("", ""), ("x", "urn:x")], b"<d/>"),
        # declarations of the element itself are not said twice
        (4, [], b'<e xmlns="urn:a" xmlns:x="urn:x" xmlns:y="urn:y"><f/></e>'),
        (5, [], b'<f xmlns="urn:a" xmlns:x="urn:x" xmlns:y="urn:y"/>'),
        (5, [("", "urn:a"), ("x", "urn:x"), ("y", "urn:y")], b"<f/>"),
    ],
)
def test_declarations_that_a_copy_needs(element: int, in_force: list[tuple[str, str]], expected: bytes) -> None:
    assert copy(ATOM, element, *in_force) == expected


def test_scopes_end_with_their_element() -> None:
    data = b'<r><p xmlns:a="1"><q xmlns:b="2"/><s/></p><t/><p xmlns:a="3" xmlns:xml="http://www.w3.org/XML/1998/namespace"/><u/></r>'
    copies = [copy(data, element) for element in range(1, 7)]
    assert copies[1:4] == [b'<q xmlns:a="1" xmlns:b="2"/>', b'<s xmlns:a="1"/>', b"<t/>"]
    assert copies[0] == b'<p xmlns:a="1"><q xmlns:b="2"/><s/></p>'
    assert copies[5] == b"<u/>"


def test_inner_declarations_hide_outer_ones() -> None:
    data = b'<r xmlns:p="1"><s xmlns:p="2"><t xmlns:p="3"><p:u/></t><p:v/></s><p:w/></r>'
    assert copy(data, 3) == b'<p:u xmlns:p="3"/>'
    assert copy(data, 4) == b'<p:v xmlns:p="2"/>'
    assert copy(data, 5) == b'<p:w xmlns:p="1"/>'


def test_uris_are_escaped() -> None:
    data = b"<r xmlns:p='a\"&amp;&lt;b'><s/></r>"
    assert copy(data, 1) == b'<s xmlns:p="a&quot;&amp;&lt;b"/>'


def test_names_that_end_in_odd_ways() -> None:
    data = b"<r xmlns:p='1'><a\n/><b\t></b\n><c/></r>"
    copies = [copy(data, element) for element in (1, 2, 3)]
    assert copies == [
        b'<a xmlns:p="1"\n/>',
        b'<b xmlns:p="1"\t></b\n>',
        b'<c xmlns:p="1"/>',
    ]


def test_given_entities_become_their_text() -> None:
    data = b"<r><a x='&q;&lt;&#65;' y=\"&q;\">&t;|&amp;&#13;<![CDATA[&t;]]><!--&t;--></a>&t;</r>"
    entities = {"q": "'\"\n<", "t": "a<b>\r\n&'\""}
    copied = copy(data, 1, entities=entities)
    assert copied == (
        b"<a x='&apos;&quot; &lt;&lt;&#65;' y=\"&apos;&quot; &lt;\">"
        b"a&lt;b&gt;&#13;\n&amp;'\"|&amp;&#13;<![CDATA[&t;]]><!--&t;--></a>"
    )
    element = etree.fromstring(copied)
    assert element.get("x") == "'\" <<A"
    assert element.text == "a<b>\r\n&'\"|&\r&t;"
    assert copy(data, 0, entities=entities).endswith(b"</a>a&lt;b&gt;&#13;\n&amp;'\"</r>")


def test_other_encodings_become_utf8() -> None:
    data = '<?xml version="1.0" encoding="UTF-16"?><ré xmlns:p="ü"><a>ö</a></ré>'.encode("utf-16")
    assert copy(data, 1) == '<a xmlns:p="ü">ö</a>'.encode()


def test_the_document_itself() -> None:
    data = (
        b'\xef\xbb\xbf<?xml version="1.0"?><!--1--><!DOCTYPE r SYSTEM "a>b" [<!-- \' > --> <?p ">?> ]>\n<?q x?>'
        b'<r xmlns="urn:r"><a/></r>\n<!--2--><?xml-stylesheet y?>\n'
    )
    assert copy(data, -1) == b'<!--1--><?q x?><r xmlns="urn:r"><a/></r><!--2--><?xml-stylesheet y?>'
    assert copy(b"<r/>", -1, ("", "urn:o")) == b'<r xmlns=""/>'


def test_many_bindings_in_scope() -> None:
    depth, width = 300, 250
    tags = ["<e" + "".join(f' xmlns:p{level}_{i}="{level}"' for i in range(width)) + ">" for level in range(depth)]
    data = ("".join(tags) + "<f/>" + "</e>" * depth).encode()
    first = copy(data, depth)
    assert first.count(b" xmlns:") == depth * width
    assert first.startswith(b'<f xmlns:p0_0="0"')
