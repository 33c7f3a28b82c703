"""A ring of peers that filter, in a simulated world without faults unless they are given: for tests and experiments.

>>> from treecast.overlay.chord import ChordSettings, NfaSettings
>>> network = RingNetwork(1, 6, ChordSettings(base=("p0", "p1", "p2", "p3")), NfaSettings())
>>> network.subscribe("p5", "titles", "/news//title")
>>> network.settle()
>>> published, matches = network.publish("p3", b"<news><item><title/></item></news>")
>>> published.is_complete, matches
(True, [('p5', 'titles')])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from treecast.overlay.chord import ChordSettings, NfaPeer, NfaSettings
from treecast.overlay.chord.indexing import SubscriptionChange
from treecast.overlay.chord.nfa_peer import Method, Published
from treecast.overlay.chord.notifying import Match
from treecast.overlay.chord.ring import Watch
from treecast.overlay.peer import Peer
from treecast.sim.chord.ring_checks import ring_faults
from treecast.sim.frames import PacketCodec
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

WAIT_MS_MAX = 120_000
STEP_MS = 20


class RingNetwork:
    """Peers p0, p1, … of which the base exists at once, and the others join."""

    def __init__(
        self, seed: int, peers: int, settings: ChordSettings, nfa_settings: NfaSettings,
        world: World | None = None, watch: Watch | None = None, settle_ms: int = 0,
    ) -> None:  # fmt: skip
        """`settle_ms`: time until all fingers have been looked up, for those who count hops."""
        self.world = world or World(seed, PacketCodec())
        self.settings = settings
        self.nfa_settings = nfa_settings
        self.names = [f"p{number}" for number in range(peers)]
        self.matches: list[tuple[str, Match]] = []
        self.published: dict[str, Published] = {}
        self.changes: list[tuple[str, SubscriptionChange]] = []
        self._watch = watch
        self._changes_expected = 0
        for name in self.names:
            self.world.add_host(name, partial(self._start, name), partial(self._take, name))
        for name in self.names:
            if name not in settings.base:
                self.call(name, lambda peer, now_ms: peer.join(now_ms))
        self.wait("a ring", lambda: not self.ring_faults())
        self.wait("comparisons", lambda: all(map(self._is_ready, self.names)))
        self.world.run(self.world.now_us // 1000 + settle_ms)

    def _start(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        return NfaPeer(name, storage, random, self.settings, self._watch, self.nfa_settings)

    def _is_ready(self, name: str) -> bool:
        peer = self.peer(name)
        return all(peer.entries.is_range_ready(ring) for ring in peer.members)

    def peer(self, name: str) -> Any:
        return self.world.hosts[name].peer

    def call(self, name: str, action: Callable[[Any, int], Any]) -> bool:
        return self.world.hosts[name].call(action)

    def _take(self, name: str, event: Any) -> None:
        if isinstance(event, Match):
            self.matches.append((name, event))
        elif isinstance(event, Published):
            self.published[event.document] = event
        elif isinstance(event, SubscriptionChange):
            self.changes.append((name, event))

    def ring_faults(self) -> list[str]:
        rings = [ring for name in self.names for ring in (self.peer(name).members if self.peer(name) else ())]
        return [f"{ring.me} is no member" for ring in rings if not ring.is_member] or ring_faults(rings)

    def wait(self, what: str, is_reached: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        end_ms = self.world.now_us // 1000 + WAIT_MS_MAX
        while not is_reached():
            now_ms = self.world.now_us // 1000
            if self.world.failure is not None or now_ms >= end_ms:
                raise AssertionError(f"no {what}: {self.world.failure}")
            self.world.run(now_ms + STEP_MS)

    # -- what applications do

    def subscribe(
        self, host: str, id: str, query: str, namespaces: Mapping[str, str] | None = None, ordered: bool = False
    ) -> None:
        self._changes_expected += 1
        self.call(
            host,
            lambda peer, now_ms: peer.subscribe(id, query, namespaces=namespaces, ordered=ordered, now_ms=now_ms),
        )

    def unsubscribe(self, host: str, id: str) -> None:
        self._changes_expected += 1
        self.call(host, lambda peer, now_ms: peer.unsubscribe(id, now_ms))

    def settle(self) -> None:
        """Wait until all changes of subscriptions are acknowledged."""
        self.wait("acknowledgements", lambda: len(self.changes) >= self._changes_expected)

    def publish(
        self, publisher: str, body: bytes, method: Method = "recursive", id: str = ""
    ) -> tuple[Published, list[tuple[str, str]]]:
        """Publish a document, wait until it is through, and return the hosts and subscriptions that it matches."""
        id = id or f"document {len(self.published)}"
        before = len(self.matches)
        self.call(publisher, lambda peer, now_ms: peer.publish(body, id=id, method=method, now_ms=now_ms))
        self.wait(f"end of {id}", lambda: id in self.published)
        matches = [(host, match.subscription) for host, match in self.matches[before:] if match.document == id]
        return self.published[id], matches

    def counts(self) -> Counter[str]:
        """What all peers have sent, by kind."""
        total: Counter[str] = Counter()
        for name in self.names:
            if self.peer(name) is not None:
                total.update(self.peer(name).counts)
        return total
