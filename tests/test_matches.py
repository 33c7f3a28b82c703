"""`matches()`: Python's re and Saxon are the oracles, hostile patterns take linear time, all ways in answer alike."""

from __future__ import annotations

import re
import unicodedata
from random import Random
from xml.sax.saxutils import quoteattr

import pytest
from generators.regexes import Regex, RegexDrawer
from support.placements import MAKERS, answers
from support.sanitized import fewer

import treecast
from treecast import Index, LimitError, QueryError, _native
from treecast.index.explain import explain
from treecast.model import Subscription
from treecast.overlay.onyx.routing import RoutingTable, map_subscription
from treecast.placement.placement import violations

# Repetition in repetition, for which Saxon may take exponential time.
NESTED = re.compile(r"[*+?}]\)[*+{]|\)[*+{].*\)[*+{]")


def literal(text: str) -> str:
    return f'"{text}"'


def query_of(regex: Regex, path: str = "/a/@x") -> str:
    flags = f", {literal(regex.flags)}" if regex.flags else ""
    return f"/a[matches({path}, {literal(regex.text)}{flags})]"


def document_of(value: str) -> bytes:
    """A value in an attribute and in an element, as it is."""
    written = quoteattr(value, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
    text = value.replace("&", "&amp;").replace("<", "&lt;")
    return f"<a x={written}><b>{text}</b><b>zzz</b></a>".encode()


def python_holds(regex: Regex, value: str) -> bool:
    flags = re.IGNORECASE if "i" in regex.flags else re.NOFLAG
    return re.search(regex.python, value, flags) is not None


def test_drawn_patterns_match_what_re_finds() -> None:
    random = Random("re")
    drawer = RegexDrawer(random)
    matched = decisions = 0
    for _ in range(fewer(40)):
        regexes = [drawer.regex() for _ in range(30)]
        values = [drawer.value(random.choice(regexes)) for _ in range(12)]
        index = Index()
        index.add_many((f"x{place}", query_of(regex)) for place, regex in enumerate(regexes))
        index.add_many((f"b{place}", query_of(regex, "b")) for place, regex in enumerate(regexes))
        for value in values:
            expected = {place for place, regex in enumerate(regexes) if python_holds(regex, value)}
            ids = index.match(document_of(value))
            for kind in "xb":
                answered = {int(each[1:]) for each in ids if each[0] == kind}
                wrong = [(regexes[place], value, place in expected) for place in answered ^ expected]
                assert not wrong, wrong[0]
            matched += len(expected)
            decisions += len(regexes)
    assert 0.2 < matched / decisions < 0.8


@pytest.mark.house
def test_drawn_patterns_match_what_saxon_finds() -> None:
    from oracles.saxon_expressions import processor
    from saxonche import PySaxonApiError

    random = Random("saxon")
    drawer = RegexDrawer(random)
    xpath = processor().new_xpath_processor()
    xpath.set_context(xdm_item=processor().parse_xml(xml_text="<a/>"))
    decisions = 0
    for _ in range(400):
        regex = drawer.regex()
        if NESTED.search(regex.text):
            continue
        value = drawer.value(regex)
        points = ", ".join(str(ord(character)) for character in value)
        expression = f"matches(codepoints-to-string(({points})), '{regex.text}', '{regex.flags}')"
        try:
            expected = bool(xpath.effective_boolean_value(expression))
        except PySaxonApiError:
            continue
        decisions += 1
        assert holds(query_of(regex), document_of(value)) == expected, expression
    assert decisions > 200


def holds(query: str, document: bytes) -> bool:
    index = Index()
    index.add("q", query)
    return index.match(document) == ["q"]


def value_holds(pattern: str, value: str, flags: str = "") -> bool:
    return holds(query_of(Regex(pattern, flags, "")), document_of(value))


@pytest.mark.parametrize(
    ("pattern", "flags", "value", "expected"),
    [
        ("^a$", "m", "b\na\nb", True),
        ("^a$", "", "b\na\nb", False),
        ("a$", "", "a\n", False),
        ("a$", "m", "a\n", True),
        ("\n^", "m", "a\n", False),
        ("$", "m", "\n", True),
        ("a.b", "", "a\nb", False),
        ("a.b", "s", "a\nb", True),
        ("a.b", "", "a\rb", False),
        ("a b", "x", "ab", True),
        ("a[ ]b", "x", "a b", True),
        ("STRASSE", "i", "straße", False),
        ("k", "i", "\u212a", True),
        ("[^K]", "i", "k", False),
        (r"\p{Lu}", "i", "k", False),
        ("[a-z-[k]]", "i", "K", False),
        (r"^\c+$", "", "a.b-1:é", True),
        (r"^\i\c*$", "", "1a", False),
        (r"^\d+$", "", "٣", True),
        (r"\p{Nd}{2}", "", "1٣", True),
        (r"^\w+$", "", "a_b", False),
        (r"^[\w-]+$", "", "a-b", True),
        ("a{2,3}?b", "", "xaab", True),
        ("", "", "", True),
        ("()*a", "", "a", True),
        ("(a*)*b", "", "aaab", True),
        ("[-a]", "", "-", True),
        ("[a^]", "", "^", True),
    ],
)
def test_edges(pattern: str, flags: str, value: str, expected: bool) -> None:
    assert value_holds(pattern, value, flags) == expected


def test_the_first_item_is_looked_at() -> None:
    """As XPath 1.0 makes a string of a path; without an item it is empty."""
    document = b"<a><b>x</b><b>y</b></a>"
    assert holds('/a[matches(b, "x")]', document)
    assert not holds('/a[matches(b, "y")]', document)
    assert holds('/a[matches(c, "^$")]', document)
    assert not holds('/a[matches(c, "x")]', document)
    assert holds('/a[matches(count(b), "^2$")]', document)
    assert holds('matches(normalize-space(/a/b), "X", "i")', document)


QUERIES = (
    '//b[matches(@x, "^ab+c$")]',
    '//b[not(matches(., "[0-9]"))]',
    'matches(//b, "A(b|c)", "i")',
    '//b[matches(@x, "b") and @x != "b"]/c',
    "//b[matches(.., '\\d{2}')] | //c[matches(., '(x|yy)z?$')]",
    '//c[matches(string(@x), "cd|ef.")]',
    'not(matches(/a/@y, "q"))',
    '//b[matches(normalize-space(.), "^x y$")]',
)
DOCUMENTS = (
    b'<a><b x="abbc">12</b><c>yyz</c></a>',
    b'<a y="q"><b x="xb"><c x="cd">x</c></b></a>',
    b"<a><b>  x   y </b><b>AC</b></a>",
    b'<a><b>Ab 1</b><c x="efg"/></a>',
)


def expected_ids() -> list[list[str]]:
    """By the exact evaluator alone, for one query at a time in an index of its own."""
    return [[str(place) for place, query in enumerate(QUERIES) if holds(query, document)] for document in DOCUMENTS]


def test_every_way_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    index = Index()
    index.add_many((str(place), query) for place, query in enumerate(QUERIES))
    expected = expected_ids()
    assert sum(map(len, expected)) > 8
    path = tmp_path_factory.mktemp("matches") / "saved.tcx"
    index.save(path)
    canonical = Index()
    canonical.add_many((str(place), str(treecast.parse(query))) for place, query in enumerate(QUERIES))
    for each in (index, Index.load(path), canonical):
        assert [each.match(document) for document in DOCUMENTS] == expected
    for document, ids in zip(DOCUMENTS, expected, strict=True):
        for place, query in enumerate(QUERIES):
            assert explain(document, query).matched == (str(place) in ids)


@pytest.mark.parametrize("name", list(MAKERS))
def test_placements_and_tables_lose_nothing(name: str) -> None:
    subscriptions = [Subscription(str(place), query) for place, query in enumerate(QUERIES)]
    placement = MAKERS[name](3, list(DOCUMENTS[:2]))
    placement.add_many(subscriptions)
    assert violations(placement, DOCUMENTS, answers(subscriptions, DOCUMENTS)) == []
    table = RoutingTable()
    for each in subscriptions:
        table.update(each.id, map_subscription(each))
    for targets, ids in zip(table.route(DOCUMENTS), expected_ids(), strict=True):
        assert set(ids) <= set(targets)


def test_covering_is_sound() -> None:
    plain, same, other = (treecast.parse(f'//b[matches(@x, "{pattern}")]') for pattern in ("a+", "a+", "a"))
    assert plain.covers(same)
    assert not other.covers(treecast.parse("//b[@x]"))
    assert treecast.parse("//b").covers(plain)
    assert not plain.covers(treecast.parse("//b"))


@pytest.mark.parametrize("engine", ["xfilter", "yfilter", "xtrie", "hybrid"])
def test_engines_of_papers_refuse_it(engine: str) -> None:
    with pytest.raises(QueryError, match="TC150"):
        Index(engine=engine).add("q", QUERIES[0])


# --- limits -----------------------------------------------------------------------------------------------------------

# Patterns that take others exponential time, with a value that starts to match and never does.
EXPLOSIVE = {
    "nested repetition": ("^(a+)+$", "a", "b"),
    "nested alternatives": ("^(a|a)*$", "a", "b"),
    "optional then exact": ("^(a?){500}a{500}$", "a", "b"),
    "empty loops": ("^((a*)*)*$", "a", "b"),
    "three loops": ("a*a*a*a*a*b", "a", "c"),
    "many states": ("(a|b)*a(a|b){12}$", "ab", "c"),
    "a wide set": (r"(\w|\d|[a-z])*-$", "é", "b"),
}


@pytest.mark.parametrize("name", EXPLOSIVE)
def test_hostile_patterns_take_linear_time(name: str) -> None:
    """No clock: what others take exponential time for would not come back."""
    pattern, again, end = EXPLOSIVE[name]
    document = document_of(again * fewer(200_000) + end)
    index = Index(limits=treecast.Limits(attribute_bytes_max=1 << 20))
    index.add_many([("hostile", query_of(Regex(pattern, "", ""), "b")), ("harmless", "/a")])
    ids, undecided = index.match_one(document)
    assert "harmless" in ids
    assert [row[1] for row in undecided] in ([], ["hostile"])
    assert "hostile" not in ids


def test_states_beyond_the_cache_are_made_again() -> None:
    """A value leads to new states all the way, far more than are kept."""
    random = Random("thrash")
    value = "".join(random.choice("ab") for _ in range(fewer(60_000)))
    index = Index(limits=treecast.Limits(work_per_item_max=1 << 30))
    index.add("q", query_of(Regex("a(a|b){14}c", "", ""), "b"))
    assert index.match_one(document_of(value)) == ([], [])
    assert index.match_one(document_of(value + "a" * 15 + "c")) == (["q"], [])


def test_size_is_limited() -> None:
    assert value_holds("^x{1,4000}$", "x" * 4000)
    for pattern in ("x{1,20000}", "((x{100}){100}){100}", "(" * 65 + ")" * 65, "((((x{999}){999}){999}){999}){999}"):
        with pytest.raises(LimitError, match="TC334"):
            treecast.parse(query_of(Regex(pattern, "", "")))


def test_empty_groups_cost_nothing() -> None:
    assert value_holds("^(" + "()" * 15_000 + "x){5000}$", "x" * 5000)
    assert value_holds("((){1000000}){1000000}x", "x")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a(b", 1), ("a)b", 1), ("[a", 0), ("[]", 0), ("a**", 2), ("*a", 0), ("a{2", 3), ("a{,2}", 2), ("a{3,2}", 1),
        (r"(a)\1", 3), ("(?=a)", 0), ("(?i)a", 0), (r"a\b", 1), (r"\p{IsGreek}", 0), (r"\p{Xx}", 0), (r"\pL", 0),
        ("a]", 1), ("a}", 1), ("[a-c-e]", 4), ("[c-a]", 3), (r"[a-\d]", 3), ("[[]", 1), ("[a-[b]c]", 6), ("a\\", 1),
    ],
)  # fmt: skip
def test_refusals_have_a_position_and_a_hint(pattern: str, position: int) -> None:
    query = query_of(Regex(pattern, "", ""))
    with pytest.raises(QueryError) as refused:
        treecast.parse(query)
    assert refused.value.code == "TC120"
    assert refused.value.position == query.index('"') + 1 + position
    assert refused.value.hint


# --- what is shared ---------------------------------------------------------------------------------------------------


def test_texts_of_patterns_decide_first() -> None:
    """The shared machines leave nothing to evaluate where the texts that the patterns require are missing."""
    index = Index(limits=treecast.Limits(work_per_item_max=1))
    value = "x" * 5000
    index.add_many(
        (f"q{place}", query_of(Regex(f"a+ code{place}|^[A-Z]{{2}}more{place}", "", ""))) for place in range(300)
    )
    index.match(document_of(value))
    before = _native.testing.looked_at(index._native)
    assert before < 100
    index.add("run", query_of(Regex("[xy]+z?$", "", "")))
    index.match(document_of(value))
    assert _native.testing.looked_at(index._native) > before + 500


def test_kinds_of_characters_are_those_of_unicode() -> None:
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip("another version of Unicode than that of the table")
    random = Random("kinds")
    for _ in range(fewer(300)):
        character = chr(random.choice((random.randrange(0x20, 0x3000), random.randrange(0x20, 0xD800), 0x10400)))
        kind = unicodedata.category(character)
        quoted = character if character not in "&<" else "x"
        kind = unicodedata.category(quoted)
        assert value_holds(rf"^\p{{{kind}}}$", quoted)
        assert value_holds(rf"^[\p{{{kind[0]}}}]$", quoted)
        if len(quoted.swapcase()) == 1 and quoted not in '\\|.?*+(){}-[]^$"':
            assert value_holds(f"^{quoted}$", quoted.swapcase(), "i")
