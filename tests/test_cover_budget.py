"""Covering takes a number of steps that is linear in the two queries, and stays complete within that.

Work is counted as calls of functions, Python's own included: no clock decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import log2
from random import Random

import pytest

import treecast
from treecast.query import cover

pytestmark = pytest.mark.house

Family = Callable[[int], tuple[str, str]]


def many(n: int, pattern: str, between: str = "") -> str:
    return between.join(pattern.replace("#", str(number)) for number in range(n))


# (covering, covered), of about n steps: what once took seconds, and what has many choices, entries, tests or denials.
FAMILIES: dict[str, Family] = {
    "//* behind //*": lambda n: ("//*" * n, "//*" * (n - 1)),
    "//* behind //a": lambda n: ("//*" * n, "//a" * (n - 1)),
    "//* between names": lambda n: ("/a" + "//*" * n + "//b", "/a" + "//*" * (n - 1) + "//b"),
    "//*/*": lambda n: ("//*/*" * (n // 2), "//*" * (n - 1)),
    "//* one inside the other": lambda n: ("/*" + "[.//*" * (n // 4) + "]" * (n // 4), "/a" + "[.//b" * 5 + "]" * 5),
    "or": lambda n: (f"/a[b{n - 1}] | /a[c{n - 1}]", "/a" + many(n, "[b# or c#]")),
    "branches": lambda n: ("/a" + many(n, "[b#//c]"), "/a" + many(n, "[b#/d]")),
    "attributes": lambda n: ("/a/@z", "/a" + many(n, "[@x# = 1]")),
    "attributes of some element": lambda n: ("/a[.//@z]", "/a" + many(n, "[.//@x# = 1]")),
    "one attribute": lambda n: ("/a[@x > 5]", "/a" + many(n, "[@x != #]")),
    "not": lambda n: ("/a" + many(n, "[not(b#)]"), "/a" + many(n, "[not(c#)]")),
    "contains": lambda n: ("/a[contains(., 'z')]", "/a" + many(n, "[.//b#//c = '#']")),
    "unions": lambda n: (many(n, "/a/b#//c[@x]", " | "), many(n, "/a/d#//c[@x]", " | ")),
}


def calls(a: treecast.Query, b: treecast.Query) -> int:
    """How many functions are called to find out whether a covers b."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        a.covers(b)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", FAMILIES)
def test_work_is_linear_once_the_budget_is_met(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At n, 2n, 4n and 8n; with a smaller budget than the real one, which the first sizes would not meet."""
    monkeypatch.setattr(cover, "STEPS_MIN", 5_000)
    spent = []
    for n in (16, 32, 64, 128):
        a, b = map(treecast.Query, FAMILIES[name](n))
        size = cover._size(a.tree) + cover._size(b.tree)
        spent.append(calls(a, b))
        assert spent[-1] < 12 * (5_000 + cover.STEPS_EACH * size), spent
    growth = log2(spent[-1] / spent[-2])
    assert growth <= 1.2 or spent[-1] < 60_000, spent


def test_one_entry_that_fits_is_enough() -> None:
    """Of 64 elements only the last has what is denied. The others are not looked at, and are not supposed otherwise."""

    def spent(n: int) -> int:
        negated = many(n, "[not(.//*[.//x#])]")
        a, b = treecast.Query(f"//*{negated}"), treecast.Query("//*" * n + negated)
        assert a.covers(b)
        return calls(a, b)

    assert log2(spent(64) / spent(16)) / 2 <= 1.1


def weaker(random: Random, steps: list[str]) -> list[str]:
    """Steps that match wherever these do: without predicates, with `//` for `/`, with steps left out before a `//`."""
    kept: list[str] = []
    for step in steps:
        slash, name = ("//", step[2:]) if step.startswith("//") else ("/", step[1:])
        if random.random() < 0.3:
            name = name.partition("[")[0]
        if kept and random.random() < 0.3:
            slash = "//"
            if random.random() < 0.5:
                kept.pop()
        kept.append(slash + name)
    kept[0] = "//" + kept[0].lstrip("/")
    return kept


@pytest.mark.parametrize("seed", range(20))
def test_long_patterns_are_still_decided(seed: int) -> None:
    """A hundred steps, half of them with a branch: the answer is known by construction, and the budget has room."""
    random = Random(seed)

    def branch() -> str:
        path = "".join(random.choice(("/", "//")) + random.choice("abc") for _ in range(random.randint(1, 4)))
        return f"[.{path}]" if path.startswith("//") else f"[{path[1:]}]"

    steps = [
        random.choice(("/", "//")) + random.choice("abc") + (branch() if random.random() < 0.5 else "")
        for _ in range(100)
    ]
    general = weaker(random, steps)
    assert treecast.Query("".join(general)).covers(treecast.Query("".join(steps)))
    assert not treecast.Query("".join(general) + "/d").covers(treecast.Query("".join(steps)))


@pytest.mark.parametrize("seed", range(5))
def test_wide_patterns_with_wildcards_are_still_decided(seed: int) -> None:
    """Two hundred branches of `/` and `*`, and any of them in another order with a `*` for a name."""
    random = Random(seed)
    branches = [[random.choice("abcde*") for _ in range(3)] for _ in range(200)]
    general = [[random.choice((name, "*")) for name in names] for names in random.sample(branches, 100)]
    covered, covering = ("/r" + "".join(f"[{'/'.join(names)}]" for names in each) for each in (branches, general))
    assert treecast.Query(covering).covers(treecast.Query(covered))
    assert not treecast.Query(covering + "[z]").covers(treecast.Query(covered))


def test_what_is_undecided_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = treecast.Query("/a//*//b[@x > 1]"), treecast.Query("/a/*/b[@x = 3]")
    assert a.covers(b)
    monkeypatch.setattr(cover, "STEPS_MIN", 0)
    monkeypatch.setattr(cover, "STEPS_EACH", 1)
    assert not a.covers(b)
    assert a.covers(a), "the same query covers itself without a search"


def test_one_attribute_of_a_name() -> None:
    """However it came to its name or its element, what is said of it holds together."""
    covering = treecast.Query("/a[@x[. > 0 and . < 6]]")
    for text in (
        "/a[@x > 1][@x < 5]",
        "/*[self::a][@x > 1][@*[local-name() = 'x'][. < 5]][@x < 5]",
        "/a[@x > 1][/*/@x < 5]",
        "//*[@x > 1][/a/@x < 5][/a[. = 'v']][@x][/a/@x > 1]",
    ):
        assert covering.covers(treecast.Query(text)), text
