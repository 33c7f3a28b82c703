"""Covering: never a wrong yes, complete for two fragments, and the cases that one would try by hand."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from generators.covering_pairs import (
    ALL,
    DESCEND,
    MIXED,
    NAMESPACES,
    WILD,
    Dialect,
    count_triples,
    draw_pair,
    is_contained,
)
from generators.functions import FUNCTIONS
from lxml import etree

import treecast
from treecast.query.functions import Function
from treecast.query.values import Test, implies, is_impossible, passes

pytestmark = pytest.mark.house


def covers(a: str, b: str) -> bool:
    one, other = (treecast.Query(text, NAMESPACES) for text in (a, b))
    return one.covers(other)


YES = [
    # paths
    ("//a", "/a"),
    ("//a", "/b//a"),
    ("/*", "/a"),
    ("/*", "//@x"),
    ("//*", "//text()"),
    ("//*", "/a[not(b)]"),
    ("/a//c", "/a/b/c"),
    ("//a/b", "/x/a/b[c]/d"),
    ("/a/b", "/a/b/@x"),
    ("/a/@*", "/a/@x"),
    ("//@x", "/a/@x"),
    ("//*[@x]", "//@x"),
    ("//*/@x", "/a//@x"),
    ("/a[.//@x]", "/a//@x"),
    ("/a//text()", "/a/b/text()"),
    ("//a[text()]", "//a[text()='v']"),
    ("/a//*/b", "/a/*//b"),
    ("/a/*//b", "/a//*/b"),
    ("/a/*/*//b", "/a//*//*//b"),
    ("/a[*]", "/a[.//b]"),
    ("//*[*/*]", "//a//b//c"),
    ("/a | /*//a", "//a"),
    ("/a/self::*", "/a"),
    ("/a", "/*/self::a"),
    ("/a/descendant-or-self::*", "/a"),
    ("//a//c", "//a/b/descendant-or-self::c"),
    ("/a | //b", "/a/descendant-or-self::b"),
    # every branch counts, the main path is just one of them
    ("/a/c", "/a[b]/c"),
    ("/a/b", "/a[b]/c"),
    ("/a[b][c]", "/a[c]/b"),
    ("/a[b/d][b/e]", "/a/b[d][e]"),
    ("//Stock/Symbol", "//Stock[Symbol/text()='GHI'][Price/text()>15]"),
    # one root element, one attribute of a name
    ("/a[b]", "/a[/*/b]"),
    ("/a//x", "//x[/a]"),
    ("//a[/b]", "/b[.//a]"),
    ("//b//a", "//a[/b]"),
    ("/a[@x[. > 0 and . < 6]]", "/a[@x > 1][@x < 5]"),
    # choices
    ("/a[b] | /a[c]", "/a[b or c]"),
    ("/a[b or c]", "/a[c]"),
    ("/a[b or c]", "/a[b | c]"),
    ("/a | /b | /c", "/a | /b"),
    ("//a[b]", "/x/a[b and (c or d)]"),
    ("//a | //b", "/b[x]"),
    # values
    ("/a[@x]", "/a[@x='1']"),
    ("/a[@x = 1]", "/a[@x = '1']"),
    ("/a[@x = 1]", "/a[@x = '1.0']"),
    ("/a[@x != 2]", "/a[@x = 1]"),
    ("/a[@x != 'b']", "/a[@x = 'a']"),
    ("/a[@x != 'b']", "/a[@x = 7]"),
    ("/a[@x >= 1]", "/a[@x > 1]"),
    ("/a[@x < 10]", "/a[@x <= '9']"),
    ("/a[b > 1]", "/a[b > 2]"),
    ("/a[@x < 3]", "/a[@x <= 3][@x != 3]"),
    ("/a[contains(@x, 'b')]", "/a[@x = 'abc']"),
    ("/a[contains(@x, 'b')]", "/a[starts-with(@x, 'abc')]"),
    ("/a[starts-with(@x, 'a')]", "/a[starts-with(@x, 'ab')]"),
    ("/a[contains(b, 'x')]", "/a[contains(b, 'xy')]"),
    ("/a[b[contains(., 'x')]]", "/a[contains(b, 'x')]"),
    ("/a[contains(., 'x')]", "/a[text() = 'axb']"),
    ("/a[contains(., 'x')]", "/a[b/c = 'x']"),
    ("/a[contains(b, '')]", "/a"),
    ("/a[text() != '']", "/a[text()]"),
    ("//b[. = 1]", "/a[b = 1]"),
    # not
    ("/a[not(c)]", "/a[not(b or c)]"),
    ("/a[not(b[c])]", "/a[not(b)]"),
    ("/a[not(@x = 2)]", "/a[@x = 1]"),
    ("/a[not(. < 4)]", "/a[not(. < 5)]"),
    ("/a[not(not(b))]", "/a[b/c]"),
    ("/a[. != 'x']", "/a[not(. = 'x')]"),
    ("//*[local-name() != 'x']", "//a"),
    ("/a[not(b)]", "/a[not(.//b)]"),
    # positions
    ("/a/b", "/a/b[2]"),
    ("/a/b[2]", "/a/b[2][c]"),
    ("/a/b[2]/c", "/a/b[2]/c/d"),
    ("/a[b[2]]", "/a/b[2]"),
    ("/a/b[1]", "/a/b"),
    ("/a/b[last()]", "//x[/a/b/c]"),
    ("//b[position() >= 1]", "/a/b"),
    ("/a/b[position() != 0]", "/a/b"),
    ("/a/b[not(position() < 1)]/c", "/a/b/c"),
    ("//a[b][2]", "//a[b][2][c]/d"),
    ("/a/b[position() = 2 or c]", "/a/b[position() = 2 or c][d]"),
    # what can never match is covered by anything
    ("/q", "/a/self::b"),
    ("/q", "/@x"),
    ("/q", "/a[b][not(b)]"),
    ("/q", "/a[@x = 1][@x = 2]"),
    ("/q", "/a[@x < 1 and @x > 1]"),
    ("/q", "/a[text() = '']"),
    ("/q", "/a[@x < 'one']"),
    ("/q", "/a[/b]"),
    # names
    ("//p:*", "//p:a"),
    ("//*[local-name()='a']", "//p:a"),
    ("//*[local-name()='a']", "//a"),
    ("//p:a", "//p:*/self::*[local-name()='a']"),
    ("/a/@*", "/a/@p:x"),
]

NO = [
    ("/a", "//a"),
    ("/a", "/*"),
    ("/a/b", "/a//b"),
    ("/a/@x", "/a//@x"),
    ("/a[b/d][b/e]", "/a[b/d]"),
    ("/a/b[d][e]", "/a[b/d][b/e]"),
    ("/a//*/b", "/a//b"),
    ("/a/*/b", "/a//*/b"),
    ("/a/b | /a/*/b", "/a//b"),
    ("/a/b | /a/*/b | /a/*/*/*//b", "/a//b"),
    ("/q", "/a[@* = 1][@* = 2]"),
    ("/q", "/a[@p:* = 1][@p:* = 2]"),
    ("/q", "/a[b = 1][b = 2]"),
    ("/a[b]", "/a[b or c]"),
    ("/a/@x", "/a/x"),
    ("/a/text()", "/a"),
    ("/a/text()", "/a//text()"),
    ("/a | /b", "/a | /b | /c"),
    ("/a[@x = '1']", "/a[@x = 1]"),
    ("/a[@x != 2]", "/a"),
    ("/a[@x > 2]", "/a[@x > 1]"),
    ("/a[@x < 2]", "/a[@x != 2]"),
    ("/a[@x <= 2]", "/a[@x != 'x']"),
    ("/a[b > 1][b < 3]", "/a[b > 1]"),
    ("/a/b[. > 1 and . < 3]", "/a[b > 1][b < 3]"),
    ("/a[text() = 'x']", "/a[. = 'x']"),
    ("/a[. = 'x']", "/a[text() = 'x']"),
    ("/a[contains(b, 'x')]", "/a[b = 'x']"),
    ("/a[contains(b, 'x')]", "/a"),
    ("/a[contains(., 'x')]", "/a[@b = 'x']"),
    ("/a[b]", "/a[contains(b, '')]"),
    ("/a[not(b)]", "/a[not(b[c])]"),
    ("/a[not(@x = 1)]", "/a[@x != '1']"),
    ("/a[@x != 1]", "/a[not(@x = 1)]"),
    ("/a[. >= 5]", "/a[not(. < 5)]"),
    ("/a/b[2]", "/a/b"),
    ("/a/c[2]", "/a/b/c[2]"),
    ("/a/b[position() = 2 or position() = 3]", "/a/b[c][position() = 2 or position() = 3]"),
    ("/a/b[position() = 1 or position() = last()]/c", "/a/b[d][position() = 1 or position() = last()]/c"),
    ("/a/b[position() != 1]", "/a/b"),
    ("/a/b[not(position() < 2)]/c", "/a/b/c"),
    ("/a/b[1]/c", "/a/b/c"),
    ("/a/b[2]", "/a/b[3]"),
    ("//a[2]", "/descendant::a[2]"),
    ("/a/b[2][c]", "/a/b[c][2]"),
    ("//p:a", "//a"),
    ("//q:a", "//p:a"),
    ("//p:a", "//*[local-name()='a']"),
    ("/a/@x", "/a/@p:x"),
]


@pytest.mark.parametrize(("a", "b"), YES)
def test_covers(a: str, b: str) -> None:
    assert covers(a, b)


@pytest.mark.parametrize(("a", "b"), NO)
def test_does_not_cover(a: str, b: str) -> None:
    assert not covers(a, b)


def test_expanded_names_count() -> None:
    one = treecast.parse("//p:a", namespaces={"p": "urn:one"})
    same = treecast.parse("/x/q:a", namespaces={"q": "urn:one"})
    other = treecast.parse("/x/p:a", namespaces={"p": "urn:two"})
    assert one.covers(same)
    assert not one.covers(other)
    assert treecast.parse("//a", namespaces={"": "urn:one"}).covers(same)


@pytest.mark.parametrize("dialect", [DESCEND, WILD, MIXED, ALL])
def test_reflexive_and_transitive(dialect: Dialect) -> None:
    random = Random("laws")
    chains = 0
    while chains < 200:
        a, b = draw_pair(random, dialect)
        c, _ = draw_pair(random, dialect)
        assert a.covers(a)
        assert treecast.parse(f"{a} | {b}", namespaces=NAMESPACES).covers(b)
        # Over what is unknown it need not be transitive; of these fragments everything is known.
        if a.covers(b) and c.covers(a) and dialect in (DESCEND, WILD):
            assert c.covers(b)
        chains += a.covers(b)


@pytest.mark.parametrize(("dialect", "gap_max"), [(DESCEND, 1), (WILD, 0)])
def test_complete_for_two_fragments(dialect: Dialect, gap_max: int) -> None:
    """By Miklau and Suciu a covers b if and only if a matches all canonical documents of b; lxml tells whether."""
    random = Random("complete")
    answers = {True: 0, False: 0}
    for _ in range(1_500):
        a, b = draw_pair(random, dialect)
        contained = is_contained(a, b, gap_max, documents_max=300)
        if contained is not None:
            assert a.covers(b) == contained, f"{a} covers {b}: {contained}"
            answers[contained] += 1
    assert min(answers.values()) > 200


def test_certain_with_wildcards_and_gaps_together() -> None:
    random = Random("mixed")
    unknown = known = 0
    for _ in range(1_500):
        a, b = draw_pair(random, MIXED)
        contained = is_contained(a, b, gap_max=2, documents_max=100)
        if contained is not None:
            known += contained and a.covers(b)
            unknown += contained and not a.covers(b)
            assert contained or not a.covers(b), f"{a} does not cover {b}"
    assert known > 300
    assert unknown < known / 50


def test_never_contradicts_matching() -> None:
    """The small twin of tests/long/test_full_cover.py."""
    pairs, matched = count_triples(Random("triples"), ALL, 12_000)
    assert matched > 6_000
    assert pairs > 2_500
    for dialect in (DESCEND, WILD, MIXED):
        count_triples(Random("triples"), dialect, 1_500)


def test_work_is_bounded() -> None:
    """Many choices give up in time: the answer is then False, which says nothing."""
    many = "/a" + "".join(f"[b{i} or c{i}]" for i in range(40))
    assert treecast.parse("/a[b0] | /a[c0]").covers(treecast.parse(many))
    assert treecast.parse("/a[b39 or c39]").covers(treecast.parse(many))
    assert not treecast.parse("/a[b39] | /a[c39]").covers(treecast.parse(many))
    wide = treecast.parse(" | ".join(f"/r/a{i}//b[@x > {i}]" for i in range(256)))
    assert treecast.parse("/r//b/@x").covers(wide)
    long = treecast.parse("//a" * 200)
    assert treecast.parse("//a" * 199).covers(long)
    assert not long.covers(treecast.parse("//a" * 199))
    deep = treecast.parse("/a" + "[b" * 60 + "]" * 60)
    assert treecast.parse("/*" + "[.//*" * 30 + "]" * 30).covers(deep)
    doubt = "/a" + "[not(b" * 12 + "[c]" + ")]" * 12
    assert treecast.parse(doubt + "[d]").covers(treecast.parse(doubt + "[d][e]"))
    assert not treecast.parse(doubt).covers(treecast.parse("/a[d]"))


# What follows from comparisons.

SAMPLES = [
    "",
    " ",
    "0",
    "1",
    " 1 ",
    "1.0",
    "01",
    "-1",
    "2",
    "2.5",
    "3",
    "12",
    "a",
    "1a",
    "ab",
    "ba",
    "-",
    ".5",
    "1.",
    "+1",
]
TESTS: list[Test] = [
    *((relation, value) for relation in ("=", "!=") for value in ("", "1", "1.0", "a", "ab", "2")),
    *((relation, value) for relation in ("=", "!=", "<", "<=", ">", ">=") for value in (0.0, 1.0, 2.0, 2.5, -1.0)),
    *((relation, value) for relation in ("<", "<=", ">", ">=") for value in ("1", "2", "a")),
    *((function.name, value) for function in FUNCTIONS for value in ("", "1", "a", "ab", "b")),
]
CALLS = {function.name: function for function in FUNCTIONS}


def test_values_pass_as_in_xpath() -> None:
    for test in TESTS:
        relation, value = test
        literal = f'"{value}"' if isinstance(value, str) else f"{value:g}"
        call = CALLS[relation].for_lxml("@x", literal) if relation in CALLS else f"@x {relation} {literal}"
        expected = etree.XPath(f"boolean(/a[{call}])")
        for text in SAMPLES:
            assert passes(text, test) == expected(etree.Element("a", x=text)), (text, test)


def test_functions_imply_what_is_so_and_no_more() -> None:
    """On all short strings: functions that look anywhere or at one end of a value; at both it would be `=`."""
    strings = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
    functions = [Function("", before, after) for before, after in ((True, True), (True, False), (False, True))]

    def holds(function: Function, value: str, literal: str) -> bool:
        starts, ends = value.startswith(literal), value.endswith(literal)
        return literal in value and (function.before or starts) and (function.after or ends)

    for function, other, literal, part in product(functions, functions, strings[1:7], strings[1:7]):
        values = [value for value in strings if holds(function, value, literal)]
        implied = function.implies(literal, other, part)
        assert implied == all(holds(other, value, part) for value in values), (function, literal, other, part)


def test_values_imply_only_what_is_certain() -> None:
    random = Random("values")
    certain = 0
    for _ in range(20_000):
        known = tuple(random.choices(TESTS, k=random.randint(1, 3)))
        asked = random.choice(TESTS)
        passing = [text for text in SAMPLES if all(passes(text, test) for test in known)]
        assert not (is_impossible(known) and passing), known
        if implies(known, asked):
            certain += 1
            assert all(passes(text, asked) for text in passing), (known, asked)
    assert certain > 5_000
