"""Documents filtered by their publisher, which asks for each step (Procedures 2 and 3): slower, for comparison.

The publisher goes through the document in its order. For each element it asks the peers of all states that were reached
with it what follows, waits for all of them, and remembers the targets for the elements below. With `l` > 0 an answer is
about l+1 levels, so only the elements of every (l+1)th level are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from treecast.overlay.chord.chord_messages import Member, Step
from treecast.overlay.chord.events import ROOT, EventTree
from treecast.overlay.chord.filtering import Batch, Visit, Work
from treecast.overlay.chord.identifiers import place_of_key
from treecast.overlay.chord.nfa_messages import Expand, Expanded, Expansion

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer


class IterativeRun:
    """One document. `end` hears when all is done."""

    def __init__(self, peer: NfaPeer, work: Work, end: Callable[[Batch], None]) -> None:
        self._peer = peer
        self._work = work
        self._batch = Batch(end)
        self._visit = Visit()
        self._visit.wait(self._batch)
        self._batch.end_part()
        self._states: dict[int, dict[str, None]] = {ROOT: {"": None}}
        self._order = [ROOT]
        self._waiting = 0
        self._hops = 0
        """The most that a state of the present element needed."""

    @property
    def _tree(self) -> EventTree:
        assert self._work.tree is not None
        return self._work.tree

    def step(self) -> None:
        """Go on with the next element."""
        self._visit.chain += self._hops
        self._hops = 0
        if not self._order:
            self._visit.end_part(chain=self._visit.chain)
            return
        element = heappop(self._order)
        states = self._states.pop(element)
        self._waiting = len(states)
        depth_max = self._peer.nfa_settings.fragment_length + 1
        events = self._tree.events.fragment(element, depth_max)
        for key in states:
            self._ask(key, element, events, 0)

    def _ask(self, key: str, element: int, events: object, attempt: int) -> None:
        peer = self._peer
        stored_key = peer.shedding.choose(key) if attempt == 0 else key

        def retry() -> None:
            peer.filtering.locations.drop(place_of_key(key))
            peer.shedding.forget(key)
            if attempt + 1 >= peer.nfa_settings.attempts_max:
                self._visit.unreachable[key] = None
                self._end_one()
            else:
                peer.after(peer.nfa_settings.again_ms, lambda: self._ask(key, element, events, attempt + 1))

        def send(members: Sequence[Member], hops: int) -> None:
            member, from_copy = peer.filtering.choose_member(members, attempt)
            self._hops = max(self._hops, hops + 2)  # there and back
            peer.counts["expands"] += 1
            peer.calls.start(
                member.peer,
                lambda nonce: Expand(
                    nonce, self._work.id, self._work.serial, [(stored_key, element)], events, from_copy  # type: ignore[arg-type]
                ),
                hear, retry, peer.settings.probe_ms, peer.settings.probes_max,
            )  # fmt: skip

        def hear(answer: Expanded) -> None:
            self._work.serial = max(self._work.serial, answer.serial)
            if len(answer.expansions) == 1 and answer.expansions[0] is not None:
                self._take(answer.expansions[0])
                self._end_one()
            else:
                retry()

        def find(step: Step | None, hops: int) -> None:
            peer.counts["lookups"] += 1
            peer.counts["lookup hops"] += hops
            if step is None:
                retry()
            else:
                peer.filtering.locations.add(step)
                send(step.members, hops)

        place = place_of_key(stored_key)
        members = peer.filtering.locations.find(place)
        if members is not None:
            send(members, 0)
        else:
            peer.lookup(place, find)

    def _take(self, expansion: Expansion) -> None:
        self._peer.filtering.satisfy(self._work, self._tree, self._visit, expansion.accepted)
        for key, element in expansion.targets:
            if element not in self._states:
                self._states[element] = {}
                heappush(self._order, element)
            self._states[element][key] = None

    def _end_one(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self.step()


def answer_expand(peer: NfaPeer, sender: str, message: Expand) -> None:
    """At the peer that is responsible for the states."""
    tree = EventTree(message.events)
    expansions: list[Expansion | None] = []
    serial = message.serial
    for stored_key, element in message.items:
        if element not in tree or not peer.filtering.is_readable(stored_key, message.from_copy):
            expansions.append(None)
            continue
        if stored_key.partition("#")[0] == "" and serial == 0:
            serial = peer.shedding.next_serial()
        if peer.shedding.is_first(stored_key, message.document):
            peer.shedding.count(stored_key, serial)
        peer.counts["expansions"] += 1
        expansions.append(Expansion(*peer.filtering.fragment(stored_key).expand(tree, element)))
    peer.counts["answers"] += 1
    peer.send(sender, Expanded(message.nonce, expansions, serial))
