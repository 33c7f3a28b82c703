"""Tests that are never true, and queries that match nothing: what is reported is certain, and usual mistakes are."""

from __future__ import annotations

from random import Random

import pytest
from support.rounds_impossible import IMPOSSIBLE_ROUNDS
from support.sanitized import fewer

import treecast
from treecast.query.impossible import impossible_tests, matches_nothing
from treecast.query.names import QueryName, names_of

NAMESPACES = {"x": "urn:x"}


def reason_of(text: str) -> str | None:
    return matches_nothing(treecast.parse(text, namespaces=NAMESPACES).matching)


@pytest.mark.parametrize("name", IMPOSSIBLE_ROUNDS)
def test_what_is_reported_never_matches(name: str) -> None:
    """The small twin of tests/long/test_full_impossible.py."""
    random = Random(f"{name}/1")
    assert sum(IMPOSSIBLE_ROUNDS[name](random, 60, 12) for _ in range(fewer(8))) > fewer(8) * 5


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ('//a[@d > "2026-01-01"]', '@d>"2026-01-01" is never true: "2026-01-01" is no number, and > compares numbers'),
        ('//a/@d >= "2026-01-01"', '"2026-01-01" is no number, and >= compares numbers'),
        ('//a["2026-01" < @d]', '"2026-01" is no number, and > compares numbers'),
        ('//a[substring(@d, 1, 7) > "2026-01"]', '"2026-01" is no number'),
        ('//a[number(@d) <= "x"]', '"x" is no number'),
        ('//a[@d < "x" + 1]', '"x" is no number'),
        ('//a[@d = number("x")]', '"x" is no number, and = compares numbers'),
        ('//x:a[x:b > "q"]', 'x:b>"q" is never true'),
        ('for $i in //a[@d > "2026-01"] return $i', '"2026-01" is no number'),
        ("//a[position() = 0]", "[0] is never true: a position here is a whole number from 1"),
        ("//a[0]", "[0] is never true"),
        ("//a[position() < 1]", "a whole number from 1"),
        ("//a[1.5]", "a whole number from 1"),
        ("(//a)[0]", "holds a test that is never true: a position here is a whole number from 1"),
        ("//a[position() > last()]", "no position is greater than last()"),
        ("//a[last() = 0]", "a whole number from 1"),
        ("//a[position() mod 2 = 2]", "is never true"),
        ("//a[1][2]", "[2] is never true: a position here is a whole number from 1 to 1"),
        ("/a[2]", "[2] is never true"),
        ("//a[@b[2]]", "from 1 to 1"),
        ("//a[position() = 1 and position() = 2]", "no position is all of these"),
        ("//a[@a = 1 and @a = 2]", "@a=1 and @a=2 are never true together"),
        ('//a[@a = "1"][@a = "2"]', '@a="1" and @a="2" are never true together'),
        ("//a[@n = 7]/b[@y > 3 and @y < 2]", "@y>3 and @y<2 are never true together"),
        ('//a[@a = "y" and starts-with(@a, "x")]', "are never true together"),
        ("//a[. = 1 and . = 2]", "are never true together"),
        ("//a[b and not(b)]", "b and not(b) are never true together"),
        ("//a[@a = 1 and not(@a)]", "@a=1 and not(@a) are never true together"),
        ("//a[count(b) < 0]", "count() is a whole number from 0"),
        ("//a[count(b) = 1.5]", "count() is a whole number from 0"),
        ("//a[string-length(.) < 0]", "string-length() is a whole number from 0"),
        ('//a[local-name() = "b"]', "is never true here"),
        ('//*[local-name() = "soap:Body"]', 'local-name()="soap:Body" is never true: local names have no ":"'),
        ('//*[local-name(b) = "soap:Body"]', 'local names have no ":"'),
        ('//*[local-name(@*) = "soap:Body"]', 'local names have no ":"'),
        ('//a[name(b) = "x y"]', 'names have no " "'),
        ('//a[translate(@x, "ABC", "abc") = "Bold"]', 'translate() leaves no "B"'),
        ('//a[contains(translate(@x, "ABC", "abc"), "Bold")]', 'translate() leaves no "B"'),
        ('//a[normalize-space(.) = " x"]', "normalize-space() leaves no space at the ends"),
        ('//a[starts-with(normalize-space(.), " x")]', "normalize-space() leaves no space at the ends"),
        ('//a[substring(@d, 1, 4) = "2026-"]', "substring() gives 4 characters at most"),
        ("//a[@a/b]", "nothing can be there"),
        ("//@a/b", "nothing can be there"),
        ("/a/preceding-sibling::b", "nothing can be there"),
        ("/@a", "nothing can be at /@a"),
        ("/a/self::b", "nothing can be at its path"),
        ("//a[false()]", "false() is false"),
        ("//a[1 = 2]", "both sides are constant"),
        ("//a[not(true())]", "the opposite is always true"),
        ("//a[0] | //b[0]", "[0] is never true"),
    ],
)
def test_what_can_match_nothing_is_recognised(query: str, reason: str) -> None:
    said = reason_of(query)
    assert said is not None and reason in said


