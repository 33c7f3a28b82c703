"""Web hooks of a real service: signatures that others verify, retries, order, and what endpoints can do wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from support.hook_receiver import HookReceiver, Received, Response
from support.served_http import Service, eventually

pytestmark = pytest.mark.house

QUICK = {
    "allow": ["127.0.0.0/8"],
    "retry_ms": 20,
    "retry_ms_max": 40,
    "store_ms": 50,
    "attempt_ms": 2_500,
    "join_ms": 100,
}


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Hooks may reach this machine, and are tried again at once."""
    with Service(tmp_path_factory.mktemp("hooked") / "data", hooks=QUICK, advance_ms=50) as service:
        yield service
        assert service.end()[0] == 0


@pytest.fixture
def receiver() -> Iterator[HookReceiver]:
    with HookReceiver() as running:
        yield running


class Hook:
    """A hook with a subscription of its own, which matches documents whose root is called as it is."""

    def __init__(self, service: Service, name: str, receiver: HookReceiver, **settings: Any) -> None:
        self.service, self.name, self.receiver = service, name, receiver
        service.subscribe(name, f"/{name}", **settings.pop("subscription", {}))
        answer = service.ask("PUT", f"/v1/hooks/{name}", {"url": receiver.url, "subscriptions": [name], **settings})
        assert answer.status == 201, answer
        self.secret: str = answer.json.get("secret", "")

    def publish(self, *texts: str) -> None:
        for text in texts:
            self.service.publish(f"<{self.name}>{text}</{self.name}>")

    def state(self) -> Any:
        return self.service.ask("GET", f"/v1/hooks/{self.name}").json

    def attempts(self) -> list[Any]:
        """The oldest first."""
        attempts: list[Any] = self.service.ask("GET", f"/v1/hooks/{self.name}/attempts").json["attempts"]
        return attempts[::-1]

    def do(self, action: str, form: Any = None) -> Any:
        answer = self.service.ask("POST", f"/v1/hooks/{self.name}:{action}", form)
        assert answer.status == 200, answer
        return answer.json

    def texts(self) -> list[str]:
        """What was received, in order."""
        return [text_of(request) for request in self.receiver.requests]

    def wait(self, count: int) -> list[str]:
        eventually(lambda: len(self.receiver.requests) >= count)
        return self.texts()


def text_of(request: Received) -> str:
    payload: str = json.loads(request.body)["data"]["payload"]
    return payload.partition(">")[2].partition("<")[0]


