"""Entries on several peers: acknowledged writes, copies that are compared and repaired, and keys that change hands.

The owner of a key and the next peers behind it hold its entries, `replicas` peers in all. A write is acknowledged when
all of them have it on disk. Everything else is repair, which runs all the time:

- An owner compares its range with each peer that is to hold copies (`Claim`), by digests. Where they differ, each gets
  what it lacks. That is how a new owner gets the keys of its range, and how copies come to a new successor.
- A *stray* is a key that a peer neither owns nor was told lately to hold copies of. It offers the entries to the owner,
  as an ordinary write, and drops them when that is acknowledged. That is how a peer that leaves hands over all it has,
  and how entries get to their owner that a false owner has taken while the network was divided.

Entries merge in any order (`shelf.py`), so none of this needs to agree on who the owner is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import (
    Answer,
    Claim,
    Copied,
    CopyEntries,
    Entry,
    Holding,
    Member,
    Write,
    Written,
    is_genuine,
)
from treecast.overlay.chord.identifiers import distance, is_within, place_of_key
from treecast.overlay.chord.ring import RingMember, Send
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.chord.shelf import Shelf
from treecast.overlay.storage import Change

StoreChanges = Callable[[list[Change]], None]
Then = Callable[[bool], None]
Offer = Callable[[str, list[Entry], Then], None]


class _Round:
    """One comparison of a range with one peer: done when all its parts are."""

    __slots__ = ("after", "has_failed", "member", "parts", "peer")

    def __init__(self, member: RingMember, peer: str, after: int) -> None:
        self.member = member
        self.peer = peer
        self.after = after
        self.parts = 0
        self.has_failed = False


class Replication:
    """What a peer does about entries. `store` makes changes durable before anything that is sent after it leaves."""

    def __init__(
        self, members: Sequence[RingMember], shelf: Shelf, settings: ChordSettings, calls: Calls, send: Send,
        store: StoreChanges, offer: Offer,
    ) -> None:  # fmt: skip
        self.shelf = shelf
        self.on_change: Callable[[list[Entry]], None] = lambda entries: None
        """Called with entries that are new here, or here no more."""
        self._members = members
        self._settings = settings
        self._calls = calls
        self._send = send
        self._store = store
        self._offer = offer
        self._claims: dict[Member, tuple[int, int]] = {}
        """Owners whose entries are copied here: where their ranges begin, and when they were heard last."""
        self._rounds: dict[tuple[int, str], _Round] = {}
        self._synced_peers: dict[int, dict[str, int]] = {}
        """By member: the peers that its range was compared with, and where it began then."""
        self._ready: dict[int, int] = {}
        """By member: where the range began when it had been compared with all who hold copies."""
        self._offers: set[str] = set()
        self._writes = 0
        self.now_ms = 0
        self.wall_ms = 0

    # -- whose keys

    def owner_of(self, key: str) -> RingMember | None:
        """The place of this peer that owns the key, if one does."""
        place = place_of_key(key)
        for ring in self._members:
            if ring.is_member and ring.predecessor and is_within(ring.predecessor.place, place, ring.me.place):
                return ring
        return None

    def is_ready(self, key: str) -> bool:
        """The key is owned here, and its entries have arrived."""
        ring = self.owner_of(key)
        return ring is not None and self.is_range_ready(ring)

    def is_range_ready(self, ring: RingMember) -> bool:
        """All entries of the range of a member have arrived."""
        if not ring.is_member or ring.predecessor is None or ring.me.index not in self._ready:
            return False
        begin, place = self._ready[ring.me.index], ring.me.place
        return (distance(begin, place) or 1 << 63) >= (distance(ring.predecessor.place, place) or 1 << 63)

    def is_covered(self, key: str) -> bool:
        """The key is owned here, or its owner has told us lately to hold copies."""
        if self.owner_of(key) is not None:
            return True
        place = place_of_key(key)
        return any(
            self.now_ms < heard_ms + self._settings.claim_ms and is_within(after, place, owner.place)
            for owner, (after, heard_ms) in self._claims.items()
        )

    def forget_claims(self) -> None:
        """This peer is leaving: all that it holds is to be offered to others."""
        self._claims.clear()

    def _is_member(self) -> bool:
        return any(ring.is_member for ring in self._members)

    def _merge(self, entries: Sequence[Entry]) -> None:
        changes, fresh = self.shelf.merge(entries, self.wall_ms)
        if changes:
            self._store(changes)
        if fresh:
            self.on_change(fresh)

    # -- writes, at the owner

    def take_write(self, sender: str, message: Write) -> None:
        ring = self.owner_of(message.key)
        if ring is None:
            self._send(sender, Written(message.nonce, "misplaced"))
        elif self._writes >= self._settings.writes_max:
            self._send(sender, Written(message.nonce, "busy"))
        elif all(entry.key == message.key for entry in message.entries):
            self.store_entries(ring, message.entries, lambda answer: self._send(sender, Written(message.nonce, answer)))

    def store_entries(self, ring: RingMember, entries: Sequence[Entry], then: Callable[[Answer], None]) -> None:
        """Store entries of a key that is owned here. `then` hears "stored" when all copies are on disk."""
        self._merge(entries)
        peers = ring.copy_peers(self._settings.replicas - 1)
        if len(peers) < self._settings.replicas - 1:
            then("unsafe")
            return
        if not peers:
            then("stored")
            return
        # Whatever is newer here travels too.
        present = [self.shelf.entry(entry.key, entry.id) or entry for entry in entries]
        waiting = set(peers)
        self._writes += 1

        def on_copied(peer: str) -> None:
            waiting.discard(peer)
            if not waiting:
                waiting.add("")  # nothing that follows counts
                self._writes -= 1
                then("stored")

        def on_failed() -> None:
            if "" not in waiting:
                waiting.add("")
                self._writes -= 1
                then("unsafe")

        for peer in peers:
            self._copy(ring, peer, present, lambda peer=peer: on_copied(peer), on_failed)  # type: ignore[misc]

    def _copy(
        self,
        ring: RingMember,
        peer: str,
        entries: Sequence[Entry],
        then: Callable[[], None],
        on_failed: Callable[[], None],
    ) -> None:
        # It leaves when the entries are durable here: whatever was stored before is.
        after = ring.predecessor.place if ring.predecessor else ring.me.place
        self._calls.start(
            peer, lambda nonce: CopyEntries(nonce, ring.me, after, list(entries)), lambda answer: then(), on_failed,
            self._settings.probe_ms, self._settings.probes_max,
        )  # fmt: skip

    # -- copies, at those who hold them

    def take_copy(self, sender: str, message: CopyEntries) -> None:
        if not self._hear_claim(sender, message.owner, message.after):
            return
        self._merge(message.entries)
        self._send(sender, Copied(message.nonce))

    def take_claim(self, sender: str, message: Claim) -> None:
        if not self._hear_claim(sender, message.owner, message.after):
            return
        digest, count, keys = self.shelf.digest(message.begin, message.end)
        if (digest, count) == (message.digest, message.count):
            self._send(sender, Holding(message.nonce, "same"))
        elif count > self._settings.chunk_entries_max and keys > 1:
            self._send(sender, Holding(message.nonce, "many"))
        else:
            entries = self.shelf.entries_within(message.begin, message.end)
            self._send(sender, Holding(message.nonce, "differs", entries))

    def _hear_claim(self, sender: str, owner: Member, after: int) -> bool:
        """Whoever is no member holds no copies for others."""
        if not self._is_member() or owner.peer != sender or not is_genuine(owner):
            return False
        self._claims[owner] = (after, self.now_ms)
        return True

    # -- comparing, at the owner

    def compare(self, ring: RingMember) -> None:
        """Compare the range of a member with all who are to hold copies of it."""
        if not ring.is_member or ring.predecessor is None:
            return
        after = ring.predecessor.place
        for peer in ring.copy_peers(self._settings.replicas - 1):
            if (ring.me.index, peer) not in self._rounds:
                comparison = self._rounds[ring.me.index, peer] = _Round(ring, peer, after)
                self._compare_part(comparison, after, ring.me.place)
        self._judge(ring)

    def _compare_part(self, comparison: _Round, begin: int, end: int) -> None:
        comparison.parts += 1
        digest, count, _ = self.shelf.digest(begin, end)
        self._calls.start(
            comparison.peer,
            lambda nonce: Claim(nonce, comparison.member.me, comparison.after, begin, end, digest, count),
            lambda answer: self._hear_holding(comparison, begin, end, answer),
            lambda: self._end_part(comparison, has_failed=True),
            self._settings.probe_ms, self._settings.probes_max,
        )  # fmt: skip

    def _hear_holding(self, comparison: _Round, begin: int, end: int, answer: Holding) -> None:
        if answer.answer == "same":
            self._end_part(comparison)
        elif answer.answer == "many":
            middle = (begin + (distance(begin, end) or 1 << 63) // 2) % (1 << 63)
            self._compare_part(comparison, begin, middle)
            self._compare_part(comparison, middle, end)
            self._end_part(comparison)
        else:
            their_versions = {(entry.key, entry.id): entry.version for entry in answer.entries}
            self._merge([entry for entry in answer.entries if is_within(begin, place_of_key(entry.key), end)])
            lacking = [
                entry
                for entry in self.shelf.entries_within(begin, end)
                if their_versions.get((entry.key, entry.id), -1) < entry.version
            ]
            size = self._settings.chunk_entries_max
            for first in range(0, len(lacking), size):
                comparison.parts += 1
                self._copy(
                    comparison.member, comparison.peer, lacking[first : first + size],
                    lambda: self._end_part(comparison), lambda: self._end_part(comparison, has_failed=True),
                )  # fmt: skip
            self._end_part(comparison)

    def _end_part(self, comparison: _Round, has_failed: bool = False) -> None:
        comparison.has_failed = comparison.has_failed or has_failed
        comparison.parts -= 1
        if comparison.parts:
            return
        index = comparison.member.me.index
        self._rounds.pop((index, comparison.peer), None)
        if not comparison.has_failed:
            self._synced_peers.setdefault(index, {})[comparison.peer] = comparison.after
        self._judge(comparison.member)

    def _judge(self, ring: RingMember) -> None:
        """The range is ready when all who hold copies were asked, except those that do not answer."""
        if not ring.is_member or ring.predecessor is None:
            self._ready.pop(ring.me.index, None)
            self._synced_peers.pop(ring.me.index, None)
            return
        synced_peers, after = self._synced_peers.get(ring.me.index, {}), ring.predecessor.place
        peers = ring.copy_peers(self._settings.replicas - 1)
        # If none of them answers, nothing is known. A ring with one copy has nobody to ask.
        if peers and not any(synced_peers.get(peer) == after for peer in peers):
            return
        if all(synced_peers.get(peer) == after or peer in self._calls.silent for peer in peers):
            self._ready[ring.me.index] = after

    # -- what need not be here

    def offer_strays(self) -> None:
        """Offer entries of keys that others own to their owners."""
        past_ms = self.now_ms - self._settings.claim_ms
        self._claims = {owner: claim for owner, claim in self._claims.items() if claim[1] > past_ms}
        for key in self.shelf.key_list():
            if len(self._offers) >= self._settings.offers_max:
                return
            if key not in self._offers and not self.is_covered(key):
                self._offers.add(key)
                entries = self.shelf.entries(key)
                self._offer(key, entries, partial(self._end_offer, key, entries))

    def _end_offer(self, key: str, entries: list[Entry], is_stored: bool) -> None:
        self._offers.discard(key)
        if is_stored and not self.is_covered(key) and self.shelf.entries(key) == entries:
            self._store(self.shelf.drop(key))
            self.on_change(entries)
