"""The deliveries of one subscription that are not done yet.

A delivery is named by a *key*: the number of its document, or for a dead letter that is delivered again, minus the
number of the letter. A key is `ready` to be sent, `sent` to a session that has not acknowledged it, or waits to be
tried again. It is `outstanding` all the while.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.rows import SubscriptionRow

if TYPE_CHECKING:
    from treecast.index import Index
    from treecast.overlay.broker.sessions import Session

NO_PROGRESS = Progress(0)


class Queue:
    """Created when somebody wants to receive; until then the dispatcher keeps bare numbers."""

    __slots__ = (
        "_order",
        "behind",
        "former",
        "id",
        "matcher",
        "newest",
        "outstanding",
        "parked",
        "ready",
        "rematch_until",
        "rematched",
        "retries",
        "row",
        "sent",
        "serial",
        "sessions",
        "slot",
        "upto",
    )

    def __init__(
        self, id: str, row: SubscriptionRow, newest: int, former: Progress = NO_PROGRESS, *, serial: int = 0
    ) -> None:
        self.id = id
        self.row = row
        self.serial = serial
        """No other queue of its broker ever has the same."""
        self.slot = -1
        """If it is not negative, all deliveries are on the lane of its session, and here is nothing: see `Lanes`."""
        self.outstanding: dict[int, int] = {}
        """Attempts by key."""
        self.ready: deque[int] = deque()
        self.retries: list[tuple[int, int]] = []
        """A heap of (when, key)."""
        self.sent: dict[int, Session] = {}
        self.sessions: list[Session] = []
        self.newest = newest
        """Documents after this one are not in memory."""
        self.former = former
        """What is known of these: as it was stored."""
        self.upto = max((number for number in former.done if number <= newest), default=0)
        """The last document that is done."""
        self.behind = False
        """Some of them are for this queue, and have to be read from disk."""
        self.parked = False
        """It is, or was, behind: what it waits for is found on disk after a restart. See `Dispatch`."""
        self.rematch_until = 0
        self.rematched: set[int] = set()
        """Documents that were matched again for a replay: their payloads are built when they are sent."""
        self.matcher: Index | None = None
        self._order: list[int] = []

    def add(self, key: int) -> None:
        self.outstanding[key] = 0
        self.ready.append(key)
        if key > 0:
            heapq.heappush(self._order, key)

    def next_ready(self) -> int | None:
        """The next key to send, which is `ready` no more."""
        while self.ready:
            key = self.ready.popleft()
            if key in self.outstanding and key not in self.sent:
                return key
        return None

    def put_back(self, keys: Iterable[int]) -> None:
        """Keys that were sent in vain are ready again, in order, before those that came later."""
        self.ready = deque(sorted({*keys, *self.ready}))

    def retry_at(self, when_ms: int, key: int) -> None:
        heapq.heappush(self.retries, (when_ms, key))

    def take_due(self, now_ms: int) -> bool:
        """Retries whose time has come are ready; says if there were any."""
        due = []
        while self.retries and self.retries[0][0] <= now_ms:
            key = heapq.heappop(self.retries)[1]
            if key in self.outstanding and key not in self.sent:
                due.append(key)
        if due:
            self.put_back(due)
        return bool(due)

    def settle(self, key: int) -> bool:
        """A delivery is done, or given up. False if it was already."""
        if self.outstanding.pop(key, None) is None:
            return False
        self.sent.pop(key, None)
        self.rematched.discard(key)
        if key > 0:
            self.upto = max(self.upto, key)
        return True

    def floor(self) -> int:
        """Every delivery up to this document is done."""
        while self._order and self._order[0] not in self.outstanding:
            heapq.heappop(self._order)
        return self._order[0] - 1 if self._order else self.newest

    def progress(self) -> Progress:
        """How far it got, to be stored."""
        floor, newest, former = self.floor(), self.newest, self.former
        upto = max(self.upto, former.upto)
        done = frozenset(number for number in former.done if number > newest)
        if upto <= floor:
            return Progress(floor, done=done)
        open = {number for number in former.open if number > newest}
        open.update(key for key in self.outstanding if 0 < key <= upto)
        return Progress(floor, upto, frozenset(open), done)

    def reach(self, document: int) -> bool:
        """Documents up to this one are in memory from now on. Returns whether it is to be added, if it matches."""
        self.newest = document
        if self.former.is_done(document):
            self.upto = max(self.upto, document)
            return False
        return document not in self.outstanding

    def start_over(self, document: int, rematch_until: int) -> None:
        """Deliver again from this document on. What is in flight comes again if it is among that; else it is forgotten.

        Its acknowledgement would be taken for one of what comes again, so it is not waited for.
        """
        for session in self.sessions:
            session.forget_documents(self)
        for keys in (self.outstanding, self.sent):
            for key in [key for key in keys if key > 0]:
                del keys[key]
        self._order.clear()
        self.ready = deque(key for key in self.ready if key in self.outstanding)
        self.rematched.clear()
        self.newest = document - 1
        self.former = NO_PROGRESS
        self.upto = 0
        self.behind = True
        self.rematch_until = rematch_until
        self.matcher = None

    def is_plain(self) -> bool:
        """It waits for nothing, and is sent whatever comes."""
        return not (self.outstanding or self.behind or self.parked or self.row.paused)

    def restore(self, keys: list[int], upto: int, newest: int) -> None:
        """It was on a lane, with these outstanding, in order."""
        self._order = keys
        self.upto = upto
        self.newest = newest

    def is_idle(self) -> bool:
        """Nobody receives, and nothing is known that bare numbers could not say."""
        return not (self.sessions or self.sent or self.retries or any(self.outstanding.values())) and not any(
            key < 0 for key in self.outstanding
        )
