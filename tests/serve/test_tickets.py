"""Tickets: streams and sockets are opened with them, once, soon, and nothing else. In a browser: test_console.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from support.served_http import Service, eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.access.settings import AccessSettings
from treecast.serve.access.tickets import Tickets
from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

ID, KEY = "0123456789ab", b"k" * 32


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, TokenStore]]:
    directory = tmp_path_factory.mktemp("tickets")
    store = TokenStore(directory)
    _, token = store.create(["subscribe:desk.", "publish:wire"])
    with Service(directory, access={"look_ms": 50, "tickets_max": 20}, heartbeat_ms=300) as service:
        service.token = token
        service.subscribe("desk.a", "/a")
        assert service.ask("PUT", "/v1/sources/wire").status == 201
        yield service, store


def ticket_of(service: Service) -> str:
    answer = service.ask("POST", "/v1/tickets")
    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store")
    ticket: str = answer.json["ticket"]
    return ticket


def status_of(service: Service, path: str, ticket: str, token: str = "", method: str = "HEAD") -> int:
    """Without the header of the token."""
    before, service.token = service.token, token
    try:
        return service.ask(method, f"{path}{'&' if '?' in path else '?'}ticket={quote(ticket)}").status
    finally:
        service.token = before


def test_a_ticket_opens_one_stream(guarded: tuple[Service, TokenStore]) -> None:
    service, _ = guarded
    events = "/v1/events?subscription=desk.a"
    ticket = ticket_of(service)
    assert ticket.startswith("tt_") and service.token.split("_")[2] not in ticket
    assert status_of(service, events, ticket) == 200
    assert status_of(service, events, ticket) == 401, "replayed"
    assert status_of(service, events, "") == 401
    assert status_of(service, events, ticket_of(service) + "0") == 401
    rival = "/v1/events?subscription=rival.a"
    assert status_of(service, rival, ticket_of(service), method="GET") == 404, "what its token may not see"
    # A header that is there counts: a wrong one is not made good by a ticket.
    assert status_of(service, events, ticket_of(service), token="tc_wrong") == 401


def test_a_ticket_is_for_no_other_page(guarded: tuple[Service, TokenStore]) -> None:
    service, _ = guarded
    for path in ("/v1/subscriptions", "/v1/subscriptions/desk.a", "/v1/letters", "/v1/status", "/metrics"):
        assert status_of(service, path, ticket_of(service)) == 401
    token, service.token = service.token, ""
    try:
        assert service.problem("POST", "/v1/tickets") == (401, "TC602")
        service.token = token
        ticket = ticket_of(service)
        service.token = ""
        assert service.problem("POST", f"/v1/tickets?ticket={ticket}") == (401, "TC602"), "nor for another ticket"
        assert service.problem("POST", f"/v1/documents?source=wire&ticket={ticket}", b"<a/>") == (401, "TC602")
    finally:
        service.token = token
    assert service.problem("POST", "/v1/tickets", Origin="https://evil.example") == (403, "TC609")


def test_a_ticket_opens_one_socket(guarded: tuple[Service, TokenStore]) -> None:
    service, _ = guarded
    url = f"ws://127.0.0.1:{service.port}/v1/socket?subscription=desk.a&ticket={ticket_of(service)}"
    with connect(url) as socket:
        assert json.loads(socket.recv()) == {"opened": ["desk.a"]}
        socket.send(json.dumps({"publish": {"document": "<a/>", "source": "wire"}}))
        assert json.loads(socket.recv())["published"]["status"] == 201
    with pytest.raises(InvalidStatus, match="401"), connect(url):
        pass


def test_tickets_end_with_their_token(guarded: tuple[Service, TokenStore]) -> None:
    service, store = guarded
    before = service.token
    token, service.token = store.create(["subscribe:desk."])
    try:
        eventually(lambda: service.ask("GET", "/v1/subscriptions").status == 200)
        first, second = ticket_of(service), ticket_of(service)
        with connect(f"ws://127.0.0.1:{service.port}/v1/socket?subscription=desk.a&ticket={first}") as socket:
            socket.recv()
            store.revoke([token.id])
            with pytest.raises(Exception, match="4401"):
                socket.recv(timeout=20)
        assert status_of(service, "/v1/events?subscription=desk.a", second) == 401
    finally:
        service.token = before


def test_a_token_uses_only_so_many() -> None:
    tickets = Tickets(AccessSettings(tickets_max=3, ticket_ms=100))
    made = [tickets.make(ID, KEY, 1_000)[0] for _ in range(5)]
    assert len(set(made)) == 5
    for ticket in made[:3]:
        tickets.use(ticket, 1_000)
    with pytest.raises(AccessRefusedError, match="TC605"):
        tickets.use(made[3], 1_099)
    tickets.use(tickets.make(ID, KEY, 1_100)[0], 1_100)  # the others are forgotten, as they have ended


def test_what_is_wrong_with_a_ticket() -> None:
    tickets = Tickets(AccessSettings(ticket_ms=100))
    ticket, ends_ms = tickets.make(ID, KEY, 1_000)
    keys = {ID: KEY, "ba9876543210": KEY}
    assert (ends_ms, tickets.id_of(ticket, keys, 1_099)) == (1_100, ID)
    assert tickets.id_of(ticket, keys, 1_100) == "", "too late"
    assert tickets.id_of(ticket, {}, 1_050) == "", "a token that is not there"
    assert tickets.id_of(ticket, {ID: b"another"}, 1_050) == ""
    _, id, ends, nonce, signature = ticket.split("_")
    later = f"{int(ends, 16) + 1_000:x}"
    for parts in (
        ("ba9876543210", ends, nonce, signature),
        (id, later, nonce, signature),
        (id, ends, nonce[::-1], signature),
        (id, ends, nonce, signature[:-1] + ("0" if signature[-1] != "0" else "1")),
    ):
        assert tickets.id_of("_".join(("tt", *parts)), keys, 1_050) == ""
    for text in ("", "tt", "tt____", ticket.upper(), f" {ticket}", ticket + "\n", "tt_" + "é" * 80):
        assert tickets.id_of(text, keys, 1_050) == ""
