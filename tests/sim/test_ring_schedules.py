"""Rings by script: what was acknowledged survives two lost disks, a peer that is away, and peers that lie.

The simulator itself takes no more disks than that.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.scripted_ring import ScriptedRing

from treecast.overlay.chord.chord_messages import Claim, Leaving, Member, Notify, member_of
from treecast.overlay.chord.nfa_peer import NfaPeer
from treecast.overlay.chord.nfa_settings import NfaSettings
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.peer import Effect, Send
from treecast.sim.chord.filter_scenario import FilterRun
from treecast.sim.chord.ring_network import RingNetwork
from treecast.sim.chord.scenario import ChordPlan, ChordRun, ChordScenario
from treecast.sim.faults import ANY, Crash, HostFault, LinkFault, Partition

pytestmark = pytest.mark.house

SUBSCRIPTIONS = 5


def expect_matches(ring: ScriptedRing, count: int) -> None:
    """Documents that only the ring can bring to these subscriptions."""
    for number in range(count):
        ring.publish(f"after {number}", topic=f"t{number}")
    ring.expect_all_delivered()


@pytest.mark.parametrize(("lost", "away"), [((5, 2), 1), ((3, 5), 2), ((2, 4), 6), ((4, 6), 3), ((3, 6), 5)])
def test_a_subscription_is_acknowledged_when_two_disks_may_go(lost: tuple[int, int], away: int) -> None:
    """While a peer cannot be reached that is to hold copies, those who have something may not be enough. Numbers are
    those of peers that are next to each other on the ring, or not."""
    ring = ScriptedRing(7)
    begin_ms = ring.now_ms
    others = [peer for peer in ring.peers if peer != ring.peers[away]]
    ring.world.schedule([Partition([[ring.peers[away]], others], begin_ms, begin_ms + 8_000)])
    readers = [ring.subscribe(ring.peers[0], f"q{number}", f"t{number}") for number in range(10)]
    acknowledged = 0
    while acknowledged < len(readers):
        ring.run(5)
        before, acknowledged = acknowledged, sum(reader.since_us > 0 for reader in readers)
        for number in lost if acknowledged > before else ():
            ring.crash(ring.peers[number], 100, loses_disk=True)
    expect_matches(ring, 10)


@pytest.mark.parametrize("seed", range(3))
def test_a_subscription_is_acknowledged_when_its_entries_are_on_disks(seed: int) -> None:
    """And not when peers have them in memory."""
    ring = ScriptedRing(5, seed=seed)
    begin_ms = ring.now_ms
    ring.world.schedule([HostFault("slow-disk", peer, begin_ms, begin_ms + 60_000, 300) for peer in ring.peers[1:]])
    for number in range(SUBSCRIPTIONS):
        ring.subscribe_and_wait(ring.peers[0], f"q{number}", f"t{number}", step_ms=1)
        for peer in ring.peers[1:]:
            ring.crash(peer, 100)
        ring.run(5_000)
    expect_matches(ring, SUBSCRIPTIONS)


@pytest.mark.parametrize(("peers", "victim"), [(4, 2), (4, 3), (5, 2), (5, 3), (5, 4), (7, 3), (7, 5), (7, 6)])
def test_documents_get_everywhere_while_one_peer_is_away(peers: int, victim: int) -> None:
    """Others have copies of what it has, and know what it knew of the ring."""
    ring = ScriptedRing(peers)
    for number in range(SUBSCRIPTIONS):
        ring.subscribe_and_wait(ring.peers[0], f"q{number}", f"t{number}")
    ring.crash(ring.peers[victim], 120_000)
    for reader in ring.readers.values():
        ring.attach(reader)
    for number in range(SUBSCRIPTIONS):
        (publication,) = ring.publish_and_wait("1", topic=f"t{number}")
        assert not publication.partial, "all could be reached"
    ring.run(1_000)
    assert not ring.missing() and not ring.world.hosts[ring.peers[victim]].is_up


def test_a_peer_may_leave_while_it_makes_copies_of_a_state() -> None:
    """The state belongs to another peer then, which filters as before."""
    settings = NfaSettings(shed_rate=0.1, shed_documents_min=2, shed_copies=2)
    network = RingNetwork(1, 6, ChordSettings(base=("p0", "p1", "p2", "p3")), settings)
    network.subscribe("p0", "all", "/n")
    network.settle()
    leaving = "p5"
    assert network.peer(leaving).entries.owner_of("") is not None
    begin_ms = network.world.now_us // 1000
    network.world.schedule([HostFault("slow-disk", name, begin_ms, begin_ms + 5_000, 200) for name in network.names])
    for _ in range(2):
        network.publish("p1", b"<n/>")
    counts = network.peer(leaving).counts
    network.wait("copies", lambda: counts["copy messages"] > 0)
    assert not counts["states with copies"], "they are not stored yet"
    network.call(leaving, lambda peer, now_ms: peer.leave(now_ms))
    network.world.run(network.world.now_us // 1000 + 5_000)
    published, matches = network.publish("p1", b"<n/>")
    assert network.world.failure is None and published.is_complete and matches == [("p0", "all")]


@pytest.mark.parametrize("seed", [3, 5, 8])
def test_a_peer_with_several_places_comes_back_after_it_left(seed: int) -> None:
    """It leaves while nobody hears it, so others send it to itself, and it does not answer. Two of its places are next
    to each other: it joins the ring at the second one only if it believes what it says of the first."""
    base, guest = ("p0", "p1", "p2", "p3"), "p7"
    settings = ChordSettings(base=base, members=3, stabilise_ms=1_500, offer_ms=100)
    writes = [(500 + 20 * number, "p0") for number in range(40)]
    plan = ChordPlan([*base, guest], settings, 8_000, [(0, guest), (5_000, guest)], [(4_000, guest)], writes, [])
    run = ChordRun(seed, plan)
    run.play([Partition([[guest], list(base)], 3_990, 4_020)])
    assert run.world.failure is None, run.world.failure


class Liar:
    """A `Peer` that is no member, and speaks in the names of all others, and of some that never were."""

    name = "liar"
    is_member = False
    members: tuple[Any, ...] = ()

    def __init__(self, plan: ChordPlan, random: Random) -> None:
        self._hosts = plan.hosts
        self._places = plan.settings.members
        self._random = random

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for host in self._hosts:
            for other in (*self._hosts, "nobody"):
                for index in range(self._places):
                    member = member_of(other, index)
                    effects += [Send(host, Leaving(member)), Send(host, self._claim(member))]
                    effects += [Send(host, Notify(index, member)) for index in range(self._places)]
            # In its own name it may speak, but not of a place that it has chosen.
            chosen = Member(self._random.getrandbits(62), self.name, 0)
            effects += [Send(host, self._claim(chosen)), Send(host, Notify(0, chosen)), Send(host, Leaving(chosen))]
        return effects

    def _claim(self, owner: Member) -> Claim:
        """That all keys are the owner's."""
        return Claim(self._random.getrandbits(62), owner, owner.place, 0, 0, 0, 0)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_what_a_liar_says_in_the_names_of_others_changes_nothing(seed: int) -> None:
    """The ring becomes what it should be, all entries are where they belong, and lookups are right."""
    scenario = ChordScenario()
    run = ChordRun(seed, scenario.plan(seed))
    run.world.add_host(Liar.name, lambda _, random: Liar(run.plan, random))
    run.play(scenario.faults(seed))
    assert run.world.failure is None, run.world.failure


