"""`contains(b/c, "x")` asks for the first item of a path: a label of its own, so it is decided without a recheck.

Work is counted, not timed, as in test_places.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from oracles.differential import Query, Setting, compare, plain
from support.counted_work import COUNT, ITEMS, count_work

from treecast import Index


def item_of(place: int) -> str:
    return f'<item><m/><m><code id="-C{place}-">-C{place}-</code><code id="-D{place}-">-D{place}-</code></m></item>'


DECIDED: dict[str, tuple[Callable[[int], str], int]] = {
    "a grandchild": (lambda place: f'//item[contains(m/code, "-C{place}-")]', ITEMS),
    "not the first": (lambda place: f'//item[contains(m/code, "-D{place}-")]', 0),
    "starts-with()": (lambda place: f'//item[starts-with(m/code, "-C{place}-")]', ITEMS),
    "an attribute": (lambda place: f'//item[contains(m/code/@id, "-C{place}-")]', ITEMS),
    "a text": (lambda place: f'//item[contains(m/code/text(), "-C{place}-")]', ITEMS),
    "any name": (lambda place: f'//item[contains(*/*, "-C{place}-")]', ITEMS),
    "a descendant": (lambda place: f'//item[contains(.//code, "-C{place}-")]', ITEMS),
    "a descendant of a child": (lambda place: f'//item[contains(m//code, "-C{place}-")]', ITEMS),
    "none": (lambda place: f'//list[not(item[contains(m/code, "-C{place}-")])]', COUNT - ITEMS),
    "a part that always holds": (
        lambda place: f'//list[contains(item/m/code, "-C0")][item/m/code="-C{place}-"]',
        ITEMS,
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_first_items_are_not_rechecked(name: str) -> None:
    """A recheck takes at least a step for each of the items."""
    query, matches = DECIDED[name]
    work, matched = count_work(query, item_of)
    assert matched == matches
    assert work <= 2 * COUNT


def test_the_first_item_of_other_paths_is_rechecked() -> None:
    """Of elements inside each other, the outer one may lead to a later item. So the measure above notices a recheck."""
    work, matched = count_work(lambda place: f'//list[contains(.//m/code, "-C0-")][item/m/code="-C{place}-"]', item_of)
    assert matched == ITEMS
    assert work > 2 * COUNT


# --- the same answers as lxml -----------------------------------------------------------------------------------------

NAMES = "aabbc"
TEXTS = ("x", "xy", "yx", "z", "")


def draw_document(random: Random, depth: int = 0) -> str:
    name = random.choice(NAMES)
    inner = [draw_document(random, depth + 1) for _ in range(random.randint(0, 4 if depth < 4 else 0))]
    for _ in range(2):
        inner.insert(random.randint(0, len(inner)), random.choice(TEXTS))
    attribute = f' i="{random.choice(TEXTS)}"' if random.random() < 0.4 else ""
    return f"<{name}{attribute}>{''.join(inner)}</{name}>"


def draw_condition(random: Random) -> str:
    steps = [random.choice((*NAMES, "*")) for _ in range(random.randint(1, 3))]
    path = random.choice(("", "", "", ".//")) + random.choice(("/", "/", "//")).join(steps)
    path += random.choice(("", "", "", "/@i", "/text()", "//text()", "/@*"))
    form = random.choice(("contains({0}, '{1}')", "starts-with({0}, '{1}')"))
    condition = form.format(path, random.choice(TEXTS[:-1] if random.random() < 0.95 else TEXTS))
    return f"not({condition})" if random.random() < 0.25 else condition


def draw_query(random: Random) -> Query:
    steps = []
    for _ in range(random.randint(1, 3)):
        conditions = [f"[{draw_condition(random)}]" for _ in range(random.choice((0, 1, 1, 2)))]
        steps.append(random.choice(("/", "//", "//")) + random.choice((*NAMES, "*")) + "".join(conditions))
    return plain("".join(steps))


@pytest.mark.parametrize("simd", [0, 1])
def test_first_items_against_lxml(simd: int) -> None:
    random = Random(f"first items {simd}")
    for number, way in enumerate(("bulk", "mixed", "after removals")):
        queries = [draw_query(random) for _ in range(250)]
        documents = [draw_document(random).encode() for _ in range(12)]
        afterwards = "loaded and changed" if number % 2 else "as it is"
        setting = Setting(way, simd=simd, seed=number, afterwards=afterwards)
        assert compare(queries, documents, [setting]) == 3_000


def test_names_in_namespaces() -> None:
    index = Index()
    index.add("one", "/a[contains(p:b/p:c, 'x')]", namespaces={"p": "urn:one"})
    index.add("any", "/a[contains(p:*/p:c, 'x')]", namespaces={"p": "urn:one"})
    assert index.match(b"<a><b><c>x</c></b></a>") == []
    assert index.match(b"<a xmlns:q='urn:one'><b><c>x</c></b><q:b><q:c>x</q:c></q:b></a>") == ["one", "any"]
    assert index.match(b"<a xmlns:q='urn:one'><q:d><q:c>x</q:c></q:d></a>") == ["any"]


def test_a_saved_index_knows_first_items(tmp_path: Path) -> None:
    index = Index()
    index.add_many([("child", "/a[contains(b/c, 'x')]"), ("below", "/a[starts-with(.//d, 'x')]")])
    index.save(tmp_path / "saved.tcx")
    loaded = Index.load(tmp_path / "saved.tcx")
    loaded.add("more", "/a[contains(b/d, 'y')]")
    assert set(loaded.match(b"<a><b/><b><c>-x</c><d>xy</d></b></a>")) == {"child", "below", "more"}
    assert loaded.match(b"<a><b><c>-</c><d>-</d></b><b><c>x</c><d>xy</d></b></a>") == []
