"""Schemas: which element may contain which, how deep they are, which are recursive, which cannot be finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from treecast.workload import Schema, generate_documents
from treecast.workload.schema import ENDLESS, UNFIT

pytestmark = pytest.mark.house


def test_root_may_be_given_or_is_found() -> None:
    text = "<!ELEMENT b EMPTY> <!ELEMENT a (b?, a?)>"
    assert Schema.from_text(text).root == "a"
    assert Schema.from_text(text, root="b").root == "b"
    assert Schema.from_text("<!ELEMENT a (b)*> <!ELEMENT b (a)*>").root == "a"
    several = "<!ELEMENT x EMPTY> <!ELEMENT small (x)> <!ELEMENT large (x, y)> <!ELEMENT y EMPTY> <!ELEMENT lone ANY>"
    assert Schema.from_text(several).root == "large"
    assert Schema.from_text(several, name="SMALL").root == "small"


def test_heights_are_the_fewest_levels_below() -> None:
    schema = Schema.from_text(
        """<!ELEMENT a ((b, c) | d)> <!ELEMENT b (c)> <!ELEMENT c (e+)> <!ELEMENT d (a | f)> <!ELEMENT e (#PCDATA)>
        <!ELEMENT f (b?, c*)> <!ELEMENT g (g)>"""
    )
    assert schema.heights == {"a": 2, "b": 2, "c": 1, "d": 1, "e": 0, "f": 0, "g": ENDLESS}


def test_children_leave_out_what_no_finite_document_has() -> None:
    schema = Schema.from_text(
        """<!ELEMENT a (b | (c, endless) | (d, endless?))> <!ELEMENT b ANY> <!ELEMENT c EMPTY> <!ELEMENT d EMPTY>
        <!ELEMENT endless (endless)> <!ELEMENT mixed (#PCDATA | endless | c)*>"""
    )
    assert schema.children("a") == ("b", "d")
    assert schema.children("b") == ("a", "b", "c", "d", "mixed")
    assert schema.children("mixed") == ("c",)
    assert schema.reachable == {"a", "b", "c", "d", "mixed"}


def test_recursion_and_depth() -> None:
    schema = Schema.from_text(
        "<!ELEMENT a (b?, c)> <!ELEMENT b (d | e)> <!ELEMENT c EMPTY> <!ELEMENT d (b*)> <!ELEMENT e (e?)>"
    )
    assert schema.recursive == {"b", "d", "e"}
    assert schema.depth is None
    flat = Schema.from_text("<!ELEMENT a (b?, c)> <!ELEMENT b (c, d*)> <!ELEMENT c (#PCDATA)> <!ELEMENT d (c)*>")
    assert (flat.recursive, flat.depth) == (frozenset(), 4)
    chain = "".join(f"<!ELEMENT e{n} (e{n + 1})>" for n in range(3000)) + "<!ELEMENT e3000 EMPTY>"
    assert Schema.from_text(chain).depth == 3001


def test_required_are_the_elements_in_every_one() -> None:
    schema = Schema.from_text(
        """<!ELEMENT a (b, c?, (d | (e, d)), f+)> <!ELEMENT b (g | h)> <!ELEMENT c EMPTY> <!ELEMENT d (i)>
        <!ELEMENT e EMPTY> <!ELEMENT f (a | j)> <!ELEMENT g (k)> <!ELEMENT h (k?, l)> <!ELEMENT i (#PCDATA | a)*>
        <!ELEMENT j EMPTY>"""
    )
    assert schema.required["a"] == {"b", "d", "f", "i", "j"}  # f ends in j, sooner or later
    assert schema.required["f"] == {"j"}
    assert schema.required["i"] == frozenset()
    assert schema.required["g"] == {"k"}


def test_invalid_content_is_unfit() -> None:
    schema = Schema.from_text(
        """<!ELEMENT a (b | undeclared | c | d)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY> <!ATTLIST c r IDREF #REQUIRED>
        <!ELEMENT d EMPTY> <!ATTLIST d e ENTITY #REQUIRED>"""
    )
    assert [schema.heights[name] for name in ("undeclared", "c", "d")] == [UNFIT] * 3
    assert schema.children("a") == ("b",)
    assert not schema.elements["undeclared"].declared


def test_undeclared_elements_are_empty() -> None:
    schema = Schema.from_text("<!ELEMENT a (b, c)>")
    assert schema.elements["b"].content == "empty"
    assert next(generate_documents(schema, 1)).endswith(b"<a>\n<b/>\n<c/>\n</a>\n")


def test_namespaces_are_what_the_dtd_binds() -> None:
    schema = Schema.from_text(
        """<!ELEMENT p:a (b, q:c)> <!ATTLIST p:a xmlns:p CDATA #FIXED "urn:p"> <!ELEMENT b EMPTY>
        <!ATTLIST b r:x CDATA #IMPLIED xml:lang CDATA #IMPLIED xmlns CDATA "urn:d"> <!ELEMENT q:c EMPTY>"""
    )
    assert schema.namespaces == {"p": "urn:p", "q": "urn:treecast:q", "r": "urn:treecast:r"}


def test_the_shipped_schemas() -> None:
    news, records = Schema.news(), Schema.records()
    assert news.root == "news"
    assert news.depth is None
    assert records.root == "trades"
    assert records.depth == 6
    for schema in (news, records):
        assert schema.reachable == set(schema.elements)
        assert schema.missing == ()


def test_news_is_as_recursive_as_nitf(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    """Of NITF 2.5's 123 elements 26 are recursive, and each of these has 5.1 recursive children on average."""
    share, branching = 26 / 123, 5.1
    if data_directory is None:
        leave_out("how recursive the NITF DTD itself is")
    else:
        share, branching = recursion(Schema.from_dtd(data_directory / "dtd/nitf-2.5/nitf-2-5.dtd"))
    ours = recursion(Schema.news())
    assert ours[0] >= share
    assert ours[1] == pytest.approx(branching, rel=0.4)


def recursion(schema: Schema) -> tuple[float, float]:
    """The share of recursive elements, and how many recursive children each of them has."""
    edges = [child for name in schema.recursive for child in schema.children(name) if child in schema.recursive]
    return len(schema.recursive) / len(schema.elements), len(edges) / len(schema.recursive)


def test_equal_schemas_are_equal() -> None:
    assert Schema.news() == Schema.news()
    assert Schema.news() != Schema.records()
