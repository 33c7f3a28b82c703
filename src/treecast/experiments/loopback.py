"""Messages over TCP on this machine: how long one takes from one end to the other and back, as an acknowledgement.

A thread of this process receives: it decodes what comes and answers with one byte. There is one message at a time, so
the two sides never compete. A connection is kept for all messages, or made for each.

    >>> with Loopback(len) as link:
    ...     link.send(b"abc", link.connect())
    ...     link.received
    [3]
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_LENGTH = struct.Struct("!I")
TIMEOUT_S = 10.0


class Loopback:
    """A receiver on a free port of the loopback interface; `decode` is applied to each message."""

    def __init__(self, decode: Callable[[bytes], object]) -> None:
        self.decode = decode
        self.received: list[object] = []
        """What the last message was decoded to."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._address = self._listener.getsockname()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for connection in self._connections:
            connection.close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT_S)
        self._listener.close()

    def connect(self) -> socket.socket:
        """A connection that is kept until the end."""
        connection = socket.create_connection(self._address, TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.append(connection)
        return connection

    def send(self, body: bytes, connection: socket.socket) -> None:
        """Send a message and wait until it has been decoded."""
        connection.sendall(_LENGTH.pack(len(body)) + body)
        if connection.recv(1) != b"+":
            raise ConnectionError("the receiver has gone")

    def send_alone(self, body: bytes) -> None:
        """The same over its own connection."""
        with socket.create_connection(self._address, TIMEOUT_S) as connection:
            self.send(body, connection)

    def _receive(self) -> None:
        """Connections one after the other: the sender closes one, or leaves it idle, before it uses another."""
        with contextlib.suppress(OSError):  # the listener was shut down
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
                self.received[:] = [self.decode(_read(connection, length))]
                connection.sendall(b"+")


def _read(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