def failing(*statuses: int, then: int = 204, **headers: str) -> Callable[[Received], Response]:
    """Answer with these, and then with success."""
    rest = list(statuses)
    return lambda request: Response(rest.pop(0) if rest else then, {k.replace("_", "-"): v for k, v in headers.items()})


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_a_delivery_is_an_envelope_that_others_can_verify(hooked: Service, receiver: HookReceiver) -> None:
    hook = Hook(hooked, "signed", receiver)
    hook.publish("ä")
    hook.wait(1)
    (request,) = receiver.requests
    message = Webhook(hook.secret).verify(request.body, request.headers)
    assert (message["type"], message["data"]["subscription"]) == ("delivery", "signed")
    assert message["data"]["payload"] == "<signed>ä</signed>" and message["timestamp"] == message["data"]["published"]
    assert request.id == message["data"]["delivery"] and request.headers["content-type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(hook.secret).verify(request.body + b" ", request.headers)
    assert "secret" not in hook.state() and hook.state()["secrets"] == 1


def test_raw_payloads_are_bytes_as_they_are(hooked: Service, receiver: HookReceiver) -> None:
    hook = Hook(hooked, "raw", receiver, format="raw")
    document = '<?xml version="1.0" encoding="ISO-8859-1"?><raw>ä</raw>'.encode("latin-1")
    assert hooked.ask("POST", "/v1/documents", document).status == 201
    eventually(lambda: receiver.requests)
    (request,) = receiver.requests
    assert (request.body, request.headers["content-type"]) == (document, "application/xml")
    assert request.headers["treecast-subscription"] == "raw"
    # Verified as text by those who published the library; the bytes that are signed are these.
    content = f"{request.id}.{request.headers['webhook-timestamp']}.".encode() + document
    assert_signed(hook.secret, content, request)


def assert_signed(secret: str, content: bytes, request: Received) -> None:
    import base64
    import hashlib
    import hmac

    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


def test_after_a_rotation_both_secrets_verify_until_the_old_one_ends(hooked: Service, receiver: HookReceiver) -> None:
    hook = Hook(hooked, "rotated", receiver)
    new = hook.do("rotate")["secret"]
    assert new != hook.secret and hook.state()["secrets"] == 2
    hook.publish("both")
    hook.wait(1)
    newest = hook.do("rotate", {"overlap_ms": 0, "secret": "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    assert "secret" not in newest and newest["secrets"] == 1
    hook.publish("one")
    hook.wait(2)
    both, one = receiver.requests
    for secret in (hook.secret, new):
        Webhook(secret).verify(both.body, both.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(one.body, one.headers)
    Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").verify(one.body, one.headers)


def test_a_hook_may_have_many_subscriptions(hooked: Service, receiver: HookReceiver) -> None:
    for name in ("many1", "many2"):
        hooked.subscribe(name, f"/{name}")
    hooked.ask("PUT", "/v1/hooks/many", {"url": receiver.url, "subscriptions": ["many1", "many2"]})
    hooked.publish("<many1/>")
    hooked.publish("<many2/>")
    eventually(lambda: len(receiver.requests) == 2)
    assert {json.loads(request.body)["data"]["subscription"] for request in receiver.requests} == {"many1", "many2"}


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_delivery_comes_again_with_the_same_id_and_body(hooked: Service, receiver: HookReceiver) -> None:
    receiver.answer = failing(500, 404)
    hook = Hook(hooked, "retried", receiver)
    hook.publish("x")
    hook.wait(3)
    assert len({(request.id, request.body) for request in receiver.requests}) == 1
    eventually(lambda: len(hook.attempts()) == 3)
    assert [(one["attempt"], one["status"], one["result"]) for one in hook.attempts()] == [
        (1, 500, "again"),
        (2, 404, "again"),
        (3, 204, "delivered"),
    ]
    assert hook.state()["status"] == "active"


def test_an_endpoint_that_is_busy_is_left_alone_as_long_as_it_asks(hooked: Service, receiver: HookReceiver) -> None:
    receiver.answer = failing(429, Retry_After="1")
    hook = Hook(hooked, "busy", receiver)
    begin = time.monotonic()
    hook.publish("a")
    hook.wait(1)
    hook.publish("b")  # not now either
    hook.wait(3)
    assert time.monotonic() - begin > 1
    assert sorted(hook.texts()) == ["a", "a", "b"]


def test_a_redirect_is_a_failure_and_is_not_followed(hooked: Service, receiver: HookReceiver) -> None:
    with HookReceiver() as target:
        receiver.answer = failing(302, 307, 308, Location=target.url)
        hook = Hook(hooked, "redirected", receiver)
        hook.publish("x")
        hook.wait(4)
        assert target.requests == []
    assert [one["status"] for one in hook.attempts()][:3] == [302, 307, 308]


def test_an_endpoint_that_is_gone_is_disabled_until_it_is_resumed(hooked: Service, receiver: HookReceiver) -> None:
    receiver.answer = failing(410)
    hook = Hook(hooked, "gone", receiver)
    hook.publish("a")
    eventually(lambda: hook.state()["status"] == "disabled")
    assert "410" in hook.state()["disabled"]
    hook.publish("b")
    assert hook.do("resume")["status"] == "active"
    eventually(lambda: sorted(hook.texts()) == ["a", "a", "b"])


def test_an_endpoint_that_does_not_answer_in_time_is_asked_again(hooked: Service, receiver: HookReceiver) -> None:
    release = threading.Event()

    def answer(request: Received) -> Response:
        if len(receiver.requests) == 1:
            release.wait(20)
        return Response()

    receiver.answer = answer
    hook = Hook(hooked, "slow", receiver)
    hook.publish("x")
    hook.wait(2)
    release.set()
    eventually(lambda: len(hook.attempts()) == 2)
    assert [(one["status"], one["result"]) for one in hook.attempts()] == [(0, "again"), (204, "delivered")]
    assert "in time" in hook.attempts()[0]["error"]


def test_an_answer_that_never_ends_is_cut(hooked: Service, receiver: HookReceiver) -> None:
    """Its status counts, and little of it is kept."""
    receiver.answer = lambda request: Response(200, {}, b"x" * 50_000, is_endless=True)
    hook = Hook(hooked, "endless", receiver)
    hook.publish("x")
    eventually(lambda: hook.attempts())
    (attempt,) = hook.attempts()
    assert (attempt["status"], attempt["result"], attempt["response"]) == (200, "delivered", "x" * 300)


def test_what_is_given_up_is_a_dead_letter_and_can_be_sent_again(hooked: Service, receiver: HookReceiver) -> None:
    receiver.answer = failing(500, 500, 500)
    hook = Hook(hooked, "given-up", receiver, attempts_max=3)
    hook.publish("x")

    def letters() -> list[Any]:
        return [one for one in hooked.ask("GET", "/v1/letters").json["letters"] if one["subscription"] == "given-up"]

    eventually(letters)
    (letter,) = letters()
    assert (letter["attempts"], letter["reason"]) == (3, "hook given-up: TC444 it answered 500")
    assert [one["result"] for one in hook.attempts()] == ["again", "again", "given up"]
    assert hooked.problem("POST", "/v1/hooks/given-up:redeliver", {"letters": [letter["letter"] + 1000]}) == (
        404,
        "TC416",
    )
    assert hook.do("redeliver") == {"letters": 1}
    hook.wait(4)
    assert len({request.id for request in receiver.requests}) == 1
    eventually(lambda: letters() == [])
    assert hook.do("redeliver") == {"letters": 0}


def test_a_hook_that_only_fails_is_disabled_in_the_end(tmp_path: Path, receiver: HookReceiver) -> None:
    receiver.answer = failing(then=500)
    with Service(tmp_path / "data", hooks={**QUICK, "failing_ms_max": 100, "failures_in_row_max": 1}) as service:
        hook = Hook(service, "hopeless", receiver, attempts_max=100)
        hook.publish("a", "b")
        eventually(lambda: hook.state()["status"] == "disabled")
        assert "500" in hook.state()["disabled"]
        attempts = hook.attempts()
        assert attempts[-1]["result"] == "disabled"
        assert service.end()[0] == 0
        service.start()  # it is still disabled, and its attempts are known
        assert hook.state()["status"] == "disabled" and hook.attempts() == attempts
        receiver.answer = failing()
        answer = service.ask("PUT", "/v1/hooks/hopeless", {"url": receiver.url, "subscriptions": ["hopeless"]})
        assert (answer.status, answer.json["status"]) == (200, "active") and "secret" not in answer.json
        eventually(lambda: {"a", "b"} <= {text_of(request) for request in receiver.requests[len(attempts) :]})
        Webhook(hook.secret).verify(receiver.requests[-1].body, receiver.requests[-1].headers)


# --- order, concurrency, rate -----------------------------------------------------------------------------------------


def test_nothing_overtakes_in_an_ordered_hook(hooked: Service, receiver: HookReceiver) -> None:
    """Neither while a delivery waits to be tried again, nor though the broker waits for no acknowledgement as long."""
    receiver.answer = failing(500, 503, 500)
    hook = Hook(hooked, "ordered", receiver, ordered=True, subscription={"acknowledge_ms": 1_000, "attempts_max": 1})
    hook.publish(*"abcdef")
    assert hook.wait(9) == list("aaaabcdef")
    assert receiver.open_most == 1


def test_an_ordered_hook_gives_up_and_goes_on(hooked: Service, receiver: HookReceiver) -> None:
    receiver.answer = failing(500, 500)
    hook = Hook(hooked, "ordered2", receiver, ordered=True, attempts_max=2)
    hook.publish(*"abc")
    assert hook.wait(4) == list("aabc")


def test_a_slow_endpoint_may_take_longer_than_the_broker_waits(hooked: Service, receiver: HookReceiver) -> None:
    """The broker is told that it is being worked on: no second attempt, no dead letter."""

    def answer(request: Received) -> Response:
        time.sleep(0.6)
        return Response()

    receiver.answer = answer
    settings = {"acknowledge_ms": 200, "attempts_max": 1}
    hook = Hook(hooked, "patient", receiver, ordered=True, subscription=settings)
    hook.publish("a")
    eventually(lambda: hook.attempts())
    assert hook.texts() == ["a"]
    assert [one for one in hooked.ask("GET", "/v1/letters").json["letters"] if one["subscription"] == "patient"] == []


def test_an_unordered_hook_sends_several_at_a_time_but_no_more(hooked: Service, receiver: HookReceiver) -> None:
    """Also while one of them fails again and again."""
    together = threading.Event()

    def answer(request: Received) -> Response:
        if text_of(request) == "bad" and not together.is_set():
            return Response(500)
        if receiver.open >= 3:
            together.set()
        together.wait(20)
        return Response()

    receiver.answer = answer
    hooked.subscribe("unordered", "/unordered")
    for text in ("bad", *"abcdef"):
        hooked.publish(f"<unordered>{text}</unordered>")
    form = {"url": receiver.url, "subscriptions": ["unordered"], "concurrency": 3, "attempts_max": 100}
    assert hooked.ask("PUT", "/v1/hooks/unordered", form).status == 201
    eventually(lambda: {text_of(request) for request in receiver.requests} == {"bad", *"abcdef"})
    assert together.is_set() and receiver.open_most == 3


def test_attempts_are_no_more_than_the_rate_allows(hooked: Service, receiver: HookReceiver) -> None:
    times: list[float] = []

    def answer(request: Received) -> Response:
        times.append(time.monotonic())
        return Response()

    receiver.answer = answer
    hooked.subscribe("rated", "/rated")
    for _ in range(6):
        hooked.publish("<rated/>")
    form = {"url": receiver.url, "subscriptions": ["rated"], "rate_max": 10}
    assert hooked.ask("PUT", "/v1/hooks/rated", form).status == 201
    eventually(lambda: len(times) == 6)
    assert times[-1] - times[0] > 0.4


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_subscription_that_is_removed_and_added_again_is_received_from(
    hooked: Service, receiver: HookReceiver
) -> None:
    hook = Hook(hooked, "again", receiver)
    hook.publish("a")
    hook.wait(1)
    assert hooked.ask("DELETE", "/v1/subscriptions/again").status == 204
    hooked.subscribe("again", "/again")
    hook.publish("b")
    assert hook.wait(2) == ["a", "b"]


def test_what_others_have_read_is_sent_all_the_same(hooked: Service, receiver: HookReceiver) -> None:
    """What event streams have sent counts as delivered, but not for a hook, not even for one that is disabled."""
    receiver.answer = failing(410)
    hook = Hook(hooked, "streamed", receiver)
    hooked.subscribe("beside", "/streamed")
    hook.publish("a")
    eventually(lambda: hook.state()["status"] == "disabled")
    hook.publish("b")
    with hooked.events("streamed", "beside") as events:
        events.take(4)

        def is_settled() -> bool:
            return all(queue["subscription"] != "beside" for queue in hooked.ask("GET", "/v1/status").json["queues"])

        eventually(is_settled)
    hook.do("resume")
    eventually(lambda: sorted(hook.texts()) == ["a", "a", "b"])


def test_a_removed_hook_is_sent_nothing_and_its_subscription_keeps_what_comes(
    hooked: Service, receiver: HookReceiver
) -> None:
    hook = Hook(hooked, "removed", receiver)
    assert hooked.ask("DELETE", "/v1/hooks/removed").status == 204
    assert hooked.problem("GET", "/v1/hooks/removed") == (404, "TC440")
    hook.publish("x")
    pulled = hooked.ask("POST", "/v1/subscriptions/removed:pull", {"wait_ms": 10_000}).json["deliveries"]
    assert len(pulled) == 1 and receiver.requests == []


def test_hooks_are_listed_in_pages(hooked: Service, receiver: HookReceiver) -> None:
    for name in ("list1", "list2"):
        Hook(hooked, name, receiver)
    page = hooked.ask("GET", "/v1/hooks?after=list&count=1").json
    assert [hook["id"] for hook in page["hooks"]] == ["list1"] and page["next"] == "list1"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"subscriptions": ["nobody"]}, (404, "TC412")),
        ({"subscriptions": []}, (400, "TC434")),
        ({"url": "ftp://127.0.0.1/"}, (400, "TC441")),
        ({"url": "http://10.0.0.1/"}, (403, "TC620")),
        ({"secret": "whsec_short"}, (400, "TC442")),
        ({"secret": "tooplain"}, (400, "TC442")),
        ({"concurrency": 101}, (400, "TC434")),
        ({"attempts_max": 101}, (400, "TC434")),
        ({"attempt_max": 1}, (400, "TC434")),
    ],
)
def test_what_cannot_be_a_hook(hooked: Service, change: Any, answer: tuple[int, str]) -> None:
    if hooked.ask("GET", "/v1/subscriptions/refused").status == 404:
        hooked.subscribe("refused", "/refused")
    form = {"url": "http://127.0.0.1/", "subscriptions": ["refused"], **change}
    assert hooked.problem("PUT", "/v1/hooks/refused", form) == answer
    assert hooked.problem("GET", "/v1/hooks/refused") == (404, "TC440")


def test_a_subscription_has_one_hook(hooked: Service, receiver: HookReceiver) -> None:
    Hook(hooked, "owned", receiver)
    form = {"url": receiver.url, "subscriptions": ["owned"]}
    assert hooked.problem("PUT", "/v1/hooks/second", form) == (409, "TC443")
    assert hooked.problem("PUT", "/v1/hooks/a%2Fb", form) == (400, "TC414")


def test_internal_addresses_are_refused_unless_they_are_allowed(service: Service, receiver: HookReceiver) -> None:
    """Directly, and by name; by redirect: see above."""
    service.subscribe("inside", "/inside")
    for host in ("127.0.0.1", "localhost", "[::1]", "169.254.169.254", "nowhere.invalid", "2130706433"):
        form = {"url": f"http://{host}:{receiver.port}/", "subscriptions": ["inside"]}
        assert service.problem("PUT", "/v1/hooks/inside", form) == (403, "TC620"), host
    service.publish("<inside/>")
    assert receiver.requests == []
