"""The HTTP door for subscribers: subscriptions, pulls, dead letters, replay, tries; and its description."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from support.served_http import Service, eventually

from treecast.serve.doors.routes import ROUTES

pytestmark = pytest.mark.house


def pull(service: Service, id: str, max: int = 100, wait_ms: int = 5_000) -> list[dict[str, object]]:
    answer = service.ask("POST", f"/v1/subscriptions/{id}:pull", {"max": max, "wait_ms": wait_ms})
    assert answer.status == 200, answer
    deliveries: list[dict[str, object]] = answer.json["deliveries"]
    return deliveries


def settle(service: Service, id: str, action: str, *deliveries: dict[str, object]) -> dict[str, object]:
    ids = [delivery["delivery"] for delivery in deliveries]
    answer = service.ask("POST", f"/v1/subscriptions/{id}:{action}", {"deliveries": ids})
    assert answer.status == 200, answer
    result: dict[str, object] = answer.json
    return result


def test_a_subscription_is_added_changed_and_removed(service: Service) -> None:
    path = "/v1/subscriptions/a%2Fb:c"
    assert service.problem("GET", path) == (404, "TC412")
    added = service.ask("PUT", path, {"query": "//x:b", "namespaces": {"x": "urn:x"}, "attempts_max": 2})
    changed = service.ask("PUT", path, {"query": "//b", "deliver": "elements"})
    assert (added.status, changed.status) == (201, 200)
    assert added.json["namespaces"] == {"x": "urn:x"} and added.json["attempts_max"] == 2
    assert service.ask("GET", path).json == changed.json
    assert changed.json["id"] == "a/b:c" and changed.json["deliver"] == "elements"
    assert service.ask("DELETE", path).status == 204
    assert service.problem("DELETE", path) == (404, "TC412")


def test_what_is_no_subscription_is_refused(service: Service) -> None:
    path = "/v1/subscriptions/wrong"
    assert service.problem("PUT", path, {"query": "b"}) == (422, "TC104")
    assert service.problem("PUT", path, {"query": "//x:b"})[0] == 422
    assert service.problem("PUT", path, {"query": "/a", "deliver": "nothing"}) == (400, "TC434")
    assert service.problem("PUT", path, {"query": "/a", "colour": "red"}) == (400, "TC434")
    assert service.problem("PUT", path, {"query": "/a", "attempts_max": -1}) == (400, "TC434")
    assert service.problem("PUT", path, b"{") == (400, "TC434")
    assert service.problem("PUT", path, b"\xff") == (400, "TC434")
    assert service.problem("PUT", path, b"[" * 100_000) == (400, "TC434")
    assert service.problem("PUT", f"/v1/subscriptions/{'x' * 1_025}", {"query": "/a"}) == (400, "TC414")
    assert service.problem("PUT", "/v1/subscriptions/a%00b", {"query": "/a"}) == (400, "TC414")
    assert service.problem("GET", path) == (404, "TC412")


def test_pages_of_subscriptions(service: Service) -> None:
    for id in ("page1", "page2", "page3"):
        service.subscribe(id, "/page")
    answer = service.ask("GET", "/v1/subscriptions?after=page&count=2").json
    assert [row["id"] for row in answer["subscriptions"]] == ["page1", "page2"]
    assert answer["next"] == "page2"
    answer = service.ask("GET", "/v1/subscriptions?after=page2&count=1").json
    assert [row["id"] for row in answer["subscriptions"]] == ["page3"]
    assert service.problem("GET", "/v1/subscriptions?count=0") == (400, "TC434")
    assert service.problem("GET", "/v1/subscriptions?count=many") == (400, "TC434")


def test_pull_and_acknowledge(service: Service) -> None:
    service.subscribe("pulled", "/pulled", deliver="elements")
    numbers = [service.publish(f"<pulled>{number}</pulled>") for number in range(5)]
    first = pull(service, "pulled", 2)
    rest = pull(service, "pulled", 10)
    assert [delivery["document"] for delivery in first + rest] == numbers
    assert first[0]["payload"] == "<pulled>0</pulled>" and first[0]["attempt"] == 1
    assert first[0]["subscription"] == "pulled" and first[0]["content_type"] == "application/xml"
    assert settle(service, "pulled", "ack", *first, rest[0]) == {"settled": 3, "unknown": []}
    assert settle(service, "pulled", "ack", first[0])["unknown"] == [first[0]["delivery"]]
    settle(service, "pulled", "fail", rest[1])
    (again,) = pull(service, "pulled")
    assert again["delivery"] == rest[1]["delivery"] and again["attempt"] == 2
    assert settle(service, "pulled", "ack", again, rest[2])["settled"] == 2
    assert pull(service, "pulled", wait_ms=0) == []


def test_a_part_of_what_was_pulled_is_acknowledged(service: Service) -> None:
    """The broker learns of it at once, though all of it came in one message."""
    service.subscribe("part", "/part", acknowledge_ms=1_000)
    service.ask("POST", "/v1/documents:batch", b'{"document": "<part/>"}\n' * 3)
    pulled = pull(service, "part")
    assert len(pulled) == 3
    settle(service, "part", "ack", pulled[1])
    late: dict[object, object] = {}
    while len(late) < 2:
        late |= {delivery["document"]: delivery["attempt"] for delivery in pull(service, "part")}
    assert late == {pulled[0]["document"]: 2, pulled[2]["document"]: 2}


def test_a_pull_waits_for_what_is_published(service: Service) -> None:
    service.subscribe("later", "/later")
    connection = service.connect()
    connection.request("POST", "/v1/subscriptions/later:pull", '{"wait_ms": 20000}')
    time.sleep(0.2)
    number = service.publish("<later/>")
    response = connection.getresponse()
    assert f'"document":{number},'.encode() in response.read()
    connection.close()


def test_pulls_that_are_refused(service: Service) -> None:
    service.subscribe("refused", "/refused")
    assert service.problem("POST", "/v1/subscriptions/nobody:pull") == (404, "TC412")
    assert service.problem("POST", "/v1/subscriptions/nobody:ack", {"deliveries": []}) == (404, "TC412")
    assert service.problem("POST", "/v1/subscriptions/refused:pull", {"max": 0}) == (400, "TC434")
    assert service.problem("POST", "/v1/subscriptions/refused:pull", {"wait_ms": 30_001}) == (400, "TC434")
    assert service.problem("POST", "/v1/subscriptions/refused:ack", {"deliveries": "x"}) == (400, "TC434")


def test_pause_and_resume(service: Service) -> None:
    service.subscribe("paused", "/paused")
    assert service.ask("POST", "/v1/subscriptions/paused:pause").json["paused"] is True
    service.publish("<paused/>")
    assert pull(service, "paused", wait_ms=0) == []
    assert service.ask("POST", "/v1/subscriptions/paused:resume").json["paused"] is False
    assert len(pull(service, "paused")) == 1
    assert service.problem("POST", "/v1/subscriptions/nobody:pause") == (404, "TC412")


def test_dead_letters(service: Service) -> None:
    service.subscribe("fragile", "/fragile", attempts_max=1)
    number = service.publish("<fragile/>")
    settle(service, "fragile", "fail", *pull(service, "fragile"))
    eventually(lambda: service.ask("GET", "/v1/letters").json["letters"])
    (letter,) = service.ask("GET", "/v1/letters").json["letters"]
    assert (letter["subscription"], letter["document"], letter["attempts"]) == ("fragile", number, 1)
    assert service.ask("GET", f"/v1/letters?after={letter['letter']}").json == {"letters": []}
    assert service.ask("POST", "/v1/letters:redeliver", {"letters": [letter["letter"]]}).status == 204
    settle(service, "fragile", "ack", *pull(service, "fragile"))
    eventually(lambda: service.ask("GET", "/v1/letters").json == {"letters": []})
    assert service.problem("POST", "/v1/letters:redeliver", {"letters": [99_999]}) == (404, "TC416")


def test_replay(service: Service) -> None:
    """Also of what was published before there was a subscription."""
    numbers = [service.publish("<replayed/>") for _ in range(3)]
    service.subscribe("replayed", "/replayed")
    assert pull(service, "replayed", wait_ms=0) == []
    answer = service.ask("POST", "/v1/subscriptions/replayed:replay", {"from_document": numbers[1]})
    assert answer.json == {"first": numbers[1]}
    assert [delivery["document"] for delivery in pull(service, "replayed")] == numbers[1:]
    kept = service.ask("GET", "/v1/documents?count=1000").json["documents"]
    times = {one["document"]: datetime.fromisoformat(one["published"]).timestamp() * 1000 for one in kept}
    late = service.ask("POST", "/v1/subscriptions/replayed:replay", {"from_ms": round(times[numbers[2]]) + 60_000})
    assert late.json["first"] > numbers[2] and pull(service, "replayed", wait_ms=0) == []
    early = service.ask("POST", "/v1/subscriptions/replayed:replay", {"from_ms": round(times[numbers[0]])})
    assert early.json["first"] <= numbers[0]
    service.ask("POST", "/v1/subscriptions/replayed:replay", {"from_document": numbers[0]})
    with service.events("replayed") as events:
        assert [event["document"] for event in events.take(3)] == numbers


def test_a_query_is_tried(service: Service) -> None:
    service.subscribe("tried-all", "//tried")
    service.subscribe("tried-b", "/tried[b/c]")
    number = service.publish("<tried><b>text</b></tried>")
    answer = service.ask("POST", "/v1/subscriptions:try", {"query": "/tried[b]", "deliver": "elements"}).json
    assert answer["is_valid"] and answer["is_complete"]
    assert "tried-b" in answer["covers"] and "tried-all" in answer["covered_by"]
    assert "tried-all" not in answer["covers"]
    assert [match["document"] for match in answer["matches"]] == [number]
    assert answer["matches"][0]["payload"] == "<tried><b>text</b></tried>"
    answer = service.ask("POST", "/v1/subscriptions:try", {"query": "/tried["}).json
    assert answer["is_valid"] is False and answer["problem"]["code"].startswith("TC1")
    assert service.problem("GET", "/v1/subscriptions/try") == (404, "TC412")


def test_the_description_is_complete(service: Service) -> None:
    """Every route is in it, and every reference leads somewhere."""
    answer = service.ask("GET", "/openapi.json")
    described = {(method.upper(), path) for path, item in answer.json["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES}
    names = set(answer.json["components"]["schemas"])
    used = {part.split('"')[0] for part in answer.body.decode().split("#/components/schemas/")[1:]}
    assert used <= names and {"Problem", "Envelope", "SubscriptionForm"} <= names
    operations = [operation["operationId"] for item in answer.json["paths"].values() for operation in item.values()]
    assert len(set(operations)) == len(operations)


def test_pages_for_those_who_watch(service: Service) -> None:
    assert service.ask("GET", "/healthz").body == b"alive\n"
    assert service.ask("GET", "/readyz").body == b"ready\n"
    assert service.ask("HEAD", "/readyz").body == b""
    text = service.ask("GET", "/metrics").body.decode()
    assert 'treecast_http_requests_total{status="200"}' in text and "treecast_http_streams 0.0" in text


def test_pages_and_methods_that_do_not_exist(service: Service) -> None:
    for path in ("/nothing", "/v1/subscription", "/v1/documents/", "/v1/subscriptions/", "//"):
        assert service.problem("GET", path) == (404, "TC430")
    assert service.problem("POST", "/v1/events") == (405, "TC431")
    assert service.problem("DELETE", "/v1/documents") == (405, "TC431")
    assert service.problem("BREW", "/v1/documents")[0] in (400, 405)
    assert service.ask("POST", "/v1/subscriptions/a").headers["allow"] == "DELETE, GET, HEAD, PUT"
