"""Zave's invariant of a ring, checked whenever a list of successors changes or a member dies; and how a ring should be.

The invariant: every list of successors is in order, names a living member, and skips no member of the stable base. As
the base has more members than a list is long, there are then enough principal members, which is what Zave's proof needs
for one ordered ring that everybody has a way to. A check looks at one list, or at the lists that name one member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from treecast.overlay.chord.chord_messages import Member
from treecast.overlay.chord.identifiers import distance
from treecast.overlay.chord.ring import RingMember, StableBase


class RingChecks:
    """Knows the lists of all members. `fail` hears what is wrong."""

    def __init__(self, base: StableBase, fail: Callable[[str], None]) -> None:
        self._base = base
        self._fail = fail
        self._lists: dict[Member, list[Member]] = {}
        self._named_by: dict[Member, set[Member]] = {}
        self.checks = 0

    @property
    def members(self) -> list[Member]:
        return sorted(self._lists, key=lambda member: member.place)

    def is_alive(self, member: Member) -> bool:
        return member in self._lists or member.peer in self._base.peers

    def watch(self, ring: RingMember) -> None:
        """The neighbours of a member have changed, or it is a member no more."""
        self._set_list(ring.me, list(ring.successors) if ring.is_member else None)
        if ring.is_member:
            self._check_list(ring.me)

    def _set_list(self, member: Member, successors: list[Member] | None) -> None:
        for other in self._lists.pop(member, ()):
            self._named_by[other].discard(member)
        if successors is None:
            self._check_without([member])
            return
        self._lists[member] = successors
        for other in successors:
            self._named_by.setdefault(other, set()).add(member)

    def remove_peer(self, peer: str) -> None:
        """It has crashed. Those of the base remain members anyway, with the list they had."""
        if peer in self._base.peers:
            return
        dead = [member for member in self._lists if member.peer == peer]
        for member in dead:
            for other in self._lists.pop(member):
                self._named_by[other].discard(member)
        self._check_without(dead)

    def _check_without(self, dead: Iterable[Member]) -> None:
        for member in sorted({name for dead_member in dead for name in self._named_by.get(dead_member, ())}, key=str):
            self._check_list(member)

    def would_strand(self, peer: str, distinct: int) -> bool:
        """Whether a list that names as many different peers as it should would name no living one without this peer."""
        for member in [member for member in self._lists if member.peer == peer]:
            for name in self._named_by.get(member, ()):
                successors = self._lists[name]
                if len({other.peer for other in successors if other.peer != name.peer}) < distinct or name.peer == peer:
                    continue
                if not any(self.is_alive(other) and other.peer != peer for other in successors):
                    return True
        return False

    def _check_list(self, member: Member) -> None:
        self.checks += 1
        successors = self._lists[member]
        far = [distance(member.place, other.place) for other in successors]
        text = f"the list of {_text(member)}: {', '.join(map(_text, successors))}"
        if not successors or any(begin >= end for begin, end in pairwise([0, *far])):
            self._fail(f"out of order: {text}")
        elif not any(map(self.is_alive, successors)):
            self._fail(f"names no living member: {text}")
        elif any(self._base.skips_member(x.place, y.place) for x, y in pairwise([member, *successors])):
            self._fail(f"skips a member of the base: {text}")


def _text(member: Member) -> str:
    return f"{member.peer}#{member.index}"


def ring_faults(rings: Iterable[RingMember]) -> list[str]:
    """What is not as it should be once all is quiet: every member knows its neighbours. Empty: nothing."""
    members = sorted((ring for ring in rings if ring.is_member), key=lambda ring: ring.me.place)
    wrong = []
    for ring, behind in zip(members, [*members[1:], *members[:1]], strict=True):
        if ring.successors[0] != behind.me:
            wrong.append(f"{_text(ring.me)} has successor {_text(ring.successors[0])}, not {_text(behind.me)}")
        if behind.predecessor != ring.me:
            text = _text(behind.predecessor) if behind.predecessor else "none"
            wrong.append(f"{_text(behind.me)} has predecessor {text}, not {_text(ring.me)}")
    return wrong


def owner_among(rings: Iterable[RingMember], place: int) -> Member:
    """Who owns a place, as anybody who sees all members knows."""
    return min((ring.me for ring in rings if ring.is_member), key=lambda member: distance(place, member.place))
