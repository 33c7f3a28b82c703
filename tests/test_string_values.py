"""Nested string values, in the evaluator and in the shared machine, against lxml."""

from __future__ import annotations

from random import Random

import pytest
from lxml import etree
from oracles.differential import PARSER
from support.sanitized import fewer

import treecast
from treecast import _native

PIECES = ("x", "y", "xy", "xx", " ", "\n ", "1", "12", ".5", "-", "é", "yxyx", "x" * 40, " " * 30)
CONDITIONS = (
    *(f"contains(., '{literal}')" for literal in ("x", "xy", "yx", "xyx", "xxxx", "x" * 45, "éx", " 1", "1 ", "zz")),
    *(f"starts-with(., '{literal}')" for literal in ("x", "xy", " x", "1", "x" * 41)),
    *(f". = '{literal}'" for literal in ("", "x", "xy", "1", "xx", " ", "12")),
    *(f". {relation} {number}" for relation in ("=", "<", ">", "!=") for number in ("1", "12", ".5", "0", "112")),
)  # fmt: skip


def draw_nested(random: Random) -> bytes:
    """Elements in elements, with pieces of text before, between and behind them; each has a number.

    Some are so deep that their texts are read together.
    """
    out: list[str] = []
    number = number_max = 0
    pieces = random.choice((PIECES, PIECES[:4], (" ", "\n ", "1", ""), ("x", "xx")))

    def element(depth: int) -> None:
        nonlocal number
        name = random.choice("ab")
        out.append(f'<{name} n="{number}">')
        number += 1
        for _ in range(random.choice((1, 1, 2, 3))):
            if random.random() < 0.6:
                out.append(random.choice(pieces))
            if depth < 12 and number < number_max and random.random() < 0.8:
                element(depth + 1)
            elif random.random() < 0.2:
                out.append("<!-- -->")
        if random.random() < 0.6:
            out.append(random.choice(pieces))
        out.append(f"</{name}>")

    outer = random.choice((0, 0, 150))
    for _ in range(outer):
        out.append(f'<{random.choice("ab")} n="{number}">{random.choice((*pieces, ""))}')
        number += 1
    number_max = number + 60
    element(0)
    names = [piece[1] for piece in out[:outer]]
    out += [f"{random.choice((*pieces, ''))}</{name}>" for name in reversed(names)]
    return "".join(out).encode()


@pytest.mark.parametrize("seed", range(fewer(40)))
def test_evaluator(seed: int) -> None:
    """A position makes it the evaluator's; it is asked often enough to search all texts at once."""
    random = Random(seed)
    document = draw_nested(random)
    tree = etree.fromstring(document, PARSER)
    place = {element: number for number, element in enumerate(tree.iter(etree.Element))}
    for condition in random.sample(CONDITIONS, 20):
        query = f"//*[{condition} or position() = 99]"
        expected = [(0, place[element]) for element in tree.xpath(query)]
        assert _native.select(document, query.encode()) == expected, f"{query} on {document!r}"


@pytest.mark.parametrize("seed", range(fewer(40)))
def test_shared_machine(seed: int) -> None:
    """All elements by their numbers, all conditions in one index: values in each other are read together."""
    random = Random(f"machine {seed}")
    document = draw_nested(random)
    tree = etree.fromstring(document, PARSER)
    index = treecast.Index()
    expected = []
    for test in ("*", "a", "b"):
        for condition in random.sample(CONDITIONS, 12):
            found = {element.get("n") for element in tree.xpath(f"//{test}[{condition}]")}
            for number in range(0, len(tree.xpath("//*")), 5):
                query = f"//{test}[@n = '{number}'][{condition}]"
                index.add(query, query)
                if str(number) in found:
                    expected.append(query)
    assert index.match(document) == expected, repr(document)


@pytest.mark.parametrize(
    "query", ["//*[contains(., 'zz')]", "//b[contains(., 'yq') or last() = 9]", "//b[. > 5 or last() = 9]"]
)
@pytest.mark.parametrize(
    "body", [b"y" * 200_000, b" <c>1</c>" * 20_000, b"7" * 200_000], ids=["text", "texts", "digits"]
)
def test_ancestors_share_the_work(query: str, body: bytes) -> None:
    """Before, each of them read all the text."""
    limits = treecast.Limits().native()

    def steps(depth: int) -> int:
        document = b"<b>" * depth + body + b"</b>" * depth
        return _native.testing.work(document, query.encode(), [], False, limits)

    assert steps(500) < 2 * steps(20) + 20_000


def test_a_number_has_a_length() -> None:
    assert _native.to_number(b" " * 9000 + b"1" * 300 + b"\n" * 9000) == float("1" * 300)
    assert _native.testing.satisfies(b"<a> <b>" + b"0" * 4095 + b"</b>7 </a>", b"/a[. = 7]")
    assert not _native.testing.satisfies(b"<a> <b>" + b"0" * 4096 + b"</b>7 </a>", b"/a[. = 7]")
    for query in ("/a[. = 7]", "/a[. = 7 or last() = 9]"):
        index = treecast.Index()
        index.add("q", query)
        assert index.match(b"<a>" + b" <b/>" * 3000 + b"7" + b"\n<b/>" * 3000 + b"</a>") == ["q"]
        assert index.match(b"<a> <b>" + b"0" * 4096 + b"</b>7 </a>") == []
