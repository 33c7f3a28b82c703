"""A subscription leaves a broker with what is not delivered yet, or comes with it: see `overlay/onyx/migration.py`.

What comes is kept as letters that are delivered again: they have their payloads, and are sent before anything that the
subscription matches here. The first of them has the highest number, since keys of letters are negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.rows import LETTER_KEYS, LETTERS, REDELIVERIES, LetterRow, SubscriptionRow, letter_key
from treecast.overlay.broker.turn import Turn
from treecast.overlay.storage import Put, StorageError

REASON = "not delivered before it moved"

Undelivered = tuple[str, int, int, bytes]
"""The store of its root (empty: this broker's own), its number there, when it was published, and the payload."""


def undelivered(
    id: str,
    row: SubscriptionRow,
    backlog: Backlog,
    archive: Archive,
    is_mine: Callable[[str, int], bool],
    count_max: int,
    bytes_max: int,
) -> list[Undelivered] | None:
    """What is not delivered of a subscription, in order; None if that is more than may be handed over at once.

    `is_mine` says whether a document, by its store and its number there, is for this broker to deliver.
    """
    queue = backlog.queue_of(id, row)
    if queue.rematch_until > queue.floor():
        return None  # it replays
    found: list[Undelivered] = []
    size = 0
    for key in _keys(id, backlog, archive):
        document = archive.rows.get(key) if key > 0 else None
        if document is not None:
            origin = (document.origin, document.origin_number) if document.origin else ("", key)
            if not is_mine(*origin):
                continue
        try:
            payload = archive.payload(queue, key)
        except StorageError:
            continue  # nobody can get it any more
        if payload is None:
            continue
        number = payload.origin_number if payload.origin else payload.document
        found.append((payload.origin, number, payload.published_ms, payload.body))
        size += len(payload.body)
        if len(found) > count_max or size > bytes_max:
            return None
    return found


def _keys(id: str, backlog: Backlog, archive: Archive) -> Iterator[int]:
    """Of all that is outstanding, letters first."""
    queue = backlog.queues[id]
    yield from sorted(key for key in queue.outstanding if key < 0)
    progress = backlog.progress(id)
    after = progress.floor
    while rows := archive.rows_after(after, 1_000):
        for number, row in rows:
            if id in row.subscriptions and not progress.is_done(number):
                yield number
        after = rows[-1][0]


def forget_letters(id: str, backlog: Backlog, turn: Turn) -> None:
    """Letters that were to be delivered again go with their subscription."""
    queue = backlog.queues.get(id)
    for key in [key for key in queue.outstanding if key < 0] if queue is not None else ():
        backlog.settle(queue, key, turn)  # type: ignore[arg-type]


def take_in(id: str, row: SubscriptionRow, items: Sequence[Undelivered], backlog: Backlog, turn: Turn) -> None:
    """These are delivered first."""
    queue = backlog.queue_of(id, row)
    first = backlog.last_letter + len(items)
    backlog.last_letter = first
    backlog.letters += len(items)
    for place, (origin, origin_number, published_ms, payload) in enumerate(items):
        number = first - place
        letter = LetterRow(id, origin_number, published_ms, REASON, 0, payload, turn.now_ms, origin, origin_number)
        turn.put(LETTERS, number, letter)
        turn.changes.append(Put(LETTER_KEYS, letter_key(id, number), b""))
        turn.changes.append(Put(REDELIVERIES, number, id.encode()))
        queue.outstanding[-number] = 0
    queue.put_back(-(first - place) for place in range(len(items)))
    backlog.touched[id] = queue
