"""What strangers do to WebSockets: no handshake, wrong frames, no sense, no answer. Each is told why, and closed."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.served_http import Service

pytestmark = pytest.mark.house

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
ORIGIN = "https://friend.example"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    limits = {"socket_message_bytes_max": 10_000, "sockets_max": 3, "socket_origins": [ORIGIN]}
    times = {"socket_ping_ms": 500, "body_ms": 300, "stalled_ms": 300, "socket_close_ms": 300}
    with Service(tmp_path_factory.mktemp("strict") / "data", **limits, **times) as service:
        service.subscribe("a", "/a")
        yield service


def shake(service: Service, method: str = "GET", path: str = "/v1/socket", **changed: str) -> bytes:
    """A handshake; an empty value leaves a header out."""
    headers = {
        "Host": f"127.0.0.1:{service.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()


def frame(opcode: int, payload: bytes, *, fin: bool = True, masked: bool = True) -> bytes:
    small = len(payload) < 126
    length = struct.pack(">BB", opcode | fin << 7, masked << 7 | (len(payload) if small else 126))
    length += b"" if small else struct.pack(">H", len(payload))
    return length + (b"\0\0\0\0" if masked else b"") + payload  # a mask of zeros changes nothing


class RawSocket:
    """Frames as they are."""

    def __init__(self, service: Service, path: str = "/v1/socket", **headers: str) -> None:
        self.connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        self.connection.sendall(shake(service, path=path, **headers))
        self.file = self.connection.makefile("rb")
        self.head = b"".join(iter(self.file.readline, b"\r\n"))
        assert self.head.startswith(b"HTTP/1.1 101"), self.head

    def send(self, *frames: bytes) -> None:
        self.connection.sendall(b"".join(frames))

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Until the other side closes."""
        try:
            while len(head := self.file.read(2)) == 2:
                length = head[1]
                if length == 126:
                    (length,) = struct.unpack(">H", self.file.read(2))
                yield head[0] & 15, self.file.read(length)
        except ConnectionError:
            pass
        finally:
            self.file.close()
            self.connection.close()

    def messages(self) -> Iterator[Any]:
        for opcode, payload in self.frames():
            if opcode == PING:
                self.send(frame(PONG, payload))
            elif opcode == TEXT:
                yield json.loads(payload)

    def closing(self, *, answers_pings: bool = True) -> tuple[int, str]:
        """The code and reason that it is closed with."""
        closed = (0, "")
        for opcode, payload in self.frames():
            if opcode == PING and answers_pings:
                self.send(frame(PONG, payload))
            elif opcode == CLOSE:
                closed = struct.unpack(">H", payload[:2])[0], payload[2:].decode()
                break
        self.connection.close()
        return closed


def refused(service: Service, data: bytes) -> tuple[int, str]:
    head, _, body = service.raw(data).partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, (head, body)
    return int(head.split()[1]), json.loads(body)["code"]


def test_what_is_no_handshake(strict: Service) -> None:
    assert strict.problem("GET", "/v1/socket") == (426, "TC434")
    assert refused(strict, shake(strict, Sec_WebSocket_Key="")) == (400, "TC434")
    assert refused(strict, shake(strict, Sec_WebSocket_Version="8")) == (400, "TC434")
    assert refused(strict, shake(strict, path="/v1/socket?subscription=%ff")) == (400, "TC434")


def test_pages_of_other_sites(strict: Service) -> None:
    """Else any web page could read what a service on its reader's machine delivers."""
    assert refused(strict, shake(strict, Origin="https://evil.example")) == (403, "TC461")
    assert refused(strict, shake(strict, Origin="null")) == (403, "TC461")
    assert refused(strict, shake(strict, Host="evil.example", Origin="http://evil.example")) == (403, "TC609")
    for origin in (ORIGIN, f"http://127.0.0.1:{strict.port}"):
        RawSocket(strict, Origin=origin).connection.close()


def test_messages_are_not_compressed(strict: Service) -> None:
    raw = RawSocket(strict, Sec_WebSocket_Extensions="permessage-deflate")
    assert b"permessage" not in raw.head
    raw.send(frame(TEXT | 0x40, b"x"))
    assert raw.closing()[0] == 1002


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"no json", "TC434"),
        (b"\xff", "TC434"),
        (b"[" * 9_000, "TC434"),
        (b'{"colour": "red"}', "TC434"),
        (b'{"credit": -1, "subscriptions": ["a"]}', "TC434"),
        (b'{"credit": 1001, "subscriptions": ["a"]}', "TC460"),
        (b'{"credit": -1, "publish": {"document": 7}}', "TC434"),
        (b'{"credit": 1}', "TC460"),
        (b'{"subscriptions": []}', "TC460"),
        (json.dumps({"subscriptions": [str(n) for n in range(1_001)]}).encode(), "TC460"),
    ],
)
def test_messages_that_make_no_sense(strict: Service, message: bytes, code: str) -> None:
    raw = RawSocket(strict)
    raw.send(frame(TEXT, message))
    status, reason = raw.closing()
    assert status == 4400 and reason.startswith(code)


