"""Tokens for web hooks and WebSub: a hook is named, and receives, what its token may have; others' do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from support.hook_receiver import HookReceiver
from support.served_http import Answer, Service, eventually

from treecast.serve.access.tokens import TokenStore

pytestmark = pytest.mark.house


class Doors:
    """A service with two tokens that know nothing of each other."""

    def __init__(self, service: Service, store: TokenStore) -> None:
        self._service = service
        self.desk = store.create(["subscribe:desk."])[1]
        self.rival = store.create(["subscribe:rival."])[1]
        self.reader = store.create(["read"])[1]

    def ask(self, token: str, method: str, path: str, body: Any = None) -> Answer:
        self._service.token = token
        return self._service.ask(method, path, body)

    def same(self, token: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The answer for `desk.a`, which is that for something that does not exist."""
        there = self.ask(token, method, path, body)
        missing = self.ask(token, method, path.replace("desk.a", "desk.x"), body)
        assert there.status == missing.status and there.body == missing.body.replace(b"desk.x", b"desk.a")
        return there.status, there.json["code"]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    directory = tmp_path_factory.mktemp("doors")
    service = Service(directory, hooks={"allow": ["127.0.0.0/8"]})
    made = Doors(service, TokenStore(directory))
    with service:
        yield made


def test_hooks_of_others_do_not_exist(doors: Doors) -> None:
    desk, rival = doors.desk, doors.rival
    with HookReceiver() as receiver:
        for token, id in ((desk, "desk.a"), (desk, "desk.b"), (rival, "rival.a")):
            assert doors.ask(token, "PUT", f"/v1/subscriptions/{id}", {"query": "/a"}).status == 201
        form = {"url": receiver.url, "subscriptions": ["desk.a"]}
        assert doors.ask(desk, "PUT", "/v1/hooks/desk.a", form).status == 201
        for method, path in (
            ("GET", ""),
            ("GET", "/attempts"),
            ("DELETE", ""),
            ("POST", ":rotate"),
            ("POST", ":resume"),
            ("POST", ":redeliver"),
        ):
            assert doors.same(rival, method, f"/v1/hooks/desk.a{path}") == (404, "TC440")
        assert doors.same(rival, "PUT", "/v1/hooks/desk.a", {**form, "subscriptions": ["rival.a"]}) == (403, "TC603")
        for subscription in ("desk.a", "desk.b", "desk.x"):  # one with a hook, one without, one that nobody has
            answer = doors.ask(rival, "PUT", "/v1/hooks/rival.a", {**form, "subscriptions": [subscription]})
            assert (answer.status, answer.json["code"]) == (404, "TC412")
        assert doors.ask(rival, "GET", "/v1/hooks").json == {"hooks": []}
        assert [hook["id"] for hook in doors.ask(desk, "GET", "/v1/hooks").json["hooks"]] == ["desk.a"]


def test_who_may_read_sees_hooks_and_changes_none(doors: Doors) -> None:
    assert doors.ask(doors.reader, "GET", "/v1/hooks").status == 200
    for method, path in (("DELETE", "/v1/hooks/desk.a"), ("POST", "/v1/hooks/desk.a:rotate")):
        assert doors.ask(doors.reader, method, path).status == 403


def test_topics_of_others_do_not_exist(doors: Doors) -> None:
    desk, rival = doors.desk, doors.rival
    doors.ask(desk, "PUT", "/v1/subscriptions/desk.a", {"query": "/a"})
    topic = doors.ask(desk, "GET", "/v1/topics/desk.a")
    url = topic.headers["link"].rpartition("<")[2].partition(">")[0]
    assert doors.same(rival, "GET", "/v1/topics/desk.a") == (404, "TC412")
    with HookReceiver() as receiver:
        form = {"hub.mode": "subscribe", "hub.topic": url, "hub.callback": receiver.url}
        for mode in ("subscribe", "unsubscribe"):
            body = urlencode({**form, "hub.mode": mode}).encode()
            assert doors.ask(rival, "POST", "/v1/hub", body).json["code"] == "TC412"
        assert doors.ask("", "POST", "/v1/hub", urlencode(form).encode()).status == 401
        assert receiver.requests == []
        assert doors.ask(desk, "POST", "/v1/hub", urlencode(form).encode()).status == 202
        eventually(lambda: receiver.requests)
