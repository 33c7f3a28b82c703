"""The frames of `treecast.overlay.frames`, for the simulated network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treecast.overlay.frames import FrameDecoder, encode
from treecast.overlay.packets import packet_of


class PacketCodec:
    """Messages of brokers and their clients as frames of packets.

    >>> from treecast.overlay.messages import Hello
    >>> codec = PacketCodec()
    >>> [codec.decode(frame) == [Hello("a"), Hello("b")] for frame in codec.encode([Hello("a"), Hello("b")])]
    [True]
    """

    def encode(self, messages: Sequence[Any]) -> list[bytes]:
        return encode([packet_of(message) for message in messages])

    def decode(self, frame: bytes) -> list[Any]:
        return [packet.message for packet in FrameDecoder().feed(frame)]
