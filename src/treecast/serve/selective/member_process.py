"""A member of a group in its own process: it follows its view. `treecast selective follow` calls it.

It connects to brokers that face subscribers, one of which it uses; brokers answer over its own connection, so it need
not be reachable. What has arrived is kept in the member's directory: a member that was away gets what has changed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import structlog

from treecast.durable import unused_name
from treecast.overlay.peer import Peer
from treecast.overlay.selective.member_peer import MemberPeer, ViewChange
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.serve.connection import steady_ms
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.selective.empty_store import EmptyStore
from treecast.serve.selective.homes import MemberHome
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles, client_context

SAVE_MS = 2_000
"""What has arrived is kept at most so long after it has."""


class MemberOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a member is started with."""

    brokers: dict[str, str]
    """Addresses of brokers that face subscribers, by their names."""
    once: bool = False
    """End when the view is there."""
    tls: TlsFiles | None = None
    settings: SelectiveSettings = SelectiveSettings()
    runtime: RuntimeSettings = RuntimeSettings()


Show = Callable[[int, list[bytes]], None]
"""Gets the version of a view that has been verified, and its fragments."""


class Speaker:
    """A broker that has said something, for `Runtime.tell`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None: ...


class Viewer(Speaker):
    """Shows the view whenever it has changed, and keeps it."""

    def __init__(self, home: MemberHome, show: Show, stop: Callable[[], None], is_once: bool) -> None:
        super().__init__("viewer of a member")
        self._home = home
        self._show = show
        self._stop = stop
        self._is_once = is_once
        self._peer: MemberPeer | None = None
        self._saved_ms = 0
        self._is_changed = False

    def opened(self, peer: Peer) -> None:
        assert isinstance(peer, MemberPeer)
        self._peer = peer
        if peer.assembly.version:
            self._show(peer.assembly.version, peer.assembly.fragments())

    def closed(self) -> None:
        self.save()

    def announced(self, event: Any) -> None:
        if not isinstance(event, ViewChange) or self._peer is None:
            return
        self._show(event.version, self._peer.assembly.fragments())
        self._is_changed = True
        if steady_ms() - self._saved_ms >= SAVE_MS:
            self.save()
        if self._is_once and self._peer.is_whole():
            self._stop()

    def save(self) -> None:
        if self._peer is not None and self._is_changed:
            self._home.save_network(self._peer.save())
            self._saved_ms, self._is_changed = steady_ms(), False


def run_member(
    home: MemberHome, options: MemberOptions, log: structlog.typing.FilteringBoundLogger, show: Show
) -> None:
    """`follow`, in its own event loop."""
    asyncio.run(follow(home, options, log, show))


async def follow(
    home: MemberHome, options: MemberOptions, log: structlog.typing.FilteringBoundLogger, show: Show
) -> None:
    """Follow a view until SIGTERM or SIGINT, or until it is there. Raises TreecastError."""
    name = f"{home.member}#{unused_name()}" if options.tls is None else home.member

    def open_peer() -> tuple[Peer, PeerStore]:
        return home.make_peer(name, Random(unused_name()), options.brokers, options.settings), EmptyStore()

    speakers: dict[str, Speaker] = {broker: Speaker(broker) for broker in options.brokers}

    def hear(broker: str, message: Any) -> None:
        runtime.tell(speakers[broker], message)

    client_tls = client_context(options.tls) if options.tls else None
    links = PeerLinks(*(name, options.brokers.get, Random(unused_name()), log, options.runtime, client_tls), hear=hear)
    runtime = Runtime(open_peer, Random(unused_name()), log, options.runtime, links=links)
    viewer = Viewer(home, show, runtime.stop, options.once)
    runtime.register(viewer)
    await runtime.open()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, runtime.stop)
    log.info("follows", brokers=sorted(options.brokers))
    await runtime.run()
