"""treecast.workload: DTDs read, documents valid and of the size asked for, queries distinct, all of it repeatable."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from treecast import DocumentError, LimitError, QueryError
from treecast.workload import (
    Attribute,
    DocumentSettings,
    Group,
    Name,
    QuerySettings,
    Schema,
    generate_documents,
    generate_queries,
)

NEWS_DTD = resources.files("treecast.workload").joinpath("news.dtd").read_text("utf-8")
DATA = os.environ.get("TREECAST_DATA")

# Constructions of the well-known DTDs, written anew: nested parameter entities, groups in groups, optional parts of a
# choice, ID and IDREF, fixed values, every kind of declaration that is passed over.
SHOP_DTD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a shop; "quotes" and > in a comment -->
<!ENTITY % name.kind "#PCDATA | em">
<!ENTITY % ids 'id ID #REQUIRED'> <!ENTITY % both "%ids; note CDATA #IMPLIED">
<!ENTITY % parts "<!ELEMENT part (#PCDATA)>">
<!ENTITY % parts "<!ELEMENT never EMPTY>">
<!ENTITY euro "&#8364;"> <!NOTATION gif SYSTEM "gif">
<!ELEMENT shop (owner, (shelf | (drawer, key))+, till?)>
<!ATTLIST shop version CDATA #FIXED 'a "b" c'>
<!ELEMENT owner (%name.kind;)*>
<!ELEMENT em EMPTY>
<!ELEMENT shelf (item+ | empty? | box?)*>
<!ATTLIST shelf %both; side (left|right) "left">
<!ELEMENT item (#PCDATA)> <!ATTLIST item of IDREF #IMPLIED>
<!ELEMENT drawer (shelf*)> <!ATTLIST drawer %both;>
<!ELEMENT key EMPTY> <!ATTLIST key opens IDREF #REQUIRED>
<!ELEMENT till ANY>
%parts;
<!ELEMENT box (part, part)> <!ELEMENT empty EMPTY>
"""


def shop() -> Schema:
    return Schema.from_text(SHOP_DTD)


def test_dtd_is_read() -> None:
    schema = shop()
    assert schema.root == "shop"
    assert list(schema.elements) == [
        "shop", "owner", "em", "shelf", "item", "drawer", "key", "till", "part", "box", "empty",
    ]  # fmt: skip
    assert schema.elements["shop"].model == Group(
        "sequence",
        (
            Name("owner"),
            Group("choice", (Name("shelf"), Group("sequence", (Name("drawer"), Name("key")))), "+"),
            Name("till", "?"),
        ),
    )
    assert schema.elements["owner"].content == "mixed"
    assert schema.children("shelf") == ("item", "empty", "box")
    assert schema.elements["shelf"].attributes == (
        Attribute("id", "ID", required=True),
        Attribute("note"),
        Attribute("side", "enumeration", ("left", "right")),
    )
    assert schema.elements["shop"].attributes[0].fixed == 'a "b" c'
    assert schema.children("till") == tuple(schema.elements)
    assert schema.heights()["shop"] == 1
    assert schema.heights()["drawer"] == 0


@pytest.mark.parametrize("line_end", ["\r", "\r\n"])
def test_line_ends_do_not_matter(tmp_path: Path, line_end: str) -> None:
    path = tmp_path / "shop.dtd"
    path.write_bytes(SHOP_DTD.replace("\n", line_end).encode())
    assert Schema.from_dtd(path).elements == shop().elements


def test_latin_1_dtd_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.dtd"
    path.write_bytes("<!-- für --> <!ELEMENT a EMPTY>".encode("latin-1"))
    assert Schema.from_dtd(path).root == "a"


def test_root_may_be_given_or_is_found() -> None:
    text = "<!ELEMENT b EMPTY> <!ELEMENT a (b?, a?)>"
    assert Schema.from_text(text).root == "a"
    assert Schema.from_text(text, root="b").root == "b"
    assert Schema.from_text("<!ELEMENT a (b)*> <!ELEMENT b (a)*>").root == "a"


