"""WebSockets (RFC 6455): frames and their limits. What is said in them is in `socket_session.py`.

The bytes are read and written by `websockets` without its I/O. Here are the limits: a message has a size and a time to
arrive, pings have to be answered (nobody can answer in the middle of a frame, so an unfinished frame ends that way
too), a connection that takes nothing is closed, and so is one that says what makes no sense, with a code and a reason.
Codes of ours are 4000 and the status that HTTP would have. Messages are not compressed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from websockets.datastructures import Headers
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from treecast.errors import TreecastError
from treecast.serve.doors.calls import Bodies
from treecast.serve.doors.problems import DoorError, problem_of_error
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.socket_session import Side, SocketSession

SWITCHING_PROTOCOLS = 101
GOING_AWAY, UNSUPPORTED_DATA = 1001, 1003
REASON_BYTES_MAX = 123
LOGGER = logging.getLogger("treecast.sockets")
_encode = msgspec.json.Encoder().encode


class Opening(Protocol):
    """What a door lets a socket do: begin a session. Raises DoorError."""

    def __call__(self, side: Side) -> SocketSession: ...


def handshake(path: str, headers: Iterable[tuple[bytes, bytes]], settings: DoorSettings) -> bytes:
    """The answer that opens a socket. Raises DoorError if the request is not a handshake, or from another site."""
    fields = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
    origin, host = fields.get_all("Origin"), fields.get_all("Host")
    if origin and not (len(host) == 1 and _is_own(origin, host[0], settings)):
        # Browsers let any page open a socket to any address, also to one of the user's own machine.
        hint = "a page of the service itself may, and those of `socket_origins`"
        raise DoorError(f"a page of {origin[0][:200]!r} may not open a socket", code="TC461", hint=hint)
    response = ServerProtocol(logger=LOGGER).accept(Request(path, fields))
    if response.status_code != SWITCHING_PROTOCOLS:
        raise DoorError("this is not the handshake of a WebSocket", code="TC434", hint="RFC 6455, version 13")
    return response.serialize()


def _is_own(origin: list[str], host: str, settings: DoorSettings) -> bool:
    return len(origin) == 1 and (origin[0] in settings.socket_origins or urlsplit(origin[0]).netloc == host)


class SocketProtocol(asyncio.Protocol):
    """One connection, from the handshake on."""

    def __init__(self, settings: DoorSettings, bodies: Bodies, connections: set[Any]) -> None:
        self._settings = settings
        self._bodies = bodies
        self._connections = connections
        self._frames = ServerProtocol(state=OPEN, max_size=settings.socket_message_bytes_max, logger=LOGGER)
        self._session: SocketSession | None = None
        self._parts: list[bytes] = []  # of a message in several frames
        self._parts_bytes = 0
        self._pending_bytes = 0  # that are counted in `bodies`
        self._loop = asyncio.get_running_loop()
        self._message_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self._is_answered = True  # the last ping

    def start(self, transport: asyncio.Transport, answer: bytes, opening: Opening) -> None:
        """Take a connection over, whose handshake is answered so."""
        self._transport = transport
        self._connections.add(self)
        transport.set_protocol(self)
        transport.write(answer)
        self._ping_timer = self._loop.call_later(self._settings.socket_ping_ms / 1000, self._ping)
        try:
            self._session = opening(self)
        except TreecastError as error:
            self.end(error)

    # --- what arrives -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        for frame in self._frames.events_received():
            if self._frames.state is not OPEN:
                break
            self._take(frame)
        self._count_pending()
        self._flush()

    def _take(self, frame: Any) -> None:
        if frame.opcode is Opcode.PONG:
            self._is_answered = True
        elif frame.opcode is Opcode.BINARY:
            self._close(UNSUPPORTED_DATA, "messages are text")
        elif frame.opcode in (Opcode.TEXT, Opcode.CONT):
            self._parts.append(frame.data)
            self._parts_bytes += len(frame.data)
            if frame.fin:
                text, self._parts, self._parts_bytes = b"".join(self._parts), [], 0
                self._receive(text)

    def _receive(self, text: bytes) -> None:
        if self._session is None:
            return
        try:
            self._session.receive(text)
        except TreecastError as error:
            self.end(error)
        except Exception as error:  # a bug of ours: only this socket is over
            LOGGER.error("a message failed: %r", error, exc_info=True)
            self.end(DoorError("the message failed, and that is our mistake", code="TC437"))
        self.ease()

    def _count_pending(self) -> None:
        """Bytes of messages that are not complete, over all sockets and requests."""
        pending = len(self._frames.reader.buffer) + self._parts_bytes
        self._bodies.bytes += pending - self._pending_bytes
        self._pending_bytes = pending
        if pending and self._bodies.bytes > self._settings.bodies_bytes_max:
            self.end(DoorError("too many messages are arriving", code="TC436"))
        if not self._parts:
            _cancel(self._message_timer)
            self._message_timer = None
        elif self._message_timer is None:
            self._message_timer = self._loop.call_later(self._settings.body_ms / 1000, self._message_is_late)

    def _message_is_late(self) -> None:
        self._message_timer = None
        self.end(DoorError("the message did not arrive in time", code="TC433"))

    def ease(self) -> None:
        """Read on only while few documents wait for their answers."""
        if self._session is None or self._transport.is_closing():
            return
        is_full = self._session.publishing >= self._settings.socket_publishes_max
        if is_full and self._transport.is_reading():
            self._transport.pause_reading()
        elif not is_full and not self._transport.is_reading():
            self._transport.resume_reading()

    # --- what leaves --------------------------------------------------------------------------------------------------

    def say(self, content: Any) -> None:
        if self._frames.state is OPEN:
            self._frames.send_text(_encode(content))
            self._flush()

    def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data:
                self._transport.write(data)
            elif not self._transport.is_closing():
                self._transport.close()
        if self._frames.close_expected() and self._close_timer is None:
            self._end_session()
            self._close_timer = self._loop.call_later(self._settings.socket_close_ms / 1000, self._transport.abort)

    def end(self, error: TreecastError) -> None:
        """Close, and say why."""
        problem = problem_of_error(error)
        self._close(4000 + problem.status, f"{problem.code} {problem.detail}")

    def _close(self, code: int, reason: str) -> None:
        if self._frames.state is OPEN:
            short = reason.encode("utf-8", "replace")[:REASON_BYTES_MAX].decode("utf-8", "ignore")
            self._frames.send_close(code, short)
            self._flush()

    def shutdown(self) -> None:
        """The service stops. uvicorn calls it."""
        self._close(GOING_AWAY, "the service stops")

    # --- time ---------------------------------------------------------------------------------------------------------

    def _ping(self) -> None:
        if not self._is_answered and self._transport.is_reading():
            self.end(DoorError("a ping was not answered", code="TC433"))
            return
        self._is_answered = False
        if self._frames.state is OPEN:
            self._frames.send_ping(b"")
            self._flush()
            self._ping_timer = self._loop.call_later(self._settings.socket_ping_ms / 1000, self._ping)

    def pause_writing(self) -> None:
        self._stall_timer = self._loop.call_later(self._settings.stalled_ms / 1000, self._transport.abort)
        if self._session is not None:
            self._session.is_paused = True
            self._session.ask()

    def resume_writing(self) -> None:
        _cancel(self._stall_timer)
        self._stall_timer = None
        if self._session is not None:
            self._session.is_paused = False
            self._session.ask()

    def eof_received(self) -> None:
        self._frames.receive_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._end_session()
        self._bodies.bytes -= self._pending_bytes
        self._pending_bytes = 0
        for timer in (self._message_timer, self._stall_timer, self._close_timer, self._ping_timer):
            _cancel(timer)

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
