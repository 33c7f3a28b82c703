"""Predicates of one shape with many constants: operands are read once for a document, and the answers are lxml's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from generators.columns import ColumnDrawer
from oracles.differential import AFTERWARDS, WAYS, Setting, compare
from support.counted_work import COUNT, ITEMS, count_work
from support.sanitized import fewer

from treecast import Index, _native

SHAPES: dict[str, Callable[[int], str]] = {
    "a sum": lambda place: f"//item[@n + {place} = 100.5]",
    "a product of positions": lambda place: f"//item[position() * {place + 50} = 1]",
    "a length": lambda place: f"//item[string-length(name) * {place + 50} = 1]",
    "a set": lambda place: f"//item[preceding-sibling::item/@n = @n + {place}000.5]",
    "a text": lambda place: f'//item[concat(name, @lang, "w{place}") = "x"]',
    "several": lambda place: f"//item[@n + {place} = 100.5 or not(@n * {place} >= -1)]",
}


def item(place: int) -> str:
    return f'<item n="{place}" lang="en"><name>w{place}</name></item>'


@pytest.mark.parametrize("shape", SHAPES)
def test_an_operand_is_read_once(shape: str) -> None:
    """The first eight are evaluated one by one: 4,000 steps each with a set, and several for each item without."""
    work, matches = count_work(SHAPES[shape], item)
    assert (matches, work < (4 * COUNT * ITEMS if shape == "a set" else COUNT * ITEMS)) == (0, True), work


def test_few_are_evaluated_by_themselves() -> None:
    """The first that matches ends such an evaluation, and no column is made: what is counted are the items."""
    index = Index()
    index.add_many((str(place), f"//item[@n * @n + {place} >= 0]") for place in range(3))
    items = "".join(map(item, range(5_000)))
    assert sorted(index.match(f"<list>{items}</list>".encode())) == ["0", "1", "2"]
    assert _native.testing.looked_at(index._native) < 35_000


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_drawn(seed: int, edges: bool) -> None:
    drawer = ColumnDrawer(Random(f"columns/{seed}"), edges=edges)
    queries, documents = drawer.queries(fewer(300)), [drawer.document() for _ in range(8)]
    assert compare(queries, documents, [Setting("bulk", seed=seed)]) == len(queries) * len(documents)


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way_in(way: str) -> None:
    drawer = ColumnDrawer(Random("columns/ways"))
    queries, documents = drawer.queries(fewer(80)), [drawer.document() for _ in range(3)]
    settings = [Setting(way, cache="none", simd=0, seed=7, afterwards=afterwards) for afterwards in AFTERWARDS]
    assert compare(queries, documents, settings) == len(queries) * len(documents)


def test_what_is_too_much_for_a_column_is_decided_all_the_same() -> None:
    """Reading the operand of all items would take more steps than a subscription has; the first item decides."""
    index = Index()
    count = 20
    index.add_many((str(place), f"//item[count(preceding::item) + {place} >= 0]") for place in range(count))
    items = "".join(f"<item>{place}</item>" for place in range(3_000))
    assert len(index.match(f"<list>{items}</list>".encode())) == count
