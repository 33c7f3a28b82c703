"""TLS for connections that carry frames: less work for each byte than the transport of asyncio, and the same promises.

    transport = await start_tls(connected_socket, protocol, context, server_hostname="broker-1")

It is for an `asyncio.BufferedProtocol`, and for TLS 1.3. What is received is decrypted where the protocol wants it, as
many records at once as there are; what is sent is encrypted and handed to the system piece by piece, so that a large
frame needs no second buffer of its size. Certificates and names are checked by the `ssl.SSLContext`, before the
protocol learns of the connection. PERF: bench/network_cpu.py.

What the system does not take waits here, encrypted, and the protocol is told to pause as usual. `close` sends all that
waits and says that nothing follows; then it waits for the other side to end, since what that has sent would otherwise
take back what we said last. Whoever does not want to wait for ever calls `abort`; `shutdown_s` does it in any case.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

HANDSHAKE_S = 60.0
SHUTDOWN_S = 30.0
RECEIVED_BYTES = 64 << 10
"""What is taken from the system at once: it is still in a cache when it is decrypted."""
TURN_BYTES = 2 << 20
"""What a connection may take before others have their turn."""
PIECE_BYTES = 64 << 10
"""What is encrypted before it is handed to the system: four records of TLS."""
LARGE_PIECE_BYTES = 512 << 10
"""The same for connections that carry large frames: each piece may wake the other side. OpenSSL keeps room for a piece
as long as there is the connection,"""
LARGE_MAX = 100
"""so only so many of a process get it. The others have the usual pieces."""
HIGH_BYTES = 64 << 10

_TRY_AGAIN = (BlockingIOError, InterruptedError)
_of_thread = threading.local()
_large = threading.BoundedSemaphore(LARGE_MAX)


async def start_tls(
    connected: socket.socket,
    protocol: asyncio.BufferedProtocol,
    context: ssl.SSLContext,
    *,
    server_side: bool = False,
    server_hostname: str | None = None,
    handshake_s: float = HANDSHAKE_S,
    shutdown_s: float = SHUTDOWN_S,
) -> TlsTransport:
    """Shake hands, and give the protocol its transport. Raises OSError, which errors of TLS are too; then the socket is
    still the caller's to close."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=server_side, server_hostname=server_hostname)
    connected.setblocking(False)
    with suppress(OSError):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        async with asyncio.timeout(handshake_s):
            await _shake_hands(connected, tls, incoming, outgoing)
    except TimeoutError:
        raise ConnectionAbortedError(f"the TLS handshake took longer than {handshake_s:g} seconds") from None
    transport = TlsTransport(connected, tls, incoming, outgoing, protocol, shutdown_s)
    protocol.connection_made(transport)
    transport.begin()
    return transport


