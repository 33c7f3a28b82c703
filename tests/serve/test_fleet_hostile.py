"""What strangers send to a worker of a fleet: refused with the right status, others are served, nothing is lost."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.fleet import LEFT_OUT, FleetWorker, NatsServer
from support.nats_server import program
from support.served_http import read_all

from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

LIMITS = {"document_bytes_max": 10_000, "batch_bytes_max": 20_000, "request_bytes_max": 10_000}
TIMES = {"header_ms": 300, "body_ms": 300, "keep_alive_ms": 1_000}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetWorker | None]:
    if program() is None:
        yield None
        return
    tokens = tmp_path_factory.mktemp("tokens")
    _, text = TokenStore(tokens).create(["admin"])
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(tmp_path_factory.mktemp("hostile")))
        made = FleetWorker(server, "hostile", None, header_bytes_max=20_000, **LIMITS, **TIMES)
        made.options["directory"] = str(tokens)
        made.token = text
        yield stack.enter_context(made)


@pytest.fixture
def strict(worker: FleetWorker | None, leave_out: Callable[[str], None]) -> FleetWorker:
    if worker is None:
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    return worker


def status_of(worker: FleetWorker, data: bytes, *, is_cut: bool = False) -> int:
    """Of the answer to these bytes; 0 if there is none."""
    with socket.create_connection(("127.0.0.1", worker.port), timeout=30) as connection:
        connection.sendall(data)
        if is_cut:
            connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    return int(answer.split()[1]) if answer else 0


def head_of(worker: FleetWorker, *lines: str) -> bytes:
    fixed = ["POST /v1/documents HTTP/1.1", "Host: here", f"Authorization: Bearer {worker.token}"]
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def test_attacks_on_a_worker(strict: FleetWorker, tmp_path: Path) -> None:
    ask, head = strict.problem, head_of(strict)
    strict.subscribe("all", "/*")
    first = strict.publish("<a/>", Treecast_Document_Id="once")
    # too large, by what it says and by what it is; packed, packed twice, and packed in a part
    assert status_of(strict, head[:-2] + b"Content-Length: 10001\r\n\r\n") == 413
    assert ask("PUT", "/v1/subscriptions/a", b" " * 10_001) == (413, "TC432")
    bomb = gzip.compress(bytes(5 << 20))
    assert ask("POST", "/v1/documents", bomb, Content_Encoding="gzip") == (413, "TC432")
    assert ask("POST", "/v1/documents:batch", bomb, Content_Encoding="gzip") == (413, "TC432")
    assert ask("POST", "/v1/documents", gzip.compress(bomb), Content_Encoding="gzip, gzip") == (415, "TC435")
    assert ask("POST", "/v1/documents", gzip.compress(b"<a/>")[:-9], Content_Encoding="gzip")[0] in (400, 413)
    # malformed: XML, JSON, ids, HTTP
    assert ask("POST", "/v1/documents", b"<a>") == (422, "TC209")
    assert ask("PUT", "/v1/subscriptions/a", b'{"query": ') == (400, "TC434")
    assert ask("PUT", f"/v1/subscriptions/{'x' * 2_000}", {"query": "/a"}) == (400, "TC414")
    assert status_of(strict, b"\x16\x03\x01 no HTTP\r\n\r\n") == 400
    assert status_of(strict, head[:-2] + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n<a/>") == 400
    # truncated, slow, without end
    assert status_of(strict, head[:-2] + b"Content-Length: 100\r\n\r\n<a/>", is_cut=True) in (0, 408)
    assert status_of(strict, head[:-2] + b"Content-Length: 100\r\n\r\n<a/>") == 408
    assert status_of(strict, head[:-2] + b"Transfer-Encoding: chunked\r\n\r\n") == 408
    assert status_of(strict, head[:-2] + b"Slow: ") == 408
    assert status_of(strict, head[:-2] + b"Large: " + b"x" * 30_000) == 431
    # a wrong token, none, and one in an address
    token, strict.token = strict.token, ""
    assert ask("POST", "/v1/documents", b"<a/>") == (401, "TC602")
    assert ask("GET", f"/v1/subscriptions?ticket={token}") == (401, "TC602")
    strict.token = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert ask("GET", "/v1/events?subscription=all") == (401, "TC602")
    strict.token = token
    # replayed: the same document is a copy, the same ticket is none
    answer = strict.ask("POST", "/v1/documents", b"<a/>", Treecast_Document_Id="once")
    assert (answer.status, answer.json["document"]) == (200, first)
    ticket = strict.ask("POST", "/v1/tickets").json["ticket"]
    strict.token = ""
    statuses = [strict.ask("HEAD", f"/v1/events?subscription=all&ticket={ticket}").status for _ in range(2)]
    strict.token = token
    assert statuses == [200, 401]
    # others are served, and what was acknowledged is there, once
    last = strict.publish("<last/>")
    with strict.events("all") as events:
        assert [event["document"] for event in events.take(2)] == [first, last]


def test_a_batch_of_parts(strict: FleetWorker) -> None:
    """As a broker takes them; what cannot be used is refused by itself."""
    parts = [b"--x\r\n\r\n<part/>\r\n", b"--x\r\n\r\n<part>\r\n", b"--x\r\nContent-Encoding: gzip\r\n\r\n<part/>\r\n"]
    kind = "multipart/mixed; boundary=x"
    answer = strict.ask("POST", "/v1/documents:batch", b"".join(parts) + b"--x--\r\n", Content_Type=kind)
    assert [item["status"] for item in answer.json["documents"]] == [201, 422, 415]
    assert strict.problem("POST", "/v1/documents:batch", b"--x\r\n", Content_Type=kind) == (400, "TC434")
    assert strict.problem("POST", "/v1/documents:batch", b"", Content_Type="multipart/mixed") == (400, "TC434")
