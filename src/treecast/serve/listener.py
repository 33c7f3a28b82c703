"""Accepts TCP connections, at most so many. A connection counts from its first moment, TLS handshake included."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import structlog

from treecast.overlay.frames import encode
from treecast.overlay.messages import Detach
from treecast.overlay.packets import packet_of
from treecast.serve.connection import FrameConnection
from treecast.serve.settings import RuntimeSettings
from treecast.serve.transport_error import TransportError

BACKLOG = 1_024
ACCEPT_AGAIN_S = 0.5
"""After a failure to accept, such as too many open files."""
TOO_MANY = "TC406 there are too many connections"


class Listener:
    """Listens on one address, and makes a `FrameConnection` of each connection."""

    def __init__(
        self,
        make: Callable[[], FrameConnection],
        refused: Callable[[], None],
        settings: RuntimeSettings,
        tls: ssl.SSLContext | None,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._make = make
        self._refused = refused
        self._settings = settings
        self._tls = tls
        self._log = log
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._starting: set[asyncio.Task[None]] = set()  # connections in their TLS handshake
        self._count = 0  # connections that were accepted, and are not closed

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Begin to accept; returns the address. Port 0 takes a free one. Raises TransportError TC408."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            listening = socket.socket(family, kind, protocol)
            self._sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            self._close_sockets()
            reason = error.strerror or os.strerror(error.errno or 0)
            raise TransportError(
                f"cannot listen on {host}:{port}: {reason}",
                code="TC408",
                hint="choose another address or port, or stop what uses it",
            ) from None
        self._accepting.append(loop.create_task(self._accept(listening)))
        name = listening.getsockname()
        return str(name[0]), int(name[1])

    async def close(self) -> None:
        """Accept no more. Connections stay, except those in their handshake."""
        tasks = [*self._accepting, *self._starting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                self._log.warning("cannot accept", error=error.strerror)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if self._count >= self._settings.connections_max:
                self._refuse(accepted)
                continue
            self._count += 1
            task = loop.create_task(self._start(accepted))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def release(self) -> None:
        """A connection is closed: there is room for another."""
        self._count -= 1

    def _refuse(self, accepted: socket.socket) -> None:
        self._refused()
        with suppress(OSError):
            accepted.setblocking(False)
            if self._tls is None:
                accepted.send(encode([packet_of(Detach("", TOO_MANY))])[0])
        accepted.close()

    async def _start(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._settings.handshake_ms / 1000 if self._tls else None,
            )
        except asyncio.CancelledError:
            accepted.close()
            raise
        except OSError as error:  # and those of TLS: its connection was never made
            self._log.info("connection failed", error=str(error))
            accepted.close()
            self.release()
