"""The WebSub hub with callbacks of our own: what it asks, what it sends, and when it stops."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from flask_websub.utils import calculate_hmac
from support.hook_receiver import HookReceiver, Received, Response
from support.served_http import Answer, Service, eventually

pytestmark = pytest.mark.house

HOOKS = {"allow": ["127.0.0.0/8"], "retry_ms": 20, "retry_ms_max": 40}
QUICK = {"store_ms": 50, "check_ms": 50, "lease_s_min": 1, "attempts_max": 3, "verifications_per_host_max": 1_000}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Callbacks may be on this machine, and are tried again at once."""
    with Service(tmp_path_factory.mktemp("hub") / "data", hooks=HOOKS, websub=QUICK) as service:
        yield service
        assert service.end() == (0, "")


class Callback(HookReceiver):
    """Agrees to everything, unless it is told otherwise."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.agrees = True
        self.statuses: list[int] = []
        """The next answers to content, before all others are 204."""

    def _reply(self, request: Received) -> Response:
        if request.method == "POST":
            return Response(self.statuses.pop(0) if self.statuses else 204)
        challenge = parse_qs(urlsplit(request.path).query).get("hub.challenge", [""])[0]
        return Response(200, {}, (challenge if self.agrees else "no").encode())

    def questions(self) -> list[dict[str, str]]:
        gets = [request for request in self.requests if request.method == "GET"]
        return [{k: v[0] for k, v in parse_qs(urlsplit(request.path).query).items()} for request in gets]

    def contents(self) -> list[bytes]:
        return [request.body for request in self.requests if request.method == "POST"]


@pytest.fixture
def callback() -> Iterator[Callback]:
    running = Callback()
    with running:
        yield running


def topic_url(service: Service, topic: str) -> str:
    return f"http://127.0.0.1:{service.port}/v1/topics/{quote(topic, safe='')}"


def ask(service: Service, topic: str, callback: str, mode: str = "subscribe", **more: str) -> Answer:
    form = {"hub.mode": mode, "hub.topic": topic_url(service, topic), "hub.callback": callback}
    form |= {f"hub.{name}": value for name, value in more.items()}
    return service.ask("POST", "/v1/hub", urlencode(form).encode())


def subscribe(service: Service, topic: str, callback: Callback, url: str = "", **more: str) -> None:
    """Until the intent is verified, and the hub has acted on it: it then takes part in what is published."""
    before = subscribers(service)
    questions = len(callback.questions())
    assert ask(service, topic, url or callback.url, **more).status == 202
    eventually(lambda: len(callback.questions()) > questions)
    eventually(lambda: subscribers(service) > before)


def subscribers(service: Service) -> float:
    (line,) = re.findall(r"^treecast_websub_subscribers (\S+)$", service.ask("GET", "/metrics").body.decode(), re.M)
    return float(line)


def publish(service: Service, topic: str, text: str) -> bytes:
    document = f"<{topic}>{text}</{topic}>"
    service.publish(document)
    return document.encode()


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_leads_to_its_hub_and_is_its_last_payload(hub: Service) -> None:
    hub.subscribe("sport news/1", "/found")
    page = f"/v1/topics/{quote('sport news/1', safe='')}"
    links = f'<http://127.0.0.1:{hub.port}/v1/hub>; rel="hub", <{topic_url(hub, "sport news/1")}>; rel="self"'
    empty = hub.ask("GET", page)
    assert (empty.status, empty.headers["link"]) == (204, links)
    for text in ("one", "two"):
        document = publish(hub, "found", text)
    hub.publish("<other/>")
    answer = hub.ask("GET", page)
    assert (answer.status, answer.body, answer.headers["link"]) == (200, document, links)
    assert answer.headers["content-type"] == "application/xml"
    head = hub.ask("HEAD", page)
    assert (head.status, head.body, head.headers["link"]) == (200, b"", links)


def test_a_topic_that_was_never_asked_for_has_its_last_payload_too(hub: Service) -> None:
    hub.subscribe("quiet", "/quiet")
    document = publish(hub, "quiet", "once")
    for _ in range(3):
        hub.publish("<noise/>")
    assert hub.ask("GET", "/v1/topics/quiet").body == document


def test_the_last_payload_outlives_its_document(tmp_path: Path) -> None:
    settings = {"keep_ms": 0, "retention_step_ms": 50}
    with Service(tmp_path / "data", broker=settings, websub=QUICK, advance_ms=50) as service:
        service.subscribe("kept", "/kept")
        assert service.ask("GET", "/v1/topics/kept").status == 204
        document = publish(service, "kept", "x" * 1_000)
        with service.events("kept") as events:  # so that nobody waits for it
            events.take(1)
        eventually(
            lambda: service.ask("POST", "/v1/subscriptions:try", {"query": "/kept"}).json.get("documents", 0) == 0
        )
        assert service.ask("GET", "/v1/topics/kept").body == document
        service.end(signal.SIGKILL)
        service.start()
        assert service.ask("GET", "/v1/topics/kept").body == document


def test_a_new_subscription_with_an_old_id_is_another_topic(hub: Service) -> None:
    hub.subscribe("reused", "/reused")
    publish(hub, "reused", "old")
    assert hub.ask("GET", "/v1/topics/reused").status == 200
    assert hub.ask("DELETE", "/v1/subscriptions/reused").status == 204
    assert hub.problem("GET", "/v1/topics/reused") == (404, "TC412")
    hub.subscribe("reused", "/reused")
    assert hub.ask("GET", "/v1/topics/reused").status == 204


# --- subscribers ------------------------------------------------------------------------------------------------------


def test_a_callback_is_asked_and_then_gets_what_is_published(hub: Service, callback: Callback) -> None:
    hub.subscribe("asked", "/asked")
    publish(hub, "asked", "before")
    url = callback.url + "?keep=%7Ethis&x=1"
    subscribe(hub, "asked", callback, url, lease_seconds="3600", secret="a secret", unknown="ignored")
    (question,) = callback.questions()
    assert question["keep"] == "~this" and "keep=%7Ethis&x=1&hub.mode" in callback.requests[0].path
    assert (question["hub.mode"], question["hub.lease_seconds"]) == ("subscribe", "3600")
    assert question["hub.topic"] == topic_url(hub, "asked") and len(question["hub.challenge"]) > 30
    document = publish(hub, "asked", "after")
    eventually(callback.contents)
    (request,) = [request for request in callback.requests if request.method == "POST"]
    assert request.body == document == hub.ask("GET", "/v1/topics/asked").body
    assert request.headers["x-hub-signature"] == "sha256=" + calculate_hmac("sha256", "a secret", document)
    assert request.headers["link"] == hub.ask("GET", "/v1/topics/asked").headers["link"]
    assert request.path == "/hook?keep=%7Ethis&x=1"


def test_without_a_secret_nothing_is_signed(hub: Service, callback: Callback) -> None:
    hub.subscribe("plain", "/plain")
    subscribe(hub, "plain", callback)
    publish(hub, "plain", "x")
    eventually(callback.contents)
    assert "x-hub-signature" not in callback.requests[-1].headers


@pytest.mark.parametrize("status", [200, 404, 302])
def test_who_does_not_agree_is_no_subscriber(hub: Service, callback: Callback, status: int) -> None:
    """The body has to be the challenge, and the status 2xx."""
    name = f"refused{status}"
    hub.subscribe(name, f"/{name}")
    callback.answer = lambda request: Response(status, {"Location": callback.url}, b"no")
    before = subscribers(hub)
    assert ask(hub, name, callback.url).status == 202
    eventually(callback.questions)
    publish(hub, name, "x")
    with Callback() as other:
        subscribe(hub, name, other)
        publish(hub, name, "y")
        eventually(other.contents)
        assert callback.contents() == [] and len(callback.requests) == 1 and subscribers(hub) == before + 1


def test_unsubscribing_is_verified_too(hub: Service, callback: Callback) -> None:
    hub.subscribe("left", "/left")
    subscribe(hub, "left", callback)
    callback.agrees = False
    before = subscribers(hub)
    assert ask(hub, "left", callback.url, "unsubscribe").status == 202
    eventually(lambda: len(callback.questions()) == 2)
    publish(hub, "left", "still")
    eventually(callback.contents)
    callback.agrees = True
    assert ask(hub, "left", callback.url, "unsubscribe").status == 202
    eventually(lambda: subscribers(hub) == before - 1)
    assert [question["hub.mode"] for question in callback.questions()] == ["subscribe", "unsubscribe", "unsubscribe"]
    assert len(callback.contents()) == 1


def test_a_renewal_does_not_interrupt(hub: Service, callback: Callback) -> None:
    """While it is verified, also when that takes long; and afterwards everything comes once, with the new secret."""
    hub.subscribe("renewed", "/renewed")
    subscribe(hub, "renewed", callback, secret="old")
    before = subscribers(hub)
    release = threading.Event()
    agree = callback.answer

    def hesitate(request: Received) -> Response:
        if request.method == "GET":
            release.wait(20)
        return agree(request)

    callback.answer = hesitate
    assert ask(hub, "renewed", callback.url, secret="new").status == 202
    eventually(lambda: len(callback.questions()) == 2)
    documents = [publish(hub, "renewed", "during")]
    eventually(lambda: len(callback.contents()) == 1)
    release.set()

    def is_new() -> bool:
        documents.append(publish(hub, "renewed", "after"))
        eventually(lambda: len(callback.contents()) == len(documents))
        signature = callback.requests[-1].headers["x-hub-signature"]
        return bool(signature == "sha256=" + calculate_hmac("sha256", "new", documents[-1]))

    eventually(is_new)
    assert callback.contents() == documents and subscribers(hub) == before


def test_a_lease_ends(hub: Service, callback: Callback) -> None:
    hub.subscribe("leased", "/leased")
    before = subscribers(hub)
    subscribe(hub, "leased", callback, lease_seconds="0")  # as if there was none
    assert callback.questions()[0]["hub.lease_seconds"] == "864000"
    subscribe(hub, "leased", callback, callback.url + "2", lease_seconds="1")
    assert callback.questions()[1]["hub.lease_seconds"] == "1"
    eventually(lambda: subscribers(hub) == before + 1)
    subscribe(hub, "leased", callback, callback.url + "3", lease_seconds="99999999999")
    assert callback.questions()[2]["hub.lease_seconds"] == str(30 * 86_400)


def test_of_several_requests_the_last_one_counts(hub: Service, callback: Callback) -> None:
    """Also when an earlier one is verified later."""
    hub.subscribe("twice", "/twice")
    before = subscribers(hub)
    subscribe(hub, "twice", callback)
    release = threading.Event()
    agree = callback.answer

    def hesitate(request: Received) -> Response:
        if "hub.mode=subscribe" in request.path:
            release.wait(20)
        return agree(request)

    callback.answer = hesitate
    assert ask(hub, "twice", callback.url).status == 202
    eventually(lambda: len(callback.questions()) == 2)
    assert ask(hub, "twice", callback.url, "unsubscribe").status == 202
    eventually(lambda: subscribers(hub) == before)
    release.set()
    with Callback() as other:  # verified after that
        subscribe(hub, "twice", other)
        publish(hub, "twice", "x")
        eventually(other.contents)
    assert callback.contents() == []


def test_what_subscribers_have_got_counts_as_delivered(hub: Service, callback: Callback) -> None:
    hub.subscribe("counted", "/counted")
    subscribe(hub, "counted", callback)
    publish(hub, "counted", "x")
    eventually(callback.contents)

    def is_settled() -> bool:
        return all(queue["subscription"] != "counted" for queue in hub.ask("GET", "/v1/status").json["queues"])

    eventually(is_settled)


def test_a_failed_request_is_repeated_and_in_the_end_given_up(hub: Service, callback: Callback) -> None:
    hub.subscribe("failed", "/failed")
    subscribe(hub, "failed", callback)
    callback.statuses = [500, 302, 204, 500, 500, 500]
    documents = [publish(hub, "failed", text) for text in "abc"]
    eventually(lambda: len(callback.contents()) == 7)
    a, b, c = documents
    assert callback.contents() == [a, a, a, b, b, b, c]


def test_a_callback_that_is_gone_is_a_subscriber_no_more(hub: Service, callback: Callback) -> None:
    hub.subscribe("vanished", "/vanished")
    before = subscribers(hub)
    subscribe(hub, "vanished", callback)
    callback.statuses = [410]
    publish(hub, "vanished", "a")
    publish(hub, "vanished", "b")
    eventually(lambda: subscribers(hub) == before)
    assert len(callback.contents()) == 1


def test_subscribers_of_a_topic_that_is_removed_are_told(hub: Service, callback: Callback) -> None:
    hub.subscribe("removed", "/removed")
    before = subscribers(hub)
    subscribe(hub, "removed", callback)
    assert hub.ask("DELETE", "/v1/subscriptions/removed").status == 204
    eventually(lambda: subscribers(hub) == before and len(callback.questions()) == 2)
    denied = callback.questions()[1]
    assert (denied["hub.mode"], denied["hub.topic"]) == ("denied", topic_url(hub, "removed")) and denied["hub.reason"]


def test_every_subscriber_gets_everything_also_when_the_service_is_killed(tmp_path: Path, callback: Callback) -> None:
    """One of them is down meanwhile."""
    with (
        Service(tmp_path / "data", hooks=HOOKS, websub={**QUICK, "attempts_max": 1_000}) as service,
        Callback() as down,
    ):
        service.subscribe("all", "/all")
        subscribe(service, "all", callback)
        subscribe(service, "all", down)
        down.statuses = [503] * 100_000
        documents = [publish(service, "all", str(number)) for number in range(20)]
        eventually(lambda: len(callback.contents()) >= 10 and down.contents())
        service.end(signal.SIGKILL)
        service.start()
        down.statuses = []
        documents.append(publish(service, "all", "later"))
        for one in (callback, down):
            eventually(lambda one=one: set(one.contents()) == set(documents))
            assert list(dict.fromkeys(one.contents())) == documents
        service.end()
        counts = [len(one.contents()) for one in (callback, down)]
        service.start()
        publish(service, "all", "last")
        eventually(lambda: b"<all>last</all>" in callback.contents() and b"<all>last</all>" in down.contents())
        assert [len(one.contents()) for one in (callback, down)] == [count + 1 for count in counts]


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"hub.mode": "publish"}, (400, "TC434")),
        ({"hub.mode": None}, (400, "TC434")),
        ({"hub.callback": None}, (400, "TC434")),
        ({"hub.topic": None}, (400, "TC434")),
        ({"hub.topic": "http://elsewhere.example/v1/topics/form"}, (404, "TC412")),
        ({"hub.topic": "nobody"}, (404, "TC412")),
        ({"hub.callback": "ftp://example.com/"}, (400, "TC441")),
        ({"hub.callback": "http://me@example.com/"}, (400, "TC441")),
        ({"hub.callback": "http://10.0.0.1/"}, (403, "TC620")),
        ({"hub.lease_seconds": "soon"}, (400, "TC434")),
        ({"hub.lease_seconds": "-1"}, (400, "TC434")),
        ({"hub.secret": "x" * 200}, (400, "TC434")),
        ({"hub.secret": "ä" * 150}, (400, "TC434")),
    ],
)
def test_forms_that_cannot_be_used(hub: Service, change: dict[str, str | None], answer: tuple[int, str]) -> None:
    if hub.ask("GET", "/v1/subscriptions/form").status == 404:
        hub.subscribe("form", "/form")
    form: dict[str, str | None] = {
        "hub.mode": "subscribe",
        "hub.topic": topic_url(hub, "form"),
        "hub.callback": "http://127.0.0.1:9/",
        **change,
    }
    body = urlencode({name: value for name, value in form.items() if value is not None})
    assert hub.problem("POST", "/v1/hub", body.encode()) == answer


def test_topics_that_do_not_exist_and_hosts_that_are_none(hub: Service) -> None:
    assert hub.problem("GET", "/v1/topics/nobody") == (404, "TC412")
    assert ask(hub, "nobody", "http://127.0.0.1:9/").status == 404
    assert hub.problem("GET", "/v1/topics/nobody", Host='x"><script>') == (400, "TC434")


def test_callbacks_at_internal_addresses_are_refused(service: Service, callback: Callback) -> None:
    service.subscribe("inner", "/inner")
    for host in ("127.0.0.1", "localhost"):
        answer = ask(service, "inner", f"http://{host}:{callback.port}/")
        assert (answer.status, answer.json["code"]) == (403, "TC620")
    assert callback.requests == []


def test_the_hub_is_no_tool_against_others(tmp_path: Path, callback: Callback) -> None:
    """Few questions at a time to one host."""
    release = threading.Event()
    agree = callback.answer

    def hesitate(request: Received) -> Response:
        release.wait(20)
        return agree(request)

    callback.answer = hesitate
    limits = {**QUICK, "verifications_per_host_max": 3, "subscribers_max": 4}
    with Service(tmp_path / "data", hooks=HOOKS, websub=limits) as service:
        service.subscribe("t", "/t")
        answers = [ask(service, "t", f"{callback.url}{number}").status for number in range(5)]
        assert answers == [202, 202, 202, 503, 503]
        release.set()
        eventually(lambda: subscribers(service) == 3)
        subscribe(service, "t", callback)
        answer = ask(service, "t", callback.url + "more")
        assert (answer.status, answer.json["code"]) == (409, "TC413")
