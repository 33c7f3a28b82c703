"""The tree machine visits few entries, whatever the subscriptions share and in whatever order it is written.

Work is counted, not timed: `looked_at` says how many entries were tested one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from oracles.differential import Query, Setting, compare, plain

from treecast import Index, _native

SMALL, LARGE = 400, 4_000
ITEMS = 10


def document(random: Random, codes: int) -> bytes:
    """Items that are all in English and all have what is common, and a code that few ask for."""
    items = "".join(
        f'<item lang="en" code="C{random.randrange(codes)}" n="{random.randrange(1000)}" m="{random.randrange(1000)}">'
        f"<lang>en</lang><code>C{random.randrange(codes)}</code><price>{random.randrange(1000)}</price>"
        f'<meta lang="en" code="C{random.randrange(codes)}" n="{random.randrange(1000)}"/>'
        f"<tag>t{random.randrange(30)}</tag></item>"
        for _ in range(ITEMS)
    )
    return f"<list>{items}</list>".encode()


def looked_at(queries: Sequence[str], documents: Sequence[bytes], fill: Callable[[Index, Sequence[str]], Index]) -> int:
    index = fill(Index(), queries)
    index.match_many(documents)
    return _native.testing.looked_at(index._native)


def at_once(index: Index, queries: Sequence[str]) -> Index:
    index.add_many((f"s{place}", query) for place, query in enumerate(queries))
    return index


def in_part_one_by_one(index: Index, queries: Sequence[str]) -> Index:
    """The last tenth singly, with removals of as many others."""
    kept = len(queries) * 9 // 10
    index.add_many((f"s{place}", query) for place, query in enumerate(queries[:kept]))
    for place, query in enumerate(queries[kept:]):
        index.add(f"n{place}", query)
        index.remove(f"s{place * 3}")
    return index


# Each with two tests that are common to all, or to many, and one that is rare; {0} is the number of the subscription.
CONJUNCTIONS = {
    "attributes": ('@lang="en"', '@code="C{0}"'),
    "children": ('lang="en"', 'code="C{0}"'),
    "both": ("price > 5", '@code="C{0}"', 'lang="en"', "not(@gone)"),
    "below": ('.//@lang="en"', './/code="C{0}"'),
    "substring": ('contains(@lang, "e")', '@code="C{0}"'),
    "prefix": ('starts-with(@lang, "e")', 'code="C{0}"'),
    "absence": ("not(@gone)", '@code="C{0}"', 'not(lang="fr")'),
    "bound of its own": ("@n > 0.{0}", '@code="C{0}"'),
    "inequality of its own": ('@n != "v{0}"', 'code="C{0}"', 'price != "v{0}"'),
    "alternatives": ('(@lang="en" or @lang="fr")', '@code="C{0}"'),
}


@pytest.mark.house
@pytest.mark.parametrize("name", CONJUNCTIONS)
def test_the_order_of_tests_does_not_matter(name: str) -> None:
    conditions = CONJUNCTIONS[name]
    documents = [document(Random(name), LARGE) for _ in range(3)]
    work = set()
    for tests in (conditions, conditions[::-1]):
        for glue in ("][", " and "):
            queries = [f"//item[{glue.join(tests)}]".format(place) for place in range(LARGE)]
            work.add(looked_at(queries, documents, at_once))
    assert len(work) == 1
    assert work.pop() <= 16 * ITEMS * len(documents)


# Few of these hold in a document, and none of their tests is rare: many share each, or it holds for many at once.
NO_RARE_TEST: dict[str, Callable[[int, int], str]] = {
    "grid": lambda place, root: f'//item[@n="{place % root}"][tag="t{place // root}"]',
    "grid of three": lambda place, root: f'//item[@n="{place % 16}"][@m="{place // 16 % 16}"][price="{place // 256}"]',
    "interval": lambda place, root: f"//item[@n > {place / 4}][@n < {place / 4 + 0.2}]",
    "interval of a child": lambda place, root: f"//item[price >= {place / 4} and price <= {place / 4 + 0.2}]",
    "interval below": lambda place, root: f'//list[.//item[@lang="en"][@n > {place / 4} and @n < {place / 4 + 0.2}]]',
    "corner": lambda place, root: f"//item[@n < {place / LARGE}][@m > {999 - place / LARGE}]",
    "two absences": lambda place, root: f'//item[not(@lang)][not(@code="C{place}")]',
    "absence beside a bound": lambda place, root: f"//item[not(@lang)][@n > {place / 4}][not(tag='t{place % 30}')]",
    "bound behind a step": lambda place, root: f"//item[meta/@n > {place / 4}][meta/@n < {place / 4 + 0.2}]",
    "inner": lambda place, root: f'//list[item[meta[@lang="en"][@code="C{place}"]][@lang="en"]]',
    "selected": lambda place, root: f'//item[@lang="en"][@code="C{place}"]/@n',
}
FILLS = {"at once": at_once, "one by one": in_part_one_by_one}


@pytest.mark.house
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", NO_RARE_TEST)
def test_work_does_not_grow_with_the_population(name: str, fill: str) -> None:
    """Ten times the subscriptions, the same documents: no entry more is looked at, but where more of them hold."""
    documents = [document(Random(name), LARGE) for _ in range(3)]
    shape = NO_RARE_TEST[name]
    work = [
        looked_at([shape(place, int(count**0.5)) for place in range(count)], documents, FILLS[fill])
        for count in (SMALL, LARGE)
    ]
    assert work[1] <= 3 * work[0] + 16 * ITEMS * len(documents), work


def test_a_saved_index_looks_at_as_few(tmp_path: Path) -> None:
    documents = [document(Random(3), LARGE) for _ in range(3)]
    queries = [f'//item[@lang="en"][@code="C{place}"][@n > {place / 10}]' for place in range(LARGE)]

    def through_a_file(index: Index, texts: Sequence[str]) -> Index:
        at_once(index, texts).save(tmp_path / "saved.tcx")
        return Index.load(tmp_path / "saved.tcx")

    assert looked_at(queries, documents, through_a_file) == looked_at(queries, documents, at_once) <= 16 * ITEMS * 3


# --- the same answers as lxml, where contexts, runs and pairs of bounds are crowded -----------------------------------

OPERANDS = ("@x", "@y", "b", "c", ".//b", ".//@y", "b/@x", "b/c", ".//c/@y", "b//c", "*/@x", ".", "text()", "*", "@*")
VALUES = ("1", "2", "3", "-1", "0.5", "10", "x", "")


def draw_test(random: Random) -> str:
    operand, value = random.choice(OPERANDS), random.choice(VALUES)
    form = random.random()
    if form < 0.35:
        test = f'{operand} = "{value}"'
    elif form < 0.5:
        test = f'{operand} != "{value}"'
    elif form < 0.8:
        test = f"{operand} {random.choice(('<', '<=', '>', '>=', '=', '!='))} {random.choice(VALUES[:6])}"
    elif form < 0.9:
        test = f"b[{draw_test(random)}][{draw_test(random)}]"
    else:
        test = operand if operand != "." else "b"
    return f"not({test})" if random.random() < 0.2 else test


def draw_crowd(random: Random, count: int) -> list[Query]:
    """Conjunctions over few labels and few values; a part of them shares a beginning."""
    shared = [draw_test(random) for _ in range(3)]
    queries = []
    for _ in range(count):
        tests = [random.choice(shared)] if random.random() < 0.5 else []
        tests += [draw_test(random) for _ in range(random.randint(1, 3))]
        random.shuffle(tests)
        shape = random.choice(("//a{0}", "//a{0}", "/*{0}", "//*{0}", "//a{0}/b", "//c[a{0}]", "//a[not(b{0})]"))
        queries.append(plain(shape.format("".join(f"[{test}]" for test in tests))))
    return queries


def draw_tree(random: Random, depth: int = 0) -> str:
    name = random.choice("aabc")
    attributes = "".join(f' {a}="{random.choice(VALUES)}"' for a in "xyz" if random.random() < 0.5)
    if depth == 4 or random.random() < 0.4:
        inner = random.choice(VALUES)
    else:
        inner = "".join(draw_tree(random, depth + 1) for _ in range(random.randint(0, 4)))
    return f"<{name}{attributes}>{inner}</{name}>"


@pytest.mark.parametrize("simd", [0, 1])
def test_crowds_against_lxml(simd: int) -> None:
    random = Random(f"crowd {simd}")
    for number, way in enumerate(("bulk", "mixed", "after removals", "bulk")):
        queries = draw_crowd(random, 500)
        documents = [draw_tree(random).encode() for _ in range(8)]
        afterwards = "loaded and changed" if number % 2 else "as it is"
        setting = Setting(way, simd=simd, seed=number, afterwards=afterwards)
        assert compare(queries, documents, [setting]) == 4_000
