"""Load-shedding: a state that many documents visit gets copies on other peers, and visitors choose one at random.

The owner of a state counts the documents that visit it. If they are more than a share of all documents (section 6.4:
10 %), it stores its entries again under other keys, "key#1" to "key#10", which belong to whoever the ring says, with
copies and hand-over like all keys. Then all peers are told, along their fingers, each place once. Later changes of the
state go to its copies before they are acknowledged. That a state has copies is an entry of the state, so the next owner
knows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from treecast.overlay.chord.chord_messages import Entry, Member
from treecast.overlay.chord.identifiers import distance
from treecast.overlay.chord.nfa_messages import Shed

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer

MARK = "#copies"
"""The id of the entry that says how many copies a state has. Ids of queries begin with a digit."""


def state_of(stored_key: str) -> str:
    """The key of the state that is stored under a key. Names have no `#`, and namespaces are in braces."""
    key, mark, number = stored_key.rpartition("#")
    return key if mark and number.isdecimal() and "}" not in number else stored_key


class Shedding:
    """What a peer does about states that are visited too often."""

    def __init__(self, peer: NfaPeer) -> None:
        self._peer = peer
        self._visits: Counter[str] = Counter()
        self._first_serial: dict[str, int] = {}
        self._copies: dict[str, int] = {}
        """States that have copies, as all peers were told."""
        self._underway: set[str] = set()
        self._serial = 0
        self._last_document: dict[str, str] = {}

    # -- counting, at the owner

    def next_serial(self) -> int:
        """The owner of the start state sees all documents, and counts them. So do those who hold its copies, once it
        has some: each sees a part of them, and goes on from the largest number that has come its way."""
        self._serial += 1
        return self._serial

    def count(self, stored_key: str, serial: int) -> None:
        """A document, the `serial`th of all, has come to this state for the first time."""
        settings = self._peer.nfa_settings
        self._serial = max(self._serial, serial)
        if state_of(stored_key) != stored_key:
            return
        self._visits[stored_key] += 1
        if settings.shed_rate >= 1:
            return
        total = self._serial - self._first_serial.setdefault(stored_key, self._serial) + 1
        if total < settings.shed_documents_min or stored_key in self._underway:
            return
        if self._visits[stored_key] > settings.shed_rate * total and not self._own_copies(stored_key):
            self._shed(stored_key)

    def is_first(self, stored_key: str, document: str) -> bool:
        """Whether this document has not visited the state before, as far as is remembered: documents come in turn."""
        is_new = self._last_document.get(stored_key) != document
        self._last_document[stored_key] = document
        return is_new

    def hottest(self, count: int) -> list[tuple[str, int]]:
        """The states that most documents have visited, for those who look at the peer."""
        return sorted(self._visits.items(), key=lambda pair: (-pair[1], pair[0]))[:count]

    def _own_copies(self, key: str) -> int:
        mark = self._peer.entries.shelf.entry(key, MARK)
        return int(mark.value) if mark is not None else 0

    def _shed(self, key: str) -> None:
        peer, copies = self._peer, self._peer.nfa_settings.shed_copies
        ring = peer.entries.owner_of(key)
        if ring is None:
            return
        self._underway.add(key)
        mark = Entry(key, MARK, max(peer.wall_ms, 1), b"%d" % copies)

        def on_marked(answer: str) -> None:
            # From here on changes go to the copies too, so nothing is missed between the two steps.
            if answer == "stored":
                self._write_copies(
                    key, peer.entries.shelf.entries(key), copies, lambda is_done: self._tell(key, copies, is_done)
                )
            else:
                self._underway.discard(key)

        peer.entries.store_entries(ring, [mark], on_marked)

    def _write_copies(self, key: str, entries: list[Entry], copies: int, then: Callable[[bool], None]) -> None:
        waiting = copies
        is_stored = True

        def on_written(is_done: bool) -> None:
            nonlocal waiting, is_stored
            waiting -= 1
            is_stored = is_stored and is_done
            if waiting == 0:
                then(is_stored)

        for number in range(1, copies + 1):
            stored_key = f"{key}#{number}"
            # The mark goes along: it says that a copy is there, even of a state without queries.
            copied_entries = [
                Entry(stored_key, entry.id, entry.version, entry.value, entry.is_removed) for entry in entries
            ]
            self._peer.counts["copy messages"] += 1
            self._peer.write(stored_key, copied_entries, on_written)

    def copy_entry(self, entry: Entry, then: Callable[[], None]) -> None:
        """A state has changed: so do its copies, if it has some. `then` is called when they have."""
        copies = self._own_copies(entry.key)
        if copies:
            self._write_copies(entry.key, [entry], copies, lambda is_done: then() if is_done else None)
        else:
            then()

    # -- telling all peers

    def _tell(self, key: str, copies: int, is_stored: bool) -> None:
        self._underway.discard(key)
        # A peer that has left meanwhile knows nobody to tell: visitors go on to the state's next owner.
        ring = next((ring for ring in self._peer.members if ring.is_member), None)
        if is_stored and ring is not None:
            self._peer.counts["states with copies"] += 1
            self.take_shed(self._peer.name, Shed(key, copies, ring.me.place, ring.me.index))

    def take_shed(self, sender: str, message: Shed) -> None:
        """Remember it, and pass it on to all places from here to `end`: each that is known gets what follows it."""
        if len(self._copies) < self._peer.nfa_settings.notices_max:
            self._copies[message.key] = message.copies
        if message.index >= len(self._peer.members):
            return
        ring = self._peer.members[message.index]
        span = distance(ring.me.place, message.end) or 1 << 63
        known_members = {*ring.successors, *ring.fingers.values()}
        ahead = sorted(
            (member for member in known_members if 0 < distance(ring.me.place, member.place) < span),
            key=lambda member: distance(ring.me.place, member.place),
        )
        for number, member in enumerate(ahead):
            end = ahead[number + 1].place if number + 1 < len(ahead) else message.end
            self._send(member, Shed(message.key, message.copies, end, member.index))

    def _send(self, member: Member, message: Shed) -> None:
        self._peer.counts["notices"] += 1
        self._peer.send(member.peer, message)

    # -- at visitors

    def choose(self, key: str) -> str:
        """Where to visit a state: at its owner, or at one of its copies."""
        copies = self._copies.get(key, 0)
        number = self._peer.random.randrange(copies + 1) if copies else 0
        return f"{key}#{number}" if number else key

    def forget(self, key: str) -> None:
        """A copy was not there."""
        self._copies.pop(key, None)
