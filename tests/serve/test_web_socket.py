"""WebSockets, used by clients that nobody here wrote: deliveries, acknowledgement, credit, documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

import pytest
import websocket
import websockets.sync.client
from support.served_http import Service, eventually

pytestmark = pytest.mark.house

WAIT_S = 30


class Socket(Protocol):
    """What both clients can do."""

    def say(self, **message: Any) -> None: ...

    def hear(self) -> Any: ...

    def close(self) -> None: ...


class ByWebsockets:
    """PyPI's `websockets`."""

    def __init__(self, url: str) -> None:
        self._connection = websockets.sync.client.connect(url, open_timeout=WAIT_S, close_timeout=WAIT_S).__enter__()

    def say(self, **message: Any) -> None:
        self._connection.send(json.dumps(message))

    def hear(self) -> Any:
        return json.loads(self._connection.recv(WAIT_S))

    def close(self) -> None:
        self._connection.close()


class ByWebsocketClient:
    """PyPI's `websocket-client`."""

    def __init__(self, url: str) -> None:
        self._connection = websocket.create_connection(url, WAIT_S)

    def say(self, **message: Any) -> None:
        self._connection.send(json.dumps(message))

    def hear(self) -> Any:
        return json.loads(self._connection.recv())

    def close(self) -> None:
        self._connection.close()


CLIENTS = [ByWebsockets, ByWebsocketClient]


@contextmanager
def opened(service: Service, *subscriptions: str, client: Any = ByWebsockets) -> Iterator[Socket]:
    query = "&".join(f"subscription={quote(id, safe='')}" for id in subscriptions)
    socket = client(f"ws://127.0.0.1:{service.port}/v1/socket?{query}")
    try:
        if subscriptions:
            assert socket.hear() == {"opened": list(subscriptions)}
        yield socket
    finally:
        socket.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_deliveries_are_acknowledged(service: Service, client: Any) -> None:
    name = f"acknowledged by {client.__name__}"
    service.subscribe(name, f"/{client.__name__}", deliver="elements")
    numbers = [service.publish(f"<{client.__name__}>{number}</{client.__name__}>") for number in range(3)]
    with opened(service, name, client=client) as socket:
        socket.say(credit=2)
        first, second = socket.hear(), socket.hear()
        assert [first["document"], second["document"]] == numbers[:2]
        assert first["payload"] == f"<{client.__name__}>0</{client.__name__}>" and first["attempt"] == 1
        assert first["subscription"] == name and first["content_type"] == "application/xml"
        socket.say(ack=[first["delivery"]])
        assert socket.hear()["document"] == numbers[2]  # there was no credit for it before
    with opened(service, name, client=client) as socket:
        socket.say(credit=10)
        again = [socket.hear(), socket.hear()]
        assert sorted(each["document"] for each in again) == numbers[1:]
        assert second["delivery"] in [each["delivery"] for each in again]
        socket.say(ack=[each["delivery"] for each in again])
        socket.say(ack=["nobody has sent this"])
        assert socket.hear() == {"unknown": ["nobody has sent this"]}
    assert service.ask("POST", f"/v1/subscriptions/{quote(name)}:pull", {}).json == {"deliveries": []}


def test_what_fails_comes_again_on_the_same_socket(service: Service) -> None:
    service.subscribe("failing", "/failing", attempts_max=2)
    number = service.publish("<failing/>")
    with opened(service, "failing") as socket:
        socket.say(credit=1)
        first = socket.hear()
        socket.say(fail=[first["delivery"]])
        second = socket.hear()
        assert (second["document"], second["delivery"], second["attempt"]) == (number, first["delivery"], 2)
        socket.say(fail=[second["delivery"]])

        def letters() -> list[Any]:
            found = service.ask("GET", "/v1/letters").json["letters"]
            return [letter for letter in found if letter["subscription"] == "failing"]

        eventually(letters)
        (letter,) = letters()
        assert letter["document"] == number
        assert service.ask("POST", "/v1/letters:redeliver", {"letters": [letter["letter"]]}).status == 204
        socket.say(ack=[socket.hear()["delivery"]])
        eventually(lambda: not letters())


