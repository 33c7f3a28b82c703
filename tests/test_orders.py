"""Ordered patterns are decided by the tree machine: where their branches hold is noted, and nothing is rechecked.

Work is counted, not timed, as in test_places. test_predicates compares ordered patterns with a brute force.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from treecast import Index, Subscription, _native

COUNT, ITEMS = 300, 40


def index_of(queries: dict[str, str]) -> Index:
    index = Index()
    index.add_many(Subscription(name, query, ordered=True) for name, query in queries.items())
    return index


def work_of(query: str) -> tuple[int, int]:
    """What COUNT subscriptions looked at on one document, and how many of them match."""
    index = index_of({str(place): query.format(place) for place in range(COUNT)})
    items = "".join(f"<item><code>C{place}</code><m/><n><m/></n></item>" for place in range(ITEMS))
    matched = index.match(f"<list>{items}</list>".encode())
    return _native.testing.looked_at(index._native), len(matched)


DECIDED = {
    '//item[code="C{}"][m]': ITEMS,
    '//item[m][code="C{}"]': 0,
    '//item[code="C{}"]/m': ITEMS,
    '//item[code="C{}"][m][n]': ITEMS,
    '//item[code="C{}"][n][m]': 0,
    '//item[code="C{}"][n][.//m]': ITEMS,
    '//item[code="C{}"][.//m][.//m]': ITEMS,
    '//item[code="C{}"][.//m][.//m][.//m]': 0,
    '//item[contains(code, "C{}")][m]': ITEMS,
}


@pytest.mark.parametrize("query", DECIDED)
def test_orders_are_not_rechecked(query: str) -> None:
    """A recheck takes at least a step for each of the items."""
    work, matched = work_of(query)
    assert matched == DECIDED[query]
    assert work <= 2 * COUNT


def test_what_the_machine_cannot_order_is_rechecked() -> None:
    """So the measure above notices a recheck."""
    work, matched = work_of('//item[code="C{}"][contains(n/m, "")]')
    assert matched == ITEMS
    assert work > 2 * COUNT


QUERIES = {
    "b, c": "/a[b][c]",
    "c, b": "/a[c][b]",
    "two": "/a[b][b]",
    "three": "/a[b][b]/b",
    "below": "/a[b][.//c]",
    "first below": "/a[.//c][b]",
    "inner": "//d[b][c]",
    "numbers": "/a[b > 1][c != 'x']",
    "only an attribute": "/a[c][@x]",
}
DOCUMENTS: dict[bytes, set[str]] = {
    b"<a><b/><c/></a>": {"b, c", "below"},
    b"<a><c/><b/></a>": {"c, b", "first below"},
    b"<a x=''><b/><c/><b/></a>": {"b, c", "c, b", "two", "below", "first below", "only an attribute"},
    b"<a><b/><b/><b/></a>": {"two", "three"},
    b"<a><b><c/></b></a>": {"below"},
    b"<a><b><c/></b><b/></a>": {"two", "below", "first below"},
    b"<a><d><b/><c/></d></a>": {"inner"},
    b"<a><d><c/><d><b/></d></d><d><b/></d></a>": set(),
    b"<a><d><c/><d><b/><e/><c/></d></d></a>": {"inner"},
    b"<a><b>2</b><c>y</c></a>": {"b, c", "below", "numbers"},
    b"<a><c>y</c><b>2</b><c>x</c></a>": {"b, c", "c, b", "below", "first below"},
    b"<a><c>x</c><b>2</b><b>1</b><c>z</c></a>": {"b, c", "c, b", "two", "below", "first below", "numbers"},
}


@pytest.mark.parametrize("way", ["at once", "one by one", "loaded"])
def test_orders(way: str, tmp_path: Path) -> None:
    index = index_of(QUERIES if way != "one by one" else {})
    if way == "one by one":
        for name, query in QUERIES.items():
            index.add(name, query, ordered=True)
    elif way == "loaded":
        index.save(tmp_path / "saved.tcx")
        index = Index.load(tmp_path / "saved.tcx")
        index.add("unordered", "/z[b][c]")
    for document, names in DOCUMENTS.items():
        assert set(index.match(document)) == names, document


def test_an_order_is_part_of_the_pattern() -> None:
    index = Index()
    index.add("ordered", "/a[b][c]", ordered=True)
    index.add("unordered", "/a[b][c]")
    assert index.match(b"<a><c/><b/></a>") == ["unordered"]
    assert index.match(b"<a><b/><c/></a>") == ["ordered", "unordered"]
