"""Spellings of the query language and what they mean: canonical text, normal form, namespaces."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import get_args

import pytest
from generators.functions import FUNCTIONS as DRAWN

import treecast
from treecast import _native
from treecast.index.explain import explain
from treecast.query.functions import FUNCTIONS
from treecast.query.tree import Call, FunctionName
from treecast.query.writer import Writer

CANONICAL = [
    # paths
    ("/a/b", "/a/b"),
    (" / a //\tb\n", "/a//b"),
    ("/a/./b/.", "/a/b"),
    ("/./a", "/a"),
    ("//./a", "//a"),
    ("/a//./b", "/a//b"),
    ("/child::a/descendant::b", "/a//b"),
    ("/descendant-or-self::node()/a", "//a"),
    ("/a/descendant-or-self::node()/child::b", "/a//b"),
    ("/a/self::node()/b", "/a/b"),
    ("//descendant::a", "//a"),
    ("/descendant-or-self::a", "//a"),
    ("//self::a", "//a"),
    ("/a//self::b", "/a/descendant-or-self::b"),
    ("/a//descendant-or-self::b", "/a/descendant-or-self::b"),
    ("/a/self::*", "/a/self::*"),
    ("/a/attribute::b", "/a/@b"),
    ("/a/attribute :: *", "/a/@*"),
    ("//@b", "//@b"),
    ("/a/ @ b", "/a/@b"),
    ("/a/text( )", "/a/text()"),
    ("/a/descendant::text()", "/a//text()"),
    ("/a/descendant::text()[1]", "/a/descendant::text()[1]"),
    ("//a|/b | //c/@d", "//a | /b | //c/@d"),
    ("/tobject.subject/a-b/_c", "/tobject.subject/a-b/_c"),
    ("/élan/中文/a·b", "/élan/中文/a·b"),
    # the papers' spellings
    ("/dblp/phdthesis/[year=2007]", "/dblp/phdthesis[year=2007]"),
    ("//*/[b]/[c]/d", "//*[b][c]/d"),
    ("$msg/a", "/a"),
    ("$msg//a[//b][/c]", "//a[.//b][c]"),
    ("$msg/a[$msg/b]", "/a[/b]"),
    ("/a[//b][/c/d]", "/a[//b][/c/d]"),
    ("$msg/a[//b] | /a[//b]", "/a[.//b] | /a[//b]"),
    ("/a[b <> 'x']", '/a[b!="x"]'),
    # names that are words of the language elsewhere
    ("/and/or/not/text/position/child/self/div/mod", "/and/or/not/text/position/child/self/div/mod"),
    ("/a[and and and or or]", "/a[and and and or or]"),
    ("/a[not(not)]", "/a[not(not)]"),
    ("/a[div='mod']", '/a[div="mod"]'),
    ("/a[last and position]", "/a[last and position]"),
    ("/a[contains/starts-with]", "/a[contains/starts-with]"),
    ("/a[text]", "/a[text]"),
    ("/a[* and *]", "/a[* and *]"),
    # any name in any namespace
    ("//*[local-name()='x']", '//*[local-name()="x"]'),
    ("//*['x' = local-name(.)]", '//*[local-name()="x"]'),
    ("//*[@a][local-name()='x'][2]", '//*[local-name()="x"][@a][2]'),
    ("//*[2][local-name()='x']", '//*[2][self::*[local-name()="x"]]'),
    ("//a[local-name()='x']", '//a[self::*[local-name()="x"]]'),
    ("//a[local-name()!='x' or b]", '//a[not(self::*[local-name()="x"]) or b]'),
    ("/a/@*[local-name()='x']", '/a/@*[local-name()="x"]'),
    ("/*[local-name()='x']/[@y]", '/*[local-name()="x"][@y]'),
    # comparisons
    ("/a[@b='c']", '/a[@b="c"]'),
    ("/a['c'=@b]", '/a[@b="c"]'),
    ("""/a[@b='say "c"']""", """/a[@b='say "c"']"""),
    ('/a[@b="it\'s"]', '/a[@b="it\'s"]'),
    ("/a[3<b][3<=b][3>b][3>=b][3!=b]", "/a[b>3][b>=3][b<3][b<=3][b!=3]"),
    ("/a[. = 007.50][.=.5][.=5.][.=-0][.= - - 3][. = -3]", "/a[.=7.5][.=0.5][.=5][.=0][.=3][.=-3]"),
    ("/a[./b/./c = 1]", "/a[b/c=1]"),
    ("/a[.//b = 1]", "/a[.//b=1]"),
    ("/a[text() = 'x'][b/text()='y'][b/@c]", '/a[text()="x"][b/text()="y"][b/@c]'),
    ("/a[b[c[@d]/e = 3]/f]", "/a[b[c[@d]/e=3]/f]"),
    ("/a[b|c]", "/a[b | c]"),
    ("/a[b|c = 1]", "/a[b | c=1]"),
    ("/a[((b)|(c|d)) = 1]", "/a[b | c | d=1]"),
    ("/a[.]", "/a[.]"),
    ("/a/@b[. = 'x']", '/a/@b[.="x"]'),
    ("/a/@b[. = 'x' or /c]", '/a/@b[.="x" or /c]'),
    ("/a/text()[contains(., 'x')][2]", '/a/text()[contains(., "x")][2]'),
    ("/a[contains ( b , 'x' )][starts-with(@c,'y')]", '/a[contains(b, "x")][starts-with(@c, "y")]'),
    # connectives
    ("/a[b and c or d and e]", "/a[b and c or d and e]"),
    ("/a[(b and c) or (d and e)]", "/a[b and c or d and e]"),
    ("/a[b and (c or d) and e]", "/a[b and (c or d) and e]"),
    ("/a[b and (c and (d and e))]", "/a[b and c and d and e]"),
    ("/a[((b))]", "/a[b]"),
    ("/a[not((b or c))]", "/a[not(b or c)]"),
    # positions
    ("/a[position()=3]", "/a[3]"),
    ("/a[3 = position()]", "/a[3]"),
    ("/a[(3)]", "/a[3]"),
    ("/a[-1]", "/a[-1]"),
    ("/a[last()]", "/a[last()]"),
    ("/a[position()=last()]", "/a[last()]"),
    ("/a[last()>position()]", "/a[position()<last()]"),
    ("/a[3<position()]", "/a[position()>3]"),
    ("/a[last()=3][3 <= last()]", "/a[last()=3][last()>=3]"),
    ("/a[position()=3 and b]", "/a[position()=3 and b]"),
    ("/a[not(position()=1)]", "/a[not(position()=1)]"),
    ("//a[1]", "//a[1]"),
    ("/descendant::a[1]", "/descendant::a[1]"),
    ("/descendant-or-self::a[1]", "/descendant::a[1]"),
    ("//descendant::a[1]", "//descendant::a[1]"),
    ("//descendant-or-self::a[1]", "//descendant-or-self::a[1]"),
    ("/b/descendant-or-self::a[last()]", "/b/descendant-or-self::a[last()]"),
    ("//self::a[1]", "//self::a[1]"),
    ("/descendant::a/[2]", "/descendant::a[2]"),
    ("/descendant::a[b[2]]", "//a[b[2]]"),
    ("/a[descendant::b[1]]", "/a[descendant::b[1]]"),
    ("/a[descendant::b]", "/a[.//b]"),
    ("/a[descendant-or-self::b]", "/a[descendant-or-self::b]"),
    ("/a[self::a]", "/a[self::a]"),
]


@pytest.mark.parametrize(("written", "canonical"), CANONICAL)
def test_canonical(written: str, canonical: str) -> None:
    query = treecast.parse(written)
    assert str(query) == canonical
    assert query.text == written
    again = treecast.parse(canonical)
    assert again == query
    assert hash(again) == hash(query)
    assert str(again) == canonical
    assert again.tree == query.tree


def plain(text: str, namespaces: dict[str, str] | None = None) -> set[str]:
    """The normal form in a short notation: {uri}name, * for any, @ for attributes, # for text."""
    shown = set()
    for path in treecast.Query(text, namespaces=namespaces).linear_paths():
        steps = ""
        for descendant, kind, uri, local in path:
            name = "" if uri == "" else "{*}" if uri is None else f"{{{uri}}}"
            name = "*" if uri is None and local is None else name + (local or "*")
            steps += ("//" if descendant else "/") + {"element": name, "attribute": "@" + name, "text": "#"}[kind]
        shown.add(steps)
    return shown


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ("/a//b/*", {"/a//b/*"}),
        ("/*/self::b", {"/b"}),
        ("/a/self::a/self::*", {"/a"}),
        ("/a/self::b", set()),
        ("/self::a", set()),
        ("/@a", set()),
        ("/text()", set()),
        ("//@a", {"//@a"}),
        ("//text()", {"//#"}),
        ("/a//@b", {"/a//@b"}),
        ("/a/descendant-or-self::a", {"/a", "/a//a"}),
        ("/a/descendant-or-self::b", {"/a//b"}),
        ("/a/descendant-or-self::*/b", {"/a/b", "/a//*/b"}),
        ("/*/descendant-or-self::a/descendant-or-self::*", {"/a", "/a//*", "/*//a", "/*//a//*"}),
        ("//self::a/b", {"//a/b"}),
        ("//a//self::a", {"//a", "//a//a"}),
        ("//a | //a | /b/self::c", {"//a"}),
        ("/*[local-name()='x']/self::x", {"/x"}),
        ("//*[local-name()='x']/@*[local-name()='y']", {"//{*}x/@{*}y"}),
    ],
)
def test_normal_form(written: str, paths: set[str]) -> None:
    assert plain(written) == paths


