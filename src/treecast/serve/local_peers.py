"""Clients of a peer that live in its own process: doors, and whoever writes its events to a log.

A process may serve several brokers (`treecast.overlay.onyx.network_host`). Then a client names the one that it belongs
to, is opened when that broker begins to be served here, and closed when another host serves it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from treecast.overlay.peer import Peer
from treecast.serve.metrics import Metrics


class LocalPeer(Protocol):
    """A client of the peer in the same process: it needs no connection. All is called from the event loop."""

    name: str

    def opened(self, peer: Peer) -> None:
        """The peer serves, for the first time or made anew."""

    def closed(self) -> None:
        """The peer serves no more, until it is made anew."""

    def removed(self) -> None:
        """After `closed`: its broker is served elsewhere, so whatever waits for an answer here never gets one."""

    def received(self, messages: list[Any]) -> None:
        """The peer has sent these."""

    def announced(self, event: Any) -> None:
        """The peer has something for whoever runs it (`Deliver`)."""


class LocalRuntime(Protocol):
    """Who runs the peer of a local client."""

    @property
    def metrics(self) -> Metrics: ...

    def register(self, local: LocalPeer) -> None: ...

    def tell(self, local: LocalPeer, message: Any, size: int = 0) -> None: ...

    def is_ready(self) -> bool: ...


class LocalPeers:
    """All of them, by the broker that they belong to (empty: the peer itself) and by name."""

    def __init__(self) -> None:
        self._peers: dict[tuple[str, str], LocalPeer] = {}
        self._brokers: dict[int, str] = {}  # by the identity of a client: PERF, for each message of a door
        self._open: dict[tuple[str, str], Peer] = {}
        self._peer: Peer | None = None

    def register(self, local: LocalPeer, broker: str = "") -> None:
        self._peers[broker, local.name] = local
        if broker:
            self._brokers[id(local)] = broker
            # Not at once: it is still being made, and not all of its parts listen for `opened` yet.
            asyncio.get_running_loop().call_soon(self.look)

    def remove(self, broker: str) -> None:
        """Forget the clients of a broker that is not served here any more, and tell them so."""
        for key in [key for key in self._peers if key[0] == broker]:
            local = self._peers.pop(key)
            self._brokers.pop(id(local), None)
            if self._open.pop(key, None) is not None:
                local.closed()
            local.removed()

    def get(self, broker: str, name: str) -> LocalPeer | None:
        return self._peers.get((broker, name))

    def broker_of(self, local: LocalPeer) -> str:
        return self._brokers.get(id(local), "")

    def names(self) -> list[str]:
        return [name for _, name in self._peers]

    def open(self, peer: Peer) -> None:
        self._peer = peer
        self.look()

    def look(self) -> None:
        """Open and close those whose broker has come or gone."""
        peer: Any = self._peer
        if peer is None:
            return
        for key, local in list(self._peers.items()):
            inner = peer.served(key[0]) if key[0] else peer
            if inner is self._open.get(key):
                continue
            if self._open.pop(key, None) is not None:
                local.closed()
            if inner is not None:
                self._open[key] = inner
                local.opened(inner)

    def close(self) -> None:
        self._peer = None
        for key in list(self._open):
            del self._open[key]
            if key in self._peers:
                self._peers[key].closed()

    def announce(self, event: Any, broker: str) -> None:
        """Something for whoever runs a broker, or for all if it is of no broker in particular."""
        for (own, _), local in list(self._peers.items()):
            if not broker or own in ("", broker):
                local.announced(event)
