"""The source of a network of selective publishing, beside the doors of a service: `treecast up --selective`."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import structlog

from treecast.durable import unused_name
from treecast.overlay.peer import Peer
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.tree_source import TreeSource
from treecast.serve.address import format_address
from treecast.serve.connection import now_ms
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.selective.empty_store import EmptyStore
from treecast.serve.selective.publishers import Publishers
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles, client_context, server_context

SOURCE = "source"
"""The name of the peer."""


class SourceNetwork:
    """Runs the source, and hands it what publishers have made. It is a `LocalPeer` of it."""

    name = "publishers of a service"

    def __init__(
        self,
        publishers: Publishers,
        log: structlog.typing.FilteringBoundLogger,
        runtime: RuntimeSettings | None = None,
        tls: TlsFiles | None = None,
        settings: SelectiveSettings | None = None,
    ) -> None:
        self._publishers = publishers
        self._settings = settings
        self._source: TreeSource | None = None
        self.address = ""
        """Where it listens."""
        self._collecting: asyncio.Task[None] | None = None
        client_tls = client_context(tls) if tls else None
        links = PeerLinks(SOURCE, self._resolve, Random(unused_name()), log, runtime, client_tls)
        server_tls = server_context(tls) if tls else None
        self.runtime = Runtime(self._open, Random(unused_name()), log, runtime, server_tls, links=links)
        self.runtime.register(self)
        self._running: asyncio.Task[None] | None = None

    def _open(self) -> tuple[Peer, PeerStore]:
        # Editions must begin after all that were given before: the clock does.
        source = TreeSource(SOURCE, Random(unused_name()), settings=self._settings, first_edition=now_ms())
        source.neighbours.address = self.address
        return source, EmptyStore()

    def _resolve(self, name: str) -> str | None:
        return (self._source.neighbours.address_of(name) if self._source is not None else "") or None

    async def start(self, listen: tuple[str, int] | None) -> None:
        """Listen; without an address there is no network, and nothing happens. Raises TreecastError."""
        if listen is not None:
            self.address = format_address(*await self.runtime.start(*listen))
            self._running = asyncio.create_task(self.runtime.run())

    async def close(self) -> None:
        if self._running is None:
            return
        self.runtime.stop()
        if self._collecting is not None:
            await asyncio.wait([self._collecting])
        await self._running

    def send(self) -> None:
        """Let the source have what publishers have made."""
        for version in self._publishers.take_versions():
            size = sum(len(payload) for _, payload in version.states.values())
            self.runtime.tell(self, version, size)

    def edition(self, tree: str) -> int:
        """Of the outline of a tree, after `send`."""
        return self._source.edition(tree) if self._source is not None else 0

    def status(self) -> dict[str, Any]:
        return self._source.status() if self._source is not None else {}

    # -- what the runtime calls

    def opened(self, peer: Peer) -> None:
        assert isinstance(peer, TreeSource)
        self._source = peer
        peer.neighbours.address = self.address
        self._collecting = asyncio.create_task(self._collect_all())

    async def _collect_all(self) -> None:
        await asyncio.to_thread(self._publishers.collect_all)
        self.send()

    def closed(self) -> None:
        self._source = None

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None: ...