def test_linear() -> None:
    assert treecast.Query("/a//b/@c | //text()").linear
    assert treecast.Query("//*[local-name()='x']").linear
    assert not treecast.Query("/a[b]").linear
    assert not treecast.Query("/a | /b/[c]").linear
    assert treecast.Query("/a[b]").linear_paths() == ()


def test_namespaces() -> None:
    bound = {"p": "urn:p", "q": "urn:p", "": "urn:d"}
    assert plain("/a/p:b/p:*/@c/.", bound) == {"/{urn:d}a/{urn:p}b/{urn:p}*/@c"}
    assert plain("//@p:a | //@xml:lang", bound) == {"//@{urn:p}a", "//@{http://www.w3.org/XML/1998/namespace}lang"}
    assert plain("//p:*/self::p:b | //p:*[local-name()='c']", bound) == {"//{urn:p}b", "//{urn:p}c"}
    assert plain("//p:*/self::*[local-name()='b']", bound) == {"//{urn:p}b"}
    assert plain("/a/self::p:a", bound) == set()
    assert plain("/a", {"": ""}) == {"/a"}
    assert str(treecast.parse("//p:*['a' = local-name()]", namespaces=bound)) == "//p:a"
    one, other = (treecast.parse(text, namespaces=bound) for text in ("//p:a", "//q:a"))
    assert one == other
    assert str(one) != str(other)
    assert treecast.parse("//a", namespaces=bound) != treecast.parse("//a")
    assert dict(one.namespaces) == bound


