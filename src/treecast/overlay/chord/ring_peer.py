"""A peer of a ring that serves clients: publishers and subscribers, as a broker does. There are no brokers besides.

Two parts share one storage and one group of changes for each call. `NfaPeer` is this peer's part of the ring: some
states of the machine, and what is on its way to others. `Broker` has the clients: their numbered requests, the
subscriptions that this peer is the host of, and the queues of what is to be delivered.

- A **subscription** is acknowledged when the ring has it (`ring_subscriptions.py`).
- A **document** is stored here, filtered by the ring, and then acknowledged (`ring_documents.py`).
- A **match** is told to the host. It asks the publisher for the document, and answers when its queues have it on disk:
  so a document that is complete will be delivered, whatever crashes. Each host takes a document once, for all of its
  subscriptions; its own index says which, and what each of them gets.

The name of a peer is the address where the others reach it.

    >>> from random import Random
    >>> from treecast.sim import SimulatedStorage
    >>> names = tuple(f"127.0.0.1:{port}" for port in (7501, 7502, 7503, 7504))
    >>> peer = RingPeer(names[0], SimulatedStorage(), Random(1), ChordSettings(base=names))
    >>> peer.stats()["members"]
    1
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, assert_never

import msgspec

from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.broker import Beside, at_once
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.turn import Turn
from treecast.overlay.chord.chord_messages import Find, RingMessage, Step
from treecast.overlay.chord.chord_peer import Joined, Left
from treecast.overlay.chord.indexing import SubscriptionChange
from treecast.overlay.chord.nfa_messages import (
    Expand,
    Expanded,
    FetchDocument,
    Fetched,
    NfaMessage,
    NotifyHost,
    Shed,
    Visits,
    VisitsEnd,
    VisitsWork,
)
from treecast.overlay.chord.nfa_peer import NfaPeer, Published
from treecast.overlay.chord.nfa_settings import NfaSettings
from treecast.overlay.chord.notifying import Match
from treecast.overlay.chord.peer_names import RingAdmission, host_of
from treecast.overlay.chord.ring_documents import BeginFiltering, RingDocuments
from treecast.overlay.chord.ring_rows import ring_rows, state_rows
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.chord.ring_subscriptions import RingSubscriptions
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.messages import Detach, Durable, Hello, Inspect, Inspected, Kind, Publish, Request
from treecast.overlay.peer import Deliver, Effect, SaveIndex, Send, Store
from treecast.overlay.replica.space import Space
from treecast.overlay.storage import Delete, Put, Storage

RING_SLOT = 1
"""Tables of the ring begin with `r1_`: a broker has tables of the same names."""
TAKEN = "ring_taken"
"""`ring_taken[number]`: the id of a document that was taken for the subscriptions here."""
TOLD_MS = 10_000
"""Between two refusals of one stranger."""
TOLD_MAX = 1_000
_URGENT = (Find, Step, Visits, VisitsWork, VisitsEnd, Expand, Expanded, FetchDocument, Fetched, NotifyHost, Shed)
"""Messages that say nothing of what is stored here, and wait for no disk."""


_LOOKED_AT: tuple[Kind, ...] = ("ring", "states")


class LeaveRing(msgspec.Struct, frozen=True):
    """From whoever runs the peer: hand over what is stored here. `Left` is delivered when that is done."""


class LookAt(msgspec.Struct, frozen=True):
    """From whoever runs the peer: what do these peers look like? `Seen` is delivered for each that answers."""

    question: int
    peers: tuple[str, ...]


class Seen(msgspec.Struct, frozen=True):
    """Rows of a peer, as `Inspect` of kinds `ring` and `states` gives them."""

    question: int
    peer: str
    rows: list[dict[str, str | int]]


class _FetchedDocument(msgspec.Struct, frozen=True):
    """A document that was published at another peer (`Incoming`)."""

    number: int
    source: str
    id: str
    published_ms: int
    body: bytes
    early: str = ""

    @property
    def content(self) -> bytes:
        return self.body


class RingPeer:
    """A `Peer`. Arguments are those of `Broker`, with the settings of the ring. `allow` are hosts whose peers may take
    part; without any, all may."""

    nfa_type = NfaPeer

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        chord: ChordSettings,
        nfa: NfaSettings | None = None,
        settings: RingSettings | None = None,
        broker: BrokerSettings | None = None,
        index: Index | None = None,
        index_version: int = 0,
        beside: Beside = at_once,
        *,
        allow: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.settings = settings = settings or RingSettings()
        self.broker = Broker(name, storage, random, broker, index, index_version, beside)
        self._space = Space(storage, RING_SLOT)
        self.nfa = self.nfa_type(name, self._space, random, chord, nfa_settings=nfa)
        self.nfa.notifying.take_matches = self._take_matches
        self.documents = RingDocuments(self.broker, self.nfa, settings, self._absorb)
        self.subscriptions = RingSubscriptions(self.broker, self.nfa, settings, self._absorb)
        self.admission = RingAdmission(allow, chord.base)
        self._turn = Turn(0)
        self._told_ms: OrderedDict[str, int] = OrderedDict()
        self._fetches: dict[str, list[Callable[[], None]]] = {}
        self._number_by_document: OrderedDict[str, int] = OrderedDict()
        self._next_number = 1
        for number, value in self.broker.shadow.rows(TAKEN, 0):
            self._number_by_document[value.decode("utf-8", "surrogatepass")] = number
            self._next_number = number + 1
        self.refused = self.taken = 0
        self.has_left = False

    # --- the peer ----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Durable):
            return self.broker.receive(sender, message, now_ms)
        self._turn = turn = Turn(now_ms)
        if isinstance(message, RingMessage | NfaMessage):
            if self._is_let_in(sender, turn):
                self._absorb(self.nfa.receive(sender, message, now_ms))
        elif isinstance(message, BeginFiltering) and sender == self.name:
            self.documents.begin(message.upto, turn)
        elif isinstance(message, Request):
            self._request(sender, message, turn)
        elif isinstance(message, Inspect) and message.kind in ("ring", "states"):
            rows = ring_rows(self) if message.kind == "ring" else state_rows(self, message.count_max)
            turn.send(sender, Inspected(message.question, rows))
        elif isinstance(message, Inspected):
            turn.events.append(Seen(message.question, sender, message.rows))
        elif isinstance(message, LookAt):
            self._look_at(message, turn)
        elif isinstance(message, LeaveRing):
            self._absorb(self.nfa.leave(now_ms))
        else:
            if isinstance(message, Hello):
                self.subscriptions.abandon(sender)
            self.broker.handle(sender, message, turn)
        return self._finish(turn)

    def tick(self, now_ms: int) -> list[Effect]:
        self._turn = turn = Turn(now_ms)
        if self.nfa.is_gone and not self.has_left:
            self._absorb(self.nfa.join(now_ms))
        self._absorb(self.nfa.tick(now_ms))
        self.subscriptions.tick(turn)
        before = len(turn.changed_subscriptions)
        self.broker.do_due(turn)
        if len(turn.changed_subscriptions) > before:
            self.broker.apply(turn)
            self.subscriptions.settle(turn)
        self.documents.tick(turn)
        return self._finish(turn)

    def _finish(self, turn: Turn) -> list[Effect]:
        self.documents.take_published(turn)
        self.documents.hold_answers(turn)
        return self.broker.finish(turn)

    def _is_let_in(self, sender: str, turn: Turn) -> bool:
        """Whether messages of the ring may come from there. If not, the sender is told why, but not each time."""
        if sender == self.name or self.admission.is_peer(sender):
            return True
        self.refused += 1
        told_ms = self._told_ms.get(sender)
        if told_ms is None or not told_ms <= turn.now_ms < told_ms + TOLD_MS:
            self._told_ms[sender] = turn.now_ms
            self._told_ms.move_to_end(sender)
            if len(self._told_ms) > TOLD_MAX:
                self._told_ms.popitem(last=False)
            turn.send(sender, Detach("", str(self.admission.refusal(sender))))
        return False

    def _absorb(self, effects: Iterable[Effect]) -> None:
        """Effects of this peer's part of the ring become part of the present turn."""
        turn = self._turn
        events = []
        for effect in effects:
            match effect:
                case Store():
                    turn.changes += self._space.translate(effect.changes)
                case Send():
                    if isinstance(effect.message, _URGENT):
                        turn.send_at_once(effect.to, effect.message)
                    else:
                        turn.sends.append(effect)
                case Deliver():
                    events.append(effect.event)
                case SaveIndex():
                    raise AssertionError("this part of a peer has no index")
                case _:
                    assert_never(effect)
        for event in events:
            if isinstance(event, Published):
                self.documents.take_result(event, turn)
            elif isinstance(event, SubscriptionChange):
                self.subscriptions.take_change(event, turn)
            elif isinstance(event, Joined | Left):
                self.has_left = isinstance(event, Left)
                turn.events.append(event)

    # --- requests of clients -----------------------------------------------------------------------------------------

    def _request(self, sender: str, request: Request, turn: Turn) -> None:
        if isinstance(request.command, Publish) and self.documents.is_full():
            if self.broker.expects(sender, request, turn):
                error = RequestError(
                    f"{len(self.documents)} documents are on their way through the ring",
                    code="TC474",
                    hint="try again soon: peers that do not answer have to come back, or leave the ring",
                )
                self.broker.refuse(sender, request, error, turn)
            return
        self.subscriptions.request(sender, request, turn)

    def _look_at(self, message: LookAt, turn: Turn) -> None:
        for peer in message.peers:
            if peer == self.name:
                turn.events += [Seen(message.question, peer, rows) for rows in (ring_rows(self), state_rows(self))]
            elif self.admission.is_peer(peer):
                for kind in _LOOKED_AT:
                    turn.send_at_once(peer, Inspect(message.question, kind))

    # --- matches -----------------------------------------------------------------------------------------------------

    def _take_matches(self, message: NotifyHost, matches: list[Match], end: Callable[[], None]) -> None:
        """A document matches subscriptions of this host. `end` when their queues have it."""
        document, publisher = message.document, message.publisher
        # What was published here was matched when it was accepted.
        if not matches or publisher == self.name or document in self._number_by_document:
            end()
            return
        waiting = self._fetches.get(document)
        if waiting is not None:
            waiting.append(end)
            return
        if len(self._fetches) >= self.settings.fetches_max or self.broker.is_full():
            return  # whoever tells us does so again
        self._fetches[document] = [end]
        chord = self.nfa.settings
        self.nfa.calls.start(
            publisher,
            lambda nonce: FetchDocument(nonce, document),
            lambda answer: self._take_document(document, answer),
            lambda: self._forget_fetch(document),
            chord.probe_ms * chord.probes_max,
            chord.probes_max,
        )

    def _forget_fetch(self, document: str) -> None:
        """Its publisher does not answer. Whoever tells us of the match does so again."""
        self._fetches.pop(document, None)

    def _take_document(self, document: str, fetched: Fetched) -> None:
        waiting = self._fetches.pop(document, [])
        origin, _, number = document.rpartition(" ")
        if fetched.body is None or not number.isdecimal():
            return
        document_taken = _FetchedDocument(int(number), fetched.source, fetched.id, fetched.published_ms, fetched.body)
        self.broker.take(origin, [document_taken], self._turn)
        self.taken += 1
        self._remember(document)
        for end in waiting:
            end()

    def _remember(self, document: str) -> None:
        changes = self._turn.changes
        self._number_by_document[document] = self._next_number
        changes.append(Put(TAKEN, self._next_number, document.encode("utf-8", "surrogatepass")))
        self._next_number += 1
        if len(self._number_by_document) > self.settings.taken_max:
            _, row = self._number_by_document.popitem(last=False)
            changes.append(Delete(TAKEN, row))

    # --- looking at it -----------------------------------------------------------------------------------------------

    def certificates_of(self, name: str) -> tuple[str, ...]:
        """A peer shows the certificate of its host; so does one that is about to join, and says so before its name."""
        host = host_of(name.rpartition(" ")[2])
        return (host,) if host else ()

    @property
    def index(self) -> Index:
        """Of the subscriptions that this peer is the host of, to be saved: see `SaveIndex`."""
        return self.broker.index

    @property
    def index_version(self) -> int:
        return self.broker.index_version

    def is_settled(self) -> bool:
        """It is a member, and the entries of its ranges have arrived."""
        nfa = self.nfa
        return nfa.is_member and all(nfa.entries.is_range_ready(ring) for ring in nfa.members)

    def stats(self) -> dict[str, int]:
        counts = self.nfa.counts
        return {
            **self.broker.stats(),
            "members": sum(ring.is_member for ring in self.nfa.members),
            "keys": len(self.nfa.entries.shelf),
            "held": len(self.subscriptions),
            "underway": len(self.documents),
            "complete": self.documents.complete,
            "partial": self.documents.partial,
            "given_up": self.documents.given_up,
            "taken": self.taken,
            "strangers": self.refused,
            "calls": len(self.nfa.calls),
            **{name.replace(" ", "_"): value for name, value in sorted(counts.items())},
        }