async def _shake_hands(
    connected: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            if outgoing.pending:
                await loop.sock_sendall(connected, outgoing.read())
            received = await loop.sock_recv(connected, PIECE_BYTES)
            if not received:
                raise ConnectionResetError("the other side ended the TLS handshake") from None
            incoming.write(received)
        except ssl.SSLError:
            # The other side is told why.
            with suppress(OSError):
                connected.send(outgoing.read())
            raise
        else:
            await loop.sock_sendall(connected, outgoing.read())
            return


def _received() -> tuple[bytearray, memoryview]:
    """Room for what comes from the system: one for all connections of a thread."""
    try:
        return cast(tuple[bytearray, memoryview], _of_thread.received)
    except AttributeError:
        room = bytearray(RECEIVED_BYTES)
        _of_thread.received = room, memoryview(room)
        return room, _of_thread.received[1]


class TlsTransport(asyncio.Transport):
    """A connection after its handshake. `start_tls` makes it."""

    def __init__(
        self,
        connected: socket.socket,
        tls: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        protocol: asyncio.BufferedProtocol,
        shutdown_s: float,
    ) -> None:
        extra = {"socket": connected, "ssl_object": tls, "peercert": tls.getpeercert(), "cipher": tls.cipher()}
        with suppress(OSError):
            extra |= {"peername": connected.getpeername(), "sockname": connected.getsockname()}
        super().__init__(extra)
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._fd = connected.fileno()
        self._tls = tls
        # An SSLObject hands each call on to an object behind it, which we ask ourselves where there is one.
        behind: Any = getattr(tls, "_sslobj", tls)
        self._read, self._write = behind.read, behind.write
        self._incoming = incoming
        self._outgoing = outgoing
        self._protocol = protocol
        self._shutdown_s = shutdown_s
        self._piece_bytes = PIECE_BYTES
        self._waiting: deque[memoryview] = deque()  # encrypted, and not taken by the system
        self._waiting_bytes = 0
        self._high, self._low = HIGH_BYTES, HIGH_BYTES // 4
        self._is_stalled = False  # the protocol was told to pause
        self._is_paused = False
        self._room: memoryview | None = None  # of the protocol, and how much of it was filled
        self._filled = 0
        self._is_closing = self._is_closed = False
        self._has_ended = False  # the other side said that nothing follows

    def begin(self) -> None:
        """Receive. What came with the handshake is there already."""
        if not self._is_paused and not self._is_closing:
            self._loop.add_reader(self._fd, self._read_ready)
            self._loop.call_soon(self._hand_over)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        if not self._is_paused and not self._is_closing:
            self._is_paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self.begin()

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def _read_ready(self) -> None:
        room, view = _received()
        taken = 0
        while taken < TURN_BYTES and not self._is_paused:
            try:
                count = self._socket.recv_into(room)
            except _TRY_AGAIN:
                break
            except OSError as error:
                self._tell()
                self._fail(error)
                return
            if not count:
                self._tell()
                self._fail(None)
                return
            if not self._is_closing:
                self._incoming.write(view[:count])
                self._decrypt()
            taken += count
            if count < RECEIVED_BYTES:
                break
        self._tell()

    def _hand_over(self) -> None:
        """What was received before it could be handed over."""
        self._decrypt()
        self._tell()

    def _decrypt(self) -> None:
        """Decrypt what there is, to where the protocol wants it.

        An error that says that there is no more takes as long as decrypting a record, so we look before we ask.
        """
        read, incoming = self._read, self._incoming
        while not self._is_paused and not self._is_closing:
            if self._room is None:
                self._room = memoryview(self._protocol.get_buffer(-1))
            room, filled = self._room, self._filled
            size, is_over = len(room), False
            count: Any = 1
            try:
                while filled < size:
                    count = read(size - filled, room[filled:])
                    filled += count
                    if not incoming.pending or not count:
                        is_over = filled < size  # else more of the record may wait inside
                        break
            except ssl.SSLWantReadError:
                is_over = True
            except OSError as error:
                self._filled = filled
                self._tell()
                self._fail(error)
                return
            self._filled = filled
            if is_over and count:
                break
            self._tell()
            if not count:  # the other side has said that nothing follows
                self._has_ended = True
                self.close()
        if self._outgoing.pending and not self._is_closed:
            self._flush()  # an answer of TLS itself

    def _tell(self) -> None:
        """Tell the protocol what was decrypted."""
        count, self._filled, self._room = self._filled, 0, None
        if count and not self._is_closing:
            self._protocol.buffer_updated(count)

    # --- sending ------------------------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nothing refers to the data afterwards."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """One after the other, without joining them: what is small leaves with what follows it."""
        encrypt, outgoing = self._write, self._outgoing
        for data in list_of_data:
            with memoryview(data) as view:
                if len(view) > self._piece_bytes:
                    self._want_large_pieces()
                piece_bytes = self._piece_bytes
                for begin in range(0, len(view), piece_bytes):
                    if self._is_closing:
                        return
                    try:
                        encrypt(view[begin : begin + piece_bytes])
                    except OSError as error:
                        self._fail(error)
                        return
                    if outgoing.pending >= piece_bytes:
                        self._flush()
        if not self._is_closing:
            self._flush()

    def _want_large_pieces(self) -> None:
        if self._piece_bytes == PIECE_BYTES and not self._is_closed and _large.acquire(blocking=False):
            self._piece_bytes = LARGE_PIECE_BYTES

    def _flush(self) -> None:
        """Hand what is encrypted to the system, or let it wait."""
        data = memoryview(self._outgoing.read())
        if self._is_closed:
            return
        if not self._waiting:
            try:
                data = data[self._socket.send(data) :]
            except _TRY_AGAIN:
                pass
            except OSError as error:
                self._fail(error)
                return
            if not data:
                return
            self._loop.add_writer(self._fd, self._write_ready)
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > self._high and not self._is_stalled:
            self._is_stalled = True
            self._protocol.pause_writing()

    def _write_ready(self) -> None:
        while self._waiting:
            data = self._waiting[0]
            try:
                count = self._socket.send(data)
            except _TRY_AGAIN:
                break
            except OSError as error:
                self._fail(error)
                return
            self._waiting_bytes -= count
            if count < len(data):
                self._waiting[0] = data[count:]
                break
            self._waiting.popleft()
        if not self._waiting:
            self._loop.remove_writer(self._fd)
        if self._is_stalled and self._waiting_bytes <= self._low:
            self._is_stalled = False
            self._protocol.resume_writing()
        if not self._waiting and self._is_closing and self._has_ended:
            self._fail(None)

    # --- the end ------------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        with suppress(OSError):
            self._tls.unwrap()  # never done at once: the other side has to answer
        self._flush()
        if self._is_closed:
            return
        if self._has_ended and not self._waiting:
            self._fail(None)
            return
        # What comes is not looked at any more, until the other side ends too.
        self._is_paused = False
        self._loop.add_reader(self._fd, self._read_ready)
        self._loop.call_later(self._shutdown_s, self.abort)

    def abort(self) -> None:
        self._fail(None)

    def _fail(self, error: OSError | None) -> None:
        """It is over. The protocol is told in a turn of its own."""
        if self._is_closed:
            return
        self._is_closing = self._is_closed = True
        if self._piece_bytes != PIECE_BYTES:
            self._piece_bytes = PIECE_BYTES
            _large.release()
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._loop.call_soon(self._end, error)

    def _end(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def can_write_eof(self) -> bool:
        return False
