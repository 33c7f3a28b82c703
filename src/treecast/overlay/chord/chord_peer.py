"""A peer of a ring: it joins, stays, leaves, finds keys, and stores entries under them.

    >>> from random import Random
    >>> from treecast.sim.storage import SimulatedStorage
    >>> settings = ChordSettings(base=("p1", "p2", "p3", "p4"))
    >>> peer = ChordPeer("p1", SimulatedStorage(), Random(1), settings)
    >>> peer.is_member
    True
    >>> peer.place_names()
    ['p1#0']

Peers of the base are members at once. Others are told to `join`, find the base by its names, and remember on disk that
they belong to the ring: after a crash they join again. What runs on a ring (the distributed NFA) adds handlers for
messages of its own, and uses `lookup`, `write` and `call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any

import msgspec

from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import (
    ANSWERS,
    AskNeighbours,
    Claim,
    CopyEntries,
    Entry,
    Find,
    Leaving,
    Member,
    Neighbours,
    Notify,
    Step,
    Write,
    Written,
    member_of,
)
from treecast.overlay.chord.identifiers import is_within, place_of_key
from treecast.overlay.chord.lookup import Confirmation, Lookup, step_from
from treecast.overlay.chord.lookup import Then as LookupThen
from treecast.overlay.chord.replication import Replication, Then
from treecast.overlay.chord.ring import RingMember, StableBase, Watch
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.chord.shelf import Shelf
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.storage import Change, Delete, Put, Storage

RING_TABLE = "ring"
STANDING = "standing"
JUMP_MS_MAX = 1_000
"""A clock that jumps further than this was set; only so much time has passed."""


class Joined(msgspec.Struct, frozen=True):
    """To the application: all places on the ring are taken."""


class Left(msgspec.Struct, frozen=True):
    """To the application: others have all that was stored here."""


class _Neighbourhood(msgspec.Struct, frozen=True, array_like=True):
    """What a peer of the base remembers of its neighbours."""

    successors: list[Member]
    predecessor: Member | None


class ChordPeer:
    """A `Peer`. `watch` is called with a place on the ring whenever its neighbours have changed."""

    ring_type: type[RingMember] = RingMember
    replication_type: type[Replication] = Replication

    def __init__(
        self, name: str, storage: Storage, random: Random, settings: ChordSettings, watch: Watch | None = None
    ) -> None:
        self.name = name
        self.settings = settings
        self.random = random
        self.base = StableBase(settings)
        self.time_ms = 0
        """Time since the peer was made: it never goes back, whatever its clock does."""
        self.calls = Calls(name, random, self.send, settings.calls_max)
        self._effects: list[Effect] = []
        self._clock_ms: int | None = None
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._timer_count = 0
        self._watch = watch
        self.members = [
            self.ring_type(
                member_of(name, index), self.base, settings, self.calls, self.send, self._see_change
            )
            for index in range(settings.members)
        ]  # fmt: skip
        shelf = Shelf(storage, settings.forget_ms)
        self.entries = self.replication_type(
            self.members, shelf, settings, self.calls, self.send, self.store, self.write
        )
        self.handlers: dict[type, Callable[[str, Any], None]] = {
            AskNeighbours: self._answer_neighbours,
            Notify: self._take_notify,
            Leaving: self._take_leaving,
            Find: self._answer_find,
            Write: self.entries.take_write,
            CopyEntries: self.entries.take_copy,
            Claim: self.entries.take_claim,
        }
        self.answer_types: set[type] = set(ANSWERS)
        self._is_joining = self._is_leaving = False
        self._compare_soon = False
        self._standing = storage.get(RING_TABLE, STANDING) or b""
        self._begin(storage)

    def _begin(self, storage: Storage) -> None:
        settings = self.settings
        if self.name in self.base.peers:
            for ring in self.members:
                row = storage.get(RING_TABLE, str(ring.me.index))
                neighbourhood = msgspec.msgpack.decode(row, type=_Neighbourhood) if row else _Neighbourhood([], None)
                ring.begin(neighbourhood.successors, neighbourhood.predecessor)
        elif self._standing == b"joined":
            self._is_joining = True
            self._join_next()
        elif self._standing == b"leaving":
            self._is_leaving = True
        self._repeat(settings.stabilise_ms, self._stabilise)
        self._repeat(settings.finger_ms, self._fix_fingers)
        self._repeat(settings.sync_ms, self._compare)
        self._repeat(settings.offer_ms, self._offer)
        self._repeat(settings.forget_ms // 10 + 1, lambda: self.store(self.entries.shelf.forget_removed(self.wall_ms)))

    # -- the peer's interface

    @property
    def is_member(self) -> bool:
        return all(ring.is_member for ring in self.members)

    @property
    def is_gone(self) -> bool:
        """It takes no part in the ring, and does not want to."""
        return not any(ring.is_member for ring in self.members) and not self._is_joining and not self._is_leaving

    def place_names(self) -> list[str]:
        return [f"{ring.me.peer}#{ring.me.index}" for ring in self.members if ring.is_member]

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        self._advance(now_ms)
        kind = type(message)
        if kind in self.answer_types:
            self.calls.answer(sender, message.nonce, message)
        elif kind in self.handlers:
            self.handlers[kind](sender, message)
        return self._take_effects()

    def tick(self, now_ms: int) -> list[Effect]:
        self._advance(now_ms)
        self.calls.tick(self.time_ms)
        while self._timers and self._timers[0][0] <= self.time_ms:
            heappop(self._timers)[2]()
        if self._compare_soon:
            self._compare_soon = False
            self._compare()
        return self._take_effects()

    def join(self, now_ms: int) -> list[Effect]:
        """Become a member, and stay one. One that was leaving comes back."""
        self._advance(now_ms)
        if self.is_gone or self._is_leaving:
            self._set_standing(b"joined")
            self._is_joining, self._is_leaving = True, False
            self._join_next()
        return self._take_effects()

    def leave(self, now_ms: int) -> list[Effect]:
        """Leave the ring and hand over all entries; `Left` is delivered when that is done. The base never leaves."""
        self._advance(now_ms)
        if self.name not in self.base.peers and not self._is_leaving and not self.is_gone:
            self._set_standing(b"leaving")
            self._is_joining, self._is_leaving = False, True
            own_name = {self.name}
            for ring in self.members:
                neighbours = [*ring.successors, *([ring.predecessor] if ring.predecessor else [])]
                peers = dict.fromkeys(member.peer for member in neighbours if member.peer not in own_name)
                for peer in peers:
                    self.send(peer, Leaving(ring.me))
                ring.leave()
            self.entries.forget_claims()
            self.entries.offer_strays()
        return self._take_effects()

    def put(self, entry: Entry, then: Then, now_ms: int) -> list[Effect]:
        """Write one entry, for applications."""
        self._advance(now_ms)
        self.write(entry.key, [entry], then)
        return self._take_effects()

    def find(self, place: int, then: LookupThen, now_ms: int) -> list[Effect]:
        """Look up a place, for applications, and make sure of its owner."""
        self._advance(now_ms)
        self.lookup(place, Confirmation(place, self.calls, self.settings, then).begin)
        return self._take_effects()

    # -- what parts of the peer use

    @property
    def wall_ms(self) -> int:
        """What the clock says."""
        return self._clock_ms or 0

    def send(self, to: str, message: Any) -> None:
        self._effects.append(Send(to, message))

    def deliver(self, event: Any) -> None:
        self._effects.append(Deliver(event))

    def store(self, changes: Sequence[Change]) -> None:
        if changes:
            self._effects.append(Store(tuple(changes)))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later, unless the peer crashes before."""
        self._timer_count += 1
        heappush(self._timers, (self.time_ms + delay_ms, self._timer_count, action))

    def _repeat(self, period_ms: int, action: Callable[[], None]) -> None:
        """Now and then, with jitter: peers that began together do not stay together."""

        def act() -> None:
            self.after(self.random.randint(period_ms * 3 // 4, period_ms * 5 // 4), act)
            action()

        self.after(self.random.randint(0, period_ms), act)

    def lookup(self, place: int, then: LookupThen) -> None:
        """Find the owner of a place. What is owned here needs no question."""
        for ring in self.members:
            if ring.is_member and ring.predecessor and is_within(ring.predecessor.place, place, ring.me.place):
                then(Step(0, ring.predecessor, [ring.me, *ring.successors]), 0)
                return
        contacts = [] if self.is_member else [m for m in self.base.after(place)[::-1] if m.peer != self.name]
        step = step_from(self.members, place, self.calls.silent)
        Lookup(place, self.calls, self.settings, then).begin(step, contacts)

    def write(self, key: str, entries: list[Entry], then: Then, attempt: int = 1) -> None:
        """Write entries of one key. `then` hears True when they are on enough disks, False when that has failed."""

        def fail() -> None:
            if attempt >= self.settings.write_attempts_max:
                then(False)
                return
            delay_ms = min(self.settings.retry_ms << attempt, self.settings.retry_ms_max)
            self.after(
                self.random.randint(delay_ms // 2, delay_ms), lambda: self.write(key, entries, then, attempt + 1)
            )

        def find_owner(step: Step | None, hops: int) -> None:
            if step is None:
                fail()
                return
            self.calls.start(
                step.members[0].peer, lambda nonce: Write(nonce, key, entries), hear, fail,
                self.settings.probe_ms * (self.settings.probes_max + 1), 1,
            )  # fmt: skip

        def hear(answer: Written) -> None:
            if answer.answer == "stored":
                then(True)
            else:
                fail()

        self.lookup(place_of_key(key), find_owner)

    def _advance(self, now_ms: int) -> None:
        if self._clock_ms is not None:
            self.time_ms += min(max(now_ms - self._clock_ms, 0), JUMP_MS_MAX)
        self._clock_ms = now_ms
        self.entries.now_ms, self.entries.wall_ms = self.time_ms, now_ms

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # -- the ring

    def _see_change(self, ring: RingMember) -> None:
        self._compare_soon = True
        if ring.is_permanent(ring.me):
            row = msgspec.msgpack.encode(_Neighbourhood(ring.successors, ring.predecessor))
            self.store([Put(RING_TABLE, str(ring.me.index), row)])
        if self._watch is not None:
            self._watch(ring)

    def _set_standing(self, standing: bytes) -> None:
        self._standing = standing
        self.store([Put(RING_TABLE, STANDING, standing) if standing else Delete(RING_TABLE, STANDING)])

    def _join_next(self) -> None:
        """One place after the other."""
        ring = next((ring for ring in self.members if not ring.is_member), None)
        if not self._is_joining or ring is None:
            if self._is_joining:
                self._is_joining = False
                self.deliver(Joined())
            return

        def end(step: Step | None, hops: int) -> None:
            is_answered = step is not None and step.via is not None and step.via.peer not in self.calls.silent
            if self._is_joining and step is not None and is_answered and ring.join(step):
                ring.stabilise()
                self._join_next()
            else:
                self.after(self.random.randint(self.settings.join_ms // 2, self.settings.join_ms), self._join_next)

        # The answer has to come from the predecessor itself, which knows its list best.
        self.lookup(ring.me.place, end)

    def _stabilise(self) -> None:
        for ring in self.members:
            ring.stabilise()

    def _fix_fingers(self) -> None:
        for ring in self.members:
            finger = ring.next_finger() if ring.is_member else None
            if finger is not None:
                self._look_up_finger(ring, *finger)

    def _look_up_finger(self, ring: RingMember, exponent: int, place: int) -> None:
        def end(step: Step | None, hops: int) -> None:
            if step is not None:
                ring.set_finger(exponent, step.members[0])

        self.lookup(place, end)

    def _member(self, index: int) -> RingMember | None:
        return self.members[index] if index < len(self.members) else None

    def _answer_neighbours(self, sender: str, message: AskNeighbours) -> None:
        ring = self._member(message.index)
        self.send(sender, ring.neighbours(message.nonce) if ring else Neighbours(message.nonce, False))

    def _take_notify(self, sender: str, message: Notify) -> None:
        ring = self._member(message.index)
        if ring is not None and message.member.peer == sender:
            ring.rectify(message.member)

    def _take_leaving(self, sender: str, message: Leaving) -> None:
        if message.member.peer == sender:
            for ring in self.members:
                ring.forget(message.member)

    def _answer_find(self, sender: str, message: Find) -> None:
        # Who is no member knows nobody, and says nothing: the other asks somebody else.
        if any(ring.is_member for ring in self.members):
            self.send(sender, step_from(self.members, message.place, self.calls.silent, message.nonce))

    # -- entries

    def _compare(self) -> None:
        for ring in self.members:
            self.entries.compare(ring)

    def _offer(self) -> None:
        if not self._is_joining:
            self.entries.offer_strays()
        if self._is_leaving and not self.entries.shelf.key_list():
            self._is_leaving = False
            self._set_standing(b"")
            self.deliver(Left())
