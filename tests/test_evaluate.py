"""The direct evaluator against lxml, against a brute-force oracle of ordered patterns, and on cases made by hand."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import Vocabulary, chain
from lxml import etree
from oracles.differential import PARSER, Query, compiled
from oracles.ordered_patterns import Oracle, Pattern, draw_pattern, draw_small_document
from support.sanitized import fewer

import treecast
from treecast import _native
from treecast.document import read

Found = list[tuple[int, int, str, str]]


def selected_by_lxml(query: Query, root: Any) -> Found:
    """(kind, element, attribute name, value) of what lxml selects, in document order."""
    place = {element: number for number, element in enumerate(root.iter(etree.Element))}
    found: Found = []
    for item in etree.XPath(query.oracle, namespaces=dict(query.oracle_namespaces))(etree.ElementTree(root)):
        if not isinstance(item, str):
            found.append((0, place[item], "", ""))
        elif item.is_attribute:  # type: ignore[attr-defined]
            found.append((1, place[item.getparent()], item.attrname, str(item)))  # type: ignore[attr-defined]
        else:
            # The text behind a comment or an element is its tail; the parent is one up.
            before = item.getparent()  # type: ignore[attr-defined]
            found.append((2, place[before.getparent() if item.is_tail else before], "", str(item)))  # type: ignore[attr-defined]
    return found


def selected(query: Query, document: bytes) -> Found:
    """The same by treecast."""
    table = read(document)
    attributes, texts = table.attributes, table.texts
    found: Found = []
    for kind, index in _native.select(document, query.text.encode(), list(query.namespaces)):
        if kind == 0:
            found.append((0, index, "", ""))
        elif kind == 1:
            element, (uri, local), value = attributes[index]
            found.append((1, element, f"{{{uri}}}{local}" if uri else local, value))
        else:
            found.append((2, texts[index][0], "", texts[index][1]))
    return found


def words(random: Random, namespaces: bool) -> Vocabulary:
    tiny = Vocabulary.tiny(random, namespaces=namespaces)
    return Vocabulary(tiny.elements, tuple((uri, name) for uri, name in tiny.attributes if name != "a"), tiny.prefixes)


def check_queries(queries: list[Query], documents: list[bytes], *, reparse: bool = False) -> int:
    """Fails where a truth value differs from lxml's; the number of decisions. All queries share one set of bindings."""
    texts = [query.text.encode() for query in queries]
    answers = _native.testing.satisfied_queries(documents, texts, list(queries[0].namespaces), reparse=reparse)
    for document, answer in zip(documents, answers, strict=True):
        tree = etree.ElementTree(etree.fromstring(document, PARSER))
        expected = [n for n, q in enumerate(queries) if compiled(q.oracle, q.oracle_namespaces)(tree)]
        for number in set(expected) ^ set(answer):
            pytest.fail(f"{queries[number].text!r} on {document!r}: lxml says {number in expected}")
    return len(queries) * len(documents)


@pytest.mark.parametrize("namespaces", [False, True])
def test_truth_against_lxml(namespaces: bool) -> None:
    random = Random(f"truth {namespaces}")
    decisions = 0
    for number in range(fewer(60)):
        drawer = ConditionDrawer(random, words(random, namespaces), depth_max=random.choice((2, 3, 4)))
        documents = [draw_valued_document(random, namespaces=namespaces) for _ in range(8)]
        decisions += check_queries([drawer.query() for _ in range(50)], documents, reparse=number % 2 == 1)
    assert decisions == fewer(60) * 400


@pytest.mark.parametrize("namespaces", [False, True])
def test_selection_against_lxml(namespaces: bool) -> None:
    random = Random(f"selection {namespaces}")
    matched = 0
    for _ in range(fewer(100)):
        drawer = ConditionDrawer(random, words(random, namespaces))
        queries = [drawer.query() for _ in range(20)]
        for _ in range(4):
            document = draw_valued_document(random, namespaces=namespaces)
            root = etree.fromstring(document, PARSER)
            for query in queries:
                expected = selected_by_lxml(query, root)
                matched += bool(expected)
                assert selected(query, document) == expected, f"{query.text!r} on {document!r}"
    assert matched > fewer(500)


