"""A connection from one host to another, for peers of the same network: dialled here, and again whenever it breaks.

To the runtime it is a local client with the other host's name: what the peer sends to that name travels, and what comes
back is told to the peer as said by it. One connection serves both directions, so of two hosts only one dials.
"""

from __future__ import annotations

import asyncio
import ssl
from random import Random
from typing import Any

import structlog

from treecast.overlay.messages import Detach, Hello
from treecast.overlay.packets import Packet, packet_of
from treecast.overlay.peer import Peer
from treecast.overlay.retry import Retry
from treecast.serve.connection import FrameConnection, steady_ms
from treecast.serve.runtime import Runtime
from treecast.serve.settings import RuntimeSettings

DIAL_MS, DIAL_MS_MAX = 50, 2_000
"""A connection that failed is tried again after so long, then after twice as long, and so on."""


class PeerLink:
    """A `LocalPeer` of the runtime. `name` is the other host's, `own` this one's."""

    def __init__(
        self,
        runtime: Runtime,
        own: str,
        name: str,
        address: tuple[str, int],
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: RuntimeSettings,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.dropped = 0
        """Messages that could not be sent: whoever misses them asks again."""
        self._runtime = runtime
        self._own = own
        self._address = address
        self._log = log
        self._settings = settings
        self._tls = tls
        self._retry = Retry(random, DIAL_MS, DIAL_MS_MAX)
        self._connection: FrameConnection | None = None
        self._task: asyncio.Task[None] | None = None
        runtime.register(self)

    def start(self) -> None:
        """Begin to dial. In the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            line = _Line(self)
            try:
                async with asyncio.timeout(self._settings.handshake_ms / 1000):
                    _, self._connection = await loop.create_connection(
                        lambda line=line: FrameConnection(line, self._settings, self._settings.frame_bytes_max),
                        *self._address,
                        ssl=self._tls,
                    )
            except (OSError, TimeoutError) as error:
                self._log.info("cannot reach a peer", name=self.name, error=str(error))
            else:
                await line.is_over.wait()
            self._connection = None
            self._retry.start(steady_ms())
            while not self._retry.is_due(steady_ms()):
                await asyncio.sleep(0.02)

    def take(self, packets: list[Packet], size: int) -> None:
        """The other host has said something."""
        self._retry.reset()
        for packet in packets:
            if isinstance(packet.message, Detach):
                self._log.info("a peer closes the connection", name=self.name, reason=packet.message.reason)
            else:
                self._runtime.tell(self, packet.message, size)
            size = 0

    def greeting(self) -> Packet:
        return packet_of(Hello(self._own))

    # --- what the runtime calls ---------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        pass

    def closed(self) -> None:
        pass

    def received(self, messages: list[Any]) -> None:
        connection = self._connection
        if connection is None or not connection.can_send:
            self.dropped += len(messages)
            return
        connection.send(packet_of(message, root=self._own) for message in messages)
        while connection.refused:
            self._log.error("a message cannot be sent", to=self.name, error=str(connection.refused.pop()))

    def announced(self, event: Any) -> None:
        pass


class _Line:
    """One connection of a link."""

    def __init__(self, link: PeerLink) -> None:
        self.is_over = asyncio.Event()
        self._link = link

    def opened(self, connection: FrameConnection) -> None:
        connection.send([self._link.greeting()])

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None:
        self._link.take(packets, size)

    def closed(self, connection: FrameConnection, error: Exception | None) -> None:
        self.is_over.set()
