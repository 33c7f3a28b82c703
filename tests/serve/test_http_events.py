"""Event streams: everything once it is durable, in order, to every reader; and no gap for those who come back."""

from __future__ import annotations

import signal
import threading
from http.client import HTTPException
from itertools import islice
from pathlib import Path

import pytest
from support.served_http import Service, eventually

pytestmark = pytest.mark.house


def documents(events: list[dict[str, int]]) -> list[int]:
    return [event["document"] for event in events]


def test_a_stream_begins_with_what_waits_and_goes_on(service: Service) -> None:
    service.subscribe("streamed", "/streamed", deliver="elements")
    waiting = [service.publish("<streamed/>") for _ in range(3)]
    with service.events("streamed") as events:
        assert documents(events.take(3)) == waiting
        number = service.publish("<streamed>live</streamed>")
        (event,) = events.take(1)
    assert (event["document"], event["payload"]) == (number, "<streamed>live</streamed>")
    assert set(event) == {"delivery", "document", "subscription", "content_type", "payload", "published"}
    # What was sent does not wait any more.
    eventually(lambda: b'"deliveries":[]' in service.ask("POST", "/v1/subscriptions/streamed:pull").body)


def test_payloads_that_are_not_utf_8(service: Service) -> None:
    service.subscribe("wide", "/wide")
    service.ask("POST", "/v1/documents", "<wide>ä</wide>".encode("utf-16"))
    with service.events("wide") as events:
        (event,) = events.take(1)
    assert event["payload_encoding"] == "base64"


def test_every_reader_gets_everything_in_one_order(service: Service) -> None:
    """One document for two subscriptions is two events; ids say where to go on, also between them."""
    service.subscribe("both z", "//both")
    service.subscribe("both/a", "/both[@a]")
    with service.events("both z", "both/a") as one, service.events("both/a", "both z") as two:
        first = service.publish("<both a=''/>")
        second = service.publish("<both/>")
        expected = [(first, "both z"), (first, "both/a"), (second, "both z")]
        for events in (one, two):
            assert [(event["document"], event["subscription"]) for event in events.take(3)] == expected
            ids = events.last
    with service.events("both z", "both/a", last=ids.split(".")[0] + f".{first}.both%20z") as events:
        assert [(event["document"], event["subscription"]) for event in events.take(2)] == expected[1:]


def test_a_reader_that_comes_back_misses_nothing(service: Service) -> None:
    service.subscribe("resumed", "/resumed")
    with service.events("resumed") as events:
        numbers = [service.publish("<resumed/>") for _ in range(4)]
        assert documents(events.take(2)) == numbers[:2]
        last = events.last
    numbers.append(service.publish("<resumed/>"))
    for _ in range(2):  # a position can be used again
        with service.events("resumed", last=last) as events:
            assert documents(events.take(3)) == numbers[2:]


def test_a_reader_has_a_position_before_the_first_event(service: Service) -> None:
    """Else what is sent to a connection that breaks at once would be lost."""
    service.subscribe("early", "/early")
    number = service.publish("<early/>")
    with service.events("early") as events:
        first = events.response.readline().decode().strip()
        assert documents(events.take(1)) == [number]
    with service.events("early", last=first.removeprefix("id: ")) as events:
        assert documents(events.take(1)) == [number]


def test_heartbeats_carry_the_position(service: Service) -> None:
    service.subscribe("quiet", "/quiet")
    with service.events("quiet") as events:
        before = events.response.readline()
        service.publish("<loud/>")
        lines = [events.response.readline() for _ in range(4)]
    assert before.startswith(b"id: ") and any(line.startswith(b"id: ") and line > before for line in lines)


def test_streams_that_are_refused(service: Service) -> None:
    service.subscribe("known", "/known")
    assert service.problem("GET", "/v1/events") == (400, "TC434")
    assert service.problem("GET", "/v1/events?subscription=known&subscription=unknown") == (404, "TC412")
    for id in ("x", ".1.a", "a.b.c", "a." + "9" * 30 + ".b"):
        assert service.problem("GET", "/v1/events?subscription=known", Last_Event_ID=id) == (400, "TC434")
    assert service.ask("HEAD", "/v1/events?subscription=known").status == 200


def test_what_retention_dropped_is_said_to_be_gone(tmp_path: Path) -> None:
    broker = {"keep_ms": 1, "retention_step_ms": 50, "keep_bytes": 0}
    with Service(tmp_path / "data", broker=broker, advance_ms=50) as service:
        service.subscribe("dropped", "/dropped")
        first, second, _ = (service.publish("<dropped/>") for _ in range(3))
        with service.events("dropped") as events:
            assert events.take(1)[0]["document"] == first
            position = events.last
            events.take(2)
        service.publish("<other/>")
        eventually(lambda: service.ask("GET", f"/v1/documents/{second}").status == 410)
        with service.events("dropped", last=position) as events:
            name, gone = next(iter(events))
            assert name == "gone" and gone["first"] <= second <= gone["last"]
            last = service.publish("<dropped/>")
            assert events.take(1)[0]["document"] == last
        # Whoever asks for all of it again learns where it begins.
        again = service.ask("POST", "/v1/subscriptions/dropped:replay", {"from_document": first})
        assert again.json["first"] > second


def test_a_position_in_other_data_is_gone(service: Service) -> None:
    service.subscribe("moved", "/moved")
    number = service.publish("<moved/>")
    with service.events("moved", last="00000000.7.moved") as events:
        (name, gone), (_, event) = islice(events, 2)
    assert name == "gone" and gone == {"first": 0, "last": 0} and event["document"] == number


def test_a_slow_reader_gets_all_of_it_later(tmp_path: Path) -> None:
    """What waits for it is limited: it is read from disk when the reader goes on. Others do not wait for it."""
    with Service(tmp_path / "data", stream_bytes_max=5_000) as service:
        service.subscribe("slow", "/slow")
        body = "<slow>" + "x" * 30_000 + "</slow>"
        with service.events("slow") as slow, service.events("slow") as quick:
            numbers = []
            for _ in range(300):
                numbers.append(service.publish(body))
                assert documents(quick.take(1)) == numbers[-1:]
            assert documents(slow.take(300)) == numbers


def test_readers_resume_after_the_broker_was_killed(tmp_path: Path) -> None:
    """Killed under load, twice: with the last id, every document that was acknowledged comes, once, in order."""
    with Service(tmp_path / "data", advance_ms=50) as service:
        service.subscribe("survivor", "/survivor")
        published: list[int] = []
        is_over = threading.Event()

        def publish() -> None:
            while not is_over.is_set():
                try:
                    answer = service.ask(
                        "POST", "/v1/documents", b"<survivor/>", Treecast_Document_Id=f"{len(published)}"
                    )
                except (OSError, HTTPException):  # it was killed meanwhile
                    continue
                if answer.status in (200, 201):
                    published.append(answer.json["document"])

        publisher = threading.Thread(target=publish)
        publisher.start()
        received: list[int] = []
        last = ""
        for round in range(3):
            with service.events("survivor", last=last) as events:
                received += documents(events.take(50))
                if round < 2:
                    service.end(signal.SIGKILL)
                    received += documents([data for _, data in events])  # what had been sent before
                last = events.last
            if round < 2:
                service.start()
        is_over.set()
        publisher.join()
        with service.events("survivor", last=last) as events:
            received += documents(events.take(len(published) - len(received)))
        assert received == sorted(set(received))
        assert received == published
