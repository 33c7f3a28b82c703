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
from treecast.overlay.chord.identifiers import RING, distance, is_within, place_of_text
from treecast.overlay.chord.lookup import step_from
from treecast.overlay.chord.ring import RingMember, StableBase
from treecast.overlay.chord.routes import EPSILON, label_of
from treecast.overlay.chord.settings import ChordSettings


class RingModel:
    """Peers p0, p1, …, each with so many places on the ring. Peers of another name are at other places."""

    def __init__(self, peers: int, members: int = 1, replicas: int = 3, name: str = "p") -> None:
        self.peers = peers
        names = [f"{name}{number}" for number in range(peers)]
        self.settings = ChordSettings(base=tuple(names[: replicas + 1]), members=members, replicas=replicas)
        self.numbers = {name: number for number, name in enumerate(names)}
        self.members = sorted(
            (member_of(name, index) for name in names for index in range(members)), key=lambda member: member.place
        )
        self._places = [member.place for member in self.members]
        self.peer_numbers = [self.numbers[member.peer] for member in self.members]
        """By member, in the order of the ring."""

    def owner(self, place: int) -> int:
        """The number of the peer that owns a place."""
        return self.peer_numbers[self.member_number(place)]

    def member_number(self, place: int) -> int:
        """The number, in the order of the ring, of the member that owns a place."""
        return bisect_left(self._places, place) % len(self._places)

    def owners(self, machine: PathMachine) -> list[int]:
        """By state of a machine: the peer that is responsible for it."""
        return [self.owner(place) for place in state_places(machine)]

    def shares(self) -> list[float]:
        """By peer: the part of the ring that it owns."""
        shares = [0.0] * self.peers
        for number, peer in enumerate(self.peer_numbers):
            shares[peer] += distance(self._places[number - 1], self._places[number]) / RING
        return shares

    def rings(self) -> list[RingMember]:
        """The members with their successors and fingers, in the order of the ring."""
        base, calls = StableBase(self.settings), Calls("", Random(0), lambda to, message: None, 1)
        rings = []
        for number, member in enumerate(self.members):
            ring = RingMember(member, base, self.settings, calls, lambda to, message: None, lambda ring: None)
            ring.begin(self._behind(number), self.members[number - 1])
            while (finger := ring.next_finger()) is not None:
                exponent, place = finger
                ring.set_finger(exponent, self.members[bisect_left(self._places, place) % len(self._places)])
            rings.append(ring)
        return rings

    def walks(self) -> Walks:
        return Walks(self)

    def _behind(self, number: int) -> list[Member]:
        """More than a list of successors needs, unless one peer had dozens of places in a row."""
        count = len(self.members)
        return [self.members[(number + step) % count] for step in range(1, min(count, 64))]

    def hops(self) -> bytes:
        """hops[peer * members + member]: questions that a lookup takes, to the member of that number on the ring.

        Whoever is asked names the nearest member in front of the key that it knows, at any of its places; who has the
        place in front of the owner answers.
        """
        count = len(self.members)
        place_of = {member: number for number, member in enumerate(self.members)}
        own: list[list[int]] = [[] for _ in range(self.peers)]
        known_members: list[list[int]] = [[] for _ in range(self.peers)]
        for number, ring in enumerate(self.rings()):
            peer = self.peer_numbers[number]
            own[peer].append(number)
            known_members[peer] += [place_of[member] for member in (*ring.successors, *ring.fingers.values())]
        table = bytearray(self.peers * count)
        if self.settings.members == 1:
            self._fill_by_distance(table, own, known_members)
        else:
            for target in range(count):
                self._fill_column(table, target, own, known_members)
        return bytes(table)

    def _fill_by_distance(self, table: bytearray, own: list[list[int]], known_members: list[list[int]]) -> None:
        """One place for each peer: whoever is nearer by the ring is done before."""
        count = self.peers
        ways = [sorted({(other - own[peer][0]) % count for other in known_members[peer]}) for peer in self.peer_numbers]
        rows = [bytearray(count) for _ in range(count)]
        for far in range(2, count):
            for number, offsets in enumerate(ways):
                near = offsets[bisect_left(offsets, far) - 1]
                rows[number][far] = 1 + rows[(number + near) % count][far - near]
        for number, row in enumerate(rows):
            first = self.peer_numbers[number] * count
            # From the order of distances to that of places.
            table[first : first + count] = row[count - number :] + row[: count - number]

    def _fill_column(self, table: bytearray, target: int, own: list[list[int]], known_members: list[list[int]]) -> None:
        """Hops of all peers to one member. Who is asked next has a place nearer to it than all of the one who asks."""
        count = len(self.members)

        def far(number: int) -> int:
            """Members from there to the target."""
            return (target - number) % count or count

        nearest = [min(map(far, numbers)) for numbers in own]
        hops = [0] * self.peers
        for peer in sorted(range(self.peers), key=nearest.__getitem__):
            if nearest[peer] > 1:
                ahead = min((number for number in known_members[peer] if far(number) < nearest[peer]), key=far)
                hops[peer] = 1 + hops[self.peer_numbers[ahead]]
            # The owner asks nobody. But if others ask it, it says what it knows at its nearest place.
            table[peer * count + target] = 0 if target in own[peer] else hops[peer]


class Walks:
    """Lookups on a ring, step by step, as the peers answer."""

    def __init__(self, model: RingModel) -> None:
        self._rings: list[list[RingMember]] = [[] for _ in range(model.peers)]
        self._numbers = model.numbers
        for number, ring in enumerate(model.rings()):
            self._rings[model.peer_numbers[number]].append(ring)

    def count_known(self, peer: int) -> int:
        """Members that a peer knows: successors and fingers of all its places."""
        return len({member for ring in self._rings[peer] for member in (*ring.successors, *ring.fingers.values())})

    def hops(self, peer: int, place: int) -> int:
        """Questions until somebody names the owner."""
        if any(
            ring.predecessor and is_within(ring.predecessor.place, place, ring.me.place) for ring in self._rings[peer]
        ):
            return 0
        hops = 0
        while (step := step_from(self._rings[peer], place)).via is None:
            peer = self._numbers[step.members[0].peer]
            hops += 1
        return hops


def state_keys(machine: PathMachine) -> list[str]:
    """By state: its key, as peers have it."""
    parents, numbers, _, _ = machine.columns()
    texts = [EPSILON if label is None else label_of(*label) for label in machine.labels()]
    keys = [""] * len(parents)
    # Nothing is ever removed here, so parents come before their children.
    for state in range(1, len(parents)):
        keys[state] = f"{keys[parents[state]]}/{texts[numbers[state]]}"
    return keys


def state_places(machine: PathMachine) -> list[int]:
    """By state: where its key is on the ring, whoever is there."""
    return [place_of(key) for key in state_keys(machine)]


def place_of(key: str, copy: int = 0) -> int:
    """Where the key of a state is on the ring; or that copy of it, which load-shedding has made."""
    return place_of_text(f"key {key}#{copy}" if copy else f"key {key}")