def test_undeclared_elements_are_empty() -> None:
    schema = Schema.from_text("<!ELEMENT a (b, c)>")
    assert schema.elements["b"].content == "empty"
    assert next(generate_documents(schema, 1)).endswith(b"<a>\n<b/>\n<c/>\n</a>\n")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "declares no element", 1),
        ("<!ELEMENT a EMPTY>\n<!ELEMENT b (c", "does not end", 2),
        ("\r\n\r<!ELEMENT a (b,c|d)>", "mixes or misplaces", 3),
        ("<!ELEMENT a (b c)>", "mixes or misplaces", 1),
        ("<!ELEMENT a (b))>", "mixes or misplaces", 1),
        ("<!ELEMENT a ()>", "mixes or misplaces", 1),
        ("<!ELEMENT a (b>", "one group", 1),
        ("<!ELEMENT a b>", "one group", 1),
        ("<!ELEMENT a (b;c)>", "no meaning at ';c", 1),
        ("<!ELEMENT (b)>", "no element name", 1),
        ("<!ELEMENT a EMPTY>\n<!ATTLIST a b CDATA>", "attributes of 'a'", 2),
        ("<!ENTITY % x>", "no name or no value", 1),
        ("<!ELEMENT a (%x;)>", "'%x;' is not declared", 1),
        ("<!ENTITY % x SYSTEM 'x.ent'>\n%x;", "external, and nothing is fetched", 2),
        ("<![INCLUDE[<!ELEMENT a EMPTY>]]>", "conditional sections", 1),
        ("<!-- a", "expected '-->'", 1),
        ("<!DOCTYPE a>", "expected ELEMENT", 1),
        ("a", "expected a declaration", 1),
        ("<!ELEMENT a (a)>", "always contains itself", 0),
    ],
)
def test_bad_dtd_is_refused(text: str, message: str, line: int) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)) as caught:
        Schema.from_text(text)
    assert caught.value.line == line


def test_unknown_root_is_refused() -> None:
    with pytest.raises(DocumentError, match="no element 'z'"):
        Schema.from_text("<!ELEMENT a EMPTY>", root="z")


def test_entity_bomb_is_refused() -> None:
    text = "<!ENTITY % e0 '" + "x" * 1000 + "'>"
    for level in range(1, 12):
        text += f"<!ENTITY % e{level} '{f'%e{level - 1};' * 10}'>"
    with pytest.raises(LimitError):
        Schema.from_text(text)
    with pytest.raises(LimitError):
        Schema.from_text("<!ELEMENT a " + "(" * 100_000 + ">")


@pytest.mark.parametrize("bytes_target", [300, 5_000, 30_000])
@pytest.mark.parametrize("text", [NEWS_DTD, SHOP_DTD], ids=["news", "shop"])
def test_documents_are_valid(text: str, bytes_target: int) -> None:
    grammar = etree.DTD(io.BytesIO(text.encode()))
    settings = DocumentSettings(bytes_target=bytes_target, attributes=0.5)
    for document in generate_documents(Schema.from_text(text), 25, settings, seed=bytes_target):
        tree = etree.fromstring(document)
        # "i0" is what a reference says in a document without any ID.
        if not tree.xpath("//@*[. = 'i0']"):
            assert grammar.validate(tree), (grammar.error_log, document)


@pytest.mark.parametrize("bytes_target", [5_000, 30_000])
def test_documents_have_the_size_and_depth_asked_for(bytes_target: int) -> None:
    settings = DocumentSettings(bytes_target=bytes_target, depth_max=8)
    documents = list(generate_documents(Schema.news(), 60, settings, seed=3))
    assert len(set(documents)) == 60
    assert 0.85 * bytes_target < sum(map(len, documents)) / 60 < 1.15 * bytes_target
    depths = [max(len(list(e.iterancestors())) for e in etree.fromstring(d).iter()) + 1 for d in documents]
    # Content models must be finished: the limit may be passed by what they require.
    assert 6 <= max(depths) <= 10


def test_attributes_follow_their_probability() -> None:
    def count(attributes: float) -> int:
        settings = DocumentSettings(attributes=attributes)
        return sum(document.count(b'="') for document in generate_documents(Schema.news(), 5, settings))

    assert count(0) < count(0.3) < count(1)


def test_documents_do_not_depend_on_how_many_are_asked_for() -> None:
    schema = Schema.news()
    ten = list(generate_documents(schema, 10, seed=4))
    assert list(generate_documents(schema, 3, seed=4, start=6)) == ten[6:9]
    assert next(generate_documents(schema, 1, seed=5)) not in ten


