"""The door of a network whose brokers take requests and say nothing: each is answered within its limit."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import Scope
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.logs import make_log
from treecast.serve.network.front_door import FrontDoor, FrontDoorSettings
from treecast.serve.ring.ring_door import RingPlaces

pytestmark = pytest.mark.house
SETTINGS = DoorSettings(answer_ms=200, pull_wait_ms_max=200, heartbeat_ms=50)
FRONT = FrontDoorSettings(grace_ms=50, back_ms=100, stream_back_ms=100)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"9\r\nid: e.1\n\n\r\n"


class Silent:
    """The HTTP door of a broker that answers with the first bytes of an answer, if any, and then says nothing."""

    def __init__(self, beginning: bytes) -> None:
        self.requests: list[bytes] = []
        self._beginning = beginning

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._beginning)
        await reader.read()  # until the front door hangs up
        writer.close()


@asynccontextmanager
async def before(silent: Silent) -> AsyncIterator[FrontDoor]:
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    is_up = asyncio.Event()
    is_up.set()
    broker: Any = SimpleNamespace(is_up=is_up, restarts=0, addresses=SimpleNamespace(peer="", http=address))
    with Path(os.devnull).open("w") as quiet:
        log = make_log("json", "error", quiet)
        gate = Gate(None, log)
        door = FrontDoor({"b1": broker}, RingPlaces(["b1"]), log, "test", SETTINGS, gate, FRONT)
        await door.open()
        try:
            yield door
        finally:
            await door.close()
            server.close()


async def ask(door: FrontDoor, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    headers = [(b"content-length", b"%d" % len(body))]
    scope: Scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": headers}
    scope["query_string"] = b"subscription=q"
    sent: list[Any] = []
    arrived = asyncio.Event()

    async def receive() -> Any:
        if arrived.is_set():
            await asyncio.Event().wait()  # it does not hang up
        arrived.set()
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(20):
        await door(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/documents", b"<a/>"),
        ("GET", "/v1/subscriptions", b""),
        ("PUT", "/v1/subscriptions/q", b'{"query": "/a"}'),
        ("POST", "/v1/subscriptions/q:pull", b"{}"),
        ("GET", "/v1/events", b""),
    ],
)
def test_a_broker_that_does_not_answer_is_no_longer_waited_for(
    method: str, path: str, body: bytes, beginning: bytes
) -> None:
    async def run() -> None:
        silent = Silent(beginning)
        async with before(silent) as door:
            status, answer = await ask(door, method, path, body)
        assert (status, json.loads(answer)["code"]) == (503, "TC436")
        if method == "POST":
            assert len(silent.requests) == 1, "what may have been done is not asked for again"

    asyncio.run(run())


@pytest.mark.parametrize("beginning", [STREAM, STREAM + EVENT])
def test_a_stream_whose_host_says_nothing_any_more_is_opened_again(beginning: bytes) -> None:
    async def run() -> None:
        silent = Silent(beginning)
        async with before(silent) as door:
            asking = asyncio.create_task(ask(door, "GET", "/v1/events"))
            async with asyncio.timeout(20):
                while len(silent.requests) < 2:
                    await asyncio.sleep(0.01)
            door.is_stopping = True
            assert (await asking)[0] == 200
        assert (b"last-event-id: e.1" in silent.requests[1].lower()) == (EVENT in beginning), "it goes on where it was"

    asyncio.run(run())
