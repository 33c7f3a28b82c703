"""Strangers and bad clients at a door with tokens: each gets the right status, and no acknowledged document is lost.

`test_http_hostile.py` has what is wrong with single requests where there are no tokens; `test_https.py` has handshakes.
"""

from __future__ import annotations

import gzip
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.served_http import Service, read_all

from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house


class Abused:
    """A service, a token for it, and the documents that it has acknowledged."""

    def __init__(self, directory: Path) -> None:
        self.store = TokenStore(directory)
        _, self.token = self.store.create(["admin"])
        times = {"header_ms": 300, "body_ms": 300, "keep_alive_ms": 1_000}
        limits = {"document_bytes_max": 10_000, "batch_bytes_max": 100_000}
        self.service = Service(directory, **limits, access={"look_ms": 50}, **times)
        self.service.token = self.token
        self.acknowledged: list[int] = []

    def head(self, *lines: str, path: str = "/v1/documents") -> bytes:
        fixed = [f"POST {path} HTTP/1.1", "Host: here", f"Authorization: Bearer {self.token}"]
        return "\r\n".join([*fixed, *lines, "", ""]).encode()

    def send(self, data: bytes, *, is_cut: bool = False) -> list[int]:
        """The statuses that come back, in order. `is_cut`: we close our side."""
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=30) as connection:
            connection.sendall(data)
            if is_cut:
                connection.shutdown(socket.SHUT_WR)
            answer = read_all(connection)
        statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
        for part in answer.split(b"HTTP/1.1 ")[1:]:
            if part.startswith(b"201"):
                self.acknowledged.append(int(part.rpartition(b":")[2].rstrip(b"}")))
        return statuses


@pytest.fixture(scope="module")
def abused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abused]:
    made = Abused(tmp_path_factory.mktemp("abused"))
    with made.service:
        made.service.subscribe("all", "/*")
        yield made


def test_without_a_token_nothing_is_read(abused: Abused) -> None:
    """The answer comes before the body, however large that is to be."""
    head = b"POST /v1/documents HTTP/1.1\r\nHost: here\r\nContent-Length: 9999999999\r\n"
    assert abused.send(head + b"\r\n") == [401]
    assert abused.send(head + b"Authorization: Bearer tc_" + b"0" * 60_000 + b"\r\n\r\n") == [401]
    twice = f"Authorization: Bearer {abused.token}\r\n".encode()
    assert abused.send(head + twice + twice + b"\r\n") == [401]
    assert abused.send(head + b"Authorization: Bearer \xff\xfe\r\n\r\n") == [401]
    in_query = f"/v1/documents?access_token={abused.token}&authorization=Bearer%20{abused.token}"
    assert abused.send(f"POST {in_query} HTTP/1.1\r\nContent-Length: 4\r\n\r\n<a/>".encode()) == [401]


def test_what_is_replayed(abused: Abused) -> None:
    """A request that was recorded is the same document; a token that was recorded ends when it is revoked."""
    once = abused.head("Content-Length: 4", "Treecast-Document-Id: once", "Connection: close") + b"<a/>"
    assert abused.send(once) == [201]
    assert abused.send(once) == abused.send(once) == [200]
    token, text = abused.store.create(["publish:default"])
    recorded = once.replace(abused.token.encode(), text.encode()).replace(b"id: once", b"id: again")
    while (statuses := abused.send(recorded)) == [401]:  # until it is known
        time.sleep(0.02)
    assert statuses in ([200], [201])
    abused.store.revoke([token.id])
    while abused.send(recorded) == [200]:
        time.sleep(0.02)
    assert abused.send(recorded) == [401]


