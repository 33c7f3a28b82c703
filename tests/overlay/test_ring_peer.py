"""Peers of a ring that serve clients, in the simulated world: what an answer means, whatever crashes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from treecast.document import read
from treecast.overlay.broker.rows import SUBSCRIPTIONS, SubscriptionRow, encode
from treecast.overlay.chord import ChordSettings, NfaPeer, NfaSettings
from treecast.overlay.chord.chord_messages import Find
from treecast.overlay.chord.events import ROOT, Events, EventTree
from treecast.overlay.chord.nfa_messages import NotifyHost, Satisfied
from treecast.overlay.chord.notifying import Match
from treecast.overlay.chord.ring_peer import RingPeer
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.chord.ring_subscriptions import own_id
from treecast.overlay.client import Answered, Client, ClientSettings
from treecast.overlay.messages import (
    Detach,
    Document,
    Publish,
    RegisterSource,
    Subscribe,
    SubscribeMany,
    SubscriptionOptions,
    Unsubscribe,
)
from treecast.overlay.peer import Deliver, Peer, Send, Store
from treecast.overlay.receiver import Delivered
from treecast.overlay.storage import Put
from treecast.sim.faults import Partition
from treecast.sim.frames import PacketCodec
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

pytestmark = pytest.mark.house

NAMES = [f"10.0.0.{number}:7501" for number in range(1, 6)]
CHORD = ChordSettings(base=tuple(NAMES[:3]), replicas=2)
RING = RingSettings(again_ms=500, again_ms_max=1_000)
NFA = NfaSettings(attempts_max=2, notify_attempts_max=1, shed_rate=1.0)
WAIT_MS_MAX = 120_000
SOURCE = "default"


class RingWorld:
    """Five peers, and clients of them, which do not crash."""

    def __init__(self, seed: int = 1, settings: RingSettings = RING) -> None:
        self.world = World(seed, PacketCodec())
        self.answers: dict[tuple[str, int], Answered] = {}
        self.deliveries: dict[str, list[str]] = {}
        self._settings = settings
        for name in NAMES:
            self.world.add_host(name, partial(self._start_peer, name), lambda event: None)
        for name in NAMES:
            client = f"client of {name}"
            self.world.add_host(client, partial(self._start_client, name), partial(self._take, name))
            self.call_client(name, lambda client, now_ms: client.connected(now_ms))
        self.wait(lambda: all(self.peer(name).is_settled() for name in NAMES))
        for name in NAMES:
            self.ask(name, RegisterSource(SOURCE))

    def _start_peer(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        return RingPeer(name, storage, random, CHORD, NFA, self._settings)

    def _start_client(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        return Client(f"client of {name}", name, random, ClientSettings(request_ms=500, request_ms_max=2_000))

    def _take(self, name: str, event: Any) -> None:
        if isinstance(event, Answered):
            self.answers[name, event.ticket] = event
        elif isinstance(event, Delivered):
            for one in event.deliveries:
                self.deliveries.setdefault(one.subscription, []).append(one.payload.decode())
            client = self.world.hosts[f"client of {name}"]
            client.call(lambda peer, now_ms: peer.acknowledge(event.deliveries, now_ms))

    def peer(self, name: str) -> Any:
        return self.world.hosts[name].peer

    def call_client(self, name: str, action: Callable[[Any, int], Any]) -> Any:
        return self.world.hosts[f"client of {name}"].call(action)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        end_ms = self.world.now_us // 1000 + WAIT_MS_MAX
        while not is_reached():
            now_ms = self.world.now_us // 1000
            assert self.world.failure is None and now_ms < end_ms, self.world.failure
            self.world.run(now_ms + 20)

    def run(self, ms: int) -> None:
        self.world.run(self.world.now_us // 1000 + ms)

    def request(self, name: str, command: Any) -> Callable[[], Answered | None]:
        """Ask, and do not wait; returns how to look for the answer."""
        tickets: list[int] = []

        def ask(client: Any, now_ms: int) -> Any:
            ticket, effects = client.request(command, now_ms)
            tickets.append(ticket)
            return effects

        assert self.call_client(name, ask)
        return lambda: self.answers.get((name, tickets[0]))

    def ask(self, name: str, command: Any) -> Answered:
        look = self.request(name, command)
        self.wait(lambda: look() is not None)
        answer = look()
        assert answer is not None
        return answer

    def subscribe(self, name: str, id: str, query: str, **options: int) -> None:
        answer = self.ask(name, Subscribe(id, query, options=SubscriptionOptions(**options)))
        assert not answer.refusals
        self.call_client(name, lambda client, now_ms: client.attach([id], now_ms)[1])

    def publish(self, name: str, body: str, id: str = "") -> Answered:
        return self.ask(name, publish_of(body, id))


def publish_of(body: str, id: str = "") -> Publish:
    return Publish(SOURCE, [Document(body.encode(), id)])


def test_complete_means_that_hosts_have_it_on_disk() -> None:
    ring = RingWorld()
    ring.subscribe(NAMES[3], "q", "/a//b")
    ring.subscribe(NAMES[4], "tree", "/a[c]/b")
    assert ring.publish(NAMES[0], "<a><c/><b/></a>").partial == []
    # Nothing that happens from now on can take it away: neither here nor at the host is anything in memory only.
    for name in (NAMES[0], NAMES[3], NAMES[4]):
        ring.world.hosts[name].crash(100)
    ring.wait(lambda: ring.deliveries == {"q": ["<a><c/><b/></a>"], "tree": ["<a><c/><b/></a>"]})
    assert ring.publish(NAMES[0], "<x/>").partial == []
    assert len(ring.deliveries["q"]) == 1


def test_a_document_that_does_not_get_everywhere_is_filtered_again() -> None:
    ring = RingWorld()
    ring.subscribe(NAMES[3], "q", "/a")
    ring.subscribe(NAMES[4], "other", "/a/b")
    fault = Partition([[NAMES[3], f"client of {NAMES[3]}"], [name for name in NAMES if name != NAMES[3]]], 0, 0)
    ring.world.network.begin(fault)
    answer = ring.publish(NAMES[0], "<a><b/></a>")
    assert answer.partial is not None and NAMES[3] in answer.partial[0].unreachable
    assert ring.deliveries == {"other": ["<a><b/></a>"]}
    ring.world.hosts[NAMES[0]].crash(100)  # what is not through is on disk
    ring.run(1_000)
    assert len(ring.peer(NAMES[0]).documents) == 1
    ring.world.network.end(fault)
    ring.wait(lambda: ring.deliveries.get("q") == ["<a><b/></a>"])
    ring.wait(lambda: len(ring.peer(NAMES[0]).documents) == 0)
    assert ring.deliveries["other"] == ["<a><b/></a>"]  # each host takes a document once


def test_a_document_is_given_up_when_it_is_old() -> None:
    ring = RingWorld(settings=RingSettings(again_ms=500, again_ms_max=1_000, give_up_ms=3_000))
    ring.subscribe(NAMES[3], "q", "/a")
    fault = Partition([[NAMES[3], f"client of {NAMES[3]}"], [name for name in NAMES if name != NAMES[3]]], 0, 0)
    ring.world.network.begin(fault)
    assert ring.publish(NAMES[0], "<a/>").partial
    ring.wait(lambda: ring.peer(NAMES[0]).documents.given_up == 1)
    assert len(ring.peer(NAMES[0]).documents) == 0


def test_a_crash_between_storing_and_answering_loses_nothing() -> None:
    """The client asks again, and is answered when the document is through."""
    ring = RingWorld()
    ring.subscribe(NAMES[3], "q", "/a")
    for number in range(4):
        look = ring.request(NAMES[0], publish_of(f"<a>{number}</a>"))
        ring.run(5 + 10 * number)
        ring.world.hosts[NAMES[0]].crash(300)
        ring.wait(lambda look=look: look() is not None)  # type: ignore[misc]
        answer = look()
        assert answer is not None and answer.partial == []
    ring.wait(lambda: sorted(set(ring.deliveries["q"])) == [f"<a>{number}</a>" for number in range(4)])
    assert len(ring.deliveries["q"]) == 4


def test_a_changed_subscription_is_never_without_states() -> None:
    ring = RingWorld()
    ring.subscribe(NAMES[3], "q", "/a")
    change = ring.request(NAMES[3], Subscribe("q", "/a[b]"))
    while change() is None:
        ring.publish(NAMES[0], "<a><b/></a>")
    count = ring.peer(NAMES[0]).documents.complete
    ring.wait(lambda: len(ring.deliveries["q"]) == count)
    ring.publish(NAMES[0], "<a/>")
    ring.run(2_000)
    nfa = ring.peer(NAMES[3]).nfa
    assert [own_id(each) for each in nfa.indexing.subscriptions] == ["q"]
    assert len(ring.deliveries["q"]) == count


def test_what_is_removed_or_expires_leaves_the_ring() -> None:
    ring = RingWorld()
    ring.subscribe(NAMES[3], "removed", "/a/b")
    answer = ring.ask(NAMES[4], Subscribe("expires", "/a/c", options=SubscriptionOptions(expires_ms=1_000)))
    assert not answer.refusals
    assert not ring.ask(NAMES[3], Unsubscribe("removed")).refusals
    ring.wait(lambda: not any(ring.peer(name).nfa.indexing.subscriptions for name in NAMES))
    assert ring.publish(NAMES[0], "<a><b/><c/></a>").partial == [] and ring.deliveries == {}


def test_a_refused_subscription_leaves_nothing() -> None:
    ring = RingWorld()
    assert ring.ask(NAMES[0], Subscribe("q", "/a[")).refusals[0].code.startswith("TC1")
    ring.subscribe(NAMES[0], "there", "/a")
    both = SubscribeMany([Subscribe("new", "/a/b"), Subscribe("there", "/a/c")])
    assert ring.ask(NAMES[0], both).refusals  # all or none
    ring.wait(lambda: [own_id(each) for each in ring.peer(NAMES[0]).nfa.indexing.subscriptions] == ["there"])
    assert len(ring.peer(NAMES[0]).subscriptions) == 0


def test_subscriptions_of_a_broker_come_along() -> None:
    """A broker's data directory may become that of a peer."""
    storage = SimulatedStorage()
    row = SubscriptionRow("/a", {}, False, "document", SubscriptionOptions(), 1, 0)
    storage.write([Put(SUBSCRIPTIONS, "old", encode(row))])
    peer = RingPeer(NAMES[0], storage, Random(1), CHORD, NFA)
    peer.tick(1_000)
    assert [own_id(each) for each in peer.nfa.indexing.subscriptions] == ["old"]


