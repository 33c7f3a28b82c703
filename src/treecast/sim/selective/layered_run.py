"""What runs of selective publishing have in common: a source, brokers in levels below it, and a quiet end.

The scenarios differ in what is published and in who receives it. Each says so in a class on this base: which elements
are still missing, and how many were sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from treecast.sim.frames import PacketCodec
from treecast.sim.selective.selective_plan import SOURCE
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

HEALING_MS_MAX = 60_000
STEP_MS = 250
QUIET_MS = 2_000
QUIET_STEPS_MAX = 20
StartBroker = Callable[[str, SimulatedStorage, Random], Any]


class LayeredPlan(Protocol):
    """The part of a plan that is about brokers."""

    @property
    def levels(self) -> Sequence[Sequence[str]]: ...
    @property
    def joins(self) -> Mapping[str, int]: ...
    @property
    def duration_ms(self) -> int: ...
    def brokers(self) -> list[str]: ...


class LayeredRun(ABC):
    """One run: the world, counts of what happened, and brokers in levels."""

    restlessness = "elements are sent again and again"
    """What to say of a run that never becomes quiet."""

    def __init__(self, seed: int, layers: LayeredPlan) -> None:
        self.world = World(seed, PacketCodec())
        self.counts: Counter[str] = Counter()
        self._layers = layers

    def _add_brokers(self, start_broker: StartBroker) -> None:
        """Start them now, or when they join."""
        for name in self._layers.brokers():
            start = partial(self.world.add_host, name, partial(start_broker, name))
            if name in self._layers.joins:
                self.world.at(self._layers.joins[name] * 1000, self._join, start)
            else:
                start()

    def _join(self, start: Callable[[], Any]) -> None:
        self.counts["joins"] += 1
        start()

    def _rank(self, name: str) -> int:
        return next(rank for rank, level in enumerate(self._layers.levels, 1) if name in level)

    def _brokers_of(self, rank: int, asking: str = "") -> list[str]:
        """The brokers of a level. Those that join later are not known beforehand, except to others that join later."""
        if rank == 0:
            return [SOURCE]
        levels, joins = self._layers.levels, self._layers.joins
        level = levels[rank - 1] if rank <= len(levels) else []
        return [name for name in level if name not in joins or asking in joins]

    def _neighbours_of(self, name: str) -> list[str]:
        rank = self._rank(name)
        return [*self._brokers_of(rank - 1, name), *self._brokers_of(rank + 1, name)]

    def _finish(self) -> None:
        """End all faults. Everything has to arrive, and then the network has to become quiet."""
        self.world.run(self._layers.duration_ms)
        self.world.heal()
        end_ms = self._layers.duration_ms
        while self.world.failure is None and self._missing():
            end_ms += STEP_MS
            if end_ms > self._layers.duration_ms + HEALING_MS_MAX:
                self.world.fail(f"something never arrives: {self._missing()}")
            self.world.run(end_ms)
        self._check_quiet(end_ms)

    def _check_quiet(self, end_ms: int) -> None:
        """Links may still settle for a while; then nothing is sent."""
        for _ in range(QUIET_STEPS_MAX):
            if self.world.failure is not None:
                return
            before = self._elements_sent()
            end_ms += QUIET_MS
            self.world.run(end_ms)
            if self._elements_sent() == before and self._is_settled():
                return
        self.world.fail(self.restlessness)

    def _is_settled(self) -> bool:
        """Whether the network could be quiet, apart from what is sent."""
        return True

    @abstractmethod
    def _missing(self) -> list[str]:
        """What has not arrived yet."""

    @abstractmethod
    def _elements_sent(self) -> int:
        """By the source and all brokers, so far."""
