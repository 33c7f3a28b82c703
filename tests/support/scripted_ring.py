"""A ring by script: peers that serve clients, in the simulated world.

    ring = ScriptedRing(5)
    ring.subscribe_and_wait("10.0.0.1:75", "all")
    ring.crash("10.0.0.4:75", down_ms=60_000)
    ring.publish_and_wait("1")
    ring.expect_all_delivered()

Documents are published at the second peer, so that they have to find their subscribers at others. All peers belong to
the base: none is taken for dead, whatever happens to it.
"""

from __future__ import annotations

from functools import partial
from random import Random

from support.script import SOURCE, Script
from treecast.index import Index
from treecast.overlay.chord import ChordSettings
from treecast.overlay.chord.ring_peer import RingPeer
from treecast.overlay.messages import RegisterSource
from treecast.overlay.peer import Peer
from treecast.sim.storage import SimulatedStorage

WAIT_MS = 5_000


class ScriptedRing(Script):
    """Entries are on three disks. A peer's name is its address."""

    def __init__(self, peers: int, *, seed: int = 1) -> None:
        super().__init__(seed)
        self.peers = [f"10.0.0.{number}:75" for number in range(1, peers + 1)]
        self._chord = ChordSettings(base=tuple(self.peers), replicas=3)
        for name in self.peers:
            self.world.add_host(name, partial(self._start, name), batches=False)
        self.run(WAIT_MS)
        self.ask(self.root, RegisterSource(SOURCE))
        self.wait_for_answers()

    @property
    def root(self) -> str:
        return self.peers[1]

    def host_of(self, broker: str) -> str:
        return broker

    def _start(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        return RingPeer(name, storage, random, self._chord, index=Index(seed=random.getrandbits(32)))
