"""Limits and times of a process that runs a peer. Every queue, buffer and retry has a bound here."""

from __future__ import annotations

import msgspec

from treecast.overlay.frames import FRAME_BYTES_MAX
from treecast.overlay.peer import TICK_MS


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a broker with thousands of clients."""

    connections_max: int = 10_000
    """Further ones are closed at once. Those that are still in the TLS handshake count."""
    handshake_ms: int = 10_000
    """A connection has so long for the TLS handshake, and again for its first message."""
    idle_ms: int = 600_000
    """A connection from which nothing came for so long is closed."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    hello_bytes_max: int = 8_192
    """The largest frame of a connection that has not said who it is."""
    partial_bytes_max: int = 256 << 20
    """Bytes of frames that are not complete, over all connections. Who exceeds it is closed."""

    waiting_bytes_max: int = 64 << 20
    """Bytes of messages that wait for the disk. Beyond it, nothing is read from any connection,"""
    waiting_effects_max: int = 20_000
    """nor beyond so many messages and the like that wait to be sent."""

    gathered_bytes_max: int = 256 << 10
    """Messages that come in one turn of the event loop are handled together, up to about so many bytes: with more, the
    first have left the processor's caches when their turn comes. 0: each is handled when it comes."""
    lazy_ms: int = 20
    """Changes that nobody waits for, such as those of acknowledgements, are stored after so long, with what comes."""

    send_bytes_max: int = 8 << 20
    """Bytes that wait for one connection to take them. Beyond it, it is sent nothing, and has to ask again."""
    stalled_ms: int = 30_000
    """A connection that takes nothing for so long is closed."""
    close_ms: int = 2_000
    """How long a connection that is being closed may take to read what it was sent."""

    links_max: int = 300
    """Connections to other peers of a network. Beyond it, those of peers that have left are forgotten."""
    link_packets_max: int = 1_000
    """Packets that wait for such a connection to be made. The first of them are dropped."""
    connect_ms: int = 50
    """A connection to a peer is tried again after so long, then after twice as long, and so on."""
    connect_ms_max: int = 300

    tick_ms: int = TICK_MS
    reopen_ms: int = 500
    """After a failure the store is opened again after so long, then after twice as long, and so on."""
    reopen_ms_max: int = 30_000
    stop_ms: int = 10_000
    """At the end, what has arrived is stored and answered within this time."""
