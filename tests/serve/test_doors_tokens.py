"""Tokens at WebSockets, imports and exports: what a token does not allow is refused, or does not exist for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client
from support.served_http import Service, eventually

import treecast
from treecast.serve.access.tokens import TokenLimits, TokenStore
from treecast.serve.doors import transfers

pytestmark = pytest.mark.house

CSV = transfers.TYPES["csv"]


class Guarded:
    """A service with a token for everything, and subscriptions of two desks."""

    def __init__(self, directory: Path) -> None:
        self.tokens = TokenStore(directory)
        self.service = Service(directory, access={"look_ms": 50, "count_ms": 50})
        _, self.admin = self.tokens.create(["admin"])

    def token(self, *scopes: str, **limits: int) -> tuple[str, str]:
        """The id and text of a new one, once the service knows it."""
        token, text = self.tokens.create(scopes, limits=TokenLimits(**limits))
        eventually(lambda: self.ask(text, "GET", "/v1/letters").status != 401)
        return token.id, text

    def ask(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        self.service.token = token
        return self.service.ask(method, path, body, **headers)

    def socket(self, token: str, *subscriptions: str) -> Any:
        query = "&".join(f"subscription={id}" for id in subscriptions)
        url = f"ws://127.0.0.1:{self.service.port}/v1/socket?{query}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return websockets.sync.client.connect(url, additional_headers=headers, open_timeout=30).__enter__()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.service:
        for id in ("desk.a", "desk.b", "rival.a"):
            assert made.ask(made.admin, "PUT", f"/v1/subscriptions/{id}", {"query": "/news"}).status == 201
        yield made


def closing(socket: Any) -> int:
    with pytest.raises(websockets.ConnectionClosed) as closed:
        while True:
            socket.recv(30)
    return closed.value.rcvd.code if closed.value.rcvd else 0


def test_a_socket_needs_a_token(guarded: Guarded) -> None:
    for token in ("", "nonsense"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            guarded.socket(token, "desk.a")
        answer = refused.value.response
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == 'Bearer realm="treecast"'


def test_a_socket_receives_what_its_token_allows(guarded: Guarded) -> None:
    _, desk = guarded.token("subscribe:desk.")
    assert [closing(guarded.socket(desk, id)) for id in ("rival.a", "rival.b")] == [4404, 4404]
    _, reader = guarded.token("read")
    with pytest.raises(websockets.InvalidStatus):
        guarded.socket(reader, "desk.a")
    socket = guarded.socket(desk, "desk.a")
    assert json.loads(socket.recv(30)) == {"opened": ["desk.a"]}
    socket.send(json.dumps({"credit": 1, "publish": {"document": "<news/>"}}))
    assert json.loads(socket.recv(30))["published"]["problem"]["code"] == "TC603"
    number = guarded.ask(guarded.admin, "POST", "/v1/documents", b"<news/>").json["document"]
    delivery = json.loads(socket.recv(30))
    assert delivery["document"] == number
    socket.send(json.dumps({"ack": [delivery["delivery"]]}))
    socket.close()


def test_a_socket_publishes_what_its_token_allows(guarded: Guarded) -> None:
    _, wire = guarded.token("publish:default", documents_per_second=1, document_bytes_max=20)
    socket = guarded.socket(wire)
    for document in ("<news/>", "<news/>", f"<news>{'x' * 20}</news>"):
        socket.send(json.dumps({"publish": {"document": document}}))
    heard = [json.loads(socket.recv(30))["published"] for _ in range(3)]
    codes = sorted(answer["problem"]["code"] if "problem" in answer else "" for answer in heard)
    assert codes in (["", "TC432", "TC604"], ["", "TC604", "TC604"])
    socket.send(json.dumps({"subscriptions": ["desk.a"]}))
    assert closing(socket) == 4404


def test_a_token_that_is_revoked_ends_its_sockets(guarded: Guarded) -> None:
    id, desk = guarded.token("subscribe:desk.", streams_max=1)
    socket = guarded.socket(desk, "desk.b")
    assert closing(guarded.socket(desk, "desk.b")) == 4403, "it may have one"
    guarded.tokens.revoke([id])
    assert closing(socket) == 4401


def test_an_import_adds_what_its_token_allows(guarded: Guarded) -> None:
    _, desk = guarded.token("subscribe:desk.", subscriptions_max=4)
    for mode in ("add", "replace"):
        answers = []
        for id in ("rival.a", "rival.n"):  # one of them exists
            rows = f"id,query\ndesk.new,/a\n{id},/b\n".encode()
            answer = guarded.ask(desk, "POST", f"/v1/subscriptions:import?mode={mode}", rows, Content_Type=CSV)
            answers.append((answer.status, answer.body.replace(b"rival.n", b"rival.a")))
        assert answers[0] == answers[1] and answers[0][0] == 422
        assert json.loads(answers[0][1])["refused"][0]["code"] == "TC603"
    many = "".join(f"desk.{number},/a\n" for number in range(10))
    answer = guarded.ask(desk, "POST", "/v1/subscriptions:import", f"id,query\n{many}".encode(), Content_Type=CSV)
    assert (answer.status, answer.json["code"]) == (409, "TC463") and "after 0 rows" in answer.json["detail"]
    answer = guarded.ask(desk, "POST", "/v1/subscriptions:import", b"id,query\ndesk.c,/a\n", Content_Type=CSV)
    assert answer.json["added"] == 1


def test_an_export_has_what_its_token_may_see(guarded: Guarded, tmp_path: Path) -> None:
    _, desk = guarded.token("subscribe:rival.")
    for format in ("csv", "jsonl", "parquet"):
        body = guarded.ask(desk, "GET", f"/v1/subscriptions:export?format={format}").body
        assert b"rival.a" in body and b"desk" not in body
    path = tmp_path / "saved.tcx"
    path.write_bytes(guarded.ask(desk, "GET", "/v1/subscriptions:export?format=tcx").body)
    assert treecast.Index.load(path).match(b"<news/>") == ["rival.a"]
    path.write_bytes(guarded.ask(guarded.admin, "GET", "/v1/subscriptions:export?format=tcx").body)
    assert {"desk.a", "desk.b", "rival.a"} <= set(treecast.Index.load(path).match(b"<news/>"))
