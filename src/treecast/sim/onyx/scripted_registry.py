"""A registry by script: it sees which hosts are up, and hands out views, late, in any order, and some of them never.

It stands for the real one where that is not what is tested. It makes everything that a view may bring: brokers that are
missed late, taken for dead though they live, back before or after anybody noticed, and trees that change for no reason.
"""

from __future__ import annotations

from random import Random

from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.view import BrokerInfo, View, first_epoch
from treecast.sim.world import World

STEP_MS = 50

REGISTRY = "registry"
"""Its name. Nobody has to answer it, and it answers nobody."""


class ScriptedRegistry:
    """Makes views for these brokers; `roots` are those that have sources."""

    def __init__(self, world: World, brokers: list[str], roots: list[str]) -> None:
        self._world = world
        self._brokers = brokers
        self._roots = roots
        self._random = random = world.random_of(REGISTRY)
        self._detect_ms = random.choice([100, 400, 1_000])
        self._fan_out_max = random.choice([1, 2, 4])
        self._reshape_rate = random.choice([0.0, 0.0, 0.01, 0.05])
        self._suspect_rate = random.choice([0.0, 0.0, 0.005])
        self._loss = random.choice([0.0, 0.3])
        self._delay_ms = random.choice([1, 50, 400])
        self._down_ms = dict.fromkeys(brokers, 0)
        self._suspected_until_ms: dict[str, int] = {}  # until when, in milliseconds
        self.is_calm = False
        self.view = View()
        self.views = 0

    def begin(self) -> None:
        self._decide(list(self._brokers))
        self._step()

    def _step(self) -> None:
        now_ms = self._world.now_us // 1000
        for name in self._brokers:
            is_up = self._world.hosts[name].is_up
            self._down_ms[name] = 0 if is_up else self._down_ms[name] + STEP_MS
            if not self.is_calm and self._random.random() < self._suspect_rate:
                self._suspected_until_ms[name] = now_ms + self._random.randint(100, 1_500)
        if self.is_calm:
            self._suspected_until_ms.clear()
        live = [
            name
            for name in self._brokers
            if self._down_ms[name] < self._detect_ms and self._suspected_until_ms.get(name, 0) <= now_ms
        ]
        is_reshaped = not self.is_calm and self._random.random() < self._reshape_rate
        if live and (is_reshaped or live != list(self.view.brokers)):
            self._decide(live)
        for name in self._brokers:
            self._send(name)
        self._world.after(STEP_MS * 1000, self._step)

    def _decide(self, live: list[str]) -> None:
        self.views += 1
        trees = {root: _draw_tree(self._random, root, live, self._fan_out_max) for root in self._roots if root in live}
        self.view = View(first_epoch(1) + self.views, {name: BrokerInfo() for name in live}, trees)
        self._world.note("view", REGISTRY, self.view)

    def _send(self, name: str) -> None:
        """A broker that has an older view gets this one sooner or later."""
        peer = self._world.hosts[name].peer
        if peer is None or getattr(peer, "epoch", 0) >= self.view.epoch:
            return
        if not self.is_calm and self._random.random() < self._loss:
            return
        delay_ms = 1 if self.is_calm else self._random.randint(1, self._delay_ms)
        self._world.after(delay_ms * 1000, self._arrive, name, self.view)

    def _arrive(self, name: str, view: View) -> None:
        self._world.hosts[name].call(lambda peer, now_ms: peer.receive(REGISTRY, NewView(view), now_ms))


def _draw_tree(random: Random, root: str, live: list[str], fan_out_max: int) -> dict[str, str]:
    """The parent of each broker but the root; none has more children than that."""
    others = [name for name in live if name != root]
    random.shuffle(others)
    parents: dict[str, str] = {}
    room = {root: fan_out_max}
    for name in others:
        parent = random.choice(list(room))
        parents[name] = parent
        room[parent] -= 1
        if not room[parent]:
            del room[parent]
        room[name] = fan_out_max
    return parents
