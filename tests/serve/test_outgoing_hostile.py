"""What strangers do to hooks and to the hub beyond addresses: packed answers, headers without end, forms, redirects."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from support.hook_receiver import HookReceiver, Received, Response
from support.served_http import Service, eventually
from yarl import URL

from treecast.serve.hooks.sender import Outcome, Sender
from treecast.serve.hooks.settings import HookSettings
from treecast.serve.websub.pages import FORM_BYTES_MAX

pytestmark = pytest.mark.house

HERE = ["127.0.0.0/8"]
BOMB = gzip.compress(bytes(5 << 20))


def send(url: str, **settings: int) -> Outcome:
    async def run() -> Outcome:
        sender = Sender(HookSettings(allow=HERE, **settings))
        await sender.open()
        try:
            return await sender.send("POST", URL(url), {}, b"{}")
        finally:
            await sender.close()

    return asyncio.run(run())


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "nonsense"])
def test_answers_are_not_unpacked(encoding: str) -> None:
    """Little of them is kept, as it came."""
    with HookReceiver(lambda request: Response(200, {"content-encoding": encoding}, BOMB)) as receiver:
        outcome = send(receiver.url)
    assert (outcome.status, outcome.body) == (200, BOMB[: HookSettings().response_bytes_max])
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


@contextmanager
def endless_header(line: bytes) -> Iterator[int]:
    """A server that repeats a line of its header as long as somebody listens; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    while line:
                        connection.sendall(line)
                    connection.settimeout(20)
                    while connection.recv(65_536):
                        pass
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(20)
        assert not thread.is_alive(), "nobody listens any more"


@pytest.mark.parametrize("line", [b"", b"x", b"X-More: yes\r\n"], ids=["nothing", "one line", "many lines"])
def test_an_answer_whose_header_never_ends(line: bytes) -> None:
    with endless_header(line) as port:
        outcome = send(f"http://127.0.0.1:{port}/", attempt_ms=500)
    assert outcome.status == 0 and "TC444" in outcome.error


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"hooks": {"allow": HERE, "retry_ms": 10}}
    with Service(tmp_path_factory.mktemp("hub") / "data", websub={"attempts_max": 2}, **settings) as service:
        service.subscribe("topic", "/topic")
        yield service


def form_of(service: Service, callback: str) -> bytes:
    topic = f"http://127.0.0.1:{service.port}/v1/topics/{quote('topic')}"
    return urlencode({"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": callback}).encode()


def test_forms_of_the_hub(hub: Service) -> None:
    form = form_of(hub, "http://127.0.0.1:9/")
    assert hub.problem("POST", "/v1/hub", form + b"&x=" + b"y" * FORM_BYTES_MAX) == (413, "TC432")
    assert hub.problem("POST", "/v1/hub", BOMB, Content_Encoding="gzip") == (413, "TC432")
    assert hub.problem("POST", "/v1/hub", gzip.compress(BOMB), Content_Encoding="gzip, gzip") == (415, "TC435")
    assert hub.problem("POST", "/v1/hub", b"\xff\xfe=%zz&hub.mode=%ff") == (400, "TC434")


def test_callbacks_by_name_and_by_redirect(hub: Service, tmp_path: Path) -> None:
    """Neither a question nor content follows a redirect; and by default no name leads to this machine."""

    def agree(request: Received) -> Response:
        challenge = parse_qs(urlsplit(request.path).query).get("hub.challenge", [""])[0]
        return Response(200, {}, challenge.encode())

    with HookReceiver(agree) as target, HookReceiver() as callback:
        callback.answer = lambda request: Response(302, {"location": target.url})
        assert hub.ask("POST", "/v1/hub", form_of(hub, callback.url)).status == 202
        eventually(lambda: callback.requests)
        # One that agrees, and redirects what it then gets.
        callback.answer = lambda request: (
            agree(request) if request.method == "GET" else Response(307, {"location": target.url})
        )
        assert hub.ask("POST", "/v1/hub", form_of(hub, callback.url + "/content")).status == 202
        eventually(lambda: b"treecast_websub_subscribers 1.0" in hub.ask("GET", "/metrics").body)
        hub.publish("<topic/>")
        eventually(lambda: [request.body for request in callback.requests].count(b"<topic/>") == 2)
        assert target.requests == []
        with Service(tmp_path / "data") as strict:
            strict.subscribe("topic", "/topic")
            for host in ("localhost", "127.1", "[::ffff:127.0.0.1]"):
                body = form_of(strict, f"http://{host}:{target.port}/")
                assert strict.problem("POST", "/v1/hub", body) == (403, "TC620")
        assert target.requests == []
