"""Peers that talk at once and in order, with clocks that agree: for tests of what they say, not of faults.

One whose disk fails is made anew, as in the real runtime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from treecast.overlay.peer import Deliver, Effect, Peer, Send, Store
from treecast.overlay.storage import StorageError
from treecast.sim import SimulatedStorage

TICK_MS = 50
Factory = Callable[[SimulatedStorage, Random], Peer]


class PeerNetwork:
    """Messages between peers are handled one after the other. `cut` has pairs (sender, receiver) that do not hear."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.peers: dict[str, Any] = {}
        self.storages: dict[str, SimulatedStorage] = {}
        self.events: dict[str, list[Any]] = {}
        self.sent: list[tuple[str, str, Any]] = []
        """Everything, in order."""
        self.cut: set[tuple[str, str]] = set()
        self.failures: list[StorageError] = []
        """Of disks."""
        self._factories: dict[str, Factory] = {}
        self._queue: deque[tuple[str, str, Any]] = deque()
        self.places: Callable[[str], str] = lambda name: name
        """The peer that has the one of a name inside it."""
        self._starts = 0

    def add(self, name: str, factory: Factory) -> Any:
        self._factories[name] = factory
        self.storages[name] = SimulatedStorage()
        self.events[name] = []
        return self.start(name)

    def start(self, name: str) -> Any:
        self._starts += 1
        self.peers[name] = self._factories[name](self.storages[name], Random(self._starts))
        return self.peers[name]

    def stop(self, name: str) -> None:
        del self.peers[name]

    def lose_disk(self, name: str) -> None:
        self.storages[name].lose()

    def copy_disk(self, name: str) -> SimulatedStorage:
        """As it is now: for `put_back`."""
        return deepcopy(self.storages[name])

    def put_back(self, name: str, older: SimulatedStorage) -> None:
        """A peer starts again, with an older disk."""
        self.stop(name)
        self.storages[name] = older
        self.start(name)

    def do(self, name: str, effects: list[Effect]) -> None:
        """Let a peer's effects happen, and all that follows from them."""
        self._happen(name, effects)
        while self._queue:
            sender, to, message = self._queue.popleft()
            if sender != to:
                self.sent.append((sender, to, message))
            place = self.places(to)
            if place in self.peers and (self.places(sender), place) not in self.cut:
                try:
                    effects = self._tell(place, to, sender, message)
                except StorageError as error:
                    self.failures.append(error)
                    self.start(place)
                else:
                    self._happen(place, effects)

    def _tell(self, place: str, to: str, sender: str, message: Any) -> list[Effect]:
        if place == to:
            effects: list[Effect] = self.peers[place].receive(sender, message, self.now_ms)
        else:
            effects = self.peers[place].receive_for(to, sender, message, self.now_ms)
        return effects

    def _happen(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.storages[name].write(effect.changes)
            elif isinstance(effect, Send):
                self._queue.append((effect.sender or name, effect.to, effect.message))
            elif isinstance(effect, Deliver):
                self.events[name].append(effect.event)

    def tell(self, sender: str, to: str, message: Any) -> list[Any]:
        """Say something to a peer; returns what it answers to the sender, who need not exist."""
        before = len(self.sent)
        self.do(to, self.peers[to].receive(sender, message, self.now_ms))
        return [answer for by, receiver, answer in self.sent[before:] if by == to and receiver == sender]

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // TICK_MS):
            self.now_ms += TICK_MS
            for name in list(self.peers):
                if name in self.peers:
                    self.do(name, self.peers[name].tick(self.now_ms))

    def separate(self, one: str, other: str) -> None:
        self.cut |= {(one, other), (other, one)}
