"""The full-size check of placements: a million subscriptions, placed in every way, and aggregated."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from support.placements import MAKERS, drawn_paths
from test_placement_pep import news, valued

from treecast import Index
from treecast.placement import aggregate, violations

pytestmark = pytest.mark.long

MILLION = 1_000_000
VALUES = 50_000
SHARDS = 200


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_million_are_placed_and_none_is_lost(name: str) -> None:
    queries = valued(MILLION, values=VALUES)
    table = pa.table({"id": [id for id, _ in queries], "query": [query for _, query in queries]})
    random = Random(1)
    documents = [news(random, VALUES, items=2) for _ in range(200)]
    index = Index()
    index.add_many(table)
    placement = MAKERS[name](SHARDS, documents[:100])
    placement.add_many(table)
    assert len(placement) == MILLION
    assert violations(placement, documents, [index.match(document) for document in documents]) == []
    for id, _ in queries[::7]:
        placement.remove(id)
        index.remove(id)
    assert violations(placement, documents, [index.match(document) for document in documents]) == []


def test_a_million_similar_expressions_shrink() -> None:
    random = Random(2)
    roots = tuple(f"r{number}" for number in range(20))
    queries = [f"{drawn_paths(random, roots)}[@k = {random.randrange(1000)}]" for _ in range(MILLION)]
    table = pa.table({"id": [f"q{number}" for number in range(MILLION)], "query": queries})
    names = [*roots, *(f"s{number}" for number in range(20))]
    documents = [f"<{name}><{kind} k='1'/></{name}>".encode() for name in names for kind in "abxy"]
    found = aggregate(table, documents=documents, filters_max=1000)
    assert found.shrinkage >= 1000
    print(found.describe())
    assert found.false_forwards <= 0.3
