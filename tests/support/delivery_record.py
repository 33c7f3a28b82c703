"""What publishers and receivers saw of a broker, and the oracle that compares the two.

A publisher's entries are in the order of its requests, which is the order in which the broker handles them. So a change
of a subscription came after the last document before it in that list, and before the first one behind it. Documents of
other publishers, whose numbers lie between these two, were matched before or after the change: nobody can say. For all
others it is known which query of a subscription was in force.

`Expectation` says for each document and subscription: it must be delivered, it may be, or it must not. It must if the
subscription was acknowledged before, satisfies the document, and is not removed later on: what waits for a removed
subscription goes with it. A changed subscription still gets what it matched before, as it was matched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from treecast import Index

Query = tuple[str, str]
"""A query, and what is delivered: "document" or "elements"."""


@dataclass(frozen=True)
class Published:
    """Documents that a publisher was told the numbers of; 0 for a refused one."""

    numbers: list[int]
    bodies: list[bytes]


@dataclass(frozen=True)
class Changed:
    """A subscription was added, replaced, or removed (None)."""

    subscription: str
    query: Query | None


@dataclass(frozen=True)
class Received:
    """A delivery, in the order in which a receiver got it."""

    subscription: str
    document: int
    id: str
    payload: bytes


@dataclass(frozen=True)
class _Change:
    """A change that came after document `low` and before document `high`."""

    low: int
    high: int
    query: Query | None


@dataclass
class Verdict:
    """Counts, and everything that is wrong. `missing` may still come; the others are final."""

    documents: int = 0
    deliveries: int = 0
    duplicates: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        return [*self.wrong, *self.missing]

    def __str__(self) -> str:
        changes = ", ".join(f"{count} {what}" for what, count in sorted(self.changes.items()))
        return (
            f"{self.documents} documents, {self.deliveries} deliveries, {self.duplicates} duplicates;"
            f" subscriptions: {changes}; {len(self.missing)} missing, {len(self.wrong)} wrong"
        )


class Expectation:
    """Made once from what the publishers have done: a list of entries for each."""

    def __init__(self, publishers: list[list[Published | Changed]]) -> None:
        self.bodies: dict[int, bytes] = {}
        self._publisher: dict[int, int] = {}
        self._changes: dict[str, list[_Change]] = {}
        self.kinds: Counter[str] = Counter()
        self.faults: list[str] = []
        last = 1 + max(n for entries in publishers for e in entries if isinstance(e, Published) for n in e.numbers)
        for publisher, entries in enumerate(publishers):
            self._read(publisher, entries, last)
        self._must: dict[tuple[str, int], bytes] = {}
        self._may: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self._decide()

    def _read(self, publisher: int, entries: list[Published | Changed], end: int) -> None:
        firsts = [next((n for n in entry.numbers if n), 0) if isinstance(entry, Published) else 0 for entry in entries]
        low = 0
        for place, entry in enumerate(entries):
            if isinstance(entry, Published):
                accepted_documents = [pair for pair in zip(entry.numbers, entry.bodies, strict=True) if pair[0]]
                for number, body in accepted_documents:
                    if number <= low:
                        self.faults.append(f"document {number} of publisher {publisher} is numbered before {low}")
                    if number in self.bodies:
                        self.faults.append(f"two documents have the number {number}")
                    low = max(low, number)
                    self.bodies[number] = body
                    self._publisher[number] = publisher
                continue
            high = next((first for first in firsts[place:] if first), end)
            changes = self._changes.setdefault(entry.subscription, [])
            before = changes[-1].query if changes else None
            kind = "removed" if entry.query is None else "replaced" if before else "added"
            self.kinds[kind] += 1
            changes.append(_Change(low, high, entry.query))

    def _decide(self) -> None:
        queries = list(dict.fromkeys(c.query for changes in self._changes.values() for c in changes if c.query))
        index = Index()
        for place, (query, deliver) in enumerate(queries):
            index.add(str(place), query, deliver=deliver)  # type: ignore[arg-type]
        payloads: dict[Query, dict[int, bytes]] = {query: {} for query in queries}
        numbers = sorted(self.bodies)
        for number in numbers:
            for delivery in index.render(self.bodies[number]):
                assert delivery.payload is not None
                payloads[queries[int(delivery.subscription)]][number] = delivery.payload
        for subscription, changes in self._changes.items():
            self._decide_one(subscription, changes, payloads, numbers)

    def _decide_one(
        self, subscription: str, changes: list[_Change], payloads: dict[Query, dict[int, bytes]], numbers: list[int]
    ) -> None:
        end = _Change(numbers[-1] + 1, numbers[-1] + 1, None)
        removals = [place for place, change in enumerate(changes) if change.query is None]
        for place, (change, following) in enumerate(pairwise([*changes, end])):
            if change.query is None:
                continue
            is_removed = any(removal > place for removal in removals)
            payload_by_document = payloads[change.query]
            # Known to be in force from `high` to the next change's `low`; perhaps on both sides of that.
            for number in numbers[bisect_left(numbers, change.low + 1) : bisect_left(numbers, following.high)]:
                if number not in payload_by_document:
                    continue
                is_certain = change.high <= number <= following.low
                if is_certain and not is_removed:
                    self._must[subscription, number] = payload_by_document[number]
                else:
                    self._may[subscription, number].append(payload_by_document[number])

    def verdict(self, deliveries: list[Received]) -> Verdict:
        """Compare with what has been received so far."""
        verdict = Verdict(len(self.bodies), 0, 0, self.kinds, [], list(self.faults))
        ids: dict[str, tuple[str, int]] = {}
        payload_by_key: dict[tuple[str, int], bytes] = {}
        newest: dict[tuple[str, int], int] = {}
        for delivery in deliveries:
            key = (delivery.subscription, delivery.document)
            if ids.setdefault(delivery.id, key) != key:
                verdict.wrong.append(f"{key} and {ids[delivery.id]} have the same id")
            if key in payload_by_key:
                verdict.duplicates += 1
                if payload_by_key[key] != delivery.payload:
                    verdict.wrong.append(f"{key} came again with another payload")
                continue
            payload_by_key[key] = delivery.payload
            allowed_payloads = [self._must[key]] if key in self._must else self._may.get(key, [])
            if delivery.payload not in allowed_payloads:
                verdict.wrong.append(
                    f"{key} must not be delivered" if not allowed_payloads else f"{key} has a wrong payload"
                )
            stream = (delivery.subscription, self._publisher.get(delivery.document, -1))
            if newest.get(stream, 0) > delivery.document:
                verdict.wrong.append(f"{key} came after document {newest[stream]} of the same publisher")
            newest[stream] = max(newest.get(stream, 0), delivery.document)
        if len(ids) != len(payload_by_key):
            verdict.wrong.append(f"{len(payload_by_key)} deliveries have {len(ids)} ids")
        verdict.deliveries = len(payload_by_key)
        verdict.missing = [f"{key} is missing" for key in self._must if key not in payload_by_key]
        return verdict

    def size(self) -> int:
        """How many deliveries there must be."""
        return len(self._must)
