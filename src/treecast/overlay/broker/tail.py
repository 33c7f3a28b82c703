"""The documents of a broker as a log that many may read, each from a position of its own, without sessions.

A session *takes* deliveries: what it acknowledges, nobody else gets. A reader of the tail only looks: it remembers how
far it got, and any number of readers get everything. Event streams of the HTTP door work like that. A reader first
reads what is stored (`Tail.read`), and then follows what is published (`Published`); both come in the order of
documents, so there is no gap between them. Whoever has read says so with `Advance`, so that nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from treecast.overlay.broker.depths import longest
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.rows import (
    LETTER_KEYS,
    LETTERS,
    SUBSCRIPTIONS,
    DocumentRow,
    LetterRow,
    SourceRow,
    SubscriptionRow,
    decode,
    letter_key,
    number_of_letter,
)
from treecast.overlay.storage import StorageError

if TYPE_CHECKING:
    from treecast.index import Index
    from treecast.overlay.broker.archive import Archive
    from treecast.overlay.broker.backlog import Backlog
    from treecast.overlay.broker.subscriptions import Subscriptions
    from treecast.overlay.shadow import Shadow

ROWS_MAX = 200
"""Documents that are looked at in one step."""
SCANNED_AT_ONCE = 64
"""Of subscriptions with a prefix: as few as possible of those behind them."""


class Published(msgspec.Struct, frozen=True):
    """An event: a document is durable. `payloads` are those of `subscriptions`, in the same order."""

    document: int
    published_ms: int
    subscriptions: list[str]
    payloads: list[bytes]
    origin: tuple[str, int] = ("", 0)
    """In a network: store and number where it was published, if not at this broker."""


class Refused(msgspec.Struct, frozen=True):
    """An event: a document of `size` bytes was refused. `beginning` is that of its body."""

    source: str
    id: str
    code: str
    message: str
    size: int
    beginning: bytes
    refused_ms: int


class Depth(msgspec.Struct, frozen=True):
    """How much a subscription waits for. Of a parked one, `waiting` is what is in memory: there is more on disk."""

    subscription: str
    waiting: int
    sent: int
    receivers: int
    is_parked: bool
    first: int
    """A document up to which all its deliveries are done, plus one."""


class TailItem(msgspec.Struct, frozen=True):
    """What one subscription gets of one document."""

    document: int
    published_ms: int
    subscription: str
    payload: bytes
    origin: tuple[str, int] = ("", 0)
    """As that of `Published`."""


class Tail:
    """Reads stored documents, for any number of readers."""

    def __init__(self, shadow: Shadow, archive: Archive, backlog: Backlog, subscriptions: Subscriptions) -> None:
        self._shadow = shadow
        self._archive = archive
        self._backlog = backlog
        self._subscriptions = subscriptions

    def last_document(self) -> int:
        """The last one that was accepted; it need not be durable yet."""
        return self._backlog.last_document

    def first_document(self) -> int:
        """The first that is kept, or the next one if none is."""
        rows = self._archive.rows_after(0, 1)
        return rows[0][0] if rows else self._backlog.last_document + 1

    def subscription(self, id: str) -> SubscriptionRow | None:
        return self._subscriptions.row(id)

    def subscriptions(self, after: str, count_max: int, prefix: str = "") -> list[tuple[str, SubscriptionRow]]:
        """By their ids, from the next one on; only those that begin with `prefix`."""
        if prefix:
            rows = list(islice(self._under(SUBSCRIPTIONS, prefix, after), count_max))
        else:
            rows = self._shadow.scan(SUBSCRIPTIONS, after, count_max)
        return [(id, decode(data, SubscriptionRow)) for id, data in rows]

    def count_subscriptions(self, prefix: str, count_max: int) -> int:
        """How many begin so; at most `count_max` are counted."""
        return sum(1 for _ in islice(self._under(SUBSCRIPTIONS, prefix, ""), count_max))

    def _under(self, table: str, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
        """What begins with a prefix stands together, and begins with the prefix itself."""
        if prefix and after < prefix:
            data = self._shadow.get(table, prefix)
            if data is not None:
                yield prefix, data
            after = prefix
        for key, data in self._shadow.rows(table, after, SCANNED_AT_ONCE):
            if not key.startswith(prefix):
                return
            yield key, data

    def letters(self, prefix: str, after: str, count_max: int) -> Iterator[tuple[int, LetterRow]]:
        """Dead letters of subscriptions that begin with `prefix`, by subscription and number, after a `letter_key`."""
        for key, _ in islice(self._under(LETTER_KEYS, prefix, after), count_max):
            number = number_of_letter(key)
            data = self._shadow.get(LETTERS, number)
            if data is not None:
                yield number, decode(data, LetterRow)

    def letters_of(self, subscription: str, count_max: int) -> list[int]:
        """The numbers of a subscription's dead letters, the oldest first."""
        keys = islice(self._under(LETTER_KEYS, letter_key(subscription, 0)[:-19], ""), count_max)
        return [number_of_letter(key) for key, _ in keys]

    def letter_subscription(self, number: int) -> str | None:
        """Whose a dead letter is; None if there is no such letter."""
        data = self._shadow.get(LETTERS, number)
        return None if data is None else decode(data, LetterRow).subscription

    def sources(self) -> dict[str, SourceRow]:
        return self._subscriptions.sources

    def progress(self, id: str) -> Progress:
        """Which of its documents a subscription need not get any more."""
        return self._backlog.progress(id)

    def read(self, ids: Collection[str], after: int, until: int, bytes_max: int) -> tuple[list[TailItem], int]:
        """What these subscriptions get of the documents after `after`, up to `until`, and the last that was looked at.

        One step of bounded size: go on from there, until it is `until`.
        """
        items: list[TailItem] = []
        replays = {id: last for id in ids if (last := self._backlog.rematch_until(id)) > after}
        indexes: dict[str, Index] = {}
        size = 0
        rows = self._archive.rows_after(after, ROWS_MAX)
        for number, row in rows:
            if number > until:
                return items, until
            if size >= bytes_max:
                return items, after
            after = number
            again = [id for id, last in replays.items() if number <= last]
            for item in self._items(number, row, ids, again, indexes):
                items.append(item)
                size += len(item.payload)
        return items, after if len(rows) == ROWS_MAX else until

    def kept(
        self, after: int, until: int, count_max: int, bytes_max: int
    ) -> Iterator[tuple[int, DocumentRow, bytes | StorageError]]:
        """Documents after `after`, up to `until`, that are kept: up to so many, and so many bytes unless the first has
        more. Numbers that are left out are those of documents that are not kept any more."""
        size = 0
        for number, row in self._archive.rows_after(after, count_max):
            if number > until or (size and size + row.bytes > bytes_max):
                return
            size += row.bytes
            try:
                yield number, row, self._shadow.body(row.body)
            except StorageError as error:
                yield number, row, error

    def last_match(self, id: str, after: int, until: int) -> int:
        """The last document of these that a subscription gets; 0 if there is none."""
        rows = self._archive.rows_after(after, until - after)
        return max((number for number, row in rows if number <= until and id in row.subscriptions), default=0)

    def recent(self, count: int) -> Iterator[tuple[int, DocumentRow, bytes]]:
        """The last documents that are kept, newest first."""
        for number in range(self._backlog.last_document, max(self._backlog.last_document - count, 0), -1):
            row = self._archive.rows.get(number)
            if row is None:
                return
            try:
                yield number, row, self._shadow.body(row.body)
            except StorageError:
                continue

    # --- for those who watch ------------------------------------------------------------------------------------------

    def documents_before(self, number: int, count: int) -> Iterator[tuple[int, DocumentRow]]:
        """The last documents before this one that are kept, newest first."""
        last = min(number - 1, self._backlog.last_document)
        for place in range(last, max(last - count, 0), -1):
            row = self._archive.rows.get(place)
            if row is None:
                return
            yield place, row

    def document(self, number: int) -> DocumentRow | None:
        return self._archive.rows.get(number)

    def body(self, number: int) -> bytes:
        """A body that a row names. Raises `StorageError`."""
        return self._shadow.body(number)

    def published_ms(self, number: int) -> int:
        """When this document was published, or the first after it that is kept; 0 if there is none."""
        rows = self._archive.rows_after(number - 1, 1)
        return rows[0][1].published_ms if rows else 0

    def longest(self, count: int) -> list[Depth]:
        """The subscriptions that wait for most, parked ones first. It looks at everything that waits."""
        return [Depth(*depth) for depth in longest(self._backlog, count)]

    def waiting_from(self, *, received: bool = False) -> int:
        """The first document that somebody waits for; or, somebody who receives at present."""
        return self._backlog.received_from() if received else self._backlog.needed_from()

    def _items(
        self, number: int, row: DocumentRow, ids: Collection[str], again: list[str], indexes: dict[str, Index]
    ) -> Iterator[TailItem]:
        origin = (row.origin, row.origin_number)
        for id, body in zip(row.subscriptions, row.payloads, strict=True):
            if id in ids and id not in again:
                try:
                    yield TailItem(number, row.published_ms, id, self._shadow.body(body), origin)
                except StorageError:
                    continue  # dropped, or damaged: nobody can get it
        for id in again:
            if (payload := self._match_again(id, row, indexes)) is not None:
                yield TailItem(number, row.published_ms, id, payload, origin)

    def _match_again(self, id: str, row: DocumentRow, indexes: dict[str, Index]) -> bytes | None:
        subscription = self._subscriptions.row(id)
        if subscription is None:
            return None
        if id not in indexes:
            indexes[id] = self._archive.index_of(id, subscription)
        index = indexes[id] if row.early is None else self._archive.index_after(id, subscription, row.early)
        if index is None:
            return None  # it came without something that this subscription needs
        try:
            deliveries = index.render(self._shadow.body(row.body))
        except StorageError:
            return None
        return None if not deliveries or deliveries[0].refused else deliveries[0].payload
