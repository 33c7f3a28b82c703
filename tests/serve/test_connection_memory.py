"""Memory of connections that are closed: they leave no garbage, and much of it is given back to the system."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from support.served_http import Service, eventually
from test_http_direct import DirectDoor, request, usual_way
from test_web_socket_hostile import CLOSE, TEXT, frame

from treecast.serve.doors.calls import Scope
from treecast.serve.doors.http_server import GuardedProtocol, HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.web_socket import SocketProtocol
from treecast.serve.logs import make_log

pytestmark = pytest.mark.house

STREAMS = 2_000
SHAKE = (
    b"GET /v1/socket HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Session:
    """Of a WebSocket, which says nothing."""

    publishing = 0
    is_paused = False

    def __init__(self, side: Any) -> None:
        self._say: Callable[[Any], None] = side.say

    def receive(self, text: bytes) -> None:
        self._say({"heard": len(text)})

    def ask(self) -> None: ...

    def close(self) -> None: ...


class SocketDoor(DirectDoor):
    def open_socket(self, scope: Scope) -> Any:
        return Session


@contextmanager
def no_collections() -> Iterator[None]:
    """What nothing refers to is freed at once; only circles of objects stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /half HTTP/1.1\r\nHost",
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 3,
        request(b"<a/>", end=b"keep-alive"),
        request(b"<a/>", b"Upgrade: h2c\r\n", end=b"upgrade"),
        request(b"<a/>", b"Expect: 100-continue\r\n")[:-2],
        b"no HTTP\r\n\r\n",
        SHAKE,
        SHAKE + frame(TEXT, b"{}") + frame(CLOSE, b"\x03\xe8"),
    ],
)
def test_a_connection_leaves_no_garbage(data: bytes) -> None:
    async def run() -> None:
        server = HttpServer(usual_way, DoorSettings(), make_log("json", "error"), SocketDoor())
        host, port = server.listen("127.0.0.1", 0)
        running = asyncio.create_task(server.run())
        with no_collections():
            _, writer = await asyncio.open_connection(host, port)
            writer.write(data)
            for _ in range(20):  # turns of the event loop that the server is in, too
                await asyncio.sleep(0.001)
            protocols = [ref(one) for one in gc.get_objects() if isinstance(one, GuardedProtocol | SocketProtocol)]
            assert protocols or data == b"no HTTP\r\n\r\n"
            writer.close()
            await writer.wait_closed()
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert [one() for one in protocols if one() is not None] == []
        server.stop()
        await running

    asyncio.run(run())


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_of_event_streams_comes_back(tmp_path: Path) -> None:
    """With 10,000 streams it is three quarters of it; the rest is in blocks that others use too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * STREAMS:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * STREAMS), hard))
    try:
        with Service(tmp_path / "data", header_ms=300_000) as service:
            service.subscribe("read", "/read")
            service.publish("<read/>")
            before = resident_bytes(service.pid)
            readers = [service.socket() for _ in range(STREAMS)]
            for reader in readers:
                reader.sendall(b"GET /v1/events?subscription=read HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for reader in readers:
                assert reader.recv(12) == b"HTTP/1.1 200"
            grown = resident_bytes(service.pid) - before
            for reader in readers:
                reader.close()
            eventually(lambda: before + grown - resident_bytes(service.pid) > grown / 5)
            assert service.end() == (0, "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
