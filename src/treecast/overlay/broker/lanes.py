"""The fast way of a delivery: deliveries that go well never become Python objects.

Theory of operation. Almost every delivery is matched, sent at once, and acknowledged with the whole message that it
came in. For these, `native/lanes/lanes.hpp` has arrays: a *lane* for each session, on which deliveries wait in the
order of their documents. A subscription is on the lane of its session while that is all there is to know of it: one
session receives from it, nothing failed, nothing is read from disk. Then its `Queue` is empty. For everything else it
*leaves* the lane, with all that it waits for, and its `Queue` has that, as if it had never been anywhere else. It comes
back when it waits for nothing.

PERF: bench/network_cpu.py. A delivery costs about 14 µs as an entry of several dictionaries, and less than one here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from treecast import _native
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.queue import NO_PROGRESS, Queue
from treecast.overlay.broker.sessions import Sent, Session
from treecast.overlay.broker.settings import BrokerSettings

LaneMessage = tuple[bytes, int, list[tuple[int, int]], int, int]
"""A message from a lane: its items, how many payloads, from which body to which they are, how many deliveries, and the
shortest time within which one has to be acknowledged."""


class DocumentColumns(NamedTuple):
    """What is known of the documents of a batch, by document."""

    sources: list[str]
    ids: list[str]
    published_ms: list[int]
    origin: str
    """Of all of them: the store of the root broker that they come from, or nothing;"""
    origin_numbers: list[int]
    """and their numbers there."""
    early: dict[int, bytes] = {}  # noqa: RUF012  (nobody changes it)
    """By place, of those that were changed on the way: an `EarlyRow`, as it is stored."""


class Stored(NamedTuple):
    """What is to be stored of a batch."""

    numbers: list[int]
    """By document; 0: it is not stored."""
    rows: tuple[list[int], list[bytes]]
    """Keys and values of `documents`."""
    bodies: tuple[bytes, list[int]]
    """All of them one behind the other, and where each ends."""
    others: list[tuple[int, str]]
    """Deliveries that are on no lane: the places of their documents, and their subscriptions."""


class Lanes:
    """Of all sessions of a broker. `has_left` is told of a queue that has left its lane, and of what it waits for."""

    def __init__(self, settings: BrokerSettings, has_left: Callable[[Queue, list[int]], None]) -> None:
        self._settings = settings
        self._native = _native.Lanes(settings.queue_memory_max)
        self._has_left = has_left
        self._sessions: dict[int, Session] = {}
        self._queues: dict[int, Queue] = {}
        """By serial: those that were on a lane, and are there still."""

    # --- sessions and subscriptions ----------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        session.lane = self._native.open_lane()
        self._sessions[session.lane] = session

    def close(self, session: Session) -> None:
        """The session is over. What it holds, and what waits on its lane, is in its messages and queues again."""
        for queue in session.queues.values():
            self.leave(queue)
        for sent in session.messages.values():
            assert sent.items is not None
        self._native.close_lane(session.lane)
        del self._sessions[session.lane]
        session.lane = -1

    def join(self, queue: Queue) -> None:
        """If nothing is known of a subscription that a lane could not say, it goes there."""
        if queue.slot >= 0 or len(queue.sessions) != 1 or not queue.is_plain():
            return
        (session,) = queue.sessions
        if session.lane < 0:
            return
        queue.ready.clear()
        queue.retries.clear()
        queue.former, queue.upto = NO_PROGRESS, 0
        self._queues[queue.serial] = queue
        acknowledge_ms = queue.row.options.acknowledge_ms
        queue.slot = self._native.join(queue.id, session.lane, queue.serial, queue.newest, acknowledge_ms)

    def leave(self, queue: Queue) -> None:
        """A subscription is delivered one by one from now on."""
        if queue.slot < 0:
            return
        (session,) = queue.sessions
        waiting, ready, upto, newest = self._native.leave(queue.slot)
        queue.slot = -1
        sent = len(waiting) - ready
        queue.outstanding = dict.fromkeys(waiting[:sent], 1) | dict.fromkeys(waiting[sent:], 0)
        queue.ready = deque(waiting[sent:])
        queue.sent = dict.fromkeys(waiting[:sent], session)
        queue.restore(waiting[:], upto, newest)
        self._has_left(queue, waiting)

    def forget(self, queue: Queue) -> None:
        """A queue is no more: what is on its way to its session settles nothing."""
        self.leave(queue)
        self._queues.pop(queue.serial, None)

    # --- deliveries --------------------------------------------------------------------------------------------------

    def store(
        self,
        batch: _native.DeliveryBatch,
        accepted: Sequence[bool] | None,
        columns: DocumentColumns,
        last_document: int,
        last_body: int,
    ) -> tuple[Stored, list[Session]]:
        """Documents were matched: number them and their bodies, write their rows, and let their deliveries wait on
        lanes. Of those that are not `accepted`, or, without that, that nobody gets, nothing is stored. Returns the
        sessions that have something to be sent as well."""
        numbers, rows, bodies, others, lanes = self._native.store(
            *(batch, accepted, columns.sources, columns.ids, columns.published_ms),
            *(columns.origin, columns.origin_numbers, last_document, last_body, columns.early),
        )
        return Stored(numbers, rows, bodies, others), [self._sessions[lane] for lane in lanes]

    def store_parcels(
        self,
        batch: _native.DeliveryBatch,
        parcels: _native.Parcels,
        first: int,
        origin: str,
        last_document: int,
        last_body: int,
    ) -> tuple[Stored, list[Session]]:
        """The same for documents of a message between brokers, from one of them on: those that somebody gets."""
        numbers, rows, bodies, others, lanes = self._native.store_parcels(
            *(batch, parcels, first, origin, last_document, last_body)
        )
        return Stored(numbers, rows, bodies, others), [self._sessions[lane] for lane in lanes]

    def take(self, session: Session, number: int) -> LaneMessage | None:
        """The next message of a session."""
        count = min(session.room(), self._settings.items_per_message_max)
        return self._native.take(session.lane, number, count, self._settings.message_bytes_max)

    def take_again(self, session: Session, number: int) -> LaneMessage | None:
        """The same message once more; None if not all of it is on the lane, as it was."""
        return self._native.take_again(session.lane, number)

    def has_ready(self, session: Session) -> bool:
        return session.lane >= 0 and self._native.on_lane(session.lane) > 0

    def acknowledge(
        self, session: Session, numbers: Sequence[int]
    ) -> tuple[list[str], list[bytes], list[tuple[Queue, int]]]:
        """Whole messages are dealt with: the subscriptions that have come further, their cursors, and the deliveries of
        those that have left the lane since."""
        count, ids, cursors, strays = self._native.acknowledge(session.lane, numbers)
        session.held -= count
        found = [(self._queues[serial], key) for serial, key in strays if serial in self._queues]
        return ids, cursors, found

    def open_message(self, session: Session, number: int) -> list[tuple[Queue, int] | None]:
        """The deliveries of a message, one by one: their subscriptions leave the lane."""
        items: list[tuple[Queue, int] | None] = []
        for serial, key in self._native.open_message(session.lane, number):
            queue = self._queues.get(serial)
            if queue is None:
                session.held -= 1
                items.append(None)
            else:
                self.leave(queue)
                items.append((queue, key))
        return items

    def sent(self, session: Session, number: int, acknowledge_ms: int, now_ms: int) -> Sent:
        """What a session remembers of a message that `take` has made."""
        return Sent(None, now_ms, acknowledge_ms, lambda: self.open_message(session, number))

    # --- looking at it -----------------------------------------------------------------------------------------------

    def depth(self, queue: Queue) -> tuple[int, int]:
        """How many deliveries wait, and how many of these were not sent."""
        return self._native.depth(queue.slot)

    def floor_of(self, queue: Queue) -> int:
        return self._native.floor(queue.slot)

    def progress(self, queue: Queue) -> Progress:
        upto, open = self._native.out_of_order(queue.slot)
        return Progress(self._native.floor(queue.slot), upto, frozenset(open))

    def first_unfinished(self) -> int:
        """The first document that somebody waits for; 0: there is none."""
        return self._native.first_unfinished()

    @property
    def unfinished(self) -> int:
        return self._native.unfinished

    @property
    def total(self) -> int:
        return self._native.total

    def longest(self) -> int:
        return self._native.longest()