@pytest.mark.parametrize(
    ("form", "ref"),
    [
        ({"document": "<a/>", "ref": 7}, None),
        ({"document": "<a/>", "ref": None}, None),
        ({"document": "<a/>", "ref": "r" * 1_001}, None),
        ({"document": 7, "ref": "number"}, "number"),
        ({"ref": "nothing"}, "nothing"),
        ({"document": "<a/>", "ref": "unknown", "colour": "red"}, "unknown"),
        ({"document": "<a/>", "ref": "encoding", "encoding": "rot13"}, "encoding"),
        ({"document": "<a/>", "ref": "long", "id": "i" * 1_001}, "long"),
        ("<a/>", None),
        ([], None),
    ],
)
def test_a_document_that_makes_no_sense(strict: Service, form: Any, ref: str | None) -> None:
    """It is answered, and the socket goes on: it may hold deliveries, and documents that have no answer yet."""
    raw = RawSocket(strict, "/v1/socket?subscription=a")
    heard = raw.messages()
    assert next(heard) == {"opened": ["a"]}
    raw.send(frame(TEXT, json.dumps({"ack": ["unknown"], "publish": form}).encode()))
    assert next(heard) == {"unknown": ["unknown"]}  # the rest of the message counts
    answer = next(heard)
    assert (answer["published"]["status"], answer["published"]["problem"]["code"]) == (400, "TC434")
    assert "$.publish" in answer["published"]["problem"]["detail"] and answer.get("ref") == ref
    raw.send(frame(TEXT, b'{"publish": {"document": "<b/>", "ref": "next"}}'))
    answer = next(heard)
    assert (answer["published"]["status"], answer["ref"]) == (201, "next")
    raw.connection.close()


def test_subscriptions(strict: Service) -> None:
    assert RawSocket(strict, "/v1/socket?subscription=nobody").closing()[0] == 4404
    raw = RawSocket(strict, "/v1/socket?subscription=a")
    raw.send(frame(TEXT, b'{"subscriptions": ["a"]}'))
    assert raw.closing()[0] == 4400


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(BINARY, b"{}"), 1003),
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(3, b"{}"), 1002),
        (frame(0, b"{}"), 1002),
        (frame(TEXT, b" " * 10_001), 1009),
        (frame(TEXT, b" " * 9_000, fin=False) + frame(0, b" " * 9_000), 1009),
        (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1009),
        (frame(CLOSE, struct.pack(">H", 1000)), 1000),
    ],
)
def test_frames_that_are_wrong(strict: Service, data: bytes, code: int) -> None:
    raw = RawSocket(strict)
    raw.send(data)
    assert raw.closing()[0] == code


def test_a_message_that_never_ends(strict: Service) -> None:
    raw = RawSocket(strict)
    raw.send(frame(TEXT, b" ", fin=False))
    assert raw.closing() == (4408, "TC433 the message did not arrive in time")


def test_a_frame_that_never_ends(strict: Service) -> None:
    """In the middle of it, nobody can answer a ping."""
    raw = RawSocket(strict)
    raw.send(frame(TEXT, b" " * 100)[:-1])
    assert raw.closing(answers_pings=False) == (4408, "TC433 a ping was not answered")


def test_pings_that_are_not_answered(strict: Service) -> None:
    raw = RawSocket(strict)
    assert raw.closing(answers_pings=False) == (4408, "TC433 a ping was not answered")


def test_a_socket_that_answers_pings_lives(strict: Service) -> None:
    raw = RawSocket(strict)
    frames = raw.frames()
    for _ in range(3):
        assert next(frames) == (PING, b"")
        raw.send(frame(PONG, b""))
    raw.send(frame(PING, b"are you there"))
    assert next(frames) == (PONG, b"are you there")
    raw.connection.close()


def test_too_many_sockets(strict: Service) -> None:
    open_ones = [RawSocket(strict) for _ in range(3)]
    assert refused(strict, shake(strict)) == (503, "TC417")
    for each in open_ones:
        each.connection.close()


def test_a_reader_that_does_not_read(tmp_path: Path) -> None:
    """It is closed after a while; what it was sent is delivered again."""
    with Service(tmp_path / "data", stalled_ms=300) as service:  # a strict one has no time for so large a batch
        service.subscribe("stalled", "/stalled")
        line = json.dumps({"document": f"<stalled>{'x' * 50_000}</stalled>"})
        answer = service.ask("POST", "/v1/documents:batch", "\n".join([line] * 200))
        numbers = [item["document"] for item in answer.json["documents"]]
        raw = RawSocket(service, "/v1/socket?subscription=stalled")
        raw.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.send(frame(TEXT, b'{"credit": 1000}'))
        while b"treecast_http_sockets 0.0" not in service.ask("GET", "/metrics").body:
            time.sleep(0.02)
        raw.connection.close()
        pulled: list[Any] = []
        while len(pulled) < 200:
            pulled += service.ask("POST", "/v1/subscriptions/stalled:pull", {"max": 200}).json["deliveries"]
    assert sorted(each["document"] for each in pulled) == numbers


def test_the_service_still_works(strict: Service) -> None:
    strict.publish("<a/>")
    assert strict.end() == (0, "")
