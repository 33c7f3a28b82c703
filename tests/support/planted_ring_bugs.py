"""Bugs for the simulator to find in a ring: Chord as it was published, and peers that are wrong in one place each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treecast.overlay.chord import ChordPeer
from treecast.overlay.chord.chord_messages import Answer, CopyEntries, Entry, Member, Neighbours, Step
from treecast.overlay.chord.identifiers import distance, is_between
from treecast.overlay.chord.replication import Replication
from treecast.overlay.chord.ring import RingMember
from treecast.sim.chord.scenario import ChordScenario


class _PublishedMember(RingMember):
    """Chord as published: a new member knows one successor only, and nobody asks whether a nearer one is alive."""

    def join(self, step: Step) -> bool:
        successors = [member for member in step.members if member != self.me][:1]
        if step.via is None or self.is_member or not successors:
            return False
        self.is_member = True
        self.predecessor = None
        self._set_successors(successors)
        return True

    def _hear_successor(self, head: Member, answer: Neighbours) -> None:
        nearer = answer.predecessor
        super()._hear_successor(head, Neighbours(answer.nonce, answer.is_member, None, answer.successors))
        if self.is_member and nearer is not None and is_between(self.me.place, nearer.place, self.successors[0].place):
            self._set_successors([nearer, *self.successors])

    def _set_successors(self, members: Sequence[Member]) -> None:
        successors: list[Member] = []
        for member in members:
            far = distance(self.me.place, successors[-1].place) if successors else 0
            if len(successors) < self._settings.replicas and distance(self.me.place, member.place) > far:
                successors.append(member)
        if successors and successors != self.successors:
            self.successors = successors
            self._watch(self)


class _SuspiciousMember(RingMember):
    """Takes members of the base for dead."""

    def _lose_successor(self, head: Member) -> None:
        self._is_stabilising = False
        if self.is_member and self.successors[0] == head:
            self._set_successors(self.successors[1:])
            self.stabilise()


class _TrustingMember(RingMember):
    """Never replaces a predecessor that is dead."""

    def _hear_predecessor(self, present: Member, notifier: Member, is_member: bool) -> None:
        self._is_rectifying = False


class _HastyReplication(Replication):
    """Acknowledges what is on one disk only."""

    def store_entries(self, ring: RingMember, entries: Sequence[Entry], then: Callable[[Answer], None]) -> None:
        super().store_entries(ring, entries, lambda answer: None)
        then("stored")


class _SelfishReplication(Replication):
    """Compares nothing: a new owner never gets its keys."""

    def compare(self, ring: RingMember) -> None:
        return


class _CarelessReplication(Replication):
    """Drops what it need not hold before others have it."""

    def offer_strays(self) -> None:
        for key in self.shelf.key_list():
            if not self.is_covered(key):
                self._store(self.shelf.drop(key))


class _ForgetfulReplication(Replication):
    """Says that it has copies, and has not."""

    def take_copy(self, sender: str, message: CopyEntries) -> None:
        super().take_copy(sender, CopyEntries(message.nonce, message.owner, message.after, message.entries[1:]))


def _scenario(ring: type[RingMember] = RingMember, replication: type[Replication] = Replication) -> ChordScenario:
    class Peer(ChordPeer):
        ring_type = ring
        replication_type = replication

    return ChordScenario(Peer)


PLANTED = {
    "Chord as published": _scenario(_PublishedMember),
    "the base taken for dead": _scenario(_SuspiciousMember),
    "a dead predecessor": _scenario(_TrustingMember),
    "acknowledgement before the copies": _scenario(replication=_HastyReplication),
    "no comparison of copies": _scenario(replication=_SelfishReplication),
    "strays dropped at once": _scenario(replication=_CarelessReplication),
    "a copy that is not stored": _scenario(replication=_ForgetfulReplication),
}