def test_object() -> None:
    query = treecast.parse("/p:a [ b ]", namespaces={"p": "urn:p"})
    assert repr(query) == "treecast.parse('/p:a[b]', namespaces={'p': 'urn:p'})"
    copy = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert copy.text == query.text
    assert query != "/p:a[b]"
    assert len({query, copy}) == 1


def test_batch() -> None:
    assert _native.testing.parse_count(["/a", "a", "/a[b]", "/a["]) == 2


def test_guide() -> None:
    """The tables of the guide: what is accepted there parses, what is refused there is refused with that code."""
    guide = (Path(__file__).parent.parent / "docs" / "guide" / "language.md").read_text()
    accepted, refused = guide.split("## Refused")
    bound = {"p": "urn:p"}

    def queries(text: str) -> list[str]:
        found = [code.replace("\\|", "|") for code in re.findall(r"`([^`]+)`", text)]
        return [("//a" + code if code.startswith("[") else code) for code in found if code.startswith(("/", "["))]

    rows = [line.split(" | ")[0] for line in accepted.splitlines() if line.startswith("| `")]
    written = queries(" ".join(rows))
    assert len(written) >= 30
    for text in written:
        query = treecast.parse(text, namespaces=bound)
        assert treecast.parse(str(query), namespaces=bound) == query
    code, count = "", 0
    for line in refused.splitlines():
        if not line.startswith("| ") or line.startswith("| code"):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        code = cells[0] or code
        for text in queries(cells[1]) if code != "TC112" else []:
            count += 1
            with pytest.raises(treecast.QueryError, match=code):
                treecast.parse(text)
        for text in queries(cells[2]):
            treecast.parse(text, namespaces=bound)
    assert count >= 8


def test_a_query_that_is_not_a_text_is_refused_in_a_sentence() -> None:
    number: object = 3
    with pytest.raises(TypeError, match="a query is a str, not int"):
        treecast.parse(number)  # type: ignore[arg-type]


def test_functions_are_known_everywhere() -> None:
    """One native table: the syntax tree, its writer, explanations and the generators of tests have what it has."""
    assert list(FUNCTIONS) == list(get_args(FunctionName)) == [function.name for function in DRAWN]
    for name, function in FUNCTIONS.items():
        query = treecast.Query(f"/a[{name}(b, 'x')]")
        (condition,) = query.tree[0].steps[0].predicates
        assert isinstance(condition, Call)
        assert (condition.name, condition.function, condition.text) == (name, function, "x")
        assert Writer().paths(query.tree) == str(query) == f'/a[{name}(b, "x")]'
        (reason,) = explain(b"<a><b>x</b></a>", str(query)).steps[0].conditions
        assert (reason.holds, [operand.text for operand in reason.operands]) == (True, ["b"])
        assert function.holds("x", "x") and not function.holds("y", "x")
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse("/a[sums(b)]")
    assert all(f"{name}()" in caught.value.hint for name in FUNCTIONS)
    with pytest.raises(KeyError):
        _native.function_holds("sum", "", "")


@pytest.mark.parametrize("text", ["//a[(/) or b]", "//a[b and (/)]", "//a[(b | /) and c]", "//a[(c or (/)) and b]"])
def test_a_root_beside_a_word_is_written_in_parentheses(text: str) -> None:
    query = treecast.parse(text)
    written = Writer().paths(query.matching.tree)
    assert str(treecast.parse(written)) == str(query)
