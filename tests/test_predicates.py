"""Predicates through the Index: treecast answers what lxml does. Small twin of tests/long/test_full_predicates.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import words_of
from generators.values import DOCUMENT_VALUES, ValueDrawer, draw_samples
from oracles.differential import AFTERWARDS, CALLS, WAYS, Query, Setting, compare, ordered, plain, smallest
from oracles.ordered_patterns import draw_pattern, draw_small_document
from support.rounds import real_documents
from support.rounds_conditions import (
    CONDITION_ROUNDS,
    YFILTER_DOCUMENTS,
    condition_words,
    round_values,
    yfilter_queries,
)
from support.sanitized import fewer

from treecast import Index

# (queries in one index, documents) of each round, and how many rounds of each.
SIZES = ((1, 20), (50, 8), (400, 4))
ROUNDS_EACH = {
    "language": (60, 12, 3),
    "namespaces": (30, 8, 2),
    "values": (80, 14, 4),
    "deep": (10, 3, 1),
    "samples": (10, 3, 1),
    "ordered": (30, 8, 1),
}


@pytest.mark.parametrize("name", list(CONDITION_ROUNDS))
def test_drawn_rounds(name: str) -> None:
    random = Random(f"{name} conditions")
    decisions = 0
    for (queries, documents), rounds in zip(SIZES, map(fewer, ROUNDS_EACH[name]), strict=True):
        for _ in range(rounds):
            decisions += CONDITION_ROUNDS[name](random, queries, documents)
    assert decisions == sum(q * d * fewer(r) for (q, d), r in zip(SIZES, ROUNDS_EACH[name], strict=True))


def crowd(random: Random) -> tuple[list[Query], list[bytes]]:
    """A case with something of everything, ordered patterns among it."""
    values = ValueDrawer(random)
    language = ConditionDrawer(random, condition_words(random, namespaces=False))
    queries = [draw() for draw in (values.query, language.query) * 12]
    queries += [ordered(draw_pattern(random)) for _ in range(6)]
    random.shuffle(queries)
    documents = [draw_valued_document(random, elements_max=12, values=DOCUMENT_VALUES) for _ in range(5)]
    return queries, [*documents, draw_small_document(random)]


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("afterwards", list(AFTERWARDS))
@pytest.mark.parametrize("simd", [0, 1])
def test_every_way_in(way: str, afterwards: str, simd: int) -> None:
    """Each way in with each instruction set, as built and after saving, every call once."""
    queries, documents = crowd(Random(17))
    for number, call in enumerate(CALLS):
        setting = Setting(way, call, ("default", "none", "tiny")[number % 3], simd, 5 + number, afterwards)
        assert compare(queries, documents, [setting]) == 180


@pytest.mark.parametrize("simd", [0, 1])
def test_three_thousand_queries_in_one_index(simd: int) -> None:
    """So many that words, blocks and directories of the machine are crossed."""
    random = Random(f"three thousand {simd}")
    language = ConditionDrawer(random, condition_words(random, namespaces=False), depth_max=3)
    values = ValueDrawer(random)
    queries = [random.choice((language, values)).query() for _ in range(fewer(3000))]
    documents = [draw_valued_document(random, values=DOCUMENT_VALUES) for _ in range(3)]
    assert compare(queries, documents, [Setting(simd=simd), Setting("mixed", simd=simd, seed=3)]) == 3 * len(queries)


def test_changes_and_saves_in_turn() -> None:
    """One index that lives long: it is changed, saved, loaded and asked, and always agrees with a new one's oracle."""
    random = Random("in turn")
    drawer = ConditionDrawer(random, condition_words(random, namespaces=False))
    live = [drawer.query() for _ in range(40)]
    for number in range(12):
        for _ in range(random.choice((1, 5, 20))):
            place = random.randrange(len(live))
            live[place] = drawer.query() if random.random() < 0.5 else live[place]
        documents = [draw_valued_document(random) for _ in range(3)]
        settings = [Setting(way, seed=number, afterwards="saved twice") for way in ("mixed", "after removals")]
        assert compare(live, documents, settings) == 120


def test_order_of_the_answers() -> None:
    """Ids come in the order they were added, whatever machine found them; a replaced one keeps its place."""
    random = Random("answers in order")
    language = ConditionDrawer(random, condition_words(random, namespaces=False))
    queries = [language.query() if number % 3 else plain("//a") for number in range(120)]
    index = Index()
    index.add_many((f"q{place}", query.text) for place, query in enumerate(queries[:70]))
    for place, query in enumerate(queries[70:], start=70):
        index.add(f"q{place}", query.text)
    for place in random.sample(range(120), 30):
        index.replace(f"q{place}", "/nothing")
        index.replace(f"q{place}", queries[place].text)
    for _ in range(20):
        found = [int(name[1:]) for name in index.match(draw_valued_document(random))]
        assert found == sorted(found)


# --- by hand: what drawn cases meet too rarely ------------------------------------------------------------------------


