"""Tokens at the HTTP door: who may ask for which page, what each may see, and what each may use up.

For a token of one prefix, everything else does not exist: the answers must be those of a service that has nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.served_http import Answer, Service, eventually

from treecast.serve.access.tokens import TokenLimits, TokenStore
from treecast.serve.doors.routes import ID, PUBLIC, ROUTES, Route

pytestmark = pytest.mark.house

ACCESS = {"look_ms": 50, "count_ms": 50}
NOTHING = "tc_" + "0" * 12 + "_" + "0" * 48


class Guarded:
    """A service with tokens."""

    def __init__(self, directory: Path) -> None:
        self.store = TokenStore(directory)
        _, self.admin = self.store.create(["admin"])
        _, self.other = self.store.create(["subscribe:other.", "publish:other"])
        self.service = Service(directory, access=ACCESS, heartbeat_ms=300, advance_ms=50)

    def token(self, *scopes: str, **limits: int) -> str:
        """A new one, once the service knows it."""
        _, text = self.store.create(scopes, limits=TokenLimits(**limits))
        eventually(lambda: self.ask(text, "GET", "/v1/letters").status != 401)
        return text

    def ask(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        self.service.token = token
        return self.service.ask(method, path, body, **headers)

    def code(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        self.service.token = token
        return self.service.problem(method, path, body, **headers)

    def subscribe(self, token: str, id: str, query: str, **settings: Any) -> None:
        self.service.token = token
        self.service.subscribe(id, query, **settings)

    def publish(self, token: str, body: str, **headers: str) -> int:
        self.service.token = token
        return self.service.publish(body, **headers)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.service:
        yield made


def path_of(route: Route, id: str) -> str:
    path = route.path.replace(ID, id)
    return path + f"?subscription={id}" if route.name == "events" else path


def body_of(route: Route) -> Any:
    bodies: dict[str, Any] = {
        "publish": b"<a/>",
        "publish_batch": b'{"document": "<a/>"}\n',
        "put_subscription": {"query": "/a"},
        "try_subscription": {"query": "/a"},
        "acknowledge": {"deliveries": []},
        "fail": {"deliveries": []},
        "redeliver": {"letters": [1]},
    }
    return bodies.get(route.name, b"{}" if route.form is not None else None)


# --- every page -------------------------------------------------------------------------------------------------------


def test_every_page_says_who_may_ask_for_it() -> None:
    assert [route.name for route in ROUTES if not route.scopes] == []
    kinds = {"publish", "subscribe", "read", "admin"}
    assert [route.name for route in ROUTES if route.scopes != PUBLIC and not kinds.issuperset(route.scopes)] == []
    static = {"openapi", "console", "console_file"}  # they say nothing about what a service has
    assert {route.name for route in ROUTES if route.scopes == PUBLIC} == {"health", "readiness", *static}
    # Ids of subscriptions and sources are checked for all pages at once. Who may see any other has to see everything.
    others = [route for route in ROUTES if ID in route.path and not route.names and route.scopes != PUBLIC]
    assert [route.name for route in others if route.scopes not in (("read",), ("admin",))] == []


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_token_no_answer(guarded: Guarded, route: Route) -> None:
    """Nothing but public pages answers without a token; and a wrong one is as good as none."""
    answers = [
        guarded.ask(token, route.method, path_of(route, id), body_of(route))
        for token in ("", NOTHING, "nonsense")
        for id in ("exists", "nothing")
    ]
    if route.scopes == PUBLIC:
        assert {answer.status for answer in answers} <= {200, 404}
        return
    (refused,) = {(a.status, a.body, a.headers["www-authenticate"]) for a in answers}
    assert refused[0] == 401 and b"TC602" in refused[1] and refused[2] == 'Bearer realm="treecast"'


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_token_for_something_else(guarded: Guarded, route: Route) -> None:
    """One for another prefix and another source: a subscription that exists is answered as one that does not."""
    assert guarded.ask(guarded.admin, "PUT", "/v1/subscriptions/exists", {"query": "/exists"}).status in (200, 201)
    assert guarded.ask(guarded.admin, "PUT", "/v1/sources/exists", {}).status in (200, 201)
    if route.scopes == PUBLIC or route.name == "create_ticket":  # which is another one each time
        return
    exists = guarded.ask(guarded.other, route.method, path_of(route, "exists"), body_of(route))
    nothing = guarded.ask(guarded.other, route.method, path_of(route, "nothin"), body_of(route))
    assert exists.status == nothing.status
    assert exists.body.replace(b"exists", b"nothin") == nothing.body
    # A body that comes after the header, as it happens, is not read any more.
    assert set(exists.headers) - {"connection"} == set(nothing.headers) - {"connection"}
    if ID in route.path or route.name == "events":
        assert exists.status in (403, 404)
    own = {"list_sources", "list_subscriptions", "letters", "try_subscription"}
    assert exists.status == (200 if route.name in own else exists.status)
    assert b"exists" not in exists.body or exists.status == 404


# --- what is seen -----------------------------------------------------------------------------------------------------


def test_other_subscriptions_do_not_exist(guarded: Guarded) -> None:
    """In lists and counts, in tries, in dead letters, in events."""
    desk, rival = guarded.token("subscribe:desk.", "subscribe:extra."), guarded.token("subscribe:deskrival.")
    guarded.subscribe(desk, "desk.", "//common")
    guarded.subscribe(desk, "desk.b", "/common")
    guarded.subscribe(desk, "extra.c", "/common[@a]")
    guarded.subscribe(rival, "deskrival.a", "//common", attempts_max=1)
    assert guarded.code(desk, "PUT", "/v1/subscriptions/deskrival.a", {"query": "/a"}) == (403, "TC603")
    assert guarded.code(desk, "GET", "/v1/subscriptions/deskrival.a") == (404, "TC412")
    assert guarded.code(desk, "DELETE", "/v1/subscriptions/deskrival.a") == (404, "TC412")

    def listed(parameters: str) -> tuple[list[str], str]:
        answer = guarded.ask(desk, "GET", f"/v1/subscriptions{parameters}").json
        return [row["id"] for row in answer["subscriptions"]], answer.get("next", "")

    assert listed("") == (["desk.", "desk.b", "extra.c"], "")
    assert listed("?count=1") == (["desk."], "desk.")
    assert listed("?after=desk.") == (["desk.b", "extra.c"], "")
    assert listed("?after=desk.b&count=1") == (["extra.c"], "")
    assert listed("?after=deskrival") == (["extra.c"], "")
    tried = guarded.ask(desk, "POST", "/v1/subscriptions:try", {"query": "//common"}).json
    assert (tried["covers"], tried["compared"], tried["is_complete"]) == (["desk.", "desk.b", "extra.c"], 3, True)
    assert guarded.code(desk, "GET", "/v1/events?subscription=desk.&subscription=deskrival.a") == (404, "TC412")
    assert guarded.code(desk, "POST", "/v1/subscriptions/deskrival.a:pull") == (404, "TC412")

    guarded.publish(guarded.admin, "<common/>")
    guarded.service.token = rival
    pulled = guarded.ask(rival, "POST", "/v1/subscriptions/deskrival.a:pull", {"wait_ms": 5_000}).json["deliveries"]
    failed = {"deliveries": [pulled[0]["delivery"]]}
    assert guarded.ask(desk, "POST", "/v1/subscriptions/deskrival.a:fail", failed).status == 404
    assert guarded.ask(rival, "POST", "/v1/subscriptions/deskrival.a:fail", failed).json["settled"] == 1
    eventually(lambda: guarded.ask(rival, "GET", "/v1/letters").json["letters"])
    (letter,) = guarded.ask(rival, "GET", "/v1/letters").json["letters"]
    assert guarded.ask(desk, "GET", "/v1/letters").json == {"letters": []}
    number = letter["letter"]
    foreign = guarded.ask(desk, "POST", "/v1/letters:redeliver", {"letters": [number]})
    missing = guarded.ask(desk, "POST", "/v1/letters:redeliver", {"letters": [number + 1]})
    assert foreign.status == 404 and foreign.body == missing.body.replace(f"{number + 1}".encode(), b"%d" % number)
    assert guarded.ask(rival, "POST", "/v1/letters:redeliver", {"letters": [number]}).status == 204


def test_dead_letters_behind_those_of_others(guarded: Guarded) -> None:
    """They are found without looking at those of others; the answer says where to go on."""
    mine = guarded.token("subscribe:mine.", "subscribe:myown")
    for id in ("theirs.a", "mine.e", "myown", "theirs.b", "mine.d"):  # in the order in which they fail
        guarded.subscribe(guarded.admin, id, f"/{id}", attempts_max=1)
        guarded.publish(guarded.admin, f"<{id}/>")
        path = f"/v1/subscriptions/{id}"
        pulled = guarded.ask(guarded.admin, "POST", f"{path}:pull", {"wait_ms": 5_000}).json["deliveries"]
        failed = {"deliveries": [pulled[0]["delivery"]]}
        assert guarded.ask(guarded.admin, "POST", f"{path}:fail", failed).json["settled"] == 1

    def listed(token: str, count: int) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            answer = guarded.ask(token, "GET", f"/v1/letters?count={count}&after={quote(after)}").json
            found += [letter["subscription"] for letter in answer["letters"]]
            after = answer.get("next", "")
            if not after:
                return found
            assert len(answer["letters"]) == count

    eventually(lambda: len([id for id in listed(guarded.admin, 100) if id.startswith(("my", "mi", "theirs."))]) == 5)
    for count in (1, 2, 3, 100):
        assert [id for id in listed(guarded.admin, count) if id[:2] in ("my", "mi", "th")][:2] == ["theirs.a", "mine.e"]
        assert listed(mine, count) == ["mine.d", "mine.e", "myown"]
    for token, after in ((mine, "1"), (mine, "@mine.d"), (mine, "x@mine.d"), (guarded.admin, "1@mine.d")):
        assert guarded.code(token, "GET", f"/v1/letters?after={after}") == (400, "TC434")
    # A position of others begins nothing of theirs.
    answer = guarded.ask(mine, "GET", "/v1/letters?after=1@theirs.a").json
    assert answer == {"letters": []}
    answer = guarded.ask(guarded.admin, "GET", "/v1/letters?count=1").json
    assert len(answer["letters"]) == 1 and answer["next"] == str(answer["letters"][0]["letter"])


def test_who_may_read_may_not_change(guarded: Guarded) -> None:
    reader = guarded.token("read")
    guarded.subscribe(guarded.admin, "read.a", "/a")
    assert guarded.ask(reader, "GET", "/v1/subscriptions/read.a").status == 200
    assert guarded.ask(reader, "GET", "/metrics").status == 200
    assert guarded.ask(reader, "GET", "/v1/letters").status == 200
    assert guarded.ask(reader, "GET", "/v1/sources/default").status == 200
    for method, path, body in (
        ("PUT", "/v1/subscriptions/read.a", {"query": "/b"}),
        ("DELETE", "/v1/subscriptions/read.a", None),
        ("POST", "/v1/subscriptions/read.a:pull", None),
        ("GET", "/v1/events?subscription=read.a", None),
        ("POST", "/v1/documents", b"<a/>"),
        ("PUT", "/v1/sources/new", None),
        ("POST", "/v1/letters:redeliver", {"letters": [1]}),
    ):
        assert guarded.code(reader, method, path, body) == (403, "TC603"), path
    both = guarded.token("read", "subscribe:b.")  # it is known to exist, so it is not denied
    assert guarded.code(both, "POST", "/v1/subscriptions/read.a:pull") == (403, "TC603")


def test_sources_of_a_publisher(guarded: Guarded) -> None:
    wire = guarded.token("publish:wire.*")
    assert guarded.ask(wire, "PUT", "/v1/sources/wire.a", {}).status == 201
    assert guarded.ask(wire, "POST", "/v1/documents?source=wire.a", b"<a/>").status == 201
    batch = guarded.ask(wire, "POST", "/v1/documents:batch", b'{"document": "<a/>"}\n', Treecast_Source="wire.a")
    assert [row["status"] for row in batch.json["documents"]] == [201]
    assert guarded.code(wire, "POST", "/v1/documents", b"<a/>") == (403, "TC603")  # default
    assert guarded.code(wire, "POST", "/v1/documents?source=none", b"<a/>") == (403, "TC603")
    assert guarded.code(wire, "GET", "/v1/sources/default") == (404, "TC410")
    assert guarded.code(wire, "PUT", "/v1/sources/default", {}) == (403, "TC603")
    assert [row["id"] for row in guarded.ask(wire, "GET", "/v1/sources").json["sources"]] == ["wire.a"]
    assert guarded.code(wire, "GET", "/v1/subscriptions") == (403, "TC603")


# --- what is used up --------------------------------------------------------------------------------------------------


def test_rates(guarded: Guarded) -> None:
    slow = guarded.token("publish:default", documents_per_second=1)
    statuses = [guarded.ask(slow, "POST", "/v1/documents", b"<a/>") for _ in range(20)]
    refused = [answer for answer in statuses if answer.status != 201]
    assert refused and {answer.status for answer in refused} == {429}
    assert int(refused[0].headers["retry-after"]) >= 1 and refused[0].json["code"] == "TC604"
    small = guarded.token("publish:default", bytes_per_second=10)
    assert guarded.ask(small, "POST", "/v1/documents", b"<a>" + b" " * 1_000 + b"</a>").status == 201
    late = guarded.ask(small, "POST", "/v1/documents", b"<a/>")
    assert late.status == 429 and 90 <= int(late.headers["retry-after"]) <= 101
    assert guarded.ask(small, "POST", "/v1/documents:batch", b'{"document": "<a/>"}\n').status == 429
    # That is said before a body is read.
    head = f"POST /v1/documents HTTP/1.1\r\nAuthorization: Bearer {small}\r\nContent-Length: 9999\r\n\r\n"
    assert guarded.service.raw(head.encode()).startswith(b"HTTP/1.1 429")
    guarded.publish(guarded.admin, "<others-are-served/>")


def test_sizes(guarded: Guarded) -> None:
    token = guarded.token("publish:default", document_bytes_max=10)
    assert guarded.code(token, "POST", "/v1/documents", b"<a>1234567</a>") == (413, "TC432")
    assert guarded.ask(token, "POST", "/v1/documents", b"<a>123</a>").status == 201
    lines = b'{"document": "<a>1234567</a>"}\n{"document": "<a/>"}\n'
    answer = guarded.ask(token, "POST", "/v1/documents:batch", lines).json
    assert [row["status"] for row in answer["documents"]] == [413, 201]


def test_the_number_of_subscriptions(guarded: Guarded) -> None:
    token = guarded.token("subscribe:few.", "subscribe:less.", subscriptions_max=2)
    guarded.subscribe(guarded.admin, "few.a", "/a")
    guarded.subscribe(token, "less.b", "/b")
    assert guarded.code(token, "PUT", "/v1/subscriptions/few.c", {"query": "/c"}) == (403, "TC605")
    assert guarded.ask(token, "PUT", "/v1/subscriptions/few.a", {"query": "/c"}).status == 200  # it was there
    assert guarded.ask(token, "DELETE", "/v1/subscriptions/few.a").status == 204
    eventually(lambda: guarded.ask(token, "PUT", "/v1/subscriptions/few.c", {"query": "/c"}).status == 201)
    assert guarded.ask(token, "DELETE", "/v1/subscriptions/few.c").status == 204
    time.sleep(0.06)
    for _ in range(3):  # what is refused for another reason is not counted
        assert guarded.ask(token, "PUT", "/v1/subscriptions/few.c", {"query": "["}).status == 422
    guarded.subscribe(token, "few.c", "/c")


def test_a_revoked_token_ends_its_streams(guarded: Guarded) -> None:
    token = guarded.token("subscribe:live.", streams_max=2)
    guarded.subscribe(token, "live.a", "/live")
    guarded.subscribe(token, "live.b", "/later")
    one, two = guarded.service.events("live.a"), guarded.service.events("live.a")
    assert guarded.code(token, "GET", "/v1/events?subscription=live.a") == (403, "TC605")
    guarded.publish(guarded.admin, "<live/>")
    assert len(one.take(1)) == len(two.take(1)) == 1
    guarded.service.token = token
    connection = guarded.service.connect()
    connection.request("POST", "/v1/subscriptions/live.b:pull", '{"wait_ms": 20000}', guarded.service.authorization())
    time.sleep(0.1)
    guarded.store.revoke([token])
    assert list(one) == list(two) == []  # to the end
    assert guarded.code(token, "GET", "/v1/events?subscription=live.a") == (401, "TC602")
    guarded.publish(guarded.admin, "<later/>")
    assert connection.getresponse().status == 401  # also for what it waited for before
    connection.close()


def test_nothing_was_logged_but_changes(guarded: Guarded) -> None:
    assert guarded.service.end() == (0, "")