def test_deep_documents_against_lxml() -> None:
    """Chains, where ancestors see the same descendants and verdicts are kept and skipped."""
    random = Random("deep")
    decisions = 0
    for _ in range(fewer(12)):
        drawer = ConditionDrawer(random, words(random, False), depth_max=3)
        documents = [chain(random, random.choice((10, 30, 70))) for _ in range(4)]
        decisions += check_queries([drawer.query() for _ in range(50)], documents)
    assert decisions == fewer(12) * 200


def test_documents_of_all_sizes_share_an_evaluator() -> None:
    """Verdicts, names and the index of one document must not survive into the next."""
    random = Random("sizes")
    drawer = ConditionDrawer(random, words(random, False))
    documents = [draw_valued_document(random, elements_max=size) for size in (200, 2, 80, 1, 300, 5, 40)]
    assert check_queries([drawer.query() for _ in range(120)], documents) == 840


@pytest.mark.parametrize(
    "query",
    [
        "//a" + "[.//a" * 40 + "]" * 40,
        "//a" + "[.//a[1]" * 30 + "]" * 30,
        "//a" + "[not(.//a" * 30 + ")]" * 30,
        "//a" + "[contains(.//a" * 20 + "[.//a]" + ", 'x')]" * 20,
        "//a" + "[descendant::a[last()]" * 30 + "]" * 30,
        "//a" + "//a" * 100 + "//b",
        "//a" + "[.//a//a//a//a = 'y']" * 10,
        "//a" + "[.//descendant::a[.//a][2]/a" * 12 + "]" * 12,
    ],
)
@pytest.mark.parametrize("shape", ["chain", "comb"])
def test_nested_descents_stay_polynomial(query: str, shape: str) -> None:
    """Without kept verdicts these take longer than anyone waits."""
    depth = 120
    side = "<a/>" if shape == "comb" else ""
    document = (f"<a>{side}" * depth + "x" + "</a>" * depth).encode()
    assert _native.testing.satisfies(document, query.encode()) in (True, False)


# --- by hand ---------------------------------------------------------------------------------------------------------

NEWS = b"""<a x="1.0" y="1"><b>one</b><b n="2">two<c>2</c></b><d><b>three</b><c>10</c></d></a>"""

