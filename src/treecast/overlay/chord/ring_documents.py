"""Documents that were published at a peer of a ring, from the moment when they are durable until they are through.

A document is on this peer's disk before anything else happens: its number is never used again, so its id is known to
nobody else. Then the ring filters it. The publisher is answered when that has ended, complete or partial: a
document that is complete is on the disks of the hosts of all subscriptions that it matches, a partial one is filtered
again and again, also after a crash, until it is complete or too old. Hosts take none twice.

Documents are filtered beside each other: they may reach a subscriber in another order than they were published in.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

import msgspec

from treecast.errors import TreecastError
from treecast.overlay.broker import Broker
from treecast.overlay.broker.turn import Turn
from treecast.overlay.chord.nfa_messages import Fetched
from treecast.overlay.chord.nfa_peer import NfaPeer, Published
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.messages import Answer, Partial
from treecast.overlay.peer import Effect, Send
from treecast.overlay.storage import Delete, Put, StorageError

UNDERWAY = "ring_underway"
"""`ring_underway[document]`: when it was published. It is not through."""
TIME_BYTES = 8
UNREACHABLE_MAX = 100
"""Names of states and hosts that a publisher is told for each document."""
FAILED_MAX = 1_000
"""Documents that were given up, and are remembered for their publishers."""
NEVER = 2**63 - 1


_AnswerKey = tuple[str, int]
"""The client, and the number of its request."""


class BeginFiltering(msgspec.Struct, frozen=True):
    """A peer to itself: documents up to this one are durable. It never travels."""

    upto: int


class GivenUp(msgspec.Struct, frozen=True):
    """An event: a document never got to these states and hosts."""

    document: int
    unreachable: tuple[str, ...]


class _Underway:
    __slots__ = ("since_ms", "unreachable", "wait_ms")

    def __init__(self, since_ms: int, wait_ms: int) -> None:
        self.since_ms = since_ms
        self.wait_ms = wait_ms  # before the next attempt
        self.unreachable: tuple[str, ...] | None = None
        """None: it has not been filtered to any end yet."""


class RingDocuments:
    """Those of one peer. `absorb` takes effects of the ring into the present turn."""

    def __init__(
        self, broker: Broker, nfa: NfaPeer, settings: RingSettings, absorb: Callable[[Iterable[Effect]], None]
    ) -> None:
        self._broker = broker
        self._nfa = nfa
        self._settings = settings
        self._absorb = absorb
        self._underway: dict[int, _Underway] = {}  # ascending
        self._undurable_numbers: deque[int] = deque()  # not known to be durable
        self._ready: deque[int] = deque()
        self._active: set[int] = set()
        self._retries: list[tuple[int, int]] = []  # when, and which
        self._failures: OrderedDict[int, tuple[str, ...]] = OrderedDict()
        self._answers: dict[_AnswerKey, Send] = {}
        """Answers to publishers whose documents are being filtered,"""
        self._waiting: dict[_AnswerKey, set[int]] = {}
        """the documents that each waits for,"""
        self._waited_for: dict[int, dict[_AnswerKey, None]] = {}
        """and by document, who does."""
        self.complete = self.partial = self.given_up = 0
        for number, value in broker.shadow.rows(UNDERWAY, 0):
            self._underway[number] = _Underway(int.from_bytes(value, "big"), settings.again_ms)
            self._ready.append(number)
        nfa.find_document = self.find
        broker.retention.needed_by_others = lambda: next(iter(self._underway), NEVER)

    def __len__(self) -> int:
        """Documents that are not through."""
        return len(self._underway)

    def is_full(self) -> bool:
        return len(self._underway) >= self._settings.underway_max

    # -- from the publisher

    def take_published(self, turn: Turn) -> None:
        """Remember what this turn has accepted. It is filtered once that is durable."""
        for number in (number for batch in turn.published for number in batch.numbers):
            self._underway[number] = _Underway(turn.now_ms, self._settings.again_ms)
            self._undurable_numbers.append(number)
            turn.changes.append(Put(UNDERWAY, number, turn.now_ms.to_bytes(TIME_BYTES, "big")))
        if turn.published:
            turn.send(self._broker.name, BeginFiltering(turn.published[-1].numbers[-1]))

    def hold_answers(self, turn: Turn) -> None:
        """Publishers are answered when their documents were filtered."""
        effects_to_send: list[Effect] = []
        for effect in turn.sends:
            if isinstance(effect, Send) and isinstance(effect.message, Answer) and any(effect.message.documents):
                waiting = set(filter(self._is_new, effect.message.documents))
                if waiting:
                    key = effect.to, effect.message.number
                    self._answers[key], self._waiting[key] = effect, waiting
                    for number in waiting:
                        self._waited_for.setdefault(number, {})[key] = None
                    continue
                effect = self._complete(effect)
            effects_to_send.append(effect)
        turn.sends = effects_to_send

    def _is_new(self, number: int) -> bool:
        underway = self._underway.get(number)
        return underway is not None and underway.unreachable is None

    def _complete(self, send: Send) -> Send:
        """An answer that says how far its documents got."""
        partial = []
        for item, number in enumerate(send.message.documents):
            underway = self._underway.get(number)
            unreachable = (underway.unreachable if underway is not None else None) or self._failures.get(number, ())
            if unreachable:
                partial.append(Partial(item, list(unreachable[:UNREACHABLE_MAX])))
        return Send(send.to, msgspec.structs.replace(send.message, partial=partial))

    # -- through the ring

    def begin(self, upto: int, turn: Turn) -> None:
        while self._undurable_numbers and self._undurable_numbers[0] <= upto:
            self._ready.append(self._undurable_numbers.popleft())
        self._start(turn)

    def tick(self, turn: Turn) -> None:
        while self._retries and self._retries[0][0] <= turn.now_ms:
            self._ready.append(heappop(self._retries)[1])
        self._start(turn)

    def _start(self, turn: Turn) -> None:
        while self._ready and len(self._active) < self._settings.filters_max:
            number = self._ready.popleft()
            self._active.add(number)
            id = f"{self._broker.store_id} {number}"
            try:
                document = self.find(id)
                if document is None or document.body is None:
                    raise StorageError(f"document {number} is gone", code="TC424")
                effects = self._nfa.publish(document.body, id=id, method=self._settings.method, now_ms=turn.now_ms)
            except TreecastError:
                # Damaged, or dropped because something could not be reached for days.
                self._end(number, (self._nfa.name,), turn, is_over=True)
            else:
                self._absorb(effects)

    def find(self, id: str) -> Fetched | None:
        """A document that was published here. None: it is none, or not kept any more. Raises StorageError."""
        store, _, text = id.partition(" ")
        if store != self._broker.store_id or not text.isdecimal():
            return None
        row = self._broker.tail.document(int(text))
        if row is None:
            return None
        return Fetched(0, self._broker.tail.body(row.body), row.source, row.id, row.published_ms)

    def take_result(self, result: Published, turn: Turn) -> None:
        number = int(result.document.rpartition(" ")[2])
        underway = self._underway.get(number)
        if underway is not None and number in self._active:
            is_old = turn.now_ms - underway.since_ms >= self._settings.give_up_ms
            self._end(number, result.unreachable, turn, is_over=is_old or result.is_complete)
        self._start(turn)

    def _end(self, number: int, unreachable: tuple[str, ...], turn: Turn, is_over: bool) -> None:
        """A document was filtered. `is_over`: it is not filtered again."""
        self._active.discard(number)
        underway = self._underway[number]
        is_first = underway.unreachable is None
        underway.unreachable = unreachable
        if is_over:
            del self._underway[number]
            turn.changes.append(Delete(UNDERWAY, number))
            if unreachable:
                self._give_up(number, unreachable, turn)
            else:
                self.complete += 1
        else:
            self.partial += is_first
            heappush(self._retries, (turn.now_ms + underway.wait_ms, number))
            underway.wait_ms = min(2 * underway.wait_ms, self._settings.again_ms_max)
        if is_first:
            self._answer(number, turn)

    def _give_up(self, number: int, unreachable: tuple[str, ...], turn: Turn) -> None:
        self.given_up += 1
        self._failures[number] = unreachable
        if len(self._failures) > FAILED_MAX:
            self._failures.popitem(last=False)
        turn.events.append(GivenUp(number, unreachable[:UNREACHABLE_MAX]))

    def _answer(self, number: int, turn: Turn) -> None:
        """Answer those who have waited for nothing else."""
        for key in self._waited_for.pop(number, {}):
            self._waiting[key].discard(number)
            if not self._waiting[key]:
                del self._waiting[key]
                turn.sends.append(self._complete(self._answers.pop(key)))
