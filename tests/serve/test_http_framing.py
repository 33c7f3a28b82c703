"""Where a request begins and ends, and what its header says: what can be read in two ways is refused.

A proxy in front of the service may read such a request in the other way. Then one request hides another in its body.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support.served_http import Service, read_all

pytestmark = pytest.mark.house

HEADER_BYTES_MAX = 8_000
HEAD = b"POST /v1/documents HTTP/1.1\r\nHost: here\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
SMUGGLED = b"PUT /v1/sources/smuggled HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"
CHUNKS = b"4\r\n<a/>\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("framing") / "data"
    with Service(directory, header_bytes_max=HEADER_BYTES_MAX, keep_alive_ms=2_000) as running:
        yield running
        assert running.ask("GET", "/v1/sources/smuggled").status == 404
        assert running.end() == (0, "")


def answers(service: Service, *segments: bytes) -> list[bytes]:
    """The answers to what is sent in these segments, until the service closes."""
    with service.socket() as connection:
        with suppress(ConnectionError):  # it may do so early
            for segment in segments:
                connection.sendall(segment)
                time.sleep(0.01)
        return read_all(connection).split(b"HTTP/1.1 ")[1:]


def refusal(service: Service, *segments: bytes) -> tuple[int, str]:
    """Of what is refused, with all that follows it."""
    (answer,) = answers(service, *segments)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower() and b"application/problem+json" in head, answer
    return int(head[:3]), json.loads(body)["code"]


# --- where a body ends ------------------------------------------------------------------------------------------------

TWO_LENGTHS = b"Content-Length: 4\r\nContent-Length: 72\r\n"
FRAMINGS = [
    *(
        TWO_LENGTHS,
        b"Content-Length: 4\r\nContent-Length: 4\r\n",
        b"Content-Length: 4, 4\r\n",
        b"Content-Length: 4,72\r\n",
    ),
    *(b"Content-Length: %s\r\n" % wrong for wrong in (b"+4", b"-4", b"0x4", b"4.0", b"4 4", b"", b"9" * 30)),
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    *(b"Transfer-Encoding: %s\r\n" % wrong for wrong in (b"chunked, identity", b"chunked,", b"\x0bchunked", b"")),
]
FIELDS = [
    b"Content-Length : 4\r\n",
    b" Content-Length: 4\r\n",
    b"Content-Length\r\n",
    b"Content\x00-Length: 4\r\n",
    b"Content-Length\xa0: 4\r\n",
    b": 4\r\n",
    b"Folded: a\r\n b\r\n",
    b"Folded:\r\n\tContent-Length: 4\r\n",
    b"Line: a\nContent-Length: 4\r\n",
    b"Line: a\rContent-Length: 4\r\n",
    b"Zero: a\x00b\r\n",
]
OTHER_ENCODINGS = [b"gzip, chunked", b"identity, chunked", b"identity", b"xchunked", b"chunked;q=1", b'"chunked"']


@pytest.mark.parametrize("fields", [*FRAMINGS, *FIELDS])
def test_a_header_that_can_be_read_in_two_ways(service: Service, fields: bytes) -> None:
    whole = HEAD + fields + b"\r\n<a/>" + SMUGGLED
    begin = len(whole) - len(SMUGGLED)
    for segments in ([whole], [whole[:begin], SMUGGLED], [whole[:30], whole[30:]]):
        assert refusal(service, *segments) == (400, "TC434")


@pytest.mark.parametrize("encoding", OTHER_ENCODINGS)
def test_a_transfer_encoding_that_is_not_known(service: Service, encoding: bytes) -> None:
    header = HEAD + b"Transfer-Encoding: " + encoding + b"\r\n\r\n"
    assert refusal(service, header + CHUNKS + SMUGGLED) == (501, "TC435")
    twice = HEAD + b"Transfer-Encoding: " + encoding + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert refusal(service, twice + CHUNKS + SMUGGLED)[0] in (400, 501)


@pytest.mark.parametrize(
    "chunks",
    [
        b"4 \r\n<a/>\r\n0\r\n\r\n",
        b"0x4\r\n<a/>\r\n0\r\n\r\n",
        b"-4\r\n<a/>\r\n0\r\n\r\n",
        b"4\n<a/>\n0\n\n",
        b"4;\n<a/>\r\n0\r\n\r\n",
        b"4;a\nb\r\n<a/>\r\n0\r\n\r\n",
        b"4;a\rb\r\n<a/>\r\n0\r\n\r\n",
        b"4\r\n<a/>0\r\n\r\n",
        b"4\r\n<a/>xx0\r\n\r\n",
        b"\r\n",
        b"10000000000000004\r\n<a/>\r\n0\r\n\r\n",
        b"4\r\n<a/>\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"4\r\n<a/>\r\n0\r\n Folded: a\r\n\r\n",
    ],
)
def test_chunks_that_can_be_read_in_two_ways(service: Service, chunks: bytes) -> None:
    """Their request has begun: it ends without an answer, or with one that refuses it."""
    before = service.publish("<before/>")
    for cut in (0, 1):
        segments = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks[:cut], chunks[cut:] + SMUGGLED
        assert [answer[:3] for answer in answers(service, *segments)] in ([], [b"400"])
    assert service.publish("<after/>") == before + 1


def test_versions(service: Service) -> None:
    for version in (b"0.9", b"2.0"):
        assert refusal(service, b"GET /healthz HTTP/" + version + b"\r\nHost: here\r\n\r\n" + SMUGGLED) == (
            505,
            "TC434",
        )
    assert refusal(service, b"GET /healthz\r\n\r\n" + SMUGGLED) == (505, "TC434")
    for version in (b"1.2", b"9.9", b"1.10", b"1.1 "):
        assert refusal(service, b"GET /healthz HTTP/" + version + b"\r\nHost: here\r\n\r\n") == (400, "TC434")


def test_nothing_follows_a_last_request(service: Service) -> None:
    """Whether the client or the service says that it is the last one."""
    last = HEAD + b"Connection: close\r\nContent-Length: 4\r\n\r\n<a/>"
    old = b"POST /v1/documents HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n<a/>"
    unread = b"GET /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED)
    for first in (last, old, unread):
        assert len(answers(service, first + SMUGGLED * 2)) == 1
        assert len(answers(service, first, SMUGGLED * 2)) == 1


def test_trailers_are_no_headers(service: Service) -> None:
    """They come when the header has decided already."""
    trailers = b"Treecast-Source: nobody\r\nHost: there\r\nOrigin: https://shop.example\r\nUpgrade: h2c\r\n"
    trailers += b"Connection: Upgrade\r\nTreecast-Document-Id: a\r\nTreecast-Document-Id: b\r\n"
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\n<a/>\r\n0\r\n"
    for segments in ([head + trailers + b"\r\n" + LAST], [head, trailers, b"\r\n" + LAST]):
        assert [answer[:3] for answer in answers(service, *segments)] == [b"201", b"200"]


# --- what a header says -----------------------------------------------------------------------------------------------


def test_two_hosts(service: Service) -> None:
    for second in (b"Host: here\r\n", b"Host: there\r\n", b"hOST: \r\n"):
        for head in (HEAD + b"Content-Length: 4\r\n", GET, b"GET /v1/socket HTTP/1.0\r\nHost: a\r\n"):
            assert refusal(service, head + second + b"\r\n" + SMUGGLED) == (400, "TC434")
    shake = b"GET /v1/socket HTTP/1.1\r\nHost: here\r\nHost: there\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    assert refusal(service, shake + b"Sec-WebSocket-Version: 13\r\n\r\n") == (400, "TC434")


@pytest.mark.parametrize("bad", ["%ff%fe", "%c3%28", "%ed%a0%80", "a%ff", "%f0%80%80%80"])
def test_urls_that_are_not_text(service: Service, bad: str) -> None:
    """Never read as text with U+FFFD in it: two names would become one."""
    pages = [
        *(("PUT", f"/v1/sources/{bad}"), ("GET", f"/v1/subscriptions/{bad}"), ("DELETE", f"/v1/hooks/{bad}")),
        *(("POST", f"/v1/subscriptions/{bad}:pull"), ("GET", f"/console/{bad}"), ("GET", f"/{bad}")),
        *(("GET", f"/v1/subscriptions?search={bad}"), ("GET", f"/v1/status?{bad}"), ("GET", f"/healthz?a={bad}&b")),
        *(("POST", f"/v1/documents?source={bad}"), ("GET", f"/v1/events?subscription=a&last_event_id={bad}")),
        *(("GET", f"/v1/events?subscription=a&last_event_id=12345678.1.{bad.replace('%', '%25')}"),),
    ]
    service.ask("PUT", "/v1/subscriptions/a", {"query": "/a"})
    for method, path in pages:
        assert service.problem(method, path, None) == (400, "TC434"), path
    socket = (
        f"GET /v1/socket?subscription={bad} HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    )
    assert refusal(service, socket.encode() + b"Sec-WebSocket-Version: 13\r\n\r\n") == (400, "TC434")
    assert service.ask("GET", "/v1/sources/%EF%BF%BD").status == 404
    assert service.ask("PUT", "/v1/sources/%C3%A4%F0%9F%8C%B2").status in (200, 201)


# --- how large a header is --------------------------------------------------------------------------------------------


def header(size: int, kind: str) -> bytes:
    """A request whose header has so many bytes."""
    begin, end = GET + b"Connection: close\r\n", b"\r\n"
    room = size - len(begin) - len(end)
    lines = room // 6 - 1
    filling = {
        "one line": b"Large: " + b"x" * (room - 9) + b"\r\n",
        "many lines": b"a: b\r\n" * lines + b"c: " + b"d" * (room - 6 * lines - 5) + b"\r\n",
        "spaces": b"Large: " + b" " * (room - 10) + b"x\r\n",
        "URL": b"",
    }[kind]
    if kind == "URL":
        begin = begin.replace(b"/healthz", b"/healthz?" + b"x" * (room - 1))
    return begin + filling + end


@pytest.mark.parametrize("kind", ["one line", "many lines", "spaces", "URL"])
@pytest.mark.parametrize("before", [b"", b"\r\n", GET + b"\r\n", HEAD + b"Content-Length: 4\r\n\r\n<a/>"])
def test_the_size_of_a_header(service: Service, kind: str, before: bytes) -> None:
    """It is exact, however the header arrives, and whatever came before it."""
    exact = HEADER_BYTES_MAX - (len(before) if before == b"\r\n" else 0)
    answered_before = int(before.count(b"HTTP"))
    for size, status in ((exact, b"200"), (exact + 1, b"431"), (120_000, b"431")):
        whole = before + header(size, kind)
        assert len(whole) == len(before) + size
        for segments in ([whole], [whole[:-1], whole[-1:]], [whole[:-3], whole[-3:]], [whole[:3_000], whole[3_000:]]):
            received = [answer[:3] for answer in answers(service, *segments)]
            # A header that is refused while a request before it is being answered ends the connection, no more.
            assert received[answered_before:] in ([status], [] if status == b"431" and answered_before else [status])
            assert all(answer in (b"200", b"201") for answer in received[:answered_before])


def test_a_body_is_no_part_of_a_header(service: Service) -> None:
    """Nor is a request before it, in the same segment."""
    body = b"<a>" + b" " * 3 * HEADER_BYTES_MAX + b"</a>"
    with_length = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"%x\r\n%s\r\n" % (len(body) - 4, body[:-4]) + b"4\r\n" + body[-4:] + b"\r\n0\r\n\r\n"
    with_chunks = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    whole = (with_length + with_chunks) * 3 + LAST
    for size in (len(whole), 4_001, 30_011):
        segments = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
        assert [answer[:3] for answer in answers(service, *segments)] == [b"201"] * 6 + [b"200"]


@pytest.mark.parametrize(
    "lines", [b"0\r\n" + b"a: b\r\n" * 20_000, b"0\r\nA: " + b"b" * 120_000, b"4;" + b"a" * 120_000]
)
def test_lines_of_chunks_are_limited(service: Service, lines: bytes) -> None:
    """Trailers and extensions, which nobody reads, as long as a client likes to send them."""
    with service.socket() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                connection.sendall(lines)
                time.sleep(0.01)
                lines = lines[-6:] * 20_000


# --- HTTP/1.0 ---------------------------------------------------------------------------------------------------------


def old(
    service: Service, path: str, fields: bytes = b"", body: bytes = b"", method: bytes = b"GET"
) -> tuple[bytes, bytes]:
    """The header and the body of the answer to a client of HTTP/1.0, which reads until the end."""
    request = b"%s %s HTTP/1.0\r\n%sContent-Length: %d\r\n\r\n%s" % (method, path.encode(), fields, len(body), body)
    head, _, answer = service.raw(request).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower()
    return head, answer


def test_answers_to_http_1_0(service: Service) -> None:
    """They have no chunks, which that version does not know: they end where the connection does."""
    assert old(service, "/healthz")[1] == b"alive\n"
    assert old(service, "/v1/documents", b"", b"<old/>", b"POST")[0].startswith(b"HTTP/1.1 201")
    for path in ("/v1/subscriptions:export", "/v1/documents:read"):
        connection = service.connect()
        connection.request("GET", path)
        assert old(service, path)[1] == connection.getresponse().read()
        connection.close()


def test_events_for_http_1_0(service: Service) -> None:
    service.subscribe("old events", "/old")
    with service.socket() as connection:
        connection.sendall(b"GET /v1/events?subscription=old%20events HTTP/1.0\r\n\r\n")
        service.publish("<old>first</old>")
        received = b""
        while b"first" not in received:
            received += connection.recv(65_536)
        service.publish("<old>second</old>")
        while b"second" not in received:
            received += connection.recv(65_536)
    head, _, events = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    lines = events.splitlines()
    assert {line.partition(b":")[0] for line in lines} <= {b"", b"id", b"event", b"data"}
    assert [json.loads(line[6:])["payload"] for line in lines if line.startswith(b"data: ")][-1] == "<old>second</old>"


def test_http_1_0_sends_no_chunks(service: Service) -> None:
    chunked = b"POST /v1/documents HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert refusal(service, chunked + CHUNKS + SMUGGLED) == (400, "TC434")
    expects = b"POST /v1/documents HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    assert [answer[:3] for answer in answers(service, expects, b"<a/>")] == [b"201"]
