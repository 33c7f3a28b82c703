"""The network of a simulated world: frames between hosts, which are delayed, lost, doubled, reordered and damaged.

Messages travel as the frames that real peers exchange, so a flipped bit meets the checksum that is there for it: a
frame that decodes anyway although bits of it were flipped is a failure of the run.

Without faults a link is like a connection: frames arrive in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from treecast.errors import PeerError
from treecast.sim.faults import ANY, LinkFault, Partition

if TYPE_CHECKING:
    from treecast.sim.world import World

FLIPPED_BITS_MAX = 3
"""A frame's CRC-32 finds any three wrong bits in frames of up to 11 KB."""


class Codec(Protocol):
    """How messages become frames."""

    def encode(self, messages: Sequence[Any]) -> list[bytes]: ...

    def decode(self, frame: bytes) -> list[Any]:
        """Raises PeerError if the frame is damaged."""


class _Link:
    """One direction between two hosts, and what is wrong with it now."""

    __slots__ = ("delay_us", "duplication", "flips", "is_cut", "last_arrival_us", "loss", "random", "reorder_us")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.last_arrival_us = 0
        self.loss = self.duplication = self.flips = 0.0
        self.delay_us = self.reorder_us = 0
        self.is_cut = False


class Network:
    """Carries frames. `delay_us` is what every frame needs, `jitter_us` what some need more."""

    def __init__(self, world: World, codec: Codec, delay_us: int = 200, jitter_us: int = 300) -> None:
        self.codec = codec
        self.delay_us = delay_us
        self.jitter_us = jitter_us
        self.frames_sent = 0
        self.frames_lost = 0
        self._world = world
        self._links: dict[tuple[str, str], _Link] = {}
        self._active: list[LinkFault | Partition] = []

    # -- faults

    def begin(self, fault: LinkFault | Partition) -> None:
        self._active.append(fault)
        self._disturb_all()

    def end(self, fault: LinkFault | Partition) -> None:
        if fault in self._active:
            self._active.remove(fault)
            self._disturb_all()

    def heal(self) -> None:
        """From now on nothing is wrong."""
        self._active.clear()
        self._disturb_all()

    def _disturb_all(self) -> None:
        for (sender, receiver), link in self._links.items():
            self._disturb(link, sender, receiver)

    def _disturb(self, link: _Link, sender: str, receiver: str) -> None:
        link.loss = link.duplication = link.flips = 0.0
        link.delay_us = link.reorder_us = 0
        link.is_cut = False
        for fault in self._active:
            if isinstance(fault, Partition):
                link.is_cut = link.is_cut or _is_cut(fault, sender, receiver)
            elif fault.sender in (ANY, sender) and fault.receiver in (ANY, receiver):
                if fault.effect == "loss":
                    link.loss += fault.amount / 1000
                elif fault.effect == "duplication":
                    link.duplication += fault.amount / 1000
                elif fault.effect == "flips":
                    link.flips += fault.amount / 1000
                elif fault.effect == "delay":
                    link.delay_us += fault.amount * 1000
                else:
                    link.reorder_us += fault.amount * 1000

    # -- sending

    def send(self, sender: str, receiver: str, messages: Sequence[Any], speaker: str = "", to: str = "") -> None:
        """Send messages in few frames. Those of one frame arrive together, or not at all.

        `sender` and `receiver` are hosts. A peer that lives inside the one of a host speaks, or is spoken to, in its
        own name: `speaker`, `to`.
        """
        for frame in self.codec.encode(messages):
            self._send_frame(sender, receiver, frame, messages, (speaker or sender, to))

    def _send_frame(
        self, sender: str, receiver: str, frame: bytes, messages: Sequence[Any], names: tuple[str, str]
    ) -> None:
        world = self._world
        self.frames_sent += 1
        link = self._links.get((sender, receiver))
        if link is None:
            link = self._links[sender, receiver] = _Link(world.random_of("link", sender, receiver))
            self._disturb(link, sender, receiver)
        world.trace.add(world.now_us, "send", sender, frame, (receiver, messages))
        random = link.random
        if link.is_cut or (link.loss and random.random() < link.loss):
            self.frames_lost += 1
            world.trace.add(world.now_us, "lost", sender, b"", receiver)
            return
        copies = 2 if link.duplication and random.random() < link.duplication else 1
        for _ in range(copies):
            is_flipped = bool(link.flips) and random.random() < link.flips
            arriving_frame = _flip(frame, random) if is_flipped else frame
            arrival_us = world.now_us + self.delay_us + int(random.random() * self.jitter_us) + link.delay_us
            if link.reorder_us:
                arrival_us += int(random.random() * link.reorder_us)
            else:
                arrival_us = link.last_arrival_us = max(arrival_us, link.last_arrival_us)
            world.at(arrival_us, self._arrive, sender, receiver, arriving_frame, is_flipped, names)

    def _arrive(self, sender: str, receiver: str, frame: bytes, is_flipped: bool, names: tuple[str, str]) -> None:
        host = self._world.hosts.get(receiver)
        if host is None or not host.is_up:
            self.frames_lost += 1
            self._world.trace.add(self._world.now_us, "not there", receiver, b"", sender)
            return
        try:
            messages = self.codec.decode(frame)
        except PeerError as error:
            self.frames_lost += 1
            self._world.trace.add(self._world.now_us, "damaged", receiver, b"", (sender, error.code))
            if not is_flipped:
                self._world.fail(f"a frame from {sender} to {receiver} cannot be decoded: {error}")
            return
        if is_flipped and messages:
            self._world.fail(f"flipped bits in a frame from {sender} to {receiver} went unnoticed")
            return
        host.arrive(names[0], messages, names[1])


def _is_cut(fault: Partition, sender: str, receiver: str) -> bool:
    places = [
        next((place for place, group in enumerate(fault.groups) if host in group), None) for host in (sender, receiver)
    ]
    if places[0] is None or places[1] is None or places[0] == places[1]:
        return False
    return places[0] < places[1] if fault.one_way else True


def _flip(frame: bytes, random: Random) -> bytes:
    damaged_frame = bytearray(frame)
    places = random.sample(range(len(frame) * 8), min(len(frame) * 8, random.randint(1, FLIPPED_BITS_MAX)))
    for place in places:
        damaged_frame[place // 8] ^= 1 << (place % 8)
    return bytes(damaged_frame)
