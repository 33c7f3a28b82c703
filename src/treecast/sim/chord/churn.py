"""A ring whose peers come and go all the time: how many lookups are right meanwhile.

    >>> outcome = run_churn(seed=1, peers=12, seconds=20, session_s=20)
    >>> outcome.lookups > 30 and outcome.crashes > 3
    True

The base stays. The sessions of all others have an exponential length with the given median; a peer that crashes comes
back after a few seconds, and joins again. A lookup is right if its answer is the owner, among the members that are
alive, when it was asked or when it was answered. One that nobody answers is asked again, a few times.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial
from random import Random
from typing import Any

import msgspec

from treecast.overlay.chord import ChordPeer, ChordSettings
from treecast.overlay.chord.chord_messages import Step
from treecast.overlay.chord.identifiers import RING
from treecast.overlay.chord.ring import StableBase
from treecast.sim.chord.ring_checks import RingChecks
from treecast.sim.chord.scenario import ChordWorld
from treecast.sim.frames import PacketCodec
from treecast.sim.storage import SimulatedStorage

ATTEMPTS_MAX = 3
DOWN_MS_MAX = 5_000
LOOKUPS_PER_SECOND = 20
EVENTS_MAX = 100_000_000
"""A thousand peers take 24,000 in each second."""
JOIN_MS = 10_000
"""Time for a few peers to join, before anybody crashes;"""
JOIN_MS_EACH = 60
"""more for each of them: a ring grows by a few peers in each round of repairs."""


class ChurnOutcome(msgspec.Struct):
    """What happened in a run."""

    lookups: int = 0
    right: int = 0
    hops: int = 0
    crashes: int = 0
    checks: int = 0
    failure: str | None = None


class _Churn:
    def __init__(self, seed: int, peers: int, session_s: float) -> None:
        self.outcome = ChurnOutcome()
        self.world = ChordWorld(seed, PacketCodec(), trace_entries_max=10, events_max=EVENTS_MAX)
        self.settings = ChordSettings(base=("p0", "p1", "p2", "p3"))
        self.checks = RingChecks(StableBase(self.settings), self.world.fail)
        self._random = Random(f"{seed}/churn")
        self.begin_ms = JOIN_MS + JOIN_MS_EACH * peers
        self._rate = math.log(2) / session_s
        self.names = [f"p{number}" for number in range(peers)]
        for name in self.names:
            self.world.add_host(name, partial(self._start, name))
            if name not in self.settings.base:
                self.world.at(self._random.randrange(self.begin_ms * 800), self._join, name)

    def _start(self, name: str, storage: SimulatedStorage, random: Random) -> ChordPeer:
        return ChordPeer(name, storage, random, self.settings, self.checks.watch)

    def _join(self, name: str) -> None:
        self.world.hosts[name].call(lambda peer, now_ms: list(peer.join(now_ms)))
        self.world.at(self.begin_ms * 1000 + self._session_us(), self._crash, name)

    def _session_us(self) -> int:
        return int(self._random.expovariate(self._rate) * 1e6)

    def _crash(self, name: str) -> None:
        if self.world.hosts[name].is_up:
            self.outcome.crashes += 1
            down_us = self._random.randrange(DOWN_MS_MAX * 1000)
            self.world.hosts[name].crash(down_us)
            self.checks.remove_peer(name)
            self.world.after(down_us + self._session_us(), self._crash, name)

    def _owner(self, place: int) -> Any:
        members = self.checks.members
        return members[bisect_left(members, place, key=lambda member: member.place) % len(members)]

    def look_up(self) -> None:
        """From a peer that is a member, then again after a while."""
        self.world.after(1_000_000 // LOOKUPS_PER_SECOND, self.look_up)
        peers = [name for name in self.names if (peer := self._peer(name)) is not None and peer.is_member]
        place = self._random.randrange(RING)
        self._ask(self._random.choice(peers), place, self._owner(place), 1)

    def _peer(self, name: str) -> Any:
        return self.world.hosts[name].peer

    def _ask(self, name: str, place: int, owner: Any, attempt: int) -> None:
        def end(step: Step | None, hops: int) -> None:
            if step is None and attempt < ATTEMPTS_MAX:
                self.world.after(200_000, self._ask, name, place, owner, attempt + 1)
                return
            # Every lookup comes to an end, unless who asked crashes: then nobody waits, and it counts for nothing.
            self.outcome.lookups += 1
            self.outcome.hops += hops
            if step is not None and step.members[0] in (owner, self._owner(place)):
                self.outcome.right += 1

        self.world.hosts[name].call(lambda peer, now_ms: peer.find(place, end, now_ms))


def run_churn(seed: int, peers: int, seconds: int, session_s: float) -> ChurnOutcome:
    """So many peers for so many seconds, with sessions of this median length."""
    churn = _Churn(seed, peers, session_s)
    churn.world.run(churn.begin_ms)
    churn.look_up()
    churn.world.run(churn.begin_ms + seconds * 1000)
    churn.outcome.checks = churn.checks.checks
    churn.outcome.failure = churn.world.failure
    return churn.outcome
