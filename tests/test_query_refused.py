"""What is refused: where, with which code, and with what advice; hostile and arbitrary texts."""

from __future__ import annotations

import contextlib
import itertools
from random import Random

import pytest
from generators.refusals import BOUND, MISTAKES, Mistake, draw_refused
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.seeds import fresh_seed

import treecast

REFUSED = [
    # (text, code, what the caret points at, words of the hint)
    ("", "TC101", "", "/a/b"),
    ("   ", "TC101", "", "/a/b"),
    ("/a/", "TC101", "", ""),
    ("/a//", "TC101", "", ""),
    ("/a///b", "TC101", "/", "'//'"),
    ("/a[b", "TC101", "", ""),
    ("/a[]", "TC101", "[]", ""),
    ("/a[b]]", "TC101", "]", ""),
    ("/a)", "TC101", ")", ""),
    ("/a[b)]", "TC101", ")", ""),
    ("/a[(b]", "TC101", "]", ""),
    ("/a[not(b]", "TC101", "]", ""),
    ("/a[. = 'x]", "TC101", "'x]", "'"),
    ("/a[. = “x”]", "TC101", "“", "plain quotes"),
    ("/a[b && c]", "TC101", "&&", "'and'"),
    ("/a[b || c]", "TC101", "||", "'or'"),
    ("/a[b == 1]", "TC101", "==", "'='"),
    ("/a[!b]", "TC101", "!", "not("),
    ("/a[b eq 1]", "TC101", "eq", "'='"),
    ("/a[b c]", "TC101", "c", ""),
    ("/a[b andc]", "TC101", "andc", ""),
    ("/a b", "TC101", "b", ""),
    ("/a || /b", "TC101", "||", "'or'"),
    ("/a |", "TC101", "", ""),
    ("| /a", "TC101", "|", ""),
    ("/a[. = 1e5]", "TC101", "1", "digits"),
    ("/*:a", "TC101", "*:", "local-name()"),
    ("/a:", "TC101", "", ""),
    ("/a: b", "TC101", "b", ""),
    ("/1a", "TC101", "1", ""),
    ("/a/@", "TC101", "", ""),
    ("/[b]", "TC101", "[", "*["),
    ("//[b]", "TC101", "[", "*["),
    ("/a//[b]", "TC101", "[", "*["),
    ("/a/./[b]", "TC101", "[", ""),
    ("/a[contains(b 'x')]", "TC101", "'", ""),
    ("/a[position(1)]", "TC103", "position(1)", ""),
    ("../a", "TC104", "../a", "//*/../a"),
    ("preceding::b", "TC104", "preceding::b", "//*/preceding::b"),
    ("count(a) > 1", "TC104", "a", "//a"),
    ("position() = 1", "TC104", "position()", "brackets"),
    ("/a[count(1) > 2]", "TC106", "1", "count(a/b)"),
    ("count('x') > 2", "TC106", "'x'", "count(a/b)"),
    ("/a[1/b]", "TC106", "1", "'div'"),
    ("/a[not(b)/c]", "TC106", "not(b)", "'and'"),
    ("/a[id('x')]", "TC103", "id(", "@id"),
    ("/a[substring('x')]", "TC103", "substring('x')", ""),
    ("/a[true(1)]", "TC103", "true(1)", ""),
    ("/a[concat('x',)]", "TC101", ")", ""),
    ("/a/namespace::p", "TC102", "namespace::", "p:*"),
    ("/a/sideways::b", "TC102", "sideways::", "namespace::"),
    ("/a/string()", "TC103", "string(", "string(//a)"),
    ("/a/last()", "TC103", "last(", "brackets"),
    ("/a[frobnicate(.)]", "TC103", "frobnicate(", "contains()"),
    ("a", "TC104", "a", "/a "),
    ("a/b[c | d]", "TC104", "a/b[c | d]", "//a/b[c | d]"),
    ("  *", "TC104", "*", "/* "),
    (".", "TC104", ".", "/*"),
    ("./a", "TC104", "./a", "/a "),
    (".//a", "TC104", ".//a", "//a "),
    ("@a", "TC104", "@a", "//@a"),
    ("text()", "TC104", "text()", "//text()"),
    ("descendant::a", "TC104", "descendant::a", "/descendant::a"),
    ("/a | b", "TC104", "b", "//b"),
    ("text/b", "TC104", "text/b", "/text/b"),
    ("/a/(b | c)", "TC105", "(", "a/b | a/c"),
    ("/a/.[b]", "TC105", "[", "self::*["),
    ("/a[.[b]]", "TC105", "[", "self::*["),
    ("/a[$x = 1]", "TC105", "$x", "$msg"),
    ("$n/a", "TC105", "$n", "$msg"),
    ("/a/$msg", "TC105", "$msg", "$msg"),
    ("/a (: remark :)", "TC105", "(:", "leave"),
    ("(: remark :) /a", "TC105", "(:", "leave"),
    ("/a[(: remark :) b]", "TC105", "(:", "leave"),
    ("/a[b | 'x']", "TC106", "'x'", "'or'"),
    ("/a[b | (c = 1)]", "TC106", "(c = 1)", "'or'"),
    ("//a[xs:decimal(b)=1]", "TC103", "xs:decimal(", "number("),
    ("//a/following::b or lang('de')", "TC104", "lang('de')", "//*[lang('de')]"),
    ("//a or lang('en')", "TC104", "lang('en')", "//*[lang('en')]"),
    ("//a[b/2 = 1]", "TC101", "2", "'div'"),
    ("//a[if (b) then c else d]", "TC116", "if", "(a and b) or"),
    ("/p:a", "TC109", "p", 'namespaces={"p"'),
    ("/a/@p:*", "TC109", "p", 'namespaces={"p"'),
    ("/a[b/pré:c]", "TC109", "pré", 'namespaces={"pré"'),
    ("/a\0", "TC110", "\0", ""),
    ("/a[. = 'é\ud800']", "TC110", "\ud800", ""),
    ("/a[. = '\uffff']", "TC110", "\uffff", ""),
]

