"""Accepts connections with TLS: at most so many, and each has a deadline for its handshake.

uvicorn counts a connection only after its handshake, and waits a minute for it. A connection counts here from its first
moment, and gets the certificate of that moment.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sized

import structlog

from treecast.serve.certificate import Certificate
from treecast.serve.doors.settings import DoorSettings

ACCEPT_AGAIN_S = 0.5
"""After a failure to accept, such as too many open files."""


class TlsAcceptor:
    """Makes a protocol of each connection. `connections` are those whose handshake is done."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        connections: Sized,
        certificate: Certificate,
        settings: DoorSettings,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._make = make
        self._connections = connections
        self._certificate = certificate
        self._settings = settings
        self._log = log
        self._accepting: list[asyncio.Task[None]] = []
        self._starting: set[asyncio.Task[None]] = set()

    def accept(self, listening: socket.socket) -> None:
        """Begin to accept from a socket that listens."""
        listening.setblocking(False)
        self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def close(self) -> None:
        """Accept no more. Connections stay, except those in their handshake."""
        tasks = [*self._accepting, *self._starting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                self._log.warning("cannot accept", error=error.strerror)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if len(self._connections) + len(self._starting) >= self._settings.connections_max:
                accepted.close()
                continue
            task = loop.create_task(self._start(accepted))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=self._settings.handshake_ms / 1000,
                ssl_shutdown_timeout=self._settings.stop_ms / 1000,
            )
        except asyncio.CancelledError:
            accepted.close()
            raise
        except OSError:  # and those of TLS: what strangers can cause as often as they like is not logged
            accepted.close()