def agree(document: bytes, *queries: str) -> None:
    """Alone and together, every query is answered as lxml answers it."""
    for setting in (Setting(), Setting("one by one"), Setting(afterwards="saved and loaded")):
        compare([plain(query) for query in queries], [document], [setting])
    for query in queries:
        compare([plain(query)], [document], [Setting()])


@pytest.mark.parametrize(
    "value", ["-1", "0", "-0", "1", "1.0", " 1 ", "1.5", "2", "3", "", "x", "NaN", "-", ".5", "01"]
)
def test_every_bound_at_once(value: str) -> None:
    """Six relations with each number of a grid, on either side, as numbers and as literals, and their negations."""
    relations = ("=", "!=", "<", "<=", ">", ">=")
    numbers = ("-1", "0", "0.5", "1", "1.5", "2", "3")
    conditions = [f"@x {relation} {number}" for relation in relations for number in numbers]
    conditions += [f"{number} {relation} @x" for relation in relations for number in numbers]
    conditions += [
        f"@x {relation} '{number}'" for relation in relations for number in (*numbers, "", "x", "1.0", "NaN")
    ]
    queries = [f"//a[{condition}]" for condition in conditions] + [f"//a[not({condition})]" for condition in conditions]
    agree(f'<r><a x="{value}"/></r>'.encode(), *queries)


def test_bounds_of_neighbouring_labels_do_not_mix() -> None:
    """One label's facts end where the next one's begin."""
    queries = [
        f"//{element}[{operand} {relation} {number}]"
        for element in "abc"
        for operand in ("@x", "@y", ".", "text()")
        for relation in ("<", "<=", ">", ">=", "=")
        for number in range(4)
    ]
    for values in ("0123", "3210", "1111", "0303"):
        x, y, text, other = values
        agree(f'<r><a x="{x}" y="{y}">{text}</a><b x="{other}">{x}</b><c y="{text}"/></r>'.encode(), *queries)


def test_substrings_that_overlap() -> None:
    """One automaton finds them all, in whatever order they end."""
    pieces = ["a", "b", "ab", "ba", "aba", "bab", "abab", "baba", "aa", "aab", "abb", "bb", "é", "aé", "éb", "ababab"]
    queries = [f"//e[contains({operand}, '{piece}')]" for piece in pieces for operand in (".", "@x")]
    queries += [f"//e[starts-with({operand}, '{piece}')]" for piece in pieces for operand in (".", "@x")]
    queries += [f"//e[not(contains(., '{piece}'))]" for piece in pieces]
    for text in ("", "a", "b", "abab", "babab", "aabb", "bbaab", "aéb", "éaéb", "ab<i>ab</i>ab", "a<!-- -->b", "xaby"):
        value = text.replace("<i>", "").replace("</i>", "").replace("<!-- -->", "")
        agree(f'<r><e x="{value}">{text}</e></r>'.encode(), *queries)


def test_long_values_that_are_only_compared() -> None:
    """Text that goes on beyond everything it is compared with, in one piece and in several."""
    for pieces in (["abc"], ["a", "bc"], ["a", "b", "c", "d"], ["", "abcd"], ["abcd", "abcd"], ["abc", "x" * 5000]):
        document = f"<r><e>{'<i/>'.join(pieces)}</e><f>{''.join(pieces)}</f></r>".encode()
        for queries in (["//e[. = 'abc']"], ["//e[. != 'abc']"], ["//*[. = 'abc']", "//e[. = 'abcd']", "//f[. = '']"],
                        ["//e[. = 'abc']", "//e[starts-with(., 'abcdab')]"]):  # fmt: skip
            agree(document, *queries)


def test_more_ways_than_are_spelt_out() -> None:
    """`or` is multiplied out only so far; beyond, and under `not`, the answer has to stay right."""
    both = " and ".join(f"(@x = {number} or b = {number})" for number in range(7))
    either = " or ".join(f"@x = {number} and @y = {number}" for number in range(70))
    nested = "a[b or c]/b[a or c]/c[a or b]/a[b or c]/b[a or c]/c[a or b]/a[b or @x]"
    queries = [f"//a[{condition}]" for condition in (both, either, nested, f"({both}) or {either}")]
    queries += [f"//a[not({condition})]" for condition in (both, either, nested)] + [f"//{nested}"]
    line = "<a><b/><b><a/><c><b/><a><c/><b><c/><c><a/><a x='1'/></c></b></a></c></b></a>"
    for document in (
        f"<a>{''.join(f'<b>{number}</b>' for number in range(7))}</a>",
        "<a x='3' y='3'/>", "<a x='3' y='4'/>", "<a x='0'><b>1</b><b>2</b></a>", f"<a>{line}</a>", line, "<b/>",
    ):  # fmt: skip
        agree(document.encode(), *queries)


