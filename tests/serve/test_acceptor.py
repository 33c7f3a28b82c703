"""The acceptor: at most so many connections, counted once each, and what those are told that are too many."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.served_broker import eventually

from treecast.serve.acceptor import Acceptor, AcceptPolicy, address_of, bind
from treecast.serve.logs import make_log

pytestmark = pytest.mark.house


class Kept(asyncio.Protocol):
    """Is among the connections as long as it is open."""

    def __init__(self, connections: set[object]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)


class Door:
    """An acceptor on a free port of loopback, what it has accepted, and what it has logged."""

    def __init__(self, connections_max: int, **policy: Any) -> None:
        self.connections: set[object] = set()
        self.logged = io.StringIO()
        settings = {"handshake_ms": 10_000, "context": lambda: None, **policy}
        self.acceptor = Acceptor(
            lambda: Kept(self.connections),
            self.connections,
            AcceptPolicy(connections_max=connections_max, **settings),
            make_log("json", "info", self.logged),
        )
        self.listening = bind("127.0.0.1", 0)
        self.address = address_of(self.listening)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        self.acceptor.accept(self.listening)
        try:
            yield
        finally:
            await self.acceptor.close()
            self.listening.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)


def test_one_too_many_is_told_so_and_closed() -> None:
    async def run() -> None:
        door = Door(2, refuse=lambda accepted: accepted.send(b"full"))
        async with door.open():
            writers = [(await door.connect())[1] for _ in range(2)]
            await eventually(lambda: len(door.connections) == 2)
            reader, writer = await door.connect()
            assert await reader.read() == b"full"
            writers[0].close()
            await eventually(lambda: len(door.connections) == 1)
            writers.append((await door.connect())[1])
            await eventually(lambda: len(door.connections) == 2)
            for each in (*writers, writer):
                each.close()

    asyncio.run(run())


def test_a_connection_whose_handshake_has_just_ended_counts_once() -> None:
    async def run() -> None:
        door = Door(2)
        (task,) = [asyncio.create_task(asyncio.sleep(0))]
        protocol = Kept(door.connections)
        door.connections.add(protocol)
        door.acceptor._starting[task] = protocol
        assert door.acceptor._has_room()
        door.connections.add(Kept(door.connections))
        assert not door.acceptor._has_room()
        door.listening.close()
        await task

    asyncio.run(run())


@pytest.mark.parametrize("logs", [True, False])
def test_failed_handshakes_leave_room_and_are_logged_if_wanted(tmp_path: Path, logs: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def run() -> None:
        door = Door(1, context=lambda: context, logs_failures=logs)
        async with door.open():
            for _ in range(3):
                reader, writer = await door.connect()
                writer.write(b"no TLS at all, and so on")
                await reader.read()
                writer.close()
                await eventually(lambda: not door.acceptor._starting)
        assert door.logged.getvalue().count("connection failed") == (3 if logs else 0)

    asyncio.run(run())