MEANING: list[tuple[bytes, str, bool]] = [
    # positions: per parent, or one element
    (b"<a><b/><c><b i='1'/></c></a>", "//b[1][@i]", True),
    (b"<a><b/><c><b i='1'/></c></a>", "/descendant::b[1][@i]", False),
    (b"<a><b/><c><b i='1'/></c></a>", "/descendant::b[2][@i]", True),
    (b"<a><b/><b i='1'/></a>", "//b[@i][1]", True),
    (b"<a><b/><b i='1'/></a>", "//b[1][@i]", False),
    (b"<a><b/><b i='1'/></a>", "//b[last()][@i]", True),
    (b"<a><b/><b i='1'/></a>", "//b[position() = last() and last() = 2]", True),
    (b"<a><b/><b i='1'/></a>", "//b[0] | //b[3] | //b[1.5]", False),
    # a final attribute or text
    (NEWS, "/a/@x", True),
    (NEWS, "/a/@z", False),
    (NEWS, "/a/text()", False),
    (NEWS, "/a/b/text()", True),
    # numbers and literals
    (NEWS, "/a[@x = 1]", True),
    (NEWS, '/a[@x = "1"]', False),
    (NEWS, '/a[@y = "1"]', True),
    (NEWS, "/a[1 = @x]", True),
    (NEWS, '/a[@x < "2"]', True),
    (NEWS, '/a[@z != "1"]', False),
    (NEWS, '/a[not(@z = "1")]', True),
    (NEWS, '/a[@x != "1"]', True),
    (NEWS, "/a[b = 'two2']", True),
    (NEWS, "/a[b = 'two']", False),
    (NEWS, "/a[b != 'one']", True),
    (NEWS, "/a[not(b != 'one')]", False),
    (NEWS, "/a[d/c > 9 and d/c <= 10]", True),
    (NEWS, "/a[9 > d/c]", False),
    # NaN: every comparison false but !=
    (b"<a x='n'/>", "/a[@x = 1] | /a[@x < 1] | /a[@x > 1] | /a[@x <= 1] | /a[@x >= 1]", False),
    (b"<a x='n'/>", "/a[@x != 1]", True),
    (b"<a x='1'/>", "/a[@x < 'n'] | /a[@x >= 'n']", False),
    (b"<a x=''/>", "/a[@x = 0]", False),
    # comments and instructions split texts, not the string value; CDATA merges; nothing is trimmed
    (b"<a>x<!-- -->y</a>", "/a[. = 'xy']", True),
    (b"<a>x<!-- -->y</a>", "/a[text() = 'xy']", False),
    (b"<a>x<!-- -->y</a>", "/a[text() = 'y'][text()[2] = 'y']", True),
    (b"<a>x<?p i?>y</a>", "/a/text()[2]", True),
    (b"<a>x<![CDATA[<]]>y</a>", "/a[text() = 'x<y'][not(text()[2])]", True),
    (b"<a> x</a>", "/a[. = 'x']", False),
    (b"<a> 1\n</a>", "/a[. = 1][. = ' 1\n']", True),
    (b"<a><b>x</b><b>y</b></a>", "/a[. = 'xy']", True),
    # contains and starts-with look at the first
    (NEWS, "/a[contains(b, 'ne')]", True),
    (NEWS, "/a[contains(b, 'two')]", False),
    (NEWS, "/a[starts-with(b, 'on')]", True),
    (NEWS, "/a[contains(b[2], 'two2')]", True),
    (NEWS, "/a[contains(.//b/c, '2')]", True),
    (b"<a><b><b><c>2</c></b><c>1</c></b></a>", "/a[contains(.//b/c, '2')]", True),
    (NEWS, "/a[contains(nothing, '')]", True),
    (NEWS, "/a[contains(nothing, 'x')]", False),
    (NEWS, "/a[starts-with(@nothing, '')]", True),
    # paths from the document, also below it
    (NEWS, "//d[/a/@x]", True),
    (NEWS, "//d[//c = 2]", True),
    (NEWS, "//d[.//c = 2]", False),
    (NEWS, "$msg//d[//c = 2]", False),
    (NEWS, "$msg//d[//c = 10]", True),
    (NEWS, "$msg//d[/c = 10]", True),
    (NEWS, "//d[/c = 10]", False),
    (NEWS, "/a/d/[c = 10]", True),
    # axes
    (NEWS, "/child::a/descendant::c/self::c", True),
    (NEWS, "/a/descendant-or-self::a/attribute::x", True),
    (NEWS, "/self::a", False),
    (NEWS, "//self::c[1]", True),
    (NEWS, "/a[self::a and not(self::b)]", True),
    # unions
    (NEWS, "/z | //c", True),
    (NEWS, "/a[z | d]", True),
    (NEWS, "/a[(z | b) = 'one']", True),
    # the tree is complete when it is asked
    (b"<a><b/>late</a>", "/a[text() = 'late']/b", True),
    (b"<a/>", "/a[not(b)][not(@x)][. = '']", True),
]


@pytest.mark.parametrize(("document", "query", "expected"), MEANING)
def test_meaning(document: bytes, query: str, expected: bool) -> None:
    assert _native.testing.satisfies(document, query.encode()) is expected