ACCEPTED = [
    # Refused once, when predicates were patterns and nothing else.
    "/a/..",
    "/a[../b]",
    "/a/parent::b",
    "/a/ancestor :: b",
    "/a[following-sibling::b]",
    "/a[preceding::b]",
    "/a[count(b) > 1]",
    "count(//a)",
    "not(/a)",
    "/a[string-length(.) = 1]",
    "/a[name() = 'x']",
    "/*[namespace-uri() = 'x']",
    "/a[local-name(b) = 'x']",
    "/a/@*[local-name() = 'x' or . = 1]",
    "//@*[local-name()!='role']",
    "//@*[not(local-name()='role')]",
    "/a/text()[local-name() = 'x']",
    "/a/node()",
    "//node()",
    "/descendant::node()",
    "/a/attribute::node()",
    "/a/comment()",
    "/a/processing-instruction('x')",
    "/a/self::text()",
    "/a/descendant-or-self::text()",
    "/a/attribute::text()",
    "/a/self::node()[b]",
    "//a/descendant-or-self::node()[b]/c",
    "(//a)[1]",
    "(/a | /b)/c",
    "/a[(b | c)/d]",
    "/a[(b)[1]]",
    "/a[b + 1]",
    "/a[b - 1 = 2]",
    "/a[last() - 1]",
    "/a[last()-1]",
    "/a[2 * 3]",
    "/a[b div 2 = 1]",
    "/a[position() mod 2 = 1]",
    "/a[-b]",
    "/a and /b",
    "/a or /b",
    "/a[b = c]",
    "/a[1 = 1]",
    "/a['x']",
    "/a[b and 3]",
    "/a[not(last())]",
    "/a[position()]",
    "/a[local-name()]",
    "/a[position() = '3']",
    "/a[position() = b]",
    "/a[last() = last()]",
    "/a[local-name() < 'x']",
    "/a[not(b) = 1]",
    "/a[1 < b < 3]",
    "/a[contains(b, c)]",
    "/a[contains(b, 1)]",
    "/a[contains('x', b)]",
    "/a[contains(b | c, 'x')]",
    "/a/@*[1]",
    "//a[lang('en')] or //b[lang(@x)]",
    "//a/[b] or //c",
    "boolean(//a/[b]/[1])",
    "/a/@b[last() = 1]",
    "/a = 1",
    "/",
    "/ | /a",
    "/.",
    "//.",
    "/a//.",
    "/a/descendant-or-self::node()",
    "/a/@b//.",
    "$msg",
    "/a[/]",
    "/a[/ = 'x']",
    "/a[.//.]",
    "/a[$msg]",
    "/a/@b/c",
    "/a/text()//b",
    "/a[@b/c]",
    "/a/@b[c]",
    "/a/text()[contains(b, 'x')]",
]