def test_only_peers_speak_for_the_ring() -> None:
    peer = RingPeer(NAMES[0], SimulatedStorage(), Random(1), CHORD, NFA, allow=("10.0.0.*",))
    for name in ("alice", "192.168.0.9:7501"):
        effects = peer.receive(name, Find(1, 5), 0)
        (refused,) = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == name]
        assert isinstance(refused, Detach) and refused.reason.startswith("TC611")
        again = peer.receive(name, Find(2, 5), 10)
        assert not [effect for effect in again if isinstance(effect, Send) and effect.to == name]
    assert any(isinstance(effect, Send) and effect.to == NAMES[4] for effect in peer.receive(NAMES[4], Find(3, 5), 20))
    assert peer.stats()["strangers"] == 4


def test_parts_of_a_pattern_survive_a_crash_of_the_host() -> None:
    """They were answered, so nobody would tell them again."""
    storage = SimulatedStorage()
    document = EventTree(Events.of(read(b"<a><c/><b/></a>")))
    (c, b) = document.children(document.children(ROOT)[0])
    effects = make_host(storage).subscribe("q", "/a[c]/b", now_ms=0)
    storage.write([change for effect in effects if isinstance(effect, Store) for change in effect.changes])
    plan = make_host(storage).indexing.subscriptions["q"].plan
    ends = {part.steps[-1].label: number for number, part in enumerate(plan.parts)}
    matches: list[Match] = []
    for nonce, (label, element) in enumerate([("{}c", c), ("{}b", b)]):
        host = make_host(storage)  # it has crashed
        satisfied = Satisfied("q", ends[label], list(document.chain(element)))
        for effect in host.receive(NAMES[4], NotifyHost(nonce, "d", NAMES[2], [satisfied]), 10):
            if isinstance(effect, Store):
                storage.write(effect.changes)
            elif isinstance(effect, Deliver):
                matches.append(effect.event)
    assert matches == [Match("d", NAMES[2], "q")]


def make_host(storage: SimulatedStorage) -> NfaPeer:
    return NfaPeer(NAMES[0], storage, Random(1), CHORD)
