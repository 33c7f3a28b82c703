"""One place on the ring: successors, predecessor and fingers, and the protocol that keeps them right.

Theory of operation. Chord (Stoica and others 2001) arranges members on a ring of numbers. A member knows its successor;
a key belongs to the first member at or behind it. Members join and fail at any time, and a protocol that runs now and
then, *stabilise*, repairs the ring. As published, it does not: Zave (2017, "Reasoning about identifier spaces: how to
make Chord correct") found that rings fall apart, and published a corrected protocol, which this is:

- A member has a list of successors, not one. A joining member takes the list of its predecessor, and is a member only
  then: nobody has a short list because it is new.
- Stabilise asks the first successor for its neighbours. If that is dead, the list loses it. If it is alive, its list
  becomes ours, behind it. If its predecessor lies between us, that one is asked too, and becomes our successor only if
  it answers. Then the successor is notified.
- Rectify: who is notified takes a nearer predecessor at once, and a farther one only if its own does not answer.
- Some members stay for ever: the *stable base*, more members than a list is long.

Zave's invariant follows: every list names a living member, and enough members are *principal*, that is, no list skips
them. So there is one ring, it is ordered, and who is not on it has a way to it.

We differ in what false suspicion requires. Zave assumes that dead members are known to be dead; on a real network who
is cut off looks dead. So members of the base are never taken for dead, which keeps all of them principal; and a list
that names none of them ends with the next one, which keeps a living successor in it. Others may be suspected falsely:
they are skipped for a while, and come back when they notify their successor. Lists name `replicas` different other
peers, because copies are kept there, and a peer may have several places on the ring.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import AskNeighbours, Member, Neighbours, Notify, Step, is_genuine, member_of
from treecast.overlay.chord.identifiers import BITS, RING, distance, is_between
from treecast.overlay.chord.settings import ChordSettings

Send = Callable[[str, object], None]
Watch = Callable[["RingMember"], None]


class StableBase:
    """The members that stay for ever, in the order of the ring."""

    def __init__(self, settings: ChordSettings) -> None:
        self.members = sorted(
            (member_of(peer, index) for peer in settings.base for index in range(settings.members)),
            key=lambda member: member.place,
        )
        self.peers = frozenset(settings.base)
        self._places = [member.place for member in self.members]

    def after(self, place: int) -> list[Member]:
        """All of them, beginning behind this place."""
        first = bisect_right(self._places, place)
        return self.members[first:] + self.members[:first]

    def skips_member(self, begin: int, end: int) -> bool:
        """Whether one of them lies strictly between."""
        return is_between(begin, self.after(begin)[0].place, end)


class RingMember:
    """A member, or one that is about to join. `watch` is called whenever its neighbours have changed."""

    def __init__(
        self, me: Member, base: StableBase, settings: ChordSettings, calls: Calls, send: Send, watch: Watch
    ) -> None:
        self.me = me
        self.successors: list[Member] = []
        self.predecessor: Member | None = None
        self.fingers: dict[int, Member] = {}
        self.is_member = False
        self._base = base
        self._settings = settings
        self._calls = calls
        self._send = send
        self._watch = watch
        self._is_stabilising = False
        self._is_rectifying = False
        self._next_finger = BITS

    # -- becoming a member

    def begin(self, successors: Sequence[Member] = (), predecessor: Member | None = None) -> None:
        """Of the base: a member from the beginning, with the neighbours it had last, or with the rest of the base."""
        behind = self._base.after(self.me.place)
        self.is_member = True
        self.predecessor = predecessor or next(m for m in reversed(behind) if m != self.me)
        self._set_successors(successors or behind)

    def join(self, step: Step) -> bool:
        """Become a member between the two that a lookup of the own place has found, with the list of the first."""
        if step.via is None or self.is_member:
            return False
        # Somebody may still name us, from an earlier life.
        successors = [member for member in step.members if member != self.me]
        if not successors or not is_between(step.via.place, self.me.place, successors[0].place):
            return False
        self.is_member = True
        self.predecessor = step.via
        self.fingers.clear()
        self._set_successors(successors)
        return True

    def leave(self) -> None:
        """A member no more. For the ring that is like a failure."""
        self.is_member = False
        self.successors, self.predecessor = [], None
        self.fingers.clear()
        self._watch(self)

    # -- stabilise

    def stabilise(self) -> None:
        if self.is_member and not self._is_stabilising:
            self._is_stabilising = True
            self._ask_successor()

    def _ask(self, member: Member, answer: Callable[[Neighbours], None], failure: Callable[[], None]) -> None:
        settings = self._settings
        self._calls.start(
            member.peer, lambda nonce: AskNeighbours(nonce, member.index), answer, failure,
            settings.probe_ms, settings.probes_max,
        )  # fmt: skip

    def _ask_successor(self) -> None:
        head = self.successors[0]
        self._ask(head, lambda answer: self._hear_successor(head, answer), lambda: self._lose_successor(head))

    def _hear_successor(self, head: Member, answer: Neighbours) -> None:
        if not self.is_member or self.successors[0] != head:
            self._is_stabilising = False
            return
        if not answer.is_member:
            self._lose_successor(head)
            return
        self._set_successors([head, *answer.successors])
        nearer = answer.predecessor
        if nearer is not None and is_genuine(nearer) and is_between(self.me.place, nearer.place, head.place):
            self._ask(nearer, lambda answer: self._hear_nearer(nearer, answer), self._notify_successor)
        else:
            self._notify_successor()

    def _hear_nearer(self, nearer: Member, answer: Neighbours) -> None:
        if self.is_member and answer.is_member and is_between(self.me.place, nearer.place, self.successors[0].place):
            self._set_successors([nearer, *answer.successors])
        self._notify_successor()

    def _notify_successor(self) -> None:
        self._is_stabilising = False
        if self.is_member:
            self._send(self.successors[0].peer, Notify(self.successors[0].index, self.me))

    def _lose_successor(self, head: Member) -> None:
        """It is dead, or says that it is no member. One of the base comes back; until then nobody takes its place."""
        self._is_stabilising = False
        if self.is_member and self.successors[0] == head and not self.is_permanent(head):
            self._set_successors(self.successors[1:])
            self.stabilise()

    def is_permanent(self, member: Member) -> bool:
        return member.peer in self._base.peers

    def forget(self, member: Member) -> None:
        """It has said that it is a member no more."""
        self.fingers = {exponent: finger for exponent, finger in self.fingers.items() if finger != member}
        if member in self.successors and not self.is_permanent(member):
            self._set_successors([other for other in self.successors if other != member])

    def _set_successors(self, members: Sequence[Member]) -> None:
        """As many of these as are needed, in the order of the ring, and one of the base at the latest as the last."""
        successors: list[Member] = []
        others: set[str] = set()
        far = 0
        for member in members:
            if not far < distance(self.me.place, member.place) or not is_genuine(member):
                break
            far = distance(self.me.place, member.place)
            successors.append(member)
            if member.peer != self.me.peer:
                others.add(member.peer)
            if len(others) == self._settings.replicas:
                break
        if not any(map(self.is_permanent, successors)):
            last = successors[-1] if successors else self.me
            successors.append(self._base.after(last.place)[0])
        if successors != self.successors:
            self.successors = successors
            self._watch(self)

    # -- rectify

    def rectify(self, notifier: Member) -> None:
        """Another member believes that it is our predecessor."""
        if not self.is_member or notifier == self.me or not is_genuine(notifier) or notifier == self.predecessor:
            return
        present = self.predecessor
        if present is None or is_between(present.place, notifier.place, self.me.place):
            self._set_predecessor(notifier)
        elif not self._is_rectifying and not self.is_permanent(present):
            self._is_rectifying = True
            self._ask(
                present,
                lambda answer: self._hear_predecessor(present, notifier, answer.is_member),
                lambda: self._hear_predecessor(present, notifier, False),
            )

    def _hear_predecessor(self, present: Member, notifier: Member, is_member: bool) -> None:
        self._is_rectifying = False
        if self.is_member and not is_member and self.predecessor == present:
            self._set_predecessor(notifier)

    def _set_predecessor(self, member: Member) -> None:
        self.predecessor = member
        self._watch(self)

    # -- what others ask

    def neighbours(self, nonce: int) -> Neighbours:
        return Neighbours(nonce, self.is_member, self.predecessor, list(self.successors))

    def copy_peers(self, count: int) -> list[str]:
        """The next other peers, in the order of the ring: who holds copies of what is owned here."""
        peers = dict.fromkeys(member.peer for member in self.successors if member.peer != self.me.peer)
        return list(peers)[:count]

    # -- fingers

    def next_finger(self) -> tuple[int, int] | None:
        """Exponent and place of the finger that is to be looked up next. Nearer ones are all the successor."""
        near = distance(self.me.place, self.successors[0].place) if self.successors else 0
        exponent = self._next_finger - 1
        if near == 0 or exponent < 0 or 1 << exponent <= near:
            self._next_finger = BITS
            for stale in [e for e in self.fingers if 1 << e <= near]:
                del self.fingers[stale]
            return None
        self._next_finger = exponent
        return exponent, (self.me.place + (1 << exponent)) % RING

    def set_finger(self, exponent: int, member: Member) -> None:
        if self.is_member and is_genuine(member) and member != self.me:
            self.fingers[exponent] = member
