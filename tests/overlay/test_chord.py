"""Places on the ring, lookups in rings of many peers, and entries that merge."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest

from treecast.overlay.chord.calls import Calls
from treecast.overlay.chord.chord_messages import Entry, Member, member_of
from treecast.overlay.chord.chord_peer import ChordPeer
from treecast.overlay.chord.identifiers import BITS, RING, distance, is_between, is_within, place_of_key
from treecast.overlay.chord.lookup import step_from
from treecast.overlay.chord.ring import RingMember, StableBase
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.chord.shelf import Shelf
from treecast.sim.storage import SimulatedStorage

pytestmark = pytest.mark.house

SETTINGS = ChordSettings(base=("p0", "p1", "p2", "p3"))


def test_between_is_strict_and_goes_round() -> None:
    assert is_between(RING - 2, 1, 3) and not is_between(1, 1, 3) and not is_between(1, 3, 3)
    assert is_within(1, 3, 3) and not is_within(1, 1, 3)
    assert is_between(5, 6, 5) and not is_between(5, 5, 5) and is_within(5, 5, 5)


def test_settings_want_a_stable_base() -> None:
    with pytest.raises(ValueError, match="at least 4 peers"):
        ChordSettings(base=("p0", "p1", "p2"))


def ideal_ring(names: list[str], settings: ChordSettings) -> dict[Member, RingMember]:
    """A ring after it has become quiet, with all fingers."""
    base = StableBase(settings)
    calls = Calls("p0", Random(0), lambda to, message: None, 10)
    members = sorted((member_of(name) for name in names), key=lambda member: member.place)
    rings = {}
    for number, member in enumerate(members):
        ring = rings[member] = RingMember(member, base, settings, calls, lambda to, message: None, lambda ring: None)
        ring.begin([members[(number + step) % len(members)] for step in (1, 2, 3)], members[number - 1])
        while (finger := ring.next_finger()) is not None:
            exponent, place = finger
            ring.set_finger(exponent, min(members, key=lambda other: distance(place, other.place)))
    return rings


def hops_of(rings: dict[Member, RingMember], start: Member, place: int) -> tuple[Member, int]:
    member, hops = start, 0
    while True:
        step = step_from([rings[member]], place)
        if step.via is not None:
            return step.members[0], hops
        member, hops = step.members[0], hops + 1


def test_lookups_are_right_and_hops_grow_as_the_logarithm() -> None:
    random = Random(1)
    means = []
    for count in (25, 100, 400):
        rings = ideal_ring([f"p{number}" for number in range(count)], SETTINGS)
        members, total = list(rings), 0
        for _ in range(300):
            place = random.randrange(RING)
            owner, hops = hops_of(rings, random.choice(members), place)
            assert owner == min(members, key=lambda member: distance(place, member.place))
            total += hops
        means.append(total / 300)
        assert max(len(ring.fingers) for ring in rings.values()) < 4 * math.log2(count)
    # Half a hop more for each doubling.
    assert all(0.5 < later - earlier < 1.5 for earlier, later in pairwise(means))


def test_entries_merge_in_any_order() -> None:
    entries = [Entry("/a", "q", version, b"%d" % version, version == 3) for version in (1, 2, 3)]
    entries += [Entry("/b", "q", 1, b"x"), Entry("/a", "r", 1, b"y")]
    digests = set()
    for seed in range(6):
        shelf = Shelf(SimulatedStorage())
        shuffled = entries * 2
        Random(seed).shuffle(shuffled)
        for entry in shuffled:
            shelf.merge([entry], now_ms=0)
        digests.add(shelf.digest(0, 0))
        assert shelf.entry("/a", "q") == entries[2]
    assert len(digests) == 1


def test_ranges_go_round_the_ring() -> None:
    shelf = Shelf(SimulatedStorage())
    keys = [f"/{number}" for number in range(20)]
    shelf.merge([Entry(key, "q", 1) for key in keys], now_ms=0)
    random = Random(2)
    for _ in range(50):
        begin, end = random.randrange(RING), random.randrange(RING)
        expected = {key for key in keys if is_within(begin, place_of_key(key), end)}
        assert set(shelf.keys_within(begin, end)) == expected


def test_a_shelf_survives_and_forgets_what_was_removed() -> None:
    storage = SimulatedStorage()
    shelf = Shelf(storage, forget_ms=100)
    storage.write(shelf.merge([Entry("/a", "q", 50, b"x"), Entry("/a", "r", 50, is_removed=True)], now_ms=60)[0])
    assert len(Shelf(storage).entries("/a")) == 2
    storage.write(shelf.forget_removed(now_ms=200))
    assert [entry.id for entry in Shelf(storage).entries("/a")] == ["q"]
    # Who comes back after a long time does not bring it back.
    assert shelf.merge([Entry("/a", "r", 50, is_removed=True)], now_ms=200) == ([], [])


def test_the_base_never_leaves() -> None:
    peer = ChordPeer("p0", SimulatedStorage(), Random(1), SETTINGS)
    peer.tick(0)
    assert peer.leave(0) == [] and peer.is_member


def test_members_have_places_that_nobody_chooses() -> None:
    peer = ChordPeer("p0", SimulatedStorage(), Random(1), SETTINGS)
    ring = peer.members[0]
    present = ring.predecessor
    assert present is not None
    forged = Member((ring.me.place - 1) % RING, "p9", 0)
    ring.rectify(forged)
    assert ring.predecessor == present and BITS == 63
