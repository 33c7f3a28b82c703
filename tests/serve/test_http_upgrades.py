"""Requests that ask for a protocol that is not spoken here: they are read as HTTP/1.1, with their bodies.

curl and Java's HttpClient ask for HTTP/2 with every request that they send without TLS. What follows their header is a
body, and never another request.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.served_http import Service, read_all
from test_web_socket_hostile import shake

pytestmark = pytest.mark.house

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
BODY = b"<published/>"
SMUGGLED = b"PUT /v1/sources/smuggled HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"


def request(body: bytes, upgrade: str = H2C, path: str = "/v1/documents", *, is_chunked: bool = False) -> bytes:
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}"
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\n{upgrade}{framing}\r\n\r\n".encode()
    return head + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body)


LAST = b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


def statuses(service: Service, *segments: bytes) -> list[int]:
    """Of the answers to these, each of which arrives after the one before was read, and of one last request."""
    with service.socket() as connection:
        with suppress(ConnectionError):  # the service may have closed it
            for segment in (*segments, LAST):
                connection.sendall(segment)
                time.sleep(0.01)  # two segments that arrive as one make the test weaker, not wrong
        return [int(answer[:3]) for answer in read_all(connection).split(b"HTTP/1.1 ")[1:]]


def documents(service: Service, count: int) -> list[str]:
    return [each["excerpt"] for each in service.ask("GET", f"/v1/documents?count={count}").json["documents"]]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize(
    "upgrade",
    [
        H2C,
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "Connection: keep-alive, Upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0\r\n",
        "Upgrade: h2c\r\n",
        "Connection: Upgrade\r\n",
    ],
)
def test_a_body_is_read_however_it_arrives(service: Service, upgrade: str, is_chunked: bool) -> None:
    whole = request(BODY, upgrade, is_chunked=is_chunked)
    head_end = whole.index(b"\r\n\r\n") + 4
    cuts = [[], [head_end], [head_end - 1], [head_end - 2, head_end + 1], [10, head_end - 3, head_end + 5]]
    for cut in cuts:
        segments = [whole[begin:end] for begin, end in zip([0, *cut], [*cut, len(whole)], strict=True)]
        before = service.publish("<before/>")
        assert statuses(service, *segments) == [201, 200], cut
        assert service.publish("<after/>") == before + 2
        assert documents(service, 2)[1] == BODY.decode()


@pytest.mark.parametrize("upgrade", [H2C, "Connection: Upgrade\r\nUpgrade: websocket\r\n"])
def test_a_body_is_no_request(service: Service, upgrade: str) -> None:
    """In the same segment, and in one of its own; on pages that take a body, and on those that do not."""
    for path in ("/v1/documents", "/v1/documents:batch", "/v1/socket", "/v1/status", "/nothing"):
        whole = request(SMUGGLED, upgrade, path)
        begin = len(whole) - len(SMUGGLED)
        for segments in ([whole], [whole[:begin], SMUGGLED]):
            first, *others = statuses(service, *segments)
            assert first in (200, 404, 405, 422)
            assert others in ([], [200])  # that of `LAST`
    assert service.ask("GET", "/v1/sources/smuggled").status == 404


def test_requests_that_follow_are_answered(service: Service) -> None:
    whole = request(BODY) + request(BODY, is_chunked=True)
    assert statuses(service, whole * 3) == [201] * 6 + [200]


def test_a_handshake_elsewhere_is_a_request(service: Service) -> None:
    """A WebSocket is opened at its own address only, by a GET without a body."""
    for path, status in (("/healthz", 200), ("/v1/events", 400), ("/nothing", 404)):
        assert statuses(service, shake(service, path=path)) == [status, 200]
    assert statuses(service, shake(service, method="POST")) == [405, 200]
    with_body = shake(service, Content_Length=str(len(SMUGGLED))) + SMUGGLED
    assert statuses(service, with_body) == [426]
    assert service.ask("GET", "/v1/sources/smuggled").status == 404


def test_no_tunnel(service: Service) -> None:
    head = b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"
    assert statuses(service, head + SMUGGLED) == [501]
    assert statuses(service, head, SMUGGLED) == [501]
    assert service.ask("GET", "/v1/sources/smuggled").status == 404
    assert statuses(service, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == [400]


def test_curl(service: Service, tmp_path: Path) -> None:
    large = tmp_path / "large.xml"
    large.write_bytes(b"<large>" + b" " * 1_000_000 + b"</large>")
    address = f"http://127.0.0.1:{service.port}/v1/documents"
    for arguments in (["-d", "<curl/>"], ["-H", "Transfer-Encoding: chunked", "-d", "<curl/>"], ["-T", str(large)]):
        curl = ["curl", "-s", "--http2", "-m", "60", "-X", "POST", "-w", "\n%{http_code} %{http_version}", address]
        answer = subprocess.run([*curl, *arguments], capture_output=True, check=True, timeout=120).stdout
        number, how = answer.splitlines()
        assert how == b"201 1.1"
        kept = service.ask("GET", f"/v1/documents/{json.loads(number)['document']}").body
        assert kept == (large.read_bytes() if arguments[0] == "-T" else b"<curl/>")


JAVA = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

class Publish {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        byte[] large = ("<java>" + " ".repeat(200_000) + "</java>").getBytes();
        HttpRequest.BodyPublisher[] bodies = {
            BodyPublishers.ofString("<java/>"),
            BodyPublishers.fromPublisher(BodyPublishers.ofString("<java/>")),  // in chunks
            BodyPublishers.ofByteArray(large),
        };
        for (HttpRequest.BodyPublisher body : bodies) {
            var request = HttpRequest.newBuilder(URI.create(arguments[0])).POST(body).build();
            var answer = client.send(request, BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body());
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_the_client_of_java(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "Publish.java"
    source.write_text(JAVA)
    address = f"http://127.0.0.1:{service.port}/v1/documents"
    command = ["java", "-XX:TieredStopAtLevel=1", str(source), address]
    lines = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == ["201 HTTP_1_1"] * 3
    sizes = [len(service.ask("GET", f"/v1/documents/{json.loads(line.split()[2])['document']}").body) for line in lines]
    assert sizes == [7, 7, 200_013]