NAMESPACED = b'<p:a xmlns:p="urn:1" xmlns="urn:2" p:x="1" x="2"><b p:y="3"/><c xmlns=""/></p:a>'
NAMESPACES: list[tuple[str, dict[str, str], bool]] = [
    ("/a", {}, False),
    ("/q:a", {"q": "urn:1"}, True),
    ("/a", {"": "urn:1"}, True),
    ("/q:a/b", {"q": "urn:1", "": "urn:2"}, True),
    ("/q:a/b", {"q": "urn:1"}, False),
    ("/q:a/c", {"q": "urn:1"}, True),
    ("/q:*/*/@q:*", {"q": "urn:1"}, True),
    ("/q:*", {"q": "urn:2"}, False),
    ("/*[local-name()='a']", {}, True),
    ("//*[local-name()='b'][@*[local-name()='y']]", {}, True),
    ("//*[local-name()='y']", {}, False),
    ("/*[@x = 2]", {"": "urn:2"}, True),
    ("/*[@q:x = 1]", {"q": "urn:1"}, True),
    ("/*[@q:x = 2]", {"q": "urn:1"}, False),
    ("//@xml:lang", {}, False),
]


@pytest.mark.parametrize(("query", "namespaces", "expected"), NAMESPACES)
def test_namespaces(query: str, namespaces: dict[str, str], expected: bool) -> None:
    assert _native.testing.satisfies(NAMESPACED, query.encode(), list(namespaces.items())) is expected


def test_selection_is_in_document_order_across_kinds() -> None:
    document = b'<a x="1">t<b y="2">u<c/>v</b><b/>w</a>'
    found = _native.select(document, b"//b | //@* | //text() | //c | /a")
    named = [("element", "attribute", "text")[kind] + str(index) for kind, index in found]
    assert named == [
        "element0", "attribute0", "text0", "element1", "attribute1", "text1", "element2", "text2", "element3", "text3",
    ]  # fmt: skip


NUMBERS = [
    ("1", 1.0), ("-1", -1.0), (" \t\r\n1 ", 1.0), ("1.", 1.0), (".5", 0.5), ("-.5", -0.5), ("007", 7.0),
    ("0.1", 0.1), ("9007199254740993", 9007199254740992.0), ("1" + "0" * 400, math.inf), ("-1" + "0" * 400, -math.inf),
    ("0." + "0" * 400 + "1", 0.0), ("1.7976931348623157" + "0" * 20, 1.7976931348623157),
]  # fmt: skip
NOT_NUMBERS = [
    "", " ", ".", "-", "+1", "1e3", "1E3", "--1", "- 1", "1 2", "1-", "1.2.3", "0x10", "NaN", "Infinity", "inf",
    "\u00a01", "\u0661", "1_0", "1,0", "\x0b1", "-.", "..5",
]  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers(text: str, number: float) -> None:
    assert _native.to_number(text.encode()) == number


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_not_numbers(text: str) -> None:
    assert math.isnan(_native.to_number(text.encode()))


def test_numbers_round_as_python_does() -> None:
    random = Random("numbers")
    for _ in range(2000):
        text = f"{'-' * random.randint(0, 1)}{random.randrange(10 ** random.randint(1, 25))}"
        text += random.choice(("", ".", f".{random.randrange(10 ** random.randint(1, 25))}"))
        assert _native.to_number(text.encode()) == float(text)


# --- ordered patterns ------------------------------------------------------------------------------------------------


def test_ordered_against_brute_force() -> None:
    random = Random("ordered")
    decisions = matched = reordered = 0
    for _ in range(fewer(700)):
        pattern = draw_pattern(random)
        text = pattern.written(branch=False).encode()
        for document in [draw_small_document(random) for _ in range(8)]:
            expected = Oracle(document).selected(pattern)
            context = f"{text.decode()!r} on {document!r}"
            assert _native.select(document, text, ordered=True) == [(0, place) for place in expected], context
            assert _native.testing.satisfies(document, text, ordered=True) == bool(expected), context
            decisions += 1
            matched += bool(expected)
            reordered += _native.testing.satisfies(document, text) != bool(expected)
    assert decisions == fewer(700) * 8
    assert matched > fewer(500)
    assert reordered > fewer(50)


