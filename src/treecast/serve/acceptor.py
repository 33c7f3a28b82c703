"""Accepts TCP connections: at most so many, and each has a deadline for its TLS handshake.

A connection counts from its first moment, handshake included, and gets the certificate of that moment. What differs
between those who listen is an `AcceptPolicy`.

While the process has no descriptor left for a connection, the system keeps those that wait. asyncio's own servers try
again at once, a thousand times a turn, and write a traceback each time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import structlog

from treecast.serve.tls_transport import start_tls
from treecast.serve.transport_error import TransportError

BACKLOG = 1_024
"""Connections that the system keeps until they are accepted."""
ACCEPT_AGAIN_S = 0.5
"""After a failure to accept, such as too many open files,"""
LOG_AGAIN_S = 60.0
"""which is logged so often, as long as it lasts."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens. Port 0 takes a free one. Raises TransportError TC408."""
    listening = None
    try:
        flags = socket.AI_PASSIVE
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise TransportError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            code="TC408",
            hint="choose another address or port, or stop what uses it",
        ) from None
    return listening


def address_of(listening: socket.socket) -> tuple[str, int]:
    name = listening.getsockname()
    return str(name[0]), int(name[1])


@dataclass(frozen=True, kw_only=True)
class AcceptPolicy:
    """Who may connect, and what those are told who may not."""

    connections_max: int
    """Further ones are closed at once."""
    handshake_ms: int
    """A connection has so long for its TLS handshake."""
    shutdown_ms: int = 30_000
    """And so long to end TLS, when it is closed."""
    context: Callable[[], ssl.SSLContext | None]
    """For the next connection; None: without TLS."""
    refuse: Callable[[socket.socket], None] = lambda accepted: None
    """Gets a connection that is one too many, before it is closed. An OSError is no matter."""
    logs_failures: bool = True
    """Whether failed handshakes are logged: strangers can cause them as often as they like."""


class Acceptor:
    """Makes a protocol of each connection. `connections` has those whose handshake is done, as long as they last."""

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        connections: Collection[object],
        policy: AcceptPolicy,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._make = make
        self._connections = connections
        self._policy = policy
        self._log = log
        self._log_again_s = 0.0
        self._accepting: list[asyncio.Task[None]] = []
        self._starting: dict[asyncio.Task[None], asyncio.BaseProtocol] = {}

    def accept(self, listening: socket.socket) -> None:
        """Begin to accept from a socket that listens. Whoever made it closes it, after `close`."""
        listening.setblocking(False)
        self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def close(self) -> None:
        """Accept no more. Connections stay, except those in their handshake."""
        tasks = [*self._accepting, *self._starting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has_room(self) -> bool:
        connections, limit = self._connections, self._policy.connections_max
        if len(connections) + len(self._starting) < limit:
            return True
        # One whose handshake has just ended is among both for a moment.
        return len(connections) + sum(made not in connections for made in self._starting.values()) < limit

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # the other side has gone while it waited
            except OSError as error:
                if loop.time() >= self._log_again_s:
                    self._log_again_s = loop.time() + LOG_AGAIN_S
                    hint = "allow more open files (LimitNOFILE, ulimit -n), or fewer connections"
                    self._log.warning("cannot accept connections", error=error.strerror, hint=hint)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            self._take(accepted)
            del accepted  # the last one is not to be held while nobody comes

    def _take(self, accepted: socket.socket) -> None:
        if not self._has_room():
            with suppress(OSError):
                accepted.setblocking(False)
                self._policy.refuse(accepted)
            accepted.close()
            return
        protocol = self._make()
        task = asyncio.get_running_loop().create_task(self._start(accepted, protocol))
        self._starting[task] = protocol
        task.add_done_callback(self._starting.pop)

    async def _start(self, accepted: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        tls = self._policy.context()
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None and isinstance(protocol, asyncio.BufferedProtocol):
                handshake_s, shutdown_s = self._policy.handshake_ms / 1000, self._policy.shutdown_ms / 1000
                await start_tls(
                    accepted, protocol, tls, server_side=True, handshake_s=handshake_s, shutdown_s=shutdown_s
                )
                return
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=self._policy.handshake_ms / 1000 if tls else None,
                ssl_shutdown_timeout=self._policy.shutdown_ms / 1000 if tls else None,
            )
        except asyncio.CancelledError:
            accepted.close()
            raise
        except OSError as error:  # and those of TLS: its connection was never made
            if self._policy.logs_failures:
                self._log.info("connection failed", error=str(error))
            accepted.close()