def test_many_equal_children() -> None:
    """Beyond a thousand entries, an element's list of what its children said is shortened on the way."""
    queries = [
        "//a[b = 3]",
        "//a[b][c]",
        "//a[not(b = 5000)]",
        "//a[b/@x = 1][b/@x = 2]",
        "//r[.//b = 2][.//c]",
        "//a[c]",
    ]
    queries += [f"//a[b = {number}]" for number in range(100)] + [f"//r[.//b = {number}]" for number in range(100)]
    document = "<r><a>" + "".join(f"<b x='{n % 3}'>{n % 90}</b>" for n in range(2500)) + "<c/></a><a><b>95</b></a></r>"
    agree(document.encode(), *queries)


def test_positions_before_and_after_conditions() -> None:
    bits = "<b/><b x='1'/><c/><b x='1'>1</b><b>2</b><c x='2'/><b x='2'>2</b>"
    conditions = [
        "[1]",
        "[2]",
        "[last()]",
        "[position() < 3]",
        "[position() >= 2]",
        "[position() != 2]",
        "[last() > 4]",
    ]
    others = ["[@x]", "[@x = 1]", "[. = 2]", "[not(@x)]", "[@x or . = 2]"]
    queries = [f"//{name}{first}{second}" for name in ("b", "*") for first in conditions for second in others]
    queries += [f"//{name}{second}{first}" for name in ("b", "*") for first in conditions for second in others]
    queries += [f"//a[b{first}{second}]" for first in conditions for second in others]
    queries += [f"/descendant::b{first}{second}" for first in conditions for second in others]
    queries += [f"//b[position() = 2 or {second[1:-1]}]{first}" for first in conditions for second in others]
    queries += [f"//b[not({first[1:-1]}) and {second[1:-1]}]" for first in conditions[3:] for second in others]
    for document in (f"<a>{bits}</a>", f"<a><a>{bits}</a>{bits}</a>", "<a><b/></a>", "<a><b x='1'/><a><b/></a></a>"):
        agree(document.encode(), *queries)


@pytest.mark.parametrize("shared", ["//a[b]", "//a[@x = 1]", "//a[not(b)]", "//a[.//c > 1]"])
def test_what_other_queries_add_changes_nothing(shared: str) -> None:
    """The same query, with each other one beside it: a bit too many or too few would show."""
    others = ["//a[b][c]", "//b[a]", "//a[b/c]", "//a[@x = 2]", "//a[@x < 2]", "//*[b]", "//a[not(@x)]", "//a[c > 1]",
              "/a[b]", "//a[b=1]", "//a[.//c]", "//a[.//c >= 1]", "//a[contains(., '1')]", "//a[b or c]"]  # fmt: skip
    for document in ("<a x='1'><b>1</b></a>", "<r><a x='2'><c>2</c></a></r>", "<a><a><b><c>1</c></b></a></a>", "<a/>"):
        for other in others:
            compare([plain(other), plain(shared)], [document.encode()], [Setting(), Setting("one by one")])
        agree(document.encode(), *others, shared)


# --- real documents --------------------------------------------------------------------------------------------------


def test_real_documents(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("predicates drawn from real documents against lxml")
        return
    random = Random(31)
    everything = [document for document in real_documents(data_directory) if len(document) < 20_000]
    for _ in range(5):
        chosen = random.sample(everything, 5)
        words = words_of(random, chosen)
        assert compare(draw_samples(random, chosen, words, 60), chosen, [Setting.draw(random)]) == 300


def test_yfilter_queries(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("the queries of YFilter's generator against lxml")
        return
    queries = Random(37).sample(yfilter_queries(data_directory, "nitf-2-5"), 2000)
    documents = sorted((data_directory / "docs" / YFILTER_DOCUMENTS["nitf-2-5"]).glob("*.xml"))[:5]
    assert compare(queries, [path.read_bytes() for path in documents], [Setting()]) == 10_000


# --- the harness itself ----------------------------------------------------------------------------------------------


def test_a_wrong_answer_is_shown_small() -> None:
    """An oracle that is asked for something else stands for a wrong answer."""
    wrong = Query("//a[b[@x = 1]/c]", "//nothing")
    documents = [b"<a><b/></a>", b"<r y='2'><a z='3'><b x='1' y='2'><c/></b>text</a></r>"]
    report = smallest([plain("//b"), wrong, plain("//a[c]")], documents, Setting("one by one"))
    assert report.count("\n  q") == 1
    assert "alone in a new index 1 of the 1 queries still differ" in report
    assert """document: b'<r><a><b x="1" y="2"><c/></b></a></r>'""" in report
    assert "treecast says [0], lxml []" in report


def test_drawn_values_satisfy_about_half() -> None:
    """A drawer whose queries all match, or none, would test little."""
    random = Random("half")
    matched = decisions = 0
    for _ in range(5):
        drawer = ValueDrawer(random)
        index = Index()
        index.add_many((str(number), drawer.query().text) for number in range(200))
        for _ in range(10):
            matched += len(index.match(draw_valued_document(random, values=DOCUMENT_VALUES)))
            decisions += 200
    assert 0.2 < matched / decisions < 0.8
    assert round_values(random, 10, 2) == 20
