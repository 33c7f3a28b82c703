"""Connections to other peers of a network: one to each, made when there is something to send, and made again.

A broker listens for its clients and for other brokers alike (`runtime.py`). What it has to say to another broker goes
over a connection of its own, which begins with `Hello` and its name, as that of a client does; what the other one says
comes over the other one's. So no two peers have to agree on who connects to whom.

Nothing is certain to arrive. While there is no connection, some packets wait, and the first of them are dropped. A peer
that is away is tried again and again, after pauses that grow; one that has come back says so by coming itself.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from random import Random
from typing import Any

import structlog

from treecast.overlay.messages import Detach, Hello
from treecast.overlay.packets import Packet, packet_of
from treecast.overlay.retry import Retry
from treecast.serve.address import parse_address
from treecast.serve.connecting import connect
from treecast.serve.connection import FrameConnection, steady_ms
from treecast.serve.settings import RuntimeSettings
from treecast.serve.transport_error import reason_of

LIVED_MS = 2_000
"""After a connection that lived so long, another one is tried soon."""
SILENT_MS = 3_000
"""A peer that cannot be reached for so long is logged: one that is only started again is not."""
REPEAT_MS = 60_000
"""The same is logged again after so long."""
STOPS = "the broker stops"
"""What a peer says in the end."""
REASONS_MAX = 16
"""Of so many reasons it is known when they were logged."""

Resolve = Callable[[str], str | None]
"""The address of a peer, by its name; None if it has none, or is no peer."""
Hear = Callable[[str, Any], None]
"""The name of a peer, and a message."""


class PeerLinks:
    """All connections that one peer has made to others."""

    def __init__(
        self,
        name: str,
        resolve: Resolve,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        settings: RuntimeSettings | None = None,
        tls: ssl.SSLContext | None = None,
        hear: Hear | None = None,
    ) -> None:
        """`hear` gets what others answer over these connections, for a peer that does not listen itself."""
        self._hear = hear
        self.name = name
        self._resolve = resolve
        self._random = random
        self._log = log
        self._settings = settings or RuntimeSettings()
        self._tls = tls
        self._links: dict[tuple[str, str], _PeerLink] = {}  # by who speaks, and to whom
        self._is_closed = False

    def send(self, name: str, packets: list[Packet], speaker: str = "") -> bool:
        """Send these to another peer, now or soon; False if nobody knows where a peer of that name is. A broker inside
        the peer speaks in its own name."""
        address = self._resolve(name)
        if not address or self._is_closed:
            return False
        link = self._links.get((speaker, name))
        if link is not None and link.address != address:  # it has moved
            link.end()
            link = None
        if link is None:
            if len(self._links) >= self._settings.links_max:
                self._drop_unknown()
            link = self._links[speaker, name] = _PeerLink(self, name, address, speaker or self.name)
        link.used_ms = steady_ms()
        link.send(packets)
        return True

    def hear_from(self, name: str) -> None:
        """A peer has come to us: it is back, so there is no need to wait with a connection to it."""
        for (_, to), link in self._links.items():
            if to == name:
                link.hurry()

    def keep_only(self, speakers: Collection[str]) -> None:
        """Brokers that this peer serves. Others are served elsewhere by now, and speak from there: two connections of
        one name would close each other again and again."""
        for key in [key for key in self._links if key[0] and key[0] not in speakers]:
            self._links.pop(key).end()

    def _drop_unknown(self) -> None:
        """Forget peers that have left, and make room for one."""
        for key in [key for key in self._links if not self._resolve(key[1])]:
            self._links.pop(key).end()
        # On a ring, a name is an address: nobody says who has left. Those that were not used for long make room.
        while len(self._links) >= self._settings.links_max:
            self._links.pop(min(self._links, key=lambda key: self._links[key].used_ms)).end()

    async def close(self) -> None:
        self._is_closed = True
        links, self._links = list(self._links.values()), {}
        for link in links:
            link.end()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)

    def stats(self) -> dict[str, int]:
        links = self._links.values()
        return {"links": len(links), "connected": sum(link.is_connected for link in links)}


class _PeerLink:
    """The connection to one peer."""

    def __init__(self, links: PeerLinks, name: str, address: str, speaker: str) -> None:
        self.address = address
        self._speaker = speaker
        self.used_ms = steady_ms()
        self._links = links
        self._name = name
        settings = links._settings
        self._waiting: deque[Packet] = deque(maxlen=settings.link_packets_max)
        self._connection: FrameConnection | None = None
        self._lost = asyncio.Event()
        self._hurry = asyncio.Event()
        self._retry = Retry(links._random, settings.connect_ms, settings.connect_ms_max)
        self._failing_ms: int | None = None
        self._is_refused = False
        self._logged_ms: dict[str, int] = {}
        self.task = asyncio.get_running_loop().create_task(self._keep_connected())

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def send(self, packets: Iterable[Packet]) -> None:
        connection = self._connection
        if connection is None:
            self._waiting.extend(packets)
            return
        connection.send(packets)
        while connection.refused:
            error = connection.refused.pop()
            self._links._log.error("a message cannot be sent", to=self._name, error=str(error))

    def hurry(self) -> None:
        if self._connection is None:
            self._retry.reset()
            self._hurry.set()

    def end(self) -> None:
        self.task.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _keep_connected(self) -> None:
        links = self._links
        host, port = parse_address(self.address)
        while True:
            self._lost.clear()
            self._hurry.clear()
            try:
                connection = FrameConnection(self, links._settings, links._settings.frame_bytes_max)
                await connect(connection, host, port, links._tls)
                await self._lost.wait()
            except OSError as error:  # and those of TLS
                self._failed(reason_of(error))
            self._retry.start(steady_ms())
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry.due_in_ms(steady_ms()) / 1000):
                    await self._hurry.wait()

    def _failed(self, error: str) -> None:
        """An attempt: nobody is there, or hangs up at once, as a peer does that has TLS where this one has none."""
        now = steady_ms()
        if self._failing_ms is None:
            self._failing_ms = now
        self._links._log.debug("no connection to a peer", name=self._name, error=error)
        if now - self._failing_ms >= SILENT_MS:
            self._warn("a peer cannot be reached", error, address=self.address)

    def _warn(self, event: str, reason: str, **more: str) -> None:
        """Once in a while: attempts are many."""
        if self._is_news(reason):
            self._links._log.warning(event, name=self._name, reason=reason, **more)

    def _is_news(self, text: str) -> bool:
        """It was not logged lately."""
        now = steady_ms()
        if now - self._logged_ms.get(text, now - REPEAT_MS) < REPEAT_MS:
            return False
        if len(self._logged_ms) >= REASONS_MAX:
            self._logged_ms.clear()
        self._logged_ms[text] = now
        return True

    # --- what the connection calls ------------------------------------------------------------------------------------

    def opened(self, connection: FrameConnection) -> None:
        self._connection = connection
        self._is_refused = False
        if self._failing_ms is None or self._is_news("connected"):
            self._links._log.info("connected to a peer", name=self._name, address=self.address)
        connection.send([packet_of(Hello(self._speaker, to=self._name))])
        waiting = list(self._waiting)
        self._waiting.clear()
        self.send(waiting)

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None:
        """Answers come over the other peer's own connection; here it only says why it closes this one, or why it does
        not hear what comes over it."""
        for packet in packets:
            if isinstance(packet.message, Detach) and packet.message.reason:
                self._is_refused = True
                if packet.message.reason == STOPS:
                    self._links._log.info("a peer stops", name=self._name, reason=STOPS)
                else:
                    self._warn("a peer refuses", packet.message.reason)
            elif self._links._hear is not None:
                self._links._hear(self._name, packet.message)

    def closed(self, connection: FrameConnection, error: Exception | None) -> None:
        if steady_ms() - connection.opened_ms > LIVED_MS:
            self._retry.reset()
            self._failing_ms = None
        else:
            self._failed(reason_of(error) if error is not None else self._why_closed())
        if self._connection is connection:
            self._connection = None
        self._lost.set()

    def _why_closed(self) -> str:
        """What is logged already is not said in other words."""
        hint = "" if self._is_refused else "\n  hint: check that both sides use TLS or neither does"
        return f"it closes the connection{hint}"
