"""One TCP connection that carries frames. Both sides use it.

A connection hands packets to its owner, and takes packets to send. It never waits: when the other side does not read,
what it would be sent is dropped once a buffer is full, and `stalled_since_ms` says since when. Whatever peers say may
be lost, and is said again when it is missed; so one that stalls is in nobody's way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Protocol, cast

from treecast.errors import TreecastError
from treecast.overlay.frames import FrameDecoder, FrameError, encode, encode_each, recycle
from treecast.overlay.messages import Detach
from treecast.overlay.packets import Packet, packet_of
from treecast.serve.address import format_address
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls_transport import TlsTransport

REASON_CHARS_MAX = 1_000


class ConnectionOwner(Protocol):
    """Who is told what happens to a connection."""

    def opened(self, connection: FrameConnection) -> None: ...

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None: ...

    def closed(self, connection: FrameConnection, error: Exception | None) -> None: ...


def now_ms() -> int:
    """The clock that peers are told."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """A clock that nobody sets, for deadlines of connections."""
    return time.monotonic_ns() // 1_000_000


class FrameConnection(asyncio.BufferedProtocol):
    """A `Protocol` of asyncio: make one for each connection. Bytes are received where frames are decoded."""

    def __init__(self, owner: ConnectionOwner, settings: RuntimeSettings, bytes_max: int) -> None:
        self.name = ""
        """Who the other side is, once that is known;"""
        self.broker = ""
        """and the broker inside the peer that it wants, if that is not the peer itself."""
        self.opened_ms = self.heard_ms = steady_ms()
        self.stalled_since_ms: int | None = None
        self.refused: list[FrameError] = []
        """Why packets could not be sent. The owner looks at it, and empties it."""
        self.is_closing = False
        self._owner = owner
        self._settings = settings
        self._decoder = FrameDecoder(bytes_max)
        self._transport: asyncio.Transport | None = None
        self._is_paused = False

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        limit = self._settings.send_bytes_max
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        if self._is_paused:
            self._transport.pause_reading()
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closing:
            return
        self.heard_ms = steady_ms()
        size = nbytes
        while not self.is_closing:
            try:
                packets = self._decoder.filled(nbytes)
            except FrameError as error:
                self.close(error)
                return
            is_single = self._decoder.is_single
            if packets:
                self._owner.received(self, packets, size)
            if self._decoder.error is not None:
                self.close(self._decoder.error)
            if not packets or not is_single:
                return
            nbytes = size = 0  # what came with the first frame

    def pause_writing(self) -> None:
        self.stalled_since_ms = steady_ms()

    def resume_writing(self) -> None:
        self.stalled_since_ms = None

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        self._transport = None
        self._decoder.release()
        self._owner.closed(self, error)

    # --- what the owner calls -----------------------------------------------------------------------------------------

    def expect_hello(self) -> None:
        """Frame by frame, until `accept_frames`: a large one may come with the first one, which says whose it is."""
        self._decoder.is_single = True

    def accept_frames(self, bytes_max: int) -> None:
        """From now on, frames may have this size."""
        self._decoder.is_single = False
        self._decoder.bytes_max = bytes_max

    @property
    def partial_bytes(self) -> int:
        """Bytes of a frame that is not complete."""
        return self._decoder.waiting_bytes

    @property
    def send_bytes(self) -> int:
        """Bytes that wait for the other side to take them."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    @property
    def can_send(self) -> bool:
        """The other side reads."""
        return self._transport is not None and not self.is_closing and self.stalled_since_ms is None

    def info(self, name: str) -> Any:
        """What asyncio knows: "peername", "peercert"."""
        return self._transport.get_extra_info(name) if self._transport else None

    @property
    def peer_address(self) -> str:
        """Where the other side is; empty if nobody knows any more."""
        peer = self.info("peername")
        return format_address(*peer[:2]) if isinstance(peer, tuple) else str(peer or "")

    def send(self, packets: Iterable[Packet]) -> int:
        """Send these; returns how many bytes. All or some are dropped if the other side does not read (`can_send`)."""
        size = 0
        if self._transport is None or self.is_closing:
            return 0
        for frame in encode_each(packets, refused=self.refused):
            if self.stalled_since_ms is not None:
                break
            # `writelines` of asyncio's own transports does not tell us to pause in Python 3.12 (CVE-2024-12254).
            if isinstance(self._transport, TlsTransport):
                self._transport.writelines(frame.parts)
            else:
                self._transport.write(b"".join(frame.parts) if frame.tail is not None else frame.start)
            size += frame.size
            if not self._transport.get_write_buffer_size():
                recycle(frame)  # nothing of it waits
        return size

    def pause(self) -> None:
        """Read nothing until `resume`: the other side will notice."""
        if not self._is_paused:
            self._is_paused = True
            if self._transport is not None and not self.is_closing:
                self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self.is_closing:
                self._transport.resume_reading()

    def close(self, reason: TreecastError | str = "") -> None:
        """Say why, and close: when all is sent, or after a while."""
        if self.is_closing or self._transport is None:
            return
        self.is_closing = True
        if reason and self.stalled_since_ms is None:
            for frame in encode([packet_of(Detach("", str(reason)[:REASON_CHARS_MAX]))]):
                self._transport.write(frame)
        self._transport.close()
        asyncio.get_running_loop().call_later(self._settings.close_ms / 1000, self.abort)

    def abort(self) -> None:
        """Close at once, whatever waits to be sent."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()