@pytest.mark.parametrize(("text", "code", "pointed", "advice"), REFUSED)
def test_refused(text: str, code: str, pointed: str, advice: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse(text)
    error = caught.value
    assert error.code == code
    assert advice in error.hint
    assert not isinstance(error, treecast.LimitError)
    if text.strip():
        line, carets = str(error).split("\n")[1:3]
        at = carets.index("^")
        shown = "".join(c if c.isprintable() else " " for c in pointed)
        assert line[at : at + max(1, len(pointed))] == shown
        assert carets.count("^") == max(1, len(pointed))
        assert text.startswith(pointed, error.position)
    if not pointed:
        assert error.position == len(text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.site}: {mistake.text}")
def test_what_is_refused_is_the_mistake(mistake: Mistake) -> None:
    """Wherever it stands in a query, in a list of steps and in the clauses of a transformation."""
    random = Random(f"{mistake} {fresh_seed(0)}")
    tried = 0
    while tried < 40:
        refused = draw_refused(random, mistake)
        try:
            treecast.parse(refused.valid, namespaces=BOUND)
        except treecast.QueryError as other:
            assert other.code in ("TC107", "TC108"), refused.valid  # clauses refuse some paths that XPath allows
            continue
        tried += 1
        with pytest.raises(treecast.QueryError) as caught:
            treecast.parse(refused.text, namespaces=BOUND)
        error = caught.value
        assert (error.code, error.position) == (refused.code, refused.position), f"{error}\n{refused.text}"
        assert mistake.words in str(error)
        if refused.form.language != "clauses":
            assert mistake.hint in error.hint, str(error)
            if refused.fixed:
                treecast.parse(refused.fixed, namespaces=BOUND)


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_no_pattern_is_a_term(text: str) -> None:
    query = treecast.parse(text)
    assert treecast.parse(str(query)) == query


@pytest.mark.parametrize(
    "bindings",
    [
        {"a b": "urn:x"},
        {"p:q": "urn:x"},
        {"p": ""},
        {"xml": "urn:x"},
        {"x": "http://www.w3.org/XML/1998/namespace"},
        {"xmlns": "urn:x"},
        {"x": "http://www.w3.org/2000/xmlns/"},
        {"p": "urn:\0"},
        {"p": "\ud800"},
        {"\ud800": "urn:x"},
    ],
)
def test_refused_bindings(bindings: dict[str, str]) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse("/a", namespaces=bindings)
    assert caught.value.code == "TC109"


def test_xml_may_be_bound_to_its_own_namespace() -> None:
    uri = "http://www.w3.org/XML/1998/namespace"
    assert treecast.parse("//@xml:id", namespaces={"xml": uri}) == treecast.parse("//@xml:id")


HOSTILE = [
    ("/a" + "[b" * 5_000, "TC322"),
    ("/a[" + "(" * 5_000, "TC322"),
    ("/a[" + "not(" * 5_000, "TC322"),
    ("/a" + "[b" * 5_000 + "]" * 5_000, "TC322"),
    ("/a" * 5_000_000, "TC321"),
    ("[" * 10_000_000, "TC321"),
    ("\ud800" * 5_000_000, "TC321"),
    ("/" + "n" * 1_000_000, "TC321"),
    ("é" * 40_000, "TC321"),
    ("/a" * 257, "TC323"),
    ("/a[b" + "/b" * 256 + "]", "TC323"),
    ("/a" + "[b]" * 20_000, "TC324"),
    ("/a[b" + " or b" * 10_000 + "]", "TC324"),
    ("/a" + "|/a" * 256, "TC325"),
    ("/a[b" + "|b" * 256 + "]", "TC325"),
    ("//a" + "//self::*/b" * 7, "TC326"),
    ("/*" + "/descendant-or-self::a/descendant-or-self::*" * 60, "TC326"),
    (" | ".join(f"/x{i}/descendant-or-self::*/b" for i in range(70)), "TC326"),
]


@pytest.mark.parametrize(("text", "code"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(text: str, code: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse(text)
    error = caught.value
    assert error.code == code
    assert isinstance(error, treecast.LimitError)
    assert "the limit (" in str(error)
    assert len(str(error)) < 1_000


@pytest.mark.parametrize(
    "condition", ["local-name()='x'", "local-name()!='x'", "b|c=1", "position()=1", "contains(.,'x')"]
)
def test_what_is_printed_can_be_read_at_the_limits(condition: str) -> None:
    accepted = 0
    for depth in range(55, 65):
        text = "/a" + "[b" * depth + f"[{condition} or b]" + "]" * depth
        try:
            query = treecast.parse(text)
        except treecast.LimitError:
            continue
        accepted += 1
        assert treecast.parse(str(query)) == query
    assert 5 < accepted < 10
    long = treecast.parse("/a[" + " or ".join([condition] * 1_000) + "]")
    assert treecast.parse(str(long)) == long
    for length in (20_000, 30_000, 40_000):
        try:
            wide = treecast.parse("|".join(f"//self::a{'n' * length}" for _ in range(2)))
        except treecast.LimitError:
            assert length == 40_000
        else:
            assert treecast.parse(str(wide)) == wide
    with pytest.raises(treecast.LimitError, match="canonical"):
        treecast.parse("/" + "b" * 33_000 + "[a" + "|c" * 250 + "]|/" + "b" * 31_900 + "/c//self::d")


def test_just_within_the_limits() -> None:
    nested = "/a" + "[b" * 64 + "]" * 64
    assert str(treecast.Query(nested)) == nested
    assert treecast.Query("/a[" + "(" * 63 + "b" + ")" * 63 + "]") == treecast.parse("/a[b]")
    assert len(treecast.Query("/a" * 256).linear_paths()[0]) == 256
    assert len(treecast.Query("|".join(f"/a{i}" for i in range(256))).linear_paths()) == 256
    assert str(treecast.Query("/" + "n" * 65_535)) == "/" + "n" * 65_535
    assert len(treecast.Query("//x" + "//self::*/b" * 6).linear_paths()) == 64
    assert treecast.Query("/a[. = " + "1" * 60_000 + "]").tree[0].steps[0].predicates[0].value == float("inf")  # type: ignore[union-attr]


# Every expression that the five papers print, as printed but for what the scans broke.
PAPERS = [
    ("YFilter", "/a/b"), ("YFilter", "/a/c"), ("YFilter", "/a/b/c"), ("YFilter", "/a//b/c"), ("YFilter", "/a/*/b"),
    ("YFilter", "/a//c"), ("YFilter", "/a/*/*/c"), ("YFilter", "/a"), ("YFilter", "//a"), ("YFilter", "/*"),
    ("YFilter", "//*"),
    ("XTrie", "//m:GetLastTradePrice/Symbol"),
    ("XTrie", "//m:GetLastTradePrice/Symbol[text()='DEF']"),
    ("XTrie", "/SOAP-ENV:Envelope/SOAP-ENV:Body/*//Symbol[text()='DEF']"),
    ("XTrie", "//t:Transaction/@SOAP-ENV:mustUnderstand"),
    ("XTrie", "//t:Transaction[ @SOAP-ENV:mustUnderstand=1]"),
    ("XTrie", "//Stock/Symbol[text()='GHI']"),
    ("XTrie", "//Stock/Price[text()>15]"),
    ("XTrie", "//Stock[Symbol/text()='GHI'][Price/text()>15]"),
    ("XTrie", "//Symbol"),
    ("ONYX", '$msg/nitf [head/pubdata[@edition.area="SF"]] [//tobject.subject[@tobject.subject.type = "Stock"]]'),
    ("ONYX", '$msg/nitf[head/pubdata[@edition.area="SF"]][//tobject.subject[@tobject.subject.matter="fishing"]]'),
    ("ONYX", '/nitf/head/pubdata[@edition.area="NY"]'),
    ("ONYX", '/nitf//tobject.subject[@tobject.subject.type="Stock"]'),
    ("ONYX", "/a/b[@id=1]"),
    ("ONYX", "//a"), ("ONYX", "//b"), ("ONYX", "//c"), ("ONYX", "//d"), ("ONYX", "/nitf"),
    ("DHT-NFA", "/dblp/phdthesis/[year=2007]"),
    ("DHT-NFA", '/dblp/*/author[@name="John Smith"]'),
    ("DHT-NFA", '//*/[school="University of Athens"]'),
]  # fmt: skip

# Printed in the papers, and no absolute paths: refused as a query, with the reason in the code.
NO_QUERIES = [
    ("ONYX", "body/body.head/hedline", "TC104"),  # a path inside a constructor
    ("ONYX", "$n/body/body.content", "TC105"),
    ("Selective", "{(6,1)-(4,2), (17,11)}", "TC101"),  # labels of subtrees, another language
]


@pytest.mark.parametrize(("paper", "text"), PAPERS)
def test_papers(paper: str, text: str) -> None:
    bound = {"m": "Some-URI", "t": "some-URI", "SOAP-ENV": "urn:soap"} if paper == "XTrie" else None
    query = treecast.parse(text, namespaces=bound)
    assert treecast.parse(str(query), namespaces=bound) == query


@pytest.mark.parametrize(("paper", "text", "code"), NO_QUERIES)
def test_papers_other_languages(paper: str, text: str, code: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse(text)
    assert caught.value.code == code


TOKENS = [
    "/", "//", "a", "b", "and", "or", "not(", "text()", "@", "*", "[", "]", "(", ")", "=", "!=", "<", ">", "|", ".",
    "..", "'x'", '"', "1", "-", "position()", "last()", "local-name()", "contains(", ",", " ", "self::", "p:", "div",
    "descendant::", "descendant-or-self::", "node()", "$msg", "é", "\0", "\ud800", ":", "::", "child", "1.", "<>",
    "starts-with(",
]  # fmt: skip
mutated = st.tuples(
    st.sampled_from([text for _, text in PAPERS] + [text for text, *_ in REFUSED]),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 3), st.sampled_from(TOKENS)), min_size=1, max_size=4),
).map(lambda pair: _mutate(*pair))


def _mutate(text: str, changes: list[tuple[int, int, str]]) -> str:
    for at, removed, token in changes:
        at = min(at, len(text))
        text = text[:at] + token + text[at + removed :]
    return text


@settings(max_examples=500)
@given(st.one_of(st.text(st.characters()), st.lists(st.sampled_from(TOKENS)).map("".join), mutated, mutated))
@example("/a[b")
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        query = treecast.parse(text, namespaces={"p": "urn:p"})
    except treecast.QueryError as error:
        assert 0 <= error.position <= len(text)
        assert str(error).startswith(error.code)
        str(error).encode()
    else:
        again = treecast.parse(str(query), namespaces={"p": "urn:p"})
        assert again == query
        assert again.tree == query.tree
        if isinstance(query, treecast.Query):  # what patterns accept is an expression wherever one may stand
            with contextlib.suppress(treecast.LimitError):
                treecast.parse(f"boolean({text})", namespaces={"p": "urn:p"})


def test_every_pair_of_tokens() -> None:
    for pair in itertools.product(TOKENS, repeat=2):
        for frame in ("/{}", "/a{}", "/a[{}]", "/a[b {}]", "/a[b = {}]"):
            text = frame.format("".join(pair))
            try:
                query = treecast.parse(text, namespaces={"p": "urn:p"})
            except treecast.QueryError:
                continue
            assert treecast.parse(str(query), namespaces={"p": "urn:p"}) == query, text
