"""Documents that are answered without ASGI: the answers are the same, and everything else goes the usual way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.served_http import Service

from treecast.serve.doors.calls import Bodies, Reply, Scope
from treecast.serve.doors.http_server import HttpServer
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.logs import make_log

pytestmark = pytest.mark.house

USUAL = b"Content-Encoding: identity\r\n"
"""A request with this header is never answered directly."""


def request(body: bytes, headers: bytes = b"", path: bytes = b"/v1/documents", end: bytes = b"close") -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: here\r\nConnection: %s\r\nContent-Length: %d\r\n%s\r\n"
    return head % (path, end, len(body), headers) + body


def answer_of(service: Service, data: bytes) -> tuple[bytes, ...]:
    """The lines of the answer, without what differs by nature."""
    lines = service.raw(data).split(b"\r\n")
    return tuple(line for line in lines if not line.startswith((b"date:", b'{"document":', b"content-length:")))


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<a/>", b""),
        (b"<a>", b""),
        (b"", b""),
        (b"<a/>", b"Treecast-Source: nobody\r\n"),
        (b"<a/>", b"Treecast-Document-Id: \xff\r\n"),
        (b"<a/>", b"Treecast-Document-Id: a\r\nTreecast-Document-Id: b\r\n"),
        (b"<a/>", b"Treecast-Document-Id: %s\r\n" % (b"x" * 1_001)),
    ],
)
def test_both_ways_answer_the_same(service: Service, body: bytes, headers: bytes) -> None:
    assert answer_of(service, request(body, headers)) == answer_of(service, request(body, headers + USUAL))


def test_a_copy_is_known_on_both_ways(service: Service) -> None:
    named = b"Treecast-Document-Id: both ways\r\n"
    first, *others = [service.raw(request(b"<a/>", named + usual)) for usual in (b"", USUAL, b"")]
    assert first.startswith(b"HTTP/1.1 201")
    for other in others:
        assert other.startswith(b"HTTP/1.1 200") and other.rpartition(b"\r\n")[2] == first.rpartition(b"\r\n")[2]


def test_limits_hold_on_both_ways(tmp_path: Any) -> None:
    with Service(tmp_path / "data", document_bytes_max=100, keep_alive_ms=1_000) as small:
        body = b"<a>" + b" " * 100 + b"</a>"
        assert b"413" in answer_of(small, request(body))[0]
        assert answer_of(small, request(body))[0] == answer_of(small, request(body, USUAL))[0]
        # A connection that asks nothing more is closed, whichever way it was answered.
        for usual in (b"", USUAL):
            assert small.raw(request(b"<a/>", usual, end=b"keep-alive")).startswith(b"HTTP/1.1 201")


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    lasting = request(b"<a/>", end=b"keep-alive")
    get = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
    usual = request(b"<a/>", USUAL, end=b"keep-alive")
    answers = service.raw(lasting + get + lasting + usual + lasting + request(b"<a>")).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"201", b"200", b"201", b"201", b"201", b"422"]
    bodies = [answer.rpartition(b"\r\n")[2] for answer in answers]
    numbers = [body for body in bodies if body.startswith(b'{"document"')]
    assert numbers == sorted(numbers, key=lambda text: (len(text), text)) and len(set(numbers)) == 4


# --- which way a request goes -----------------------------------------------------------------------------------------


async def usual_way(scope: Scope, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"usual"})


class DirectDoor:
    """Says that it was asked."""

    bodies = Bodies(DoorSettings())

    def publish_directly(self, scope: Scope, body: bytes, answer: Callable[[Reply], None]) -> None:
        answer(Reply(200, b"direct " + body))

    def open_socket(self, scope: Scope) -> Any:
        raise AssertionError("nobody asks for a socket")


async def ways(parts: list[bytes]) -> bytes:
    """Send these, each when the one before has been read, and return the answer."""
    settings = DoorSettings()
    server = HttpServer(usual_way, settings, make_log("json", "error"), DirectDoor())
    host, port = server.listen("127.0.0.1", 0)
    running = asyncio.create_task(server.run())
    reader, writer = await asyncio.open_connection(host, port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        for _ in range(20):  # turns of the event loop that the server is in, too: it reads the part by itself
            await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    server.stop()
    await running
    return answer.partition(b"\r\n\r\n")[2]


def test_what_arrives_as_a_whole_is_answered_directly() -> None:
    assert asyncio.run(ways([request(b"<a/>")])) == b"direct <a/>"


@pytest.mark.parametrize(
    "parts",
    [
        [request(b"<a/>", USUAL)],
        [request(b"<a/>", path=b"/v1/documents?source=a")],
        [request(b"<a/>", b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")[0] + b"\r\n\r\n", b"<a/>"],
        [request(b"<a/>")[:-4], request(b"<a/>")[-4:]],
        [request(b"<a/>")[:-1], request(b"<a/>")[-1:]],
    ],
)
def test_everything_else_goes_the_usual_way(parts: list[bytes]) -> None:
    assert asyncio.run(ways(parts)).endswith(b"usual")


def test_a_head_in_two_parts_may_still_be_direct() -> None:
    whole = request(b"<a/>")
    assert asyncio.run(ways([whole[:10], whole[10:]])) == b"direct <a/>"