def test_what_takes_too_long_comes_again(service: Service) -> None:
    service.subscribe("late", "/late", acknowledge_ms=200)
    service.publish("<late/>")
    with opened(service, "late") as socket:
        socket.say(credit=1)
        first, second = socket.hear(), socket.hear()
        assert (first["delivery"], first["attempt"], second["attempt"]) == (second["delivery"], 1, 2)
        socket.say(ack=[second["delivery"]], credit=0)


def test_one_socket_for_many_subscriptions(service: Service) -> None:
    for id in ("both", "either"):
        service.subscribe(id, "/shared", deliver="elements")
    with opened(service) as socket:
        socket.say(subscriptions=["both", "either", "both"], credit=10)
        assert socket.hear() == {"opened": ["both", "either"]}
        number = service.publish("<shared/>")
        heard = [socket.hear(), socket.hear()]
        assert sorted(each["subscription"] for each in heard) == ["both", "either"]
        assert {each["document"] for each in heard} == {number}
        socket.say(ack=[each["delivery"] for each in heard])


def test_sockets_divide_the_deliveries_of_a_subscription(service: Service) -> None:
    service.subscribe("divided", "/divided")
    with opened(service, "divided") as one, opened(service, "divided") as other:
        one.say(credit=1)
        first = service.publish("<divided/>")
        assert one.hear()["document"] == first
        other.say(credit=1)
        second = service.publish("<divided/>")
        assert other.hear()["document"] == second


def test_documents_are_published_and_come_back(service: Service) -> None:
    service.subscribe("echo", "/echo")
    with opened(service, "echo") as socket:
        socket.say(credit=10)
        for number in range(150):  # more than may wait for an answer at once
            socket.say(publish={"document": f"<echo>{number}</echo>", "ref": str(number), "id": f"echo {number}"})
        socket.say(publish={"document": "<echo>", "ref": "broken"})
        socket.say(publish={"document": "&", "encoding": "base64", "ref": "no base64"})
        socket.say(publish={"document": "<a/>", "source": "nobody", "ref": "no source"})
        answers: dict[str, Any] = {}
        payloads: list[str] = []
        while len(answers) < 153 or len(payloads) < 150:
            heard = socket.hear()
            if "delivery" in heard:
                payloads.append(heard["payload"])
                socket.say(ack=[heard["delivery"]])
            else:
                answers[heard["ref"]] = heard["published"]
        assert sorted(payloads) == sorted(f"<echo>{number}</echo>" for number in range(150))
        problems = {ref: answers.pop(ref)["problem"]["code"] for ref in ("broken", "no base64", "no source")}
        assert problems == {"broken": "TC209", "no base64": "TC434", "no source": "TC410"}
        assert {answer["status"] for answer in answers.values()} == {201}
        socket.say(publish={"document": "<echo/>", "id": "echo 0"})
        assert socket.hear() == {"published": {"status": 200, "document": answers["0"]["document"]}}


def test_a_service_that_stops_says_so(tmp_path: Any) -> None:
    """Sockets come back, and nothing is lost."""
    with Service(tmp_path / "data") as service:
        service.subscribe("lasting", "/lasting")
        with opened(service, "lasting") as socket:
            socket.say(credit=5)
            numbers = [service.publish("<lasting/>") for _ in range(3)]
            assert [socket.hear()["document"] for _ in numbers] == numbers
            assert service.end()[0] == 0
            with pytest.raises(websockets.ConnectionClosed) as closed:
                socket.hear()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        service.start()
        with opened(service, "lasting") as socket:
            socket.say(credit=5)
            assert [socket.hear()["document"] for _ in numbers] == numbers