@pytest.mark.parametrize(
    "query",
    [
        "//a[b = 1 and b = 2]",
        "//a[text() = 1 and text() = 2]",
        '//a[@a = 1 and @a = "1.0"]',
        '//a[@d > "12"]',
        '//a[@d > " 12 "]',
        '//a[@d != "x"]',
        "//a[1]",
        "//a[@a != 1 and @a != 2]",
        "//a[not(@d > 'x')]",
        "//a | //b[0]",
        "//a[last() - 1 = last()]",
        "/a/preceding-sibling::comment()",
        "//a[position() mod 2 = 1.0]",
        '//a[translate(@x, "ABC", "abC") = "C"]',
        '//a[contains(normalize-space(.), " x")]',
        '//a[substring(@d, 0, 4) = "202"]',
        "//a[string-length(.) - 1 < 0]",
        "//a[count(b) * 0.5 = 1.5]",
        "//processing-instruction()[name() = 'p']",
        "//node()[local-name(..) = 'soap:Body']",
    ],
)
def test_what_may_match_is_not_reported(query: str) -> None:
    assert reason_of(query) is None


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ('//a[@d > "x" or @y]', ['@d>"x" is never true: "x" is no number, and > compares numbers']),
        ('//a[not(@d > "x")]', ['@d>"x" is never true: "x" is no number, and > compares numbers']),
        ('//a[count(b[@d > "x"]) = 0]', ['@d>"x" is never true: "x" is no number, and > compares numbers']),
        ('//a[@n = count(b[@d > "x"])]', ['"x" is no number, and > compares numbers']),
        ("//a | //b[0]", ["[0] is never true: a position here is a whole number from 1"]),
        ("//a[@x]", []),
    ],
)
def test_a_part_that_is_never_true_is_named(query: str, messages: list[str]) -> None:
    found = [each.message for each in impossible_tests(treecast.parse(query).matching)]
    assert len(found) == len(messages)
    assert all(message in one for message, one in zip(messages, found, strict=True))


def test_prefixes_are_those_of_the_query() -> None:
    query = treecast.parse('//y:a[y:b > "q"] | //c[d > "r"]', namespaces={"y": "urn:x", "": "urn:d"})
    assert [each.test for each in impossible_tests(query.matching)] == ['y:b>"q"', 'd>"r"']


def test_a_hostile_query_ends() -> None:
    """Brackets nest to their limit, and conjunctions are long."""
    deep = "//a" + "[b" * 60 + "[@x > 'q']" + "]" * 60
    assert reason_of(deep) is not None
    wide = "//a[" + " and ".join(f"@x != {number}" for number in range(500)) + "]"
    assert reason_of(wide) is None
    assert reason_of("//a[" + " or ".join(f"b[@x = {number}]" for number in range(500)) + " and c]") is None


def test_the_names_of_a_query() -> None:
    query = treecast.parse(
        "//a[x:b/@c = 1 or not(*[local-name() = 'd'])][count(e[@x:f]/..) > 1]/text()", namespaces=NAMESPACES
    )
    assert names_of(query.matching.tree) == {
        QueryName("element", "", "a"),
        QueryName("element", "urn:x", "b"),
        QueryName("attribute", "", "c"),
        QueryName("element", None, "d"),
        QueryName("element", "", "e"),
        QueryName("attribute", "urn:x", "f"),
    }
