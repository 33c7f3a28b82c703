"""A routing table that is right by its simplicity: texts of queries, one index, unions of sets. For tests only.

It differs from the real one in nothing that the data plane sees: aggregates, deltas, and targets of documents. One
query (`/*`) covers all others, so that removing it has to bring back what it covered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from treecast.document import AnyDocument
from treecast.index import Index
from treecast.model import Subscription

EVERYTHING = "/*"


class SimpleQuery(frozenset[str]):
    """A set of queries; a document concerns it if one of them matches."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(sorted(self))


class SimpleDelta(msgspec.Struct, frozen=True):
    added: SimpleQuery
    removed: SimpleQuery

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class SimpleTable:
    def __init__(self) -> None:
        self._targets: dict[str, Counter[str]] = {}
        self._index = Index(seed=1)
        self._uses: Counter[str] = Counter()

    def update(self, target: str, added: SimpleQuery, removed: SimpleQuery) -> SimpleDelta:
        return self.update_many(target, sorted(added), sorted(removed))

    def update_many(self, target: str, added: list[str], removed: list[str]) -> SimpleDelta:
        before = self.aggregate()
        counts = self._targets.setdefault(target, Counter())
        for query in added:
            counts[query] += 1
            self._use(query, 1)
        for query in removed:
            assert counts[query] > 0, f"{query} is removed from {target!r}, which does not have it"
            counts[query] -= 1
            self._use(query, -1)
        return self._since(before)

    def refine(self) -> SimpleDelta:
        return SimpleDelta(SimpleQuery(), SimpleQuery())

    def replace(self, target: str, query: SimpleQuery) -> SimpleDelta:
        before = self.aggregate()
        self.drop(target)
        self.update(target, query, SimpleQuery())
        return self._since(before)

    def drop(self, target: str) -> SimpleDelta:
        before = self.aggregate()
        for query, count in sorted(self._targets.pop(target, Counter()).items()):
            self._use(query, -count)
        return self._since(before)

    def _use(self, query: str, by: int) -> None:
        before, self._uses[query] = self._uses[query], self._uses[query] + by
        if not before and by > 0:
            self._index.add(query, query)
        elif before and not self._uses[query]:
            self._index.remove(query)

    def _since(self, before: SimpleQuery) -> SimpleDelta:
        after = self.aggregate()
        return SimpleDelta(SimpleQuery(after - before), SimpleQuery(before - after))

    def aggregate(self) -> SimpleQuery:
        queries = {query for query, count in self._uses.items() if count}
        return SimpleQuery({EVERYTHING} if EVERYTHING in queries else queries)

    def learn(self, documents: Sequence[AnyDocument]) -> None:
        """Nothing is generalised here."""

    def learn_parcels(self, *arguments: object) -> None:
        """Likewise."""

    def route_parcels(self, *arguments: object) -> None:
        """Documents are to be read before."""

    def route_forms(self, *arguments: object) -> None:
        """Documents are to be read before."""

    def publish(self, *arguments: object) -> None:
        """Documents are to be matched and routed one after the other."""

    def route(self, documents: Sequence[AnyDocument], enough: Collection[str] = ()) -> list[tuple[str, ...]]:
        answers = []
        for body in documents:
            queries = set(self._index.match(body))
            answers.append(
                tuple(t for t, counts in self._targets.items() if any(counts[query] for query in sorted(queries)))
            )
        return answers


class SimpleRouting:
    def table(self) -> SimpleTable:
        return SimpleTable()

    root_table = table

    def map(self, subscription: Subscription) -> SimpleQuery:
        Index(seed=1).add("q", subscription.query)  # raises QueryError
        return SimpleQuery({subscription.query})

    def empty(self) -> SimpleQuery:
        return SimpleQuery()

    def decode(self, data: bytes) -> SimpleQuery:
        return SimpleQuery(msgspec.msgpack.decode(data, type=list[str]))

    def difference(self, before: SimpleQuery, after: SimpleQuery) -> SimpleDelta:
        return SimpleDelta(SimpleQuery(after - before), SimpleQuery(before - after))

    def parts(self, queries: Iterable[SimpleQuery]) -> list[str]:
        return [text for query in queries for text in sorted(query)]
