"""Matches that are not delivered yet: who waits for what, in memory and on disk.

Theory of operation. A match is a (subscription, document) pair. While nobody receives from a subscription, its matches
are bare numbers in an array (`_idle`): a hundred thousand such subscriptions cost little. When a session attaches, they
become a `Queue`. If a subscription has more matches than `queue_memory_max`, it is *parked*: further ones stay on disk
only, and are read from there when there is room. So a slow subscriber costs a bounded amount of memory, and nobody else
anything.

What is stored: with the document, the list of its matches; for a subscription, a cursor that says up to which document
its deliveries are done. Both are small and written in batches. After a restart, everything between the lowest cursor
and the last document is looked at once.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from itertools import count
from random import Random

from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.lanes import Lanes
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.rows import (
    CURSORS,
    LETTER_KEYS,
    LETTERS,
    PARKED,
    REDELIVERIES,
    SUBSCRIPTIONS,
    CursorRow,
    DocumentRow,
    LetterRow,
    ParkedRow,
    SubscriptionRow,
    decode,
    decode_many,
    letter_key,
)
from treecast.overlay.broker.sessions import Session
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Delete, Put, StorageError

_LOADED_AT_ONCE = 10_000
_FOREVER = 1 << 62
"""No document has such a number: whoever's deliveries are done up to here waits for nothing."""


