"""Lookups: who owns a place on the ring. The one who looks asks nearer and nearer members; every answer is a hop.

A member that does not answer is left out, and the next nearest is asked. Fingers need not be right: the answer comes
from the owner's predecessor, and the owner checks again whether a key is its own. If the predecessor does not answer,
one before it does, whose list names both: else nobody could find what the owner has while its predecessor is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import AskNeighbours, Find, Member, Neighbours, Step, is_genuine
from treecast.overlay.chord.identifiers import distance, is_between, is_within
from treecast.overlay.chord.ring import RingMember
from treecast.overlay.chord.settings import ChordSettings

NEARER_MAX = 3
"""Members that are named as nearer: the first may be dead."""

Then = Callable[[Step | None, int], None]
"""Called with the last step and the number of hops; with None if nobody answered."""


def step_from(members: Iterable[RingMember], place: int, silent: Iterable[str] = (), nonce: int = 0) -> Step:
    """What a peer with these places on the ring knows about the owner of a place."""
    own = [member for member in members if member.is_member]
    if not own:
        return Step(nonce, None, [])
    # The nearest of the own places in front of it. A member at the very place is as far away as can be.
    near = min(own, key=lambda member: distance(member.me.place, place - 1))
    via = near.me
    for position, member in enumerate(near.successors):
        if is_within(via.place, place, member.place):
            return Step(nonce, via, list(near.successors[position:]))
        if member.peer not in silent:
            break
        via = member
    known_members = {member for ring in own for member in (*ring.successors, *ring.fingers.values())}
    nearer = [member for member in known_members if is_between(near.me.place, member.place, place)]
    nearer.sort(key=lambda member: (member.peer in silent, distance(member.place, place)))
    return Step(nonce, None, nearer[:NEARER_MAX])


class Confirmation:
    """Makes sure of an owner: it answers, and knows of nobody between it and the place. Under churn, lists lag."""

    def __init__(self, place: int, calls: Calls, settings: ChordSettings, then: Then) -> None:
        self._place = place
        self._calls = calls
        self._settings = settings
        self._then = then
        self._members_asked: set[Member] = set()

    def begin(self, step: Step | None, hops: int) -> None:
        if step is None or not step.members or len(self._members_asked) >= self._settings.hops_max:
            self._then(None, hops)
            return
        owner = step.members[0]
        self._members_asked.add(owner)
        self._calls.start(
            owner.peer, lambda nonce: AskNeighbours(nonce, owner.index), lambda answer: self._hear(step, hops, answer),
            lambda: self.begin(Step(0, step.via, step.members[1:]), hops + 1), self._settings.probe_ms, 2,
        )  # fmt: skip

    def _hear(self, step: Step, hops: int, answer: Neighbours) -> None:
        owner, nearer = step.members[0], answer.predecessor
        if not answer.is_member:
            self.begin(Step(0, step.via, step.members[1:]), hops + 1)
        elif nearer is None or nearer in self._members_asked or is_within(nearer.place, self._place, owner.place):
            self._then(step, hops + 1)
        else:
            # A member that has just joined: it has told its successor, and its predecessor has not heard of it.
            self.begin(Step(0, step.via, [nearer, *step.members]), hops + 1)


class Lookup:
    """One lookup under way."""

    def __init__(self, place: int, calls: Calls, settings: ChordSettings, then: Then) -> None:
        self._place = place
        self._calls = calls
        self._settings = settings
        self._then = then
        self._members_asked: set[Member] = set()
        self._candidates: list[Member] = []
        self._fallback: Step | None = None  # if the predecessor that it names does not answer
        self._hops = 0

    def begin(self, step: Step, contacts: Sequence[Member] = ()) -> None:
        """With what the peer itself knows, or with members that it has heard of."""
        if step.via is not None:
            self._then(step, 0)
            return
        self._candidates = [*step.members, *contacts]
        self._go_on()

    def _go_on(self) -> None:
        member = next((member for member in self._candidates if member not in self._members_asked), None)
        if member is None or self._hops >= self._settings.hops_max:
            self._then(self._fallback, self._hops)
            return
        self._members_asked.add(member)
        place = self._place
        # One attempt only: there are others to ask, and the whole lookup can be repeated.
        self._calls.start(
            member.peer, lambda nonce: Find(nonce, place), lambda step: self._hear(member, step), self._go_on,
            self._settings.probe_ms, 1,
        )  # fmt: skip

    def _hear(self, member: Member, step: Step) -> None:
        self._hops += 1
        if step.via is None:
            nearer = step.members
        elif step.via.peer == member.peer or step.via.peer in self._calls.silent:
            self._then(step, self._hops)
            return
        else:
            # The predecessor does not answer this member, but may answer here, and knows better.
            self._fallback = step
            nearer = [step.via]
        self._candidates = [*filter(is_genuine, nearer), *self._candidates]
        self._go_on()
