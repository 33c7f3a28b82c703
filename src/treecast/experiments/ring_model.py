"""A ring of peers on paper: who owns which state, and how many hops lookups take. Made of the peers' own parts.

The places, lists of successors and fingers are those of `treecast.overlay.chord` once a ring has become quiet; so what
this counts is what such peers would do. `tests/test_experiments_dht.py` compares the two.
"""

from __future__ import annotations

from bisect import bisect_left
from random import Random

from treecast.engines.path_nfa import PathMachine
from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import Member, member_of
from treecast.overlay.chord.identifiers import place_of_text
from treecast.overlay.chord.ring import RingMember, StableBase
from treecast.overlay.chord.routes import EPSILON, label_of
from treecast.overlay.chord.settings import ChordSettings


class RingModel:
    """Peers p0, p1, …, each with so many places on the ring."""

    def __init__(self, peers: int, members: int = 1, replicas: int = 3) -> None:
        self.peers = peers
        base = tuple(f"p{number}" for number in range(replicas + 1))
        self.settings = ChordSettings(base=base, members=members, replicas=replicas)
        names = [f"p{number}" for number in range(peers)]
        self._numbers = {name: number for number, name in enumerate(names)}
        self.members = sorted(
            (member_of(name, index) for name in names for index in range(members)), key=lambda member: member.place
        )
        self._places = [member.place for member in self.members]

    def owner(self, place: int) -> int:
        """The number of the peer that owns a place."""
        member = self.members[bisect_left(self._places, place) % len(self._places)]
        return self._numbers[member.peer]

    def owners(self, machine: PathMachine) -> list[int]:
        """By state of a machine: the peer that is responsible for it."""
        return [self.owner(place_of(key)) for key in state_keys(machine)]

    def rings(self) -> list[RingMember]:
        """The members with their successors and fingers, in the order of the ring."""
        base, calls = StableBase(self.settings), Calls(Random(0), lambda to, message: None, 1)
        rings = []
        for number, member in enumerate(self.members):
            ring = RingMember(member, base, self.settings, calls, lambda to, message: None, lambda ring: None)
            ring.begin(self._behind(number), self.members[number - 1])
            while (finger := ring.next_finger()) is not None:
                exponent, place = finger
                ring.set_finger(exponent, self.members[bisect_left(self._places, place) % len(self._places)])
            rings.append(ring)
        return rings

    def _behind(self, number: int) -> list[Member]:
        """More than a list of successors needs, unless one peer had dozens of places in a row."""
        count = len(self.members)
        return [self.members[(number + step) % count] for step in range(1, min(count, 64))]

    def hops(self) -> bytes:
        """hops[from * peers + to]: questions that a lookup takes, for rings of peers with one place each.

        Whoever is asked names the nearest member in front of the key that it knows; the owner's predecessor answers.
        """
        assert self.settings.members == 1, "a peer with several places has several ways"
        count = self.peers
        place_of = {member: number for number, member in enumerate(self.members)}
        known = []
        for number, ring in enumerate(self.rings()):
            others = {place_of[member] for member in (*ring.successors, *ring.fingers.values())}
            known.append(sorted((other - number) % count for other in others))
        # By distance on the ring: the number of hops from each place to the one so far behind it.
        rows = [bytearray(count) for _ in range(count)]
        for far in range(2, count):
            for number, offsets in enumerate(known):
                near = offsets[bisect_left(offsets, far) - 1]
                rows[number][far] = 1 + rows[(number + near) % count][far - near]
        peer = [self._numbers[member.peer] for member in self.members]
        table = bytearray(count * count)
        for number, row in enumerate(rows):
            first = peer[number] * count
            for far in range(count):
                table[first + peer[(number + far) % count]] = row[far]
        return bytes(table)


def state_keys(machine: PathMachine) -> list[str]:
    """By state: its key, as peers have it."""
    parents, numbers, _, _ = machine.columns()
    texts = [EPSILON if label is None else label_of(*label) for label in machine.labels()]
    keys = [""] * len(parents)
    # Nothing is ever removed here, so parents come before their children.
    for state in range(1, len(parents)):
        keys[state] = f"{keys[parents[state]]}/{texts[numbers[state]]}"
    return keys


def place_of(key: str, copy: int = 0) -> int:
    """Where the key of a state is on the ring; or that copy of it, which load-shedding has made."""
    return place_of_text(f"key {key}#{copy}" if copy else f"key {key}")