@pytest.mark.parametrize("is_body", [False, True], ids=["header", "body"])
def test_one_byte_at_a_time(abused: Abused, is_body: bool) -> None:
    """A deadline is for all of it: who always sends a little does not move it."""
    with socket.create_connection(("127.0.0.1", abused.service.port), timeout=30) as connection:
        connection.sendall(abused.head("Content-Length: 5000") if is_body else abused.head("A: b")[:-2])
        answer = b""
        connection.settimeout(0.05)
        for _ in range(400):
            try:
                connection.sendall(b"x")
                answer += connection.recv(65_536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if answer:
                break
        assert answer.startswith(b"HTTP/1.1 408")


def test_bodies_that_are_cut_off(abused: Abused) -> None:
    """Nothing is published of them; a chunk that is none is no HTTP."""
    chunked = abused.head("Transfer-Encoding: chunked")
    assert abused.send(chunked + b"4\r\n<a/>\r\n", is_cut=True) in ([], [408])
    assert abused.send(abused.head("Content-Length: 100") + b"<a/>", is_cut=True) in ([], [408])
    # What follows a request that has begun is our error, if anything is: it is closed with or without an answer.
    for wrong in (b"4\r\n<a/>", b"zz\r\n<a/>\r\n0\r\n\r\n", b"-4\r\n<a/>\r\n0\r\n\r\n", b"4\r\n<a/>xx0\r\n\r\n"):
        assert abused.send(chunked + wrong) in ([], [400], [408])
    whole = abused.head("Transfer-Encoding: chunked", "Connection: close")
    assert abused.send(whole + b"4\r\n<a/>\r\n0\r\n\r\n") == [201]


def test_lengths_that_contradict_each_other(abused: Abused) -> None:
    """Two readings of one request are how requests are smuggled past a proxy."""
    assert abused.send(abused.head("Content-Length: 4", "Content-Length: 5") + b"<a/>") == [400]
    assert abused.send(abused.head("Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n") == [400]
    assert abused.send(abused.head("Content-Length: +4") + b"<a/>") == [400]
    assert abused.send(abused.head("Content-Length: 4 4") + b"<a/>") == [400]


def test_garbage_behind_a_request(abused: Abused) -> None:
    good = abused.head("Content-Length: 4") + b"<a/>"
    assert abused.send(good + b"\x00\x01garbage\r\n\r\n") == [201]  # and no more
    assert abused.send(good * 3 + b"\x00\x01garbage\r\n\r\n") == [201] * 3
    last = abused.head("Content-Length: 4", "Connection: close") + b"<a/>"
    assert abused.send(good * 50 + last) == [201] * 51  # and what is pipelined is answered in order
    assert abused.acknowledged == sorted(abused.acknowledged)


def test_packed_twice(abused: Abused) -> None:
    plain = b"<a>" + b" " * 1_000 + b"</a>"
    twice = gzip.compress(gzip.compress(plain))
    ask = abused.service.problem
    assert ask("POST", "/v1/documents", twice, Content_Encoding="gzip, gzip") == (415, "TC435")
    assert ask("POST", "/v1/documents", twice, Content_Encoding="gzip,identity") == (415, "TC435")
    assert ask("POST", "/v1/documents", twice, Content_Encoding="gzip")[0] == 422  # what is inside is no XML
    lines = abused.head("Content-Encoding: gzip", "Content-Encoding: gzip", f"Content-Length: {len(twice)}")
    assert abused.send(lines + twice) == [400]
    bomb = gzip.compress(gzip.compress(bytes(5 << 20)))
    assert len(bomb) < 1_000
    assert ask("POST", "/v1/documents", bomb, Content_Encoding="gzip")[0] in (413, 422)
    assert ask("POST", "/v1/documents:batch", gzip.compress(bytes(5 << 20)), Content_Encoding="gzip") == (413, "TC432")


def test_a_header_without_end(abused: Abused) -> None:
    lines = abused.head()[:-2] + b"".join(b"x-%d: y\r\n" % number for number in range(20_000))
    assert abused.send(lines) == [431]


def test_nothing_was_lost_and_nothing_more_was_published(abused: Abused) -> None:
    """All that was acknowledged is delivered, once and in order, after a restart as well."""
    assert len(abused.acknowledged) > 50
    assert abused.service.end()[0] == 0
    abused.service.start()
    with abused.service.events("all") as events:
        received = [event["document"] for event in events.take(len(abused.acknowledged))]
    assert sorted(abused.acknowledged) == received
    number = abused.service.publish("<last/>")
    assert number == len(received) + 1


@pytest.mark.long
def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    """Those beyond the limit are closed, the others are served. Twin: test_too_many_connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12_000:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))  # for the service, too
    try:
        with Service(tmp_path / "data", connections_max=10_000, header_ms=300_000) as service:
            connections = [socket.create_connection(("127.0.0.1", service.port), timeout=60) for _ in range(10_000)]
            with socket.create_connection(("127.0.0.1", service.port), timeout=60) as one_more:
                assert read_all(one_more) == b""
            for connection in (connections[0], connections[-1]):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
                assert read_all(connection).startswith(b"HTTP/1.1 200")
            service.publish("<a/>")
            for connection in connections:
                connection.close()
            assert service.end()[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
