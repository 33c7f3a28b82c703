"""Paths that end in a value, `path[@a="v"]`: found top-down, and always what lxml says."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from lxml import etree

from treecast import Index, _native

NAMES = ("a", "b", "c")
VALUES = ("1", "01", "x", "y y", "")


def draw_query(random: Random) -> str:
    steps = (f"{random.choice(('/', '/', '//'))}{random.choice((*NAMES, '*'))}" for _ in range(random.randint(1, 4)))
    attribute = random.choice(("p", "q", "*"))
    value = random.choice((*(f'"{value}"' for value in VALUES), "1", "7"))
    return f"{''.join(steps)}[@{attribute}={value}]"


def draw_element(random: Random, depth: int) -> str:
    name = random.choice(NAMES)
    attributes = "".join(f' {key}="{random.choice(VALUES)}"' for key in ("p", "q") if random.random() < 0.5)
    children = "".join(draw_element(random, depth - 1) for _ in range(random.randint(0, 3))) if depth else ""
    return f"<{name}{attributes}>{children}</{name}>"


@pytest.fixture(scope="module")
def queries() -> list[str]:
    random = Random(11)
    return list(dict.fromkeys(draw_query(random) for _ in range(400)))


@pytest.fixture(scope="module")
def documents() -> list[bytes]:
    random = Random(12)
    return [draw_element(random, 4).encode() for _ in range(25)]


@pytest.fixture(scope="module")
def expected(queries: list[str], documents: list[bytes]) -> list[set[str]]:
    tests = [(query, etree.XPath(f"boolean({query})")) for query in queries]
    trees = [etree.ElementTree(etree.fromstring(document)) for document in documents]
    return [{query for query, test in tests if test(tree)} for tree in trees]


def answers(index: Index, documents: list[bytes]) -> list[set[str]]:
    return [set(index.match(document)) for document in documents]


@pytest.mark.parametrize("cache", [0, 20_000, 1 << 28])
@pytest.mark.parametrize("simd", [0, 1])
def test_equal_to_lxml(
    cache: int, simd: int, queries: list[str], documents: list[bytes], expected: list[set[str]]
) -> None:
    """Without a cache, with one that is too small, and with a large one."""
    _native.testing.simd_force(simd)
    try:
        index = Index(cache_bytes_max=cache)
        index.add_many((query, query) for query in queries)
        for _ in range(3):
            assert answers(index, documents) == expected
    finally:
        _native.testing.simd_force(-1)


def test_among_other_patterns_saved_and_changed(
    queries: list[str], documents: list[bytes], expected: list[set[str]], tmp_path: Path
) -> None:
    """Some have other predicates, some are removed; a loaded index answers alike."""
    index = Index()
    others = [f"{query}[not(@z)]" for query in queries[:100]]
    index.add_many((query, query) for query in queries + others)
    gone = set(queries[::3])
    index.remove_many(list(gone))
    wanted = [
        (found - gone) | {other for other in others if other.removesuffix("[not(@z)]") in found} for found in expected
    ]
    assert answers(index, documents) == wanted
    index.save(tmp_path / "values.tcx")
    assert answers(Index.load(tmp_path / "values.tcx"), documents) == wanted
    index.compact()
    assert answers(index, documents) == wanted


def test_names_in_namespaces() -> None:
    """Names are resolved anew for each reader: the same text may be another name."""
    index = Index(namespaces={"n": "urn:n"})
    index.add_many((f"n{value}", f'//n:a[@n:p="{value}"]') for value in range(20))
    index.add_many((f"p{value}", f'//a[@p="{value}"]') for value in range(20))
    assert index.match(b'<a p="3"><a p="4"/></a>') == ["p3", "p4"]
    assert index.match(b'<m:a xmlns:m="urn:n" m:p="3" p="5"/>') == ["n3"]


def test_they_are_found_top_down() -> None:
    """The lazily built machine of their paths takes memory; patterns that are found bottom-up have none."""

    def cache_bytes(predicate: str) -> int:
        index = Index()
        index.add_many((str(number), f'/a/b[@p="{number}"]{predicate}') for number in range(20))
        index.match(b'<a><b p="7"/></a>')
        return index.stats().cache_bytes

    assert cache_bytes("") > 0
    assert cache_bytes("[c]") == 0


def test_few_of_them_stay_with_the_others() -> None:
    index = Index()
    index.add_many((str(number), f'/a/b[@p="{number}"]') for number in range(15))
    assert index.match(b'<a><b p="7"/></a>') == ["7"]
    assert index.stats().cache_bytes == 0
