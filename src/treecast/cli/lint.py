"""What is wrong, or worth a look, in a set of subscriptions: the work behind `treecast check`.

| kind | what it means |
|---|---|
| refused | `Index.add` would not take it |
| same | it says the same as an earlier one |
| covered | an earlier or later one matches every document that it matches |
| impossible | no document of the schema can match it |
| unmatched | none of the sample documents matches it |

Only "refused" is a mistake. Covering is certain where it is reported; what is not reported may still be covered
(docs/guide/covering.md). To keep it fast, only queries that match a small document made from the covered one are
compared, and only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.query import Query, Transformation, parse
from treecast.query.witness import witness

if TYPE_CHECKING:
    import pyarrow as pa

    from treecast.model import Subscription
    from treecast.workload import Schema

Kind = Literal["refused", "same", "covered", "impossible", "unmatched"]
COMPARED_MAX = 8
"""Queries that are compared with one that they may cover."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """One subscription, and what is to be said of it."""

    subscription: str
    kind: Kind
    message: str
    other: str | None = None
    """The subscription that says the same, or covers it."""


def refusals(index: Index, rows: pa.Table) -> list[Finding]:
    """Add the rows to the index; a finding for each that is refused."""
    report = index.add_many(rows, on_refused="report")
    return [Finding(str(row["id"]), "refused", row["message"]) for row in report.to_pylist()]


def redundancies(index: Index, progress: Progress = lambda done, total: None) -> Iterator[Finding]:
    """The subscriptions that say the same as an earlier one, and those that another one covers."""
    first: dict[tuple[Query | Transformation, bool, str], str] = {}
    total = len(index)
    for done, id in enumerate(index):
        progress(done, total)
        subscription = index[id]
        query = parse(subscription.query, namespaces=subscription.namespaces)
        key = (query, subscription.ordered, subscription.deliver)
        earlier = first.setdefault(key, id)
        if earlier != id:
            yield Finding(id, "same", f"says the same as {earlier!r}", earlier)
            continue
        other = _covering(index, subscription, query)
        if other is not None:
            message = f"is covered by {other!r}: that one matches every document that this one matches"
            yield Finding(id, "covered", message, other)


def _covering(index: Index, subscription: Subscription, query: Query | Transformation) -> str | None:
    """Another subscription that surely matches whatever this one does, but is not the same."""
    example = witness(query.matching.tree)
    if example is None:
        return None
    try:
        ids = index.match_one(example)[0]
    except TreecastError:  # a query may be larger than documents may be
        return None
    if subscription.id not in ids:
        return None
    others = (index[id] for id in ids if id != subscription.id)
    for other in islice((each for each in others if not each.ordered), COMPARED_MAX):
        covering = parse(other.query, namespaces=other.namespaces).matching
        if covering != query.matching and covering.covers(query):
            return other.id
    return None


def impossible(index: Index, schema: Schema) -> Iterator[Finding]:
    """The subscriptions that no document of the schema matches."""
    from treecast.overlay.onyx.routing import map_subscription
    from treecast.overlay.onyx.routing.source_schema import possible

    for id in index:
        routing = map_subscription(index[id])
        if routing.conjunctions and not possible(routing, schema).conjunctions:
            yield Finding(id, "impossible", f"no document of {schema.name} matches it")


def unmatched(index: Index, matched: set[str], documents: int) -> Iterator[Finding]:
    """The subscriptions that none of the sample documents matches."""
    for id in index:
        if id not in matched:
            yield Finding(id, "unmatched", f"no sample document matches it ({documents:,} tried)")