def test_every_generated_query_can_match() -> None:
    schema = Schema.from_text("<!ELEMENT a (b?, c?)> <!ELEMENT b (d)> <!ELEMENT c EMPTY> <!ELEMENT d (#PCDATA)>")
    tree = etree.fromstring("<a><b><d>x</d></b><c/></a>")
    queries = list(generate_queries(schema, 60, QuerySettings(text=0.1)))
    assert len(set(queries)) == 60
    for query in queries:
        assert tree.xpath(query) or query.endswith("text()"), query


def test_queries_follow_their_probabilities() -> None:
    def steps(settings: QuerySettings) -> list[str]:
        return [
            step for query in generate_queries(Schema.news(), 5000, settings) for step in re.findall("/+[^/]+", query)
        ]

    plain = steps(QuerySettings(wildcard=0, descendant=0))
    assert not any("*" in step or step.startswith("//") for step in plain)
    mixed = steps(QuerySettings(distinct=False))
    assert 0.15 < sum(step.endswith("*") for step in mixed) / len(mixed) < 0.25
    assert 0.15 < sum(step.startswith("//") for step in mixed) / len(mixed) < 0.25
    assert all("*" in step for step in steps(QuerySettings(wildcard=1, distinct=False)))
    finals = list(generate_queries(Schema.news(), 2000, QuerySettings(attribute=0.3, text=0.3)))
    assert 400 < sum(query.endswith("text()") for query in finals) < 800
    assert 300 < sum("/@" in query for query in finals) < 800
    depths = {query.replace("//", "/").count("/") for query in generate_queries(Schema.news(), 5000)}
    assert depths == set(range(1, 11))
    assert max(q.replace("//", "/").count("/") for q in generate_queries(shop(), 99, QuerySettings(depth_max=2))) == 2


def test_a_small_schema_says_that_it_has_no_more_queries() -> None:
    schema = Schema.from_text("<!ELEMENT a (b)> <!ELEMENT b EMPTY>")
    with pytest.raises(QueryError, match="gave only 2 distinct queries of the 3") as caught:
        list(generate_queries(schema, 3, QuerySettings(wildcard=0, descendant=0)))
    assert isinstance(caught.value, LimitError)
    assert len(list(generate_queries(schema, 50, QuerySettings(distinct=False)))) == 50


@pytest.mark.parametrize(
    "settings",
    [
        {"bytes_target": 0}, {"depth_max": 0}, {"repeats_max": 0}, {"text_words_max": 0}, {"attributes": 1.5},
    ],
)  # fmt: skip
def test_bad_document_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|a probability"):
        DocumentSettings(**settings)


@pytest.mark.parametrize("settings", [{"depth_max": 0}, {"wildcard": -1}, {"attribute": 0.6, "text": 0.6}])
def test_bad_query_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|probabilities"):
        QuerySettings(**settings)


def test_the_hash_seed_does_not_matter() -> None:
    program = (
        "import hashlib\n"
        "from treecast.workload import *\n"
        "schema = Schema.news()\n"
        "documents = b''.join(generate_documents(schema, 3, seed=9))\n"
        "queries = ''.join(generate_queries(schema, 500, seed=9))\n"
        "print(hashlib.sha256(documents + queries.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(digests) == 1


def real_dtds() -> list[str]:
    names = [
        "nitf-2.5/nitf-2-5.dtd", "nitf-2.5/nitf-2-5.lf.dtd", "dblp/dblp-2019.dtd", "auction/auction.dtd",
        "shakespeare/play.dtd", "rss-0.91/rss-0.91.dtd",
    ]  # fmt: skip
    return [name for name in names if DATA and Path(DATA, "dtd", name).exists()]


def test_real_dtds_give_valid_documents() -> None:
    """The published DTDs of TREECAST_DATA; without it only the built-in schemas are tested, above."""
    for name in real_dtds():
        path = Path(str(DATA), "dtd", name)
        schema = Schema.from_dtd(path)
        grammar = etree.DTD(str(path))
        for document in generate_documents(schema, 10, DocumentSettings(bytes_target=5000), seed=2):
            assert grammar.validate(etree.fromstring(document)), (name, grammar.error_log)
        distinct = 10_000 if name.startswith("nitf") else 100
        assert len(set(generate_queries(schema, distinct))) == distinct