class Backlog:
    """What all subscriptions wait for."""

    def __init__(self, shadow: Shadow, archive: Archive, settings: BrokerSettings, random: Random) -> None:
        self._shadow = shadow
        self._archive = archive
        self._settings = settings
        self._random = random
        self.queues: dict[str, Queue] = {}
        self._serials = count(1)
        self.lanes = Lanes(settings, self._leave_lane)
        """What most deliveries are on: then their queues are empty."""
        self.idle: dict[str, array[int]] = {}
        self._idle_numbers = 0
        self.parked: dict[str, int] = {}
        """By subscription: a document up to which all its deliveries are done."""
        self._unfinished: dict[int, int] = {}
        """By document: deliveries that are not done, except those of parked subscriptions."""
        self._unfinished_order: list[int] = []
        self.retrying: dict[str, Queue] = {}
        self.touched: dict[str, Queue] = {}
        """Queues that were given something to send in this turn,"""
        self.on_lanes: dict[str, Session] = {}
        """and sessions that were, on their lanes."""
        self._refilling: dict[str, Queue] = {}
        self.wants_more = False
        """More is to be read from disk than one turn should do: see `refill`."""
        self.last_document = 0
        self.last_letter = 0
        self.letters = 0
        """Dead letters that there are."""

    # --- after a restart ---------------------------------------------------------------------------------------------

    def read_ahead(self, floor: int) -> list[tuple[int, DocumentRow]]:
        """The first documents that `load` needs. Nothing has to be known of the subscriptions yet."""
        return self._archive.rows_after(floor, _LOADED_AT_ONCE)

    def load(self, rows: list[tuple[int, DocumentRow]], turn: Turn) -> None:
        """Find what is not done yet among these documents, and those after them."""
        self.letters = self._shadow.stored_count(LETTERS)
        if self.letters != self._shadow.stored_count(LETTER_KEYS):
            self._index_letters(turn)
        for id, _ in self._shadow.rows(PARKED, ""):
            self.parked[id] = self._progress(id).floor
        floors: dict[str, int] = dict.fromkeys(self.parked, _FOREVER)  # what is parked is found later
        known: dict[str, Progress] = {}
        # PERF: bench/broker_restart.py. Rows are read many at a time.
        while rows:
            ids = {id for _, row in rows for id in row.subscriptions}
            self._load_cursors(ids - floors.keys(), floors, known)
            for number, row in rows:
                waiting = [id for id in row.subscriptions if number > floors[id]]
                if known:
                    waiting = [id for id in waiting if id not in known or not known[id].is_done(number)]
                if waiting:
                    self.enqueue(number, waiting, turn)
            rows = self._archive.rows_after(rows[-1][0], _LOADED_AT_ONCE)
        for number, data in reversed(list(self._shadow.rows(REDELIVERIES, 0))):  # in the order of their keys
            letter = self._shadow.get(LETTERS, number)
            subscription = self._shadow.get(SUBSCRIPTIONS, data.decode())
            if letter is not None and subscription is not None:
                self.redeliver(number, decode(letter, LetterRow), decode(subscription, SubscriptionRow))
        self.touched.clear()

    def _load_cursors(self, ids: set[str], floors: dict[str, int], known: dict[str, Progress]) -> None:
        """By subscription: up to which document its deliveries are done, and what else is, if anything is."""
        found = self._shadow.get_many(CURSORS, ids)
        for id, cursor in zip(found, decode_many(list(found.values()), CursorRow), strict=True):
            floors[id] = cursor.floor
            if cursor.upto or cursor.done:
                known[id] = Progress.of(cursor)
        # Without a cursor, deliveries begin with the subscription. When that was, would take as long to read as all
        # the rest; `queue_of` looks when it has to. It matters if a subscription was removed and another has its id.
        others = ids - floors.keys()
        floors.update(dict.fromkeys(others, 0))
        floors.update(dict.fromkeys(self._archive.unknown(others), _FOREVER))

    def _progress(self, id: str) -> Progress:
        """As it is stored."""
        if (data := self._shadow.get(CURSORS, id)) is not None:
            return Progress.of(decode(data, CursorRow))
        if (data := self._shadow.get(SUBSCRIPTIONS, id)) is not None:
            return Progress(decode(data, SubscriptionRow).since)
        return Progress(_FOREVER)  # removed: nothing of it is waited for

    # --- new matches -------------------------------------------------------------------------------------------------

    def enqueue(self, number: int, ids: Iterable[str], turn: Turn) -> None:
        """A document was published that these subscriptions match."""
        # PERF: bench/broker.py. This loop runs for every match: nobody receives from most subscriptions at any moment.
        idle, queues, parked = self.idle, self.queues, self.parked
        room = self._settings.waiting_memory_max - self._idle_numbers
        count = 0
        for id in ids:
            waiting = idle.get(id)
            if waiting is not None:
                if count < room and len(waiting) < self._settings.queue_memory_max:
                    waiting.append(number)
                    count += 1
                else:
                    self._park_numbers(id, number, turn)
            elif id in queues:
                self._enqueue(queues[id], number, turn)
            elif id in parked:
                continue
            elif count < room:
                idle[id] = array("q", (number,))
                count += 1
            else:
                self._park_numbers(id, number, turn)
        if count:
            self._idle_numbers += count
            self._count_unfinished(number, count)

    def _enqueue(self, queue: Queue, number: int, turn: Turn) -> None:
        self.lanes.leave(queue)
        if queue.behind:
            return
        if len(queue.outstanding) < self._settings.queue_memory_max:
            queue.newest = number
            self._add(queue, number)
        else:
            self._park(queue, turn)

    def _park_numbers(self, id: str, number: int, turn: Turn) -> None:
        """There is no room for one more bare number of a subscription: all of its numbers are forgotten."""
        first = self._forget_numbers(id) or number
        self.parked[id] = first - 1
        turn.put(PARKED, id, ParkedRow())

    def _forget_numbers(self, id: str) -> int:
        """Drop the bare numbers of a subscription; returns the first of them, or 0."""
        numbers = self.idle.pop(id, None)
        if numbers is None:
            return 0
        self._idle_numbers -= len(numbers)
        for number in numbers:
            self._finish_document(number)
        return numbers[0]

    def _add(self, queue: Queue, number: int) -> None:
        queue.add(number)
        if not queue.parked:
            self._count_unfinished(number)
        self.touched[queue.id] = queue

    def _count_unfinished(self, number: int, more: int = 1) -> None:
        count = self._unfinished.get(number, 0)
        if not count:
            heapq.heappush(self._unfinished_order, number)
        self._unfinished[number] = count + more

    def _finish_document(self, number: int) -> None:
        left = self._unfinished[number] - 1
        if left:
            self._unfinished[number] = left
        else:
            del self._unfinished[number]

    def join_lane(self, queue: Queue) -> None:
        """If all is well with a subscription, its deliveries take the fast way from now on."""
        if queue.slot < 0 and self.queues.get(queue.id) is queue:  # else its subscription was removed
            self.lanes.join(queue)

    def _leave_lane(self, queue: Queue, numbers: list[int]) -> None:
        """What was on a lane is in its queue again."""
        for number in numbers:
            self._count_unfinished(number)
        if queue.ready:
            self.touched[queue.id] = queue

    def floor(self) -> int:
        """Every delivery up to this document is done, except those of parked subscriptions."""
        order = self._unfinished_order
        while order and order[0] not in self._unfinished:
            heapq.heappop(order)
        firsts = [*order[:1], *filter(None, [self.lanes.first_unfinished()])]
        return min(firsts) - 1 if firsts else self.last_document

    def floor_of(self, queue: Queue) -> int:
        """All deliveries of one subscription up to this document are done."""
        return self.lanes.floor_of(queue) if queue.slot >= 0 else queue.floor()

    def counts_of(self, queue: Queue) -> tuple[int, int]:
        """How many deliveries wait in memory, and how many of these were sent."""
        if queue.slot < 0:
            return len(queue.outstanding), len(queue.sent)
        waiting, ready = self.lanes.depth(queue)
        return waiting, waiting - ready

    def needed_from(self) -> int:
        """The first document that somebody still waits for."""
        floors = (self.queues[id].floor() if id in self.queues else floor for id, floor in self.parked.items())
        return min([self.floor(), *floors]) + 1

    # --- parking -----------------------------------------------------------------------------------------------------

    def _park(self, queue: Queue, turn: Turn) -> None:
        """There is more for this queue on disk than in memory."""
        queue.behind = True
        if not queue.parked:
            queue.parked = True
            for key in queue.outstanding:
                if key > 0:
                    self._finish_document(key)
        self.parked[queue.id] = queue.floor()
        turn.put(PARKED, queue.id, ParkedRow(queue.rematch_until))

    def _unpark(self, queue: Queue, turn: Turn) -> None:
        """It has caught up. The caller stores its cursor."""
        queue.parked = False
        for key in queue.outstanding:
            if key > 0:
                self._count_unfinished(key)
        del self.parked[queue.id]
        turn.delete(PARKED, queue.id)

    def refill(self, turn: Turn) -> None:
        """Read on in the stored documents, for some of the queues that have room again."""
        for id in list(self._refilling)[: self._settings.refill_queues_max]:
            queue = self._refilling.pop(id)
            if self.queues.get(id) is queue and queue.behind:
                self._refill(queue, turn)
        self.wants_more = bool(self._refilling)

    def _refill(self, queue: Queue, turn: Turn) -> None:
        rows = self._archive.rows_after(queue.newest, self._settings.refill_rows_max)
        for number, row in rows:
            if len(queue.outstanding) >= self._settings.queue_memory_max:
                break
            if not queue.reach(number):
                continue
            try:
                is_match = self._archive.matches(queue, number, row)
            except StorageError:
                continue  # dropped, or damaged: nobody can get it
            if is_match:
                if number <= queue.rematch_until:
                    queue.rematched.add(number)
                self._add(queue, number)
        else:
            if len(rows) < self._settings.refill_rows_max:
                queue.behind = False
                queue.newest = max(queue.newest, self.last_document)
        self.store_cursor(queue, turn)
        self.touched[queue.id] = queue

    def want_refill(self, queue: Queue) -> None:
        """If somebody receives from it, and there is room."""
        if queue.sessions and len(queue.outstanding) <= self._settings.queue_memory_max // 2:
            self._refilling[queue.id] = queue
            self.wants_more = True

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def queues_of(self, rows: dict[str, SubscriptionRow]) -> Iterator[tuple[str, Queue]]:
        """The same for many subscriptions."""
        # PERF: bench/network_kill.py. After a restart all subscribers come at once.
        stored = self._shadow.get_many(CURSORS, [id for id in rows if id not in self.queues])
        for id, row in rows.items():
            data = stored.get(id)
            progress = Progress(row.since) if data is None else Progress.of(decode(data, CursorRow))
            yield id, self.queue_of(id, row, progress)

    def queue_of(self, id: str, row: SubscriptionRow, progress: Progress | None = None) -> Queue:
        """The queue of a subscription, made of its bare numbers if need be; with its progress, if that was read. It
        leaves its lane, if it is on one."""
        queue = self.queues.get(id)
        if queue is not None:
            self.lanes.leave(queue)
            return queue
        numbers = self.idle.pop(id, ())
        self._idle_numbers -= len(numbers)
        progress = self._progress(id) if progress is None else progress
        is_parked = id in self.parked
        if is_parked:
            newest = max(self.parked[id], progress.floor)
        else:  # what is known to be done need not be looked for
            newest = max(progress.floor, progress.upto, *progress.done, *numbers[-1:])
        queue = self.queues[id] = Queue(id, row, newest, progress, serial=next(self._serials))
        for number in numbers:
            if number > progress.floor:
                queue.add(number)
            else:  # it was for another subscription with this id: see `_load_cursors`
                self._finish_document(number)
        if is_parked:
            data = self._shadow.get(PARKED, id)
            queue.behind = queue.parked = True
            queue.rematch_until = decode(data, ParkedRow).rematch_until if data else 0
        return queue

    def change(self, id: str, row: SubscriptionRow) -> None:
        """The subscription has other settings now. What it matched before stays to be delivered."""
        if id in self.queues:
            queue = self.queues[id]
            self.lanes.leave(queue)
            queue.row = row
            queue.matcher = None
            self.touched[id] = queue
            self.join_lane(queue)

    def remove(self, id: str, turn: Turn) -> None:
        """The subscription is gone, and with it what it waits for."""
        self._forget_numbers(id)
        queue = self.queues.pop(id, None)
        if queue:
            self.lanes.forget(queue)
            for key in queue.outstanding:
                if key < 0:
                    turn.delete(REDELIVERIES, -key)
                elif not queue.parked:
                    self._finish_document(key)
            queue.outstanding.clear()
            for session in queue.sessions:
                session.remove(queue)
            queue.sessions.clear()
            for waiting in (self.retrying, self.touched, self._refilling):
                waiting.pop(id, None)
        self.parked.pop(id, None)
        turn.delete(CURSORS, id)
        turn.delete(PARKED, id)

    def replay(self, id: str, row: SubscriptionRow, document: int, turn: Turn) -> None:
        """Deliver again what the subscription matches, from this document on."""
        queue = self.queue_of(id, row)
        self._park(queue, turn)
        queue.start_over(document, self.last_document)
        self.parked[id] = document - 1
        turn.put(PARKED, id, ParkedRow(queue.rematch_until))
        turn.put(CURSORS, id, CursorRow(document - 1))
        self.touched[id] = queue

    def advance(self, id: str, row: SubscriptionRow, document: int, turn: Turn) -> None:
        """Deliveries up to this document are done, whoever made them."""
        document = min(document, self.last_document)
        queue = self.queue_of(id, row)
        for key in [key for key in queue.outstanding if 0 < key <= document]:
            self.settle(queue, key, turn)
        queue.newest = max(queue.newest, document)
        if queue.newest >= self.last_document:
            queue.behind = False
        self.store_cursor(queue, turn)
        self.demote(queue, turn)

    def progress(self, id: str) -> Progress:
        """Which deliveries of a subscription are done."""
        if (queue := self.queues.get(id)) is not None:
            if queue.slot >= 0:
                return self.lanes.progress(queue) if self.lanes.depth(queue)[0] else Progress(self.last_document)
            is_waiting = queue.outstanding or queue.behind
            return queue.progress() if is_waiting else Progress(self.last_document)
        if (numbers := self.idle.get(id)) is not None:
            return self._progress(id)._replace(floor=numbers[0] - 1)
        if id in self.parked:
            return self._progress(id)._replace(floor=self.parked[id])
        return Progress(self.last_document)

    def rematch_until(self, id: str) -> int:
        """Up to this document a subscription has to be matched again, because it replays; mostly 0."""
        if (queue := self.queues.get(id)) is not None:
            return queue.rematch_until
        data = self._shadow.get(PARKED, id) if id in self.parked else None
        return decode(data, ParkedRow).rematch_until if data else 0

    def redeliver(self, number: int, letter: LetterRow, row: SubscriptionRow) -> None:
        """Deliver a dead letter again."""
        queue = self.queue_of(letter.subscription, row)
        if -number not in queue.outstanding:
            queue.add(-number)
            self.touched[queue.id] = queue

    def _index_letters(self, turn: Turn) -> None:
        """The store was last written by a version that had no such table."""
        rows = self._shadow.rows(LETTERS, 0)
        wanted = {letter_key(decode(data, LetterRow).subscription, number) for number, data in rows}
        known = {key for key, _ in self._shadow.rows(LETTER_KEYS, "")}
        turn.changes += [Delete(LETTER_KEYS, key) for key in sorted(known - wanted)]
        turn.changes += [Put(LETTER_KEYS, key, b"") for key in sorted(wanted - known)]

    # --- done, failed, given up --------------------------------------------------------------------------------------

    def settle(self, queue: Queue, key: int, turn: Turn) -> None:
        if not queue.settle(key):
            return
        self._wake(queue)
        if key < 0:
            turn.delete(LETTERS, -key)
            turn.delete(LETTER_KEYS, letter_key(queue.id, -key))
            self.letters -= 1
            turn.delete(REDELIVERIES, -key)
        elif not queue.parked:
            self._finish_document(key)

    def _wake(self, queue: Queue) -> None:
        """A delivery is done or given up: there is room for what a parked queue has on disk."""
        if queue.behind:
            self.touched[queue.id] = queue

    def fail(self, queue: Queue, key: int, reason: str, turn: Turn) -> None:
        """An attempt failed: try again later, or give up."""
        queue.sent.pop(key, None)
        attempts = queue.outstanding.get(key)
        if attempts is None:
            return
        if attempts >= queue.row.options.attempts_max:
            self.give_up(queue, key, reason, turn)
            return
        wait = min(self._settings.retry_ms << min(attempts - 1, 20), self._settings.retry_ms_max)
        queue.retry_at(turn.now_ms + int(wait * self._random.uniform(0.5, 1.5)), key)
        self.retrying[queue.id] = queue

    def postpone(self, queue: Queue, key: int, wait_ms: int, reason: str, turn: Turn) -> None:
        """An attempt failed, and its receiver says when to try again; 0: never."""
        queue.sent.pop(key, None)
        if key not in queue.outstanding:
            return
        if not wait_ms:
            self.give_up(queue, key, reason, turn)
            return
        queue.retry_at(turn.now_ms + min(wait_ms, self._settings.postponed_ms_max), key)
        self.retrying[queue.id] = queue

    def hasten(self, id: str, turn: Turn) -> None:
        """What waits to be tried again is due now."""
        queue = self.queues.get(id)
        if queue is not None and queue.retries:
            queue.retries = sorted((turn.now_ms, key) for _, key in queue.retries)

    def give_up(self, queue: Queue, key: int, reason: str, turn: Turn) -> None:
        """Make a dead letter of a delivery."""
        self.lanes.leave(queue)
        attempts = queue.outstanding.get(key, 0)
        if key < 0:  # it stays the letter that it was
            queue.settle(key)
            self._wake(queue)
            turn.delete(REDELIVERIES, -key)
            return
        try:
            payload = self._archive.payload(queue, key)
            published, body = (payload.published_ms, payload.body) if payload else (0, None)
        except StorageError as error:
            published, body, reason = 0, b"", error.code
        if body is not None:
            row = self._archive.rows.get(key)
            origin = (row.origin, row.origin_number) if row else ("", 0)
            self.add_letter(queue.id, key, published, reason, attempts, body, turn, origin)
        self.settle(queue, key, turn)
        self.store_cursor(queue, turn)

    def add_letter(
        self,
        id: str,
        document: int,
        published_ms: int,
        reason: str,
        attempts: int,
        payload: bytes,
        turn: Turn,
        origin: tuple[str, int] = ("", 0),
    ) -> None:
        self.last_letter += 1
        self.letters += 1
        row = LetterRow(id, document, published_ms, reason, attempts, payload, turn.now_ms, *origin)
        turn.put(LETTERS, self.last_letter, row)
        turn.changes.append(Put(LETTER_KEYS, letter_key(id, self.last_letter), b""))

    def expire_before(self, number: int, turn: Turn) -> None:
        """Retention drops documents before this one: what is left of them becomes dead letters."""
        late = [id for id, numbers in self.idle.items() if numbers[0] < number]
        for id in [*late, *(id for id, floor in self.parked.items() if floor < number - 1)]:
            data = self._shadow.get(SUBSCRIPTIONS, id)
            if data is not None:
                self.queue_of(id, decode(data, SubscriptionRow))
        for queue in list(self.queues.values()):
            if self.floor_of(queue) >= number - 1 and not queue.behind:
                continue
            self.lanes.leave(queue)
            for key in [key for key in queue.outstanding if 0 < key < number]:
                self.give_up(queue, key, "expired", turn)
            if queue.behind and queue.newest < number - 1:
                self._expire_parked(queue, number, turn)
            self.demote(queue, turn)

    def _expire_parked(self, queue: Queue, number: int, turn: Turn) -> None:
        while queue.newest < number - 1 and (rows := self._archive.rows_after(queue.newest, 1_000)):
            for document, row in rows:
                if document >= number:
                    break
                if queue.reach(document) and queue.id in row.subscriptions:
                    self._add(queue, document)
                    self.give_up(queue, document, "expired", turn)
            else:
                continue
            break
        queue.newest = max(queue.newest, number - 1)
        self.store_cursor(queue, turn)

    def store_cursor(self, queue: Queue, turn: Turn) -> None:
        """How far a queue got; a parked one that has caught up is parked no more."""
        if self.queues.get(queue.id) is not queue:
            return  # its subscription was removed: a cursor would be taken for that of its successor
        progress = queue.progress()
        turn.put(CURSORS, queue.id, progress.row())
        if queue.parked:
            self.parked[queue.id] = progress.floor
            if queue.behind:
                self.want_refill(queue)
            elif progress.floor >= queue.rematch_until:
                self._unpark(queue, turn)

    def demote(self, queue: Queue, turn: Turn) -> None:
        """A queue that nobody receives from becomes bare numbers again if there is room, or nothing: it is parked."""
        if not queue.is_idle():
            return
        del self.queues[queue.id]
        self.lanes.forget(queue)
        for waiting in (self.retrying, self.touched, self._refilling):
            waiting.pop(queue.id, None)
        if not queue.parked and self._idle_numbers + len(queue.outstanding) > self._settings.waiting_memory_max:
            self._park(queue, turn)
        if queue.parked:
            self.parked[queue.id] = queue.floor()
        elif queue.outstanding:
            self.idle[queue.id] = array("q", sorted(queue.outstanding))
            self._idle_numbers += len(queue.outstanding)

    def received_from(self) -> int:
        """The first document that somebody who receives at present has not dealt with yet."""
        floors = (
            self.floor_of(queue)
            for queue in self.queues.values()
            if queue.sessions and not queue.row.paused and (self.counts_of(queue)[0] or queue.behind)
        )
        return min(floors, default=self.last_document) + 1

    def stats(self) -> dict[str, int]:
        queued = [len(queue.outstanding) for queue in self.queues.values()]
        return {
            "queues": len(self.queues),
            "queued": sum(queued) + self.lanes.total,
            "queued_most": max(self.lanes.longest(), *queued, 0),
            "waiting": self._idle_numbers,
            "parked": len(self.parked),
            "unfinished_documents": len(self._unfinished) + self.lanes.unfinished,
        }
