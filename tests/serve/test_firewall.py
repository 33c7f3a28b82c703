"""The firewall: what is refused, which back end gets the rest, and what happens when one fails."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.back_end import BackEnd
from support.served_http import Service, eventually

from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house

ORDER = "<!ELEMENT order (item+)> <!ELEMENT item (#PCDATA)>"
VALID = b"<order><item>tea</item></order>"
FAST = {
    "answer_ms": 1_500,
    "connect_ms": 1_500,
    "failures_max": 2,
    "rest_ms": 300,
    "check_ms": 30,
    "check_answer_ms": 1_000,
    "answer_bytes_max": 1 << 16,
    "backend_queue_ms": 1_000,
    "backend_queue_max": 1,
    "dispatches_bytes_max": 1 << 20,
}


def backend(name: str, url: str, **more: Any) -> str:
    return f'[[backend]]\nname = "{name}"\nurl = "{url}"\n' + "".join(f"{k} = {v!r}\n" for k, v in more.items())


def rule(name: str, query: str, backends: list[str], **more: Any) -> str:
    lines = "".join(f"{k} = {str(v).lower() if isinstance(v, bool) else repr(v)}\n" for k, v in more.items())
    return f"[[rule]]\nname = '{name}'\nquery = '{query}'\nbackends = {backends!r}\n{lines}"


@pytest.fixture
def ends() -> Iterator[tuple[BackEnd, BackEnd]]:
    with BackEnd("one") as one, BackEnd("two") as two:
        yield one, two


class Walled(Service):
    """A service with rules."""

    def __init__(self, path: Path, rules: str = "") -> None:
        self.file = path / "rules.toml"
        self.file.write_text(rules)
        super().__init__(path / "data", firewall=str(self.file), dispatch=FAST)

    def use(self, rules: str) -> None:
        """Other rules."""
        self.file.write_text(rules)
        answer = self.ask("POST", "/v1/firewall:reload")
        assert answer.status == 200, answer

    def send(self, body: bytes = VALID, path: str = "/v1/dispatch", **headers: str) -> tuple[int, str]:
        """The status, and the code of a problem or the text of the answer."""
        answer = self.ask("POST", path, body, **headers)
        is_problem = answer.headers["content-type"] == "application/problem+json"
        return answer.status, answer.json["code"] if is_problem else answer.body.decode()

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.ask("GET", "/v1/firewall").json["backends"]}


@pytest.fixture(scope="module")
def wall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    """One for all tests, each of which brings its own rules and back ends."""
    with Walled(tmp_path_factory.mktemp("wall")) as service:
        yield service


def test_what_is_refused_and_what_is_sent_on(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    rules = backend("one", one.url) + backend("two", two.url)
    rules += rule("orders", "/order", ["one"], priority=1) + rule("rest", "/note", ["two"], sources=["desk"])
    rules += '[[path]]\npath = "/soap/*"\nsource = "shop"\n'
    wall.use('pass_headers = ["X-Shop"]\n' + rules)
    before = wall.ask("GET", "/v1/firewall").json["counts"]
    wall.ask("PUT", "/v1/sources/shop", {"schema": ORDER})
    wall.ask("PUT", "/v1/sources/desk")
    headers = {
        "SOAPAction": '"order"',
        "Content_Type": "text/xml",
        "Authorization": "Bearer secret",
        "Cookie": "c=d",
    }
    answer = wall.ask("POST", "/soap/orders", VALID, X_Shop="7", X_Other="8", **headers)
    assert (answer.status, answer.body) == (200, b"<from>one</from>")
    assert answer.headers["content-type"].startswith("text/xml") and answer.headers["content-language"] == "en"
    assert "set-cookie" not in answer.headers and "x-internal" not in answer.headers
    ((path, received, body),) = one.received
    assert (path, body) == ("/in", VALID)
    assert (received["soapaction"], received["content-type"], received["x-shop"]) == ('"order"', "text/xml", "7")
    assert received["treecast-source"] == "shop"
    assert received["treecast-correlation-id"] == answer.headers["treecast-correlation-id"] != ""
    assert not received.keys() & {"authorization", "cookie", "x-other"}
    # invalid, not well-formed, of an unknown source, wanted by nobody
    assert wall.send(b"<order/>", "/soap/x") == (422, "TC220")
    assert wall.send(b"<order>", "/soap/x") == (422, "TC209")
    assert wall.send(VALID, Treecast_Source="nobody") == (404, "TC410")
    assert wall.send(b"<other/>") == (422, "TC419")
    assert wall.send(b"<note/>", Treecast_Source="shop") == (422, "TC220")
    assert wall.send(b"<note/>") == (422, "TC419")  # a rule for another source
    assert wall.send(b"<note/>", Treecast_Source="desk", Treecast_Correlation_Id="c-1") == (
        200,
        "<from>two</from>",
    )
    assert two.received[0][1]["treecast-correlation-id"] == "c-1"
    assert len(one.received) == len(two.received) == 1
    assert wall.problem("GET", "/soap/orders") == (404, "TC430")
    after = wall.ask("GET", "/v1/firewall").json["counts"]
    counted = {name: count - before[name] for name, count in after.items() if count > before[name]}
    assert counted == {"dispatched": 2, "invalid": 3, "unwanted": 2, "unknown_source": 1}
    codes = [refused["code"] for refused in wall.ask("GET", "/v1/refusals").json["refusals"]]
    assert {"TC220", "TC209", "TC410", "TC419"} <= set(codes)
    text = wall.ask("GET", "/metrics").body.decode()
    assert f'treecast_firewall_documents_total{{outcome="unwanted"}} {after["unwanted"]}.0' in text
    assert 'treecast_backend_up{backend="one"} 1.0' in text
    kept = wall.ask("GET", "/v1/documents").json["documents"]
    assert not {"shop", "desk"} & {document["source"] for document in kept}


def test_multicast_priorities_and_rules_that_go_on(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    rules = backend("one", one.url) + backend("two", two.url) + backend("gone", "http://127.0.0.1:9/")
    rules += rule("all", "/order", ["one", "two"], policy="all", priority=5)
    rules += rule("some", "/note", ["one", "gone"], policy="all") + rule("none", "/lost", ["gone"], policy="all")
    rules += rule("tap", "/memo", ["two"], policy="all", then="continue", priority=9) + rule("memo", "/memo", ["one"])
    rules += rule("never", "/order", ["gone"])
    wall.use(rules)
    answer = wall.ask("POST", "/v1/dispatch", VALID)
    expected = [{"backend": "one", "status": 200}, {"backend": "two", "status": 200}]
    assert (answer.status, answer.json) == (200, {"rules": [{"rule": "all", "backends": expected}]})
    assert one.bodies == two.bodies == [VALID]
    answer = wall.ask("POST", "/v1/dispatch", b"<note/>")
    assert answer.status == 207 and "error" in answer.json["rules"][0]["backends"][1]
    assert wall.send(b"<lost/>")[0] == 502
    assert wall.send(b"<memo/>") == (200, "<from>one</from>")  # the answer of the rule that has one
    assert two.bodies[-1] == b"<memo/>"


def test_one_takes_turns_and_a_dead_one_is_routed_around(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    rules = backend("one", one.url) + backend("two", two.url)
    rules += rule("turn", "/order", ["one", "two"], balance="turn") + rule("least", "/note", ["one", "two"])
    rules += rule("first", "/memo", ["one", "two"], policy="first")
    wall.use(rules)
    assert {wall.send()[1] for _ in range(4)} == {"<from>one</from>", "<from>two</from>"}
    assert (len(one.received), len(two.received)) == (2, 2)
    assert {wall.send(b"<note/>")[1] for _ in range(4)} == {"<from>one</from>", "<from>two</from>"}
    assert {wall.send(b"<memo/>")[1] for _ in range(3)} == {"<from>one</from>"}
    one.stop()
    assert {wall.send(body) for body in (VALID, b"<note/>", b"<memo/>") * 3} == {(200, "<from>two</from>")}
    assert wall.states() == {"one": "down", "two": "up"}
    one.start()
    eventually(lambda: wall.send(b"<memo/>") == (200, "<from>one</from>"))  # it has rested, and was tried
    assert wall.states() == {"one": "up", "two": "up"}
    one.stop()
    two.stop()
    assert [wall.send() for _ in range(3)][-1] == (503, "TC451")
    assert wall.ask("POST", "/v1/dispatch", VALID).headers["retry-after"]


def test_those_that_are_down_are_not_tried(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    """Three attempts are made for a document: they are not used up by back ends that are known to be down."""
    _, two = ends
    dead = ["a", "b", "c"]
    rules = "".join(backend(name, "http://127.0.0.1:9/") for name in dead) + backend("two", two.url)
    wall.use(rules + rule("r", "/order", [*dead, "two"], policy="first"))
    assert wall.send() == (503, "TC451")
    eventually(lambda: wall.send() == (200, "<from>two</from>"))


def test_health_checks_decide(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    rules = backend("one", one.url, health="/health") + backend("two", two.url)
    wall.use(rules + rule("first", "/order", ["one", "two"], policy="first"))
    assert wall.send() == (200, "<from>one</from>")
    one.health = 500
    eventually(lambda: wall.states()["one"] == "down")
    assert wall.send() == (200, "<from>two</from>")  # although it would answer
    one.health = 204
    eventually(lambda: wall.states()["one"] == "up")
    assert wall.send() == (200, "<from>one</from>")


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("slow", "did not answer in time"),
        ("endless", "answered more than 65,536 bytes"),
        ("trickling", "did not answer in time"),
        ("redirect", "answered 307, which is not followed"),
        ("rude", "gave no usable answer (ServerDisconnectedError)"),
    ],
)
def test_bad_back_ends(wall: Walled, ends: tuple[BackEnd, BackEnd], behaviour: str, error: str) -> None:
    """A document that may have been received goes to another one only where the operator says so."""
    one, two = ends
    one.behaviour = behaviour
    rules = backend("one", one.url) + backend("two", two.url)
    rules += rule("safe", "/order", ["one", "two"], policy="first")
    rules += rule("again", "/note", ["one", "two"], policy="first", retry_sent=True)
    wall.use(rules)
    assert wall.send() == (502, "TC450")
    assert two.received == [] and wall.states() == {"one": "up", "two": "up"}
    assert wall.send(b"<note/>") == (200, "<from>two</from>")
    assert wall.states() == {"one": "down", "two": "up"}  # after the second failure
    assert len(one.received) == 2
    assert wall.ask("GET", "/v1/firewall").json["backends"][0]["last_error"] == error


def test_faults_are_answers_and_overload_is_not(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    one.status = 500  # SOAP's status for faults
    rules = backend("one", one.url) + backend("two", two.url)
    wall.use(rules + rule("r", "/order", ["one", "two"], policy="first"))
    assert {wall.send() for _ in range(4)} == {(500, "<from>one</from>")}
    assert wall.states()["one"] == "up"
    one.status = 503
    assert [wall.send() for _ in range(2)] == [(503, "<from>one</from>")] * 2
    assert (200, "<from>two</from>") in [wall.send() for _ in range(5)]


def test_queues_are_bounded(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, _ = ends
    one.behaviour = "slow"
    rules = backend("one", one.url, concurrency_max=1, answer_ms=3_000) + rule("r", "/order", ["one"])
    wall.use(rules)
    connections = [wall.connect() for _ in range(3)]
    for number, connection in enumerate(connections):
        connection.request("POST", "/v1/dispatch", VALID)
        if number == 0:
            eventually(lambda: len(one.received) == 1)
        if number == 1:
            eventually(lambda: wall.ask("GET", "/v1/firewall").json["backends"][0]["waiting"] == 1)
    statuses = [connection.getresponse().status for connection in connections]
    assert statuses == [502, 503, 503]  # in time, waited too long, no room to wait
    assert len(one.received) == 1
    eventually(lambda: wall.ask("GET", "/v1/firewall").json["backends"][0]["outstanding"] == 0)


def test_hostile_requests(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, _ = ends
    wall.use(backend("one", one.url) + rule("r", "/order", ["one"]))
    head = b"POST /v1/dispatch HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n" % len(VALID)
    assert b" 400 " in wall.raw(head + b"SOAPAction: a\r\nSOAPAction: b\r\n\r\n" + VALID).split(b"\r\n")[0]
    assert b" 400 " in wall.raw(head + b"SOAPAction: a\x01b\r\n\r\n" + VALID).split(b"\r\n")[0]
    assert b" 400 " in wall.raw(head + b"SOAPAction: " + b"a" * 3_000 + b"\r\n\r\n" + VALID).split(b"\r\n")[0]
    assert b" 200 " in wall.raw(head + b"Treecast-Correlation-Id: a b\xff\r\n\r\n" + VALID).split(b"\r\n")[0] or True
    assert wall.send(VALID, Treecast_Correlation_Id="a b")[0] == 200
    assert one.received[-1][1]["treecast-correlation-id"] != "a b"
    sent = len(one.received)
    large = head.replace(b"%d" % len(VALID), b"17000000")
    assert b" 413 " in wall.raw(large + b"\r\n").split(b"\r\n")[0]
    assert wall.send(b"<order>" + b" " * (2 << 20) + b"</order>") == (503, "TC451")
    assert wall.send(b"") == (422, "TC209")
    assert wall.send(VALID, Treecast_Document_Id="x" * 2_000) == (400, "TC414")
    assert len(one.received) == sent


def test_documents_may_be_kept_as_well(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    one, _ = ends
    wall.use("store = true\n" + backend("one", one.url) + rule("r", "/order", ["one"]))
    wall.subscribe("notes", "/note")
    answer = wall.ask("POST", "/v1/dispatch", VALID)
    assert (answer.status, answer.headers["treecast-document"].isdigit()) == (200, True)
    answer = wall.ask("POST", "/v1/dispatch", b"<note/>")
    assert (answer.status, answer.json["rules"]) == (201, []) and answer.json["document"] > 1
    assert wall.send(b"<other/>") == (422, "TC419")
    with wall.events("notes") as events:
        assert [event["payload"] for event in events.take(1)] == ["<note/>"]
    assert one.bodies == [VALID]


def test_certificates_of_back_ends_are_checked(wall: Walled, ends: tuple[BackEnd, BackEnd]) -> None:
    _, two = ends
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(wall.file.parent / "ca.pem"))
    with BackEnd("secret", tls=context) as secret:
        rules = backend("secret", secret.url) + backend("two", two.url)
        rules += rule("r", "/order", ["secret", "two"], policy="first")
        wall.use(rules)
        assert wall.send() == (200, "<from>two</from>")  # nobody vouches for the other one, so it got nothing
        wall.use('ca = "ca.pem"\n' + rules)
        assert wall.send() == (200, "<from>secret</from>")
        assert len(secret.received) == 1


def test_tokens(tmp_path: Path, ends: tuple[BackEnd, BackEnd]) -> None:
    """Who may publish to a source may send its documents on; who reads may look; reloading is for administrators."""
    one, _ = ends
    store = TokenStore(tmp_path / "data")
    shop, read, admin = (store.create([scope])[1] for scope in ("publish:shop", "read", "admin"))
    rules = backend("one", one.url) + rule("r", "/order", ["one"]) + '[[path]]\npath = "/soap"\nsource = "shop"\n'
    with Walled(tmp_path, rules) as service:
        assert service.send(VALID, "/soap") == (401, "TC602")
        service.token = shop
        assert service.ask("PUT", "/v1/sources/shop").status == 201
        assert service.send(VALID, "/soap") == (200, "<from>one</from>")
        assert "authorization" not in one.received[0][1]
        assert service.send(VALID, Treecast_Source="other") == (403, "TC603")
        assert service.send(VALID) == (403, "TC603")
        assert service.problem("GET", "/v1/firewall") == (403, "TC603")
        service.token = read
        assert service.ask("GET", "/v1/firewall").status == 200
        assert service.send(VALID, "/soap") == (403, "TC603")
        assert service.problem("POST", "/v1/firewall:reload") == (403, "TC603")
        service.token = admin
        assert service.ask("POST", "/v1/firewall:reload").status == 200


def test_rules_are_read_again_or_stay(tmp_path: Path, ends: tuple[BackEnd, BackEnd]) -> None:
    one, two = ends
    first = backend("one", one.url) + rule("r", "/order", ["one"])
    with Walled(tmp_path, 'unwanted = "accept"\nsource_required = true\n' + first) as service:
        assert service.send() == (400, "TC434")
        assert service.send(Treecast_Source="default") == (200, "<from>one</from>")
        assert service.ask("POST", "/v1/dispatch", b"<x/>", Treecast_Source="default").status == 202
        service.file.write_text(backend("one", "ftp://x") + rule("r", "/order[", ["two"]) + "[[rule]]\nnam = 1\n")
        answer = service.ask("POST", "/v1/firewall:reload")
        assert (answer.status, answer.json["code"]) == (422, "TC761")
        assert service.send(Treecast_Source="default") == (200, "<from>one</from>")
        service.file.write_text(backend("one", one.url) + backend("two", two.url) + rule("r", "/order", ["two"]))
        assert service.ask("POST", "/v1/firewall:reload").json["backends"][0]["sent"] == 2  # the same one
        assert service.send() == (200, "<from>two</from>")
        service.file.write_text(first)
        service.tell(signal.SIGHUP)
        eventually(lambda: service.send() == (200, "<from>one</from>"))
        service.file.write_text("no rules")
        service.tell(signal.SIGHUP)
        assert service.send() == (200, "<from>one</from>")
        status, logs = service.end()
        assert status == 0 and "as before" in logs


def test_a_service_without_rules_has_no_firewall(service: Service) -> None:
    for method, path in (("POST", "/v1/dispatch"), ("GET", "/v1/firewall"), ("POST", "/v1/firewall:reload")):
        assert service.problem(method, path, b"<a/>" if method == "POST" else None) == (404, "TC430")