# --- the simulator's own bound ----------------------------------------------------------------------------------------


def lose_disks_of_all_but(writer: str, run: ChordRun, answers_ms: int) -> None:
    """A write, an answer to the writer that takes so long, and a lost disk every 50 ms."""
    losses = [Crash(host, 1_100 + 50 * number, 1, True) for number, host in enumerate(run.plan.hosts) if host != writer]
    run.play([LinkFault("delay", ANY, writer, 900, 2_000, answers_ms), *losses])
    assert run.world.failure is None, run.world.failure
    assert run.counts["crashes"] == 3 and run.counts["lost disks"] == 2


def one_write_by(writer: str) -> ChordPlan:
    """Four peers, of which three have what is written. None is taken for dead while its answer is late."""
    hosts = [f"p{number}" for number in range(4)]
    return ChordPlan(hosts, ChordSettings(base=tuple(hosts), probe_ms=1_000), 3_000, [], [], [(1_000, writer)], [])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_entry_counts_while_its_acknowledgement_is_on_its_way(seed: int) -> None:
    """Three disks have it when the owner answers. Only two of them are lost before the writer hears of it."""
    run = ChordRun(seed, one_write_by("p0"))
    lose_disks_of_all_but("p0", run, answers_ms=500)
    assert len(run.acknowledged) == 1


def test_entries_of_subscriptions_count_too() -> None:
    """Its host keeps its disk, and two of the three others may lose theirs."""
    run = FilterRun(5, one_write_by("p2"), NfaPeer)
    lose_disks_of_all_but("p2", run, answers_ms=0)
    assert run.counts["subscribed"] == 1 and run.counts["matches"] > 0
