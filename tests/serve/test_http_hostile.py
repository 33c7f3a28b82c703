"""What strangers send to the HTTP door: too large, too slow, too many, or no HTTP at all. Others are served."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from support.served_http import Service, read_all

pytestmark = pytest.mark.house

HEAD = b"POST /v1/documents HTTP/1.1\r\nHost: here\r\n"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Short deadlines, small limits."""
    limits = {"document_bytes_max": 10_000, "request_bytes_max": 10_000, "header_bytes_max": 20_000}
    times = {"header_ms": 300, "body_ms": 300, "stalled_ms": 300, "keep_alive_ms": 1_000}
    with Service(tmp_path_factory.mktemp("strict") / "data", connections_max=20, **limits, **times) as service:
        yield service


def status_and_code(answer: bytes) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    return int(head.split()[1]), body.partition(b'"code":"')[2][:5]


def test_a_body_that_is_too_large(strict: Service) -> None:
    """By what it says, and by what it is."""
    says = HEAD + b"Content-Length: 10001\r\n\r\n"
    assert status_and_code(strict.raw(says)) == (413, b"TC432")
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    assert status_and_code(strict.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3)) == (413, b"TC432")
    assert strict.problem("PUT", "/v1/subscriptions/a", b" " * 10_001) == (413, "TC432")


def test_a_body_that_never_ends(strict: Service) -> None:
    assert status_and_code(strict.raw(HEAD + b"Content-Length: 100\r\n\r\n<a>")) == (408, b"TC433")
    assert status_and_code(strict.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")) == (408, b"TC433")


def test_a_header_that_never_ends(strict: Service) -> None:
    assert status_and_code(strict.raw(HEAD + b"Slow: ")) == (408, b"TC433")
    assert strict.raw(b"") == b""


def test_a_second_header_that_never_ends(strict: Service) -> None:
    """The deadline begins anew with each request of a connection."""
    answer = strict.raw(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\nGET /hea")
    assert answer.startswith(b"HTTP/1.1 200") and b"HTTP/1.1 408" in answer


def test_a_header_that_is_too_large(strict: Service) -> None:
    assert status_and_code(strict.raw(HEAD + b"Large: " + b"x" * 30_000)) == (431, b"TC432")


def test_what_is_not_http(strict: Service) -> None:
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        assert status_and_code(strict.raw(data)) == (400, b"TC434")


def test_headers_and_parameters_that_are_not_text(strict: Service) -> None:
    body = b"Content-Length: 4\r\nConnection: close\r\n\r\n<a/>"
    assert status_and_code(strict.raw(HEAD + b"Treecast-Document-Id: \xff\r\n" + body)) == (400, b"TC434")
    twice = b"Treecast-Source: a\r\nTreecast-Source: b\r\n"
    assert status_and_code(strict.raw(HEAD + twice + body)) == (400, b"TC434")
    assert strict.problem("GET", "/v1/events?subscription=%ff") == (400, "TC434")
    assert strict.problem("GET", "/v1/events?" + "&".join(f"subscription={n}" for n in range(1_001))) == (400, "TC434")


def test_bodies_where_none_belongs(strict: Service) -> None:
    """They are not read, and the connection is not used again."""
    answer = strict.raw(b"GET /healthz HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer


def test_a_reader_that_does_not_read(strict: Service) -> None:
    """It is closed after a while, also while events wait for it."""
    strict.subscribe("stalled", "/stalled")
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader.connect(("127.0.0.1", strict.port))
        reader.settimeout(30)
        reader.sendall(b"GET /v1/events?subscription=stalled HTTP/1.1\r\n\r\n")
        body = f"<stalled>{'x' * 9_000}</stalled>"
        while b"treecast_http_streams 1.0" in strict.ask("GET", "/metrics").body:
            strict.publish(body)
        read_all(reader)


def test_too_many_connections(strict: Service) -> None:
    connections = [socket.create_connection(("127.0.0.1", strict.port), timeout=30) for _ in range(40)]
    refused = sum(read_all(connection) == b"" for connection in connections[20:])
    for connection in connections:
        connection.close()
    assert refused == 20


def test_the_service_still_works(strict: Service) -> None:
    strict.publish("<a/>")
    assert strict.end()[0] == 0
