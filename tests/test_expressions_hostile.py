"""Expressions that could take quadratic time or worse: they are answered, or undecided with a code; the others go on.

Each runs on a document of 100,000 elements or megabytes of text beside a harmless subscription, and on a small twin
of the document, where lxml decides.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from oracles.differential import lxml_matches, plain
from support.sanitized import fewer

from treecast import Index

ELEMENTS = fewer(100_000)
MB = fewer(1_000_000)


def flat(count: int) -> bytes:
    return b"<r>" + b"<a>1</a>" * count + b"</r>"


def pairs(count: int) -> bytes:
    return b"<r>" + b"<a><b/></a>" * (count // 2) + b"</r>"


def deep(count: int) -> bytes:
    return b"<a>" * min(count, 500) + b"</a>" * min(count, 500)


def text(count: int) -> bytes:
    return b"<r><a>" + b"abcdefgh" * (count * MB // ELEMENTS // 8) + b"</a></r>"


def texts(count: int) -> bytes:
    return b"<r>" + b"<a>some words of a text</a>" * count + b"</r>"


# name: (query, document)
HOSTILE: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "counts in counts": ("//a[count(//b) > count(//a[count(//b) = 1])]", pairs),
    "counts of siblings": ("//a[count(preceding-sibling::a) = count(following-sibling::a) + 1]", flat),
    "siblings of siblings": ("//a[following-sibling::a[following-sibling::a[following-sibling::b]]]", flat),
    "counts of what precedes": ("//a[count(preceding::*) > 200000]", flat),
    "siblings compared": ("//a[preceding-sibling::a = following-sibling::b]", flat),
    "positions of siblings": ("//a[following-sibling::a[50]/preceding-sibling::a[3]]/zz", flat),
    "ancestors of ancestors": ("//a[count(ancestor::a[count(ancestor::a) > 3]) > 600]", deep),
    "a join with itself": ("//a[. = //a]/zz", flat),
    "a join that nothing satisfies": ("/r[a != a]", flat),
    "sums for each": ("//a[sum(//a) = 3]", flat),
    "the whole text for each": ("//a[contains(string(/), 'zzz')]", texts),
    "the whole text joined for each": ("//a[contains(concat(/, ., /), 'zzz')]", texts),
    "filters in filters": ("(" * 30 + "//a" + ")[position() > 1]" * 30, flat),
    "unions in predicates": ("(//a | //r)[count(. | //a) = 1]", flat),
    "what follows what follows": ("//a[following::a[following::a[following::zz]]]", flat),
    "substring() of megabytes": ("substring(//a, 100000, 10) = 'zz'", text),
    "translate() of megabytes": ("translate(//a, 'abcdefgh', 'hgfedcba') = 'x'", text),
    "translate() with a long alphabet": (f"translate(//a, '{'xyz' * 500}', '{'abc' * 500}') = 'x'", text),
    "translate() of translate()": ("contains(translate(translate(//a, 'a', 'b'), 'b', 'c'), 'zzz')", text),
    "concat() of megabytes": ("string-length(concat(//a, //a, //a, //a, //a, //a, //a, //a)) = 1", text),
    "normalize-space() of megabytes": ("normalize-space(//a) = 'x'", text),
    "filters as deep as they may be": ("(" * 60 + "//a" + ")[last()]" * 60, flat),
    "neighbours on both sides": ("//a[preceding::a[1] = following::a[1]]/zz", flat),
    "the nearest of many": ("//a[preceding-sibling::a[1][preceding-sibling::a[1]] = 'x']", flat),
    "counts of what is before each of what is behind": (
        "//a[following-sibling::a[count(preceding-sibling::a) = 3]]/zz",
        flat,
    ),
    "ancestors for each of what precedes": ("//b[count(preceding::b/ancestor::*) = 7]", pairs),
    "a long sum": ("//a[" + " + ".join(["."] * 1000) + " = 1000.5]", flat),
    "a long disjunction": ("//a[" + " or ".join(f". = {number}.5" for number in range(1000)) + "]", flat),
    "many arguments": ("//a[concat(" + ", ".join(["/"] * 200) + ") = 'x']", flat),
    "substring() without an end": ("substring(//a, 0 div 0, 1 div 0) = 'x' or substring(//a, -1 div 0) = 'x'", text),
    "substring() for each": ("//a[substring(/, position(), 3) = 'zzz']", texts),
    "translate() for each": ("//a[translate(/, ., 'x') = 'y']", texts),
    "substring-after() for each": ("//a[substring-after(/, .) = 'x']", texts),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_answers_or_says_that_it_does_not(name: str) -> None:
    """No clock: a quadratic evaluation of the large document would not come back. Small documents are decided."""
    query, document = HOSTILE[name]
    index = Index()
    index.add_many([("hostile", query), ("harmless", "/*")])
    ids, undecided = index.match_one(document(ELEMENTS))
    assert "harmless" in ids
    assert [row[1] for row in undecided] in ([], ["hostile"])
    small = document(40)
    expected = [["harmless"], ["hostile", "harmless"]][bool(lxml_matches([plain(query)], small))]
    assert index.match_one(small) == (expected, [])
