"""Shared by the small and full-size checks of populations on Spark: populations and independent oracles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pyarrow as pa
from support.placements import drawn_paths
from test_placement_pep import news, valued

from treecast import Index, Subscription, parse
from treecast.placement import Aggregate, ByFilters, Pep


def valued_table(count: int, values: int) -> pa.Table:
    """Subscriptions that compare a few things with values."""
    queries = valued(count, values=values)
    return pa.table({"id": [id for id, _ in queries], "query": [query for _, query in queries]})


def valued_documents(count: int, values: int) -> list[bytes]:
    random = Random(1)
    return [news(random, values, items=2) for _ in range(count)]


ROOTS = tuple(f"r{number}" for number in range(20))


def similar_table(count: int) -> pa.Table:
    """Subscriptions that are much alike: twenty roots, a few names below them, a thousand values."""
    random = Random(2)
    queries = [f"{drawn_paths(random, ROOTS)}[@k = {random.randrange(1000)}]" for _ in range(count)]
    return pa.table({"id": [f"q{number}" for number in range(count)], "query": queries})


def similar_documents() -> list[bytes]:
    """Half of them have a root that nobody asks for."""
    names = [*ROOTS, *(f"s{number}" for number in range(20))]
    return [f"<{name}><{kind} k='1'/></{name}>".encode() for name in names for kind in "abxy"]


def check_same_pep(placement: Pep, one: Pep, ids: Iterable[str]) -> None:
    """Patterns, buckets, holders and what routes documents are those that one process finds."""
    assert placement.patterns == one.patterns
    assert placement._buckets == one._buckets
    assert len(placement) == len(one)
    assert all(placement.holders(id) == one.holders(id) for id in ids)
    assert branches(placement) == branches(one)


def branches(placement: Pep) -> list[tuple[int | None, frozenset[str] | None]]:
    router = placement.router()
    assert isinstance(router, ByFilters)
    texts = router.filters
    return [(branch.shard, frozenset(texts[number] for number in branch.filters)) for branch in router.branches]


def check_aggregate(
    result: Aggregate, subscriptions: pa.Table | list[Subscription], documents: Sequence[bytes], paths: Iterable[str]
) -> None:
    """Size and precision are as reported, by indexes of all subscriptions and of the filters; each of these
    subscriptions, which are single paths, is covered by one of the filters, as `Query.covers` has it."""
    exact, coarse = Index(), Index()
    exact.add_many(subscriptions)
    coarse.add_many([(str(number), text) for number, text in enumerate(result.filters)])
    is_wanted = [bool(exact.match(document)) for document in documents]
    is_forwarded = [bool(coarse.match(document)) for document in documents]
    assert all(has_passed for is_needed, has_passed in zip(is_wanted, is_forwarded, strict=True) if is_needed)
    assert (result.expressions, result.documents) == (len(exact), len(documents))
    assert (result.wanted, result.forwarded) == (sum(is_wanted), sum(is_forwarded))
    filters = [parse(text) for text in result.filters]
    for text in set(paths):
        assert any(one.covers(parse(text)) for one in filters), text
