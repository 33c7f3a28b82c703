"""Published documents as stored: their rows, and the payload that a subscription gets of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from treecast.index import Index
from treecast.links import Early, remainder_after
from treecast.model import Subscription
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.row_cache import RowCache
from treecast.overlay.broker.rows import (
    DOCUMENTS,
    LETTERS,
    DocumentRow,
    EarlyRow,
    LetterRow,
    SubscriptionRow,
    decode,
    decode_many,
)
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import BodyGoneError

_FEW_MATCHES = 64
"""Looking through so many is as fast as a dictionary that has to be made first."""
_PLACES_MAX = 8
_REMAINDERS_MAX = 64


class Payload:
    """What is sent for one key of a queue. Equal `place`s have equal bytes."""

    __slots__ = ("body", "document", "origin", "origin_number", "place", "published_ms")

    def __init__(self, document: int, row: DocumentRow | LetterRow, place: tuple[str, int], body: bytes) -> None:
        self.document = document
        self.published_ms = row.published_ms
        self.origin = row.origin
        self.origin_number = row.origin_number
        self.place = place
        self.body = body


def subscription_index(id: str, row: SubscriptionRow, like: Index) -> Index:
    """An index of this subscription alone."""
    index = Index(limits=like.limits)
    add_row(index, id, row)
    return index


def add_row(index: Index, id: str, row: SubscriptionRow) -> None:
    index.add(id, row.query, namespaces=row.namespaces, ordered=row.ordered, deliver=row.deliver)  # type: ignore[arg-type]


class Archive:
    """Reads rows and payloads, with a bounded cache of rows."""

    def __init__(self, shadow: Shadow, index: Index, cached_rows_max: int) -> None:
        self._shadow = shadow
        self._index = index
        self._places: OrderedDict[int, dict[str, int]] = OrderedDict()
        """Of the last documents with many matches: payloads by subscription."""
        self._remainders: OrderedDict[tuple[str, int, str], Index | None] = OrderedDict()
        self.rows: RowCache[int, DocumentRow] = RowCache(shadow, DOCUMENTS, DocumentRow, cached_rows_max)

    def unknown(self, ids: Iterable[str]) -> set[str]:
        """Those that no subscription has."""
        return set(self._index.missing(ids))

    def rows_after(self, number: int, count_max: int) -> list[tuple[int, DocumentRow]]:
        rows = self._shadow.scan(DOCUMENTS, number, count_max)
        return list(zip([key for key, _ in rows], decode_many([data for _, data in rows], DocumentRow), strict=True))

    def body(self, number: int) -> bytes:
        """Raises as `payload` does."""
        return self._shadow.body(number)

    def packed(self, ranges: Iterable[tuple[int, int]]) -> list[bytes | memoryview]:
        """The same for many, from one number to another, as they travel."""
        return self._shadow.packed(ranges)

    def payload(self, queue: Queue, key: int) -> Payload | None:
        """None if the subscription has changed since a replay found this document, and does not match it any more.

        Raises `BodyGoneError` if it is not kept any more, and `StorageError` if it is damaged.
        """
        if key < 0:
            return self._letter(-key)
        row = self.rows.get(key)
        if row is None:
            raise BodyGoneError(key)
        if key in queue.rematched:
            body = self._render(queue, row)
            return None if body is None else Payload(key, row, (queue.id, key), body)
        number = self._payload_number(key, row, queue.id)
        return Payload(key, row, ("", number), self._shadow.body(number))

    def _payload_number(self, key: int, row: DocumentRow, id: str) -> int:
        """The body of what a subscription gets of a document."""
        if len(row.subscriptions) <= _FEW_MATCHES:
            return row.payloads[row.subscriptions.index(id)]
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = dict(zip(row.subscriptions, row.payloads, strict=True))
            if len(self._places) > _PLACES_MAX:
                self._places.popitem(last=False)
        return places[id]

    def matches(self, queue: Queue, number: int, row: DocumentRow) -> bool:
        """Whether a document is for this queue. For a replay it is matched again."""
        if number > queue.rematch_until:
            return queue.id in row.subscriptions
        matcher = self._matcher(queue, row)
        return matcher is not None and bool(matcher.match(self._shadow.body(row.body)))

    def index_of(self, id: str, row: SubscriptionRow) -> Index:
        """An index of one subscription, with the limits of the broker's."""
        return subscription_index(id, row, self._index)

    def _matcher(self, queue: Queue, row: DocumentRow) -> Index | None:
        if row.early is not None:
            return self.index_after(queue.id, queue.row, row.early)
        if queue.matcher is None:
            queue.matcher = self.index_of(queue.id, queue.row)
        return queue.matcher

    def index_after(self, id: str, row: SubscriptionRow, early: EarlyRow) -> Index | None:
        """An index of one subscription, for documents that were changed on their way here; None if they may lack what
        it needs."""
        key = (id, row.change, early.steps)
        if key in self._remainders:
            self._remainders.move_to_end(key)
            return self._remainders[key]
        index = self._remainders[key] = self._index_after(id, row, early)
        if len(self._remainders) > _REMAINDERS_MAX:
            self._remainders.popitem(last=False)
        return index

    def _index_after(self, id: str, row: SubscriptionRow, early: EarlyRow) -> Index | None:
        deliver: Any = row.deliver
        subscription = Subscription(id, row.query, row.namespaces, row.ordered, deliver)
        if not early.steps:
            return None
        rest = remainder_after(Early(early.steps, early.namespaces, early.empty), subscription)
        if rest is None:
            return None
        index = Index(limits=self._index.limits)
        index.add(id, rest.query, namespaces=rest.namespaces, ordered=rest.ordered, deliver=rest.deliver)
        return index

    def _render(self, queue: Queue, row: DocumentRow) -> bytes | None:
        matcher = self._matcher(queue, row)
        deliveries = matcher.render(self._shadow.body(row.body)) if matcher else []
        return None if not deliveries or deliveries[0].refused else deliveries[0].payload

    def _letter(self, number: int) -> Payload:
        data = self._shadow.get(LETTERS, number)
        if data is None:
            raise BodyGoneError(number)
        letter = decode(data, LetterRow)
        return Payload(letter.document, letter, ("letter", number), letter.payload)