ORDERED: list[tuple[bytes, str, bool]] = [
    (b"<a><b/><c/></a>", "/a[b][c]", True),
    (b"<a><c/><b/></a>", "/a[b][c]", False),
    (b"<a><b/><c/></a>", "/a[b and c]", True),
    (b"<a><c/><b/></a>", "/a[b]/c", False),
    (b"<a><b/><c/></a>", "/a[b]/c", True),
    (b"<a><b/></a>", "/a[b][b]", False),
    (b"<a><b/><b/></a>", "/a[b][b]", True),
    (b"<a><b><c/></b></a>", "/a[b][.//c]", True),
    (b"<a><b><c/></b></a>", "/a[.//c][b]", False),
    (b"<a x='1'><b/></a>", "/a[b][@x]", True),
    (b"<a><b/>t</a>", "/a[b][text() = 't']", True),
    (b"<a>t<b/></a>", "/a[b]/text()", True),
    (b"<a><b>1</b><c/><b>2</b></a>", "/a[c][b = 2]", True),
    (b"<a><b>1</b><c/><b>2</b></a>", "/a[c][b = 1]", False),
    (b"<a><b>1</b><c/><b>1</b></a>", "/a[c][contains(b, '1')]", False),
    (b"<a><c/><b>1</b></a>", "/a[c][contains(b, '1')]", True),
    (b"<a><d><c/><b/></d><d><b/><c/></d></a>", "/a/d[b][c]", True),
    (b"<a><d><c/><b/></d></a>", "/a[d[b][c]]", False),
    (b"<a><c/><b/></a>", "/a[b][c] | /a[c][b]", True),
    (b"<a><b/><c/></a>", "/*[local-name()='a' and b][c]", True),
]


@pytest.mark.parametrize(("document", "query", "expected"), ORDERED)
def test_ordered(document: bytes, query: str, expected: bool) -> None:
    assert _native.testing.satisfies(document, query.encode(), ordered=True) is expected


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("/a[b or c]", "[b or c]"),
        ("/a[b][not(c)]", "[not(c)]"),
        ("/a[b and not(c)]", "not(c)"),
        ("/a[2][b]", "[2]"),
        ("/a[b[last()]][c]", "[last()]"),
        ("/a[b][position() > 1]", "[position() > 1]"),
        ("/a[b | c]", "[b | c]"),
        ("/a[(b | c) = 1]", "[(b | c) = 1]"),
        ("/a[b][/a/c]", "/a/c"),
        ("/a[contains(/a, 'x')]", "/a"),
        ("/a[self::a/b]", "self::a"),
        ("/a[b]//self::b", "self::b"),
        ("/a[b][*[local-name() != 'c']]", "[local-name() != 'c']"),
        ("/a[b] | /a[c or d]", "[c or d]"),
    ],
)
def test_what_ordered_patterns_refuse(query: str, refused: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        _native.testing.satisfies(b"<a/>", query.encode(), ordered=True)
    assert caught.value.code == "TC112"
    assert query[caught.value.position :].startswith(refused)
    assert caught.value.hint


def test_oracle_of_ordered_patterns_knows_the_definition() -> None:
    """The oracle is checked by hand, too."""
    two = Pattern(False, "a", (Pattern(False, "b"), Pattern(False, "c")))
    assert two.written(branch=False) == "/a[b][c]"
    assert Oracle(b"<a><b/><c/></a>").selected(two) == [0]
    assert Oracle(b"<a><c/><b/></a>").selected(two) == []
    assert Oracle(b"<a><c/><b/></a>").selected(Pattern(False, "a", (Pattern(False, "b"),), Pattern(True, "c"))) == []
