"""A world in which brokers change hosts: what is for a broker goes where its sender believes it to be served.

A host loses its disk only where a run says that it may: whoever serves alone and loses its disk loses data, and no
checker can ask for it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from treecast.sim.faults import Crash
from treecast.sim.frames import PacketCodec
from treecast.sim.network import Network
from treecast.sim.world import World


class RoutedWorld(World):
    """A run sets these functions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, PacketCodec())
        self.network = _RoutedNetwork(self, PacketCodec())
        self.place_of: Callable[[str, str], str | None] = lambda sender, receiver: receiver
        """The machine to which something for a peer is sent; None: nowhere."""
        self.may_lose_disk: Callable[[str], bool] = lambda host: False
        self.on_send: Callable[[str, Any], None] = lambda sender, message: None
        self.lost_disks = 0

    def _crash(self, fault: Crash) -> None:
        loses_disk = fault.loses_disk and self.may_lose_disk(fault.host)
        self.lost_disks += loses_disk and self.hosts[fault.host].is_up
        super()._crash(msgspec.structs.replace(fault, loses_disk=loses_disk))


class _RoutedNetwork(Network):
    def send(self, sender: str, receiver: str, messages: Sequence[Any], speaker: str = "", to: str = "") -> None:
        assert isinstance(self._world, RoutedWorld)
        place = self._world.place_of(sender, receiver)
        if place is None:
            return
        for message in messages:
            self._world.on_send(sender, message)
        super().send(sender, place, messages, speaker, receiver if place != receiver else "")


def draw_crash(random: Random, hosts: Sequence[str], times_ms: range, downs_ms: Sequence[int]) -> Crash:
    """Of one of these hosts, mostly with the loss of its disk."""
    down_ms = random.choice(downs_ms)
    return Crash(random.choice(hosts), random.choice(times_ms), down_ms, random.random() < 0.7)
