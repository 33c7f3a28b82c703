"""The client's side of the protocol, against a small broker of the test's own, over a network full of faults."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest

from treecast.overlay.client import Answered, Client, ClientError, ClientSettings
from treecast.overlay.frames import FRAME_BYTES_MAX, FrameError
from treecast.overlay.messages import (
    WINDOW_MAX,
    Acknowledge,
    Answer,
    Attach,
    Attached,
    Command,
    Deliveries,
    Detach,
    Document,
    Flow,
    Hello,
    Item,
    Publish,
    Refusal,
    Request,
    Subscribe,
    Welcome,
)
from treecast.overlay.peer import Deliver, Effect, Send
from treecast.overlay.receiver import CREDIT_MAX, Delivered, Delivery, Interrupted, Opened, ReceiverSettings

pytestmark = pytest.mark.house


def sent(effects: list[Effect]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def events(effects: list[Effect]) -> list[Any]:
    return [effect.event for effect in effects if isinstance(effect, Deliver)]


def welcome(client: Client, answered: int = 0, lease: int = 1, now_ms: int = 0) -> list[Effect]:
    """Let the client begin a handshake, and answer it."""
    (hello,) = [message for message in sent(client.connected(now_ms)) if isinstance(message, Hello)]
    return client.receive("b", Welcome("b", "store", answered, nonce=hello.nonce, lease=lease), now_ms)


def numbers(effects: list[Effect]) -> list[int]:
    return [message.number for message in sent(effects) if isinstance(message, Request)]


def test_requests_wait_for_the_welcome_and_get_the_numbers_that_follow() -> None:
    client = Client("c", "b", Random(1))
    ticket, effects = client.register_source("s", 0)
    assert [type(message) for message in sent(effects)] == [Hello]
    assert client.subscribe("q", "/a", 0)[1] == []
    effects = welcome(client, answered=41, lease=9)
    assert numbers(effects) == [42, 43]
    assert {message.lease for message in sent(effects)} == {9}
    assert events(client.receive("b", Answer(42, lease=9), 0)) == [Answered(ticket, [], [])]


def test_a_window_of_requests_is_sent_and_no_more() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    sizes = [len(client.publish("s", [b"<a/>"], 0)[1]) for _ in range(WINDOW_MAX + 3)]
    assert sizes == [1] * WINDOW_MAX + [0] * 3
    assert numbers(client.receive("b", Answer(2, [2], lease=1), 0)) == []  # the first still has none
    assert numbers(client.receive("b", Answer(1, [1], lease=1), 0)) == [WINDOW_MAX + 1, WINDOW_MAX + 2]
    assert client.waiting() == WINDOW_MAX + 1


def test_the_queue_is_bounded() -> None:
    client = Client("c", "b", Random(1), ClientSettings(queue_max=3))
    for _ in range(3):
        assert client.has_room()
        client.publish("s", [b"<a/>"], 0)
    assert not client.has_room()
    with pytest.raises(ClientError, match="TC405 too many requests wait"):
        client.publish("s", [b"<a/>"], 0)


def test_what_has_no_answer_is_sent_again_less_and_less_often() -> None:
    client = Client("c", "b", Random(1), ClientSettings(request_ms=100, request_ms_max=400))
    welcome(client)
    client.publish("s", [b"<a/>"], 0)
    client.publish("s", [b"<b/>"], 0)
    client.receive("b", Answer(2, [1], lease=1), 0)
    times = []
    for now in range(0, 5_000, 10):
        messages = sent(client.tick(now))
        if any(isinstance(message, Hello) for message in messages):
            (hello,) = messages
            messages += sent(client.receive("b", Welcome("b", "store", 0, nonce=hello.nonce, lease=1), now))
        if any(isinstance(message, Request) for message in messages):
            assert [message.number for message in messages if isinstance(message, Request)] == [1]
            times.append(now)
    waits = [b - a for a, b in pairwise(times)]
    assert 10 <= len(waits) <= 30 and max(waits) <= 420 and waits[0] <= 200 and min(waits[3:]) >= 200


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    client = Client("c", "b", Random(1))
    welcome(client, now_ms=1_000_000)
    client.publish("s", [b"<a/>"], 1_000_000)
    assert numbers(client.tick(5)) == [1]


def test_answers_and_welcomes_of_an_earlier_life_are_ignored() -> None:
    client = Client("c", "b", Random(1))
    welcome(client, answered=4, lease=7)
    client.publish("s", [b"<a/>"], 0)
    assert client.receive("b", Answer(5, [99], lease=6), 0) == []
    assert client.receive("b", Welcome("b", "store", 9, nonce=123, lease=6), 0) == []
    (answered,) = events(client.receive("b", Answer(5, [100], lease=7), 0))
    assert answered.documents == [100]
    assert client.receive("b", Answer(5, [100], lease=7), 0) == []  # once


def test_a_broker_that_lost_its_data_gets_new_numbers() -> None:
    client = Client("c", "b", Random(1))
    welcome(client, answered=40)
    client.publish("s", [b"<a/>"], 0)
    assert numbers(welcome(client, answered=0, lease=2)) == [1]
    assert numbers(welcome(client, answered=1, lease=3)) == [1]  # done, and its answer was lost


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.publish("s", [b"x" * FRAME_BYTES_MAX], 0), "TC402"),
        (lambda client: client.publish("s", [Document(b"", "y" * 1001)], 0), "TC404"),
        (lambda client: client.publish("s", [b""] * 10_001, 0), "TC404"),
        (lambda client: client.subscribe("q\ud800", "/a", 0), "TC404"),
        (lambda client: client.replay("q", 0, from_document=-1), "TC404"),
        (lambda client: client.redeliver([2**70], 0), "TC404"),
    ],
)
def test_what_cannot_travel_is_refused_at_once(call: Callable[[Client], Any], code: str) -> None:
    client = Client("c", "b", Random(1))
    with pytest.raises(FrameError) as caught:
        call(client)
    assert caught.value.code == code
    assert client.waiting() == 0


# --- deliveries -------------------------------------------------------------------------------------------------------


def attached(client: Client, credit: int = 100) -> str:
    """Open a session; returns its name."""
    _, effects = client.attach(["q"], 0, credit=credit)
    (attach,) = sent(effects)
    assert attach == Attach(attach.session, ["q"], credit, attach.life, serial=1)
    assert events(client.receive("b", Attached(attach.session, ["other"]), 0)) == [Opened(1, ["other"])]
    return str(attach.session)


def deliveries(session: str, number: int, *documents: int) -> Deliveries:
    items = [Item("q", document, 5, 1, 0) for document in documents]
    return Deliveries(session, number, items, [b"<a/>"])


def documents_of(effects: list[Effect]) -> list[int]:
    return [item.document for event in events(effects) if isinstance(event, Delivered) for item in event.deliveries]


def test_deliveries_are_taken_in_order_and_once() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    assert documents_of(client.receive("b", deliveries(session, 1, 1, 2), 0)) == [1, 2]
    assert documents_of(client.receive("b", deliveries(session, 1, 1, 2), 0)) == []
    effects = client.receive("b", deliveries(session, 3, 5), 0)
    assert sent(effects) == [Flow(session, 1, 100)]  # what is missing is asked for at once
    assert client.receive("b", deliveries(session, 4, 6), 0) == []  # and once
    effects = client.receive("b", deliveries(session, 2, 3, 4), 0)
    assert documents_of(effects) == [3, 4, 5, 6]
    assert sent(client.tick(100)) == [Flow(session, 4, 100)]
    assert sent(client.tick(200)) == []
    assert sent(client.tick(3_100)) == [Flow(session, 4, 100)]


def test_the_id_of_a_delivery_is_that_of_its_document_and_subscription() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    (event,) = events(client.receive("b", deliveries(session, 1, 7, 7, 8), 0))
    first, again, other = (delivery.id for delivery in event.deliveries)
    assert first == again != other and len(first) == 64


def test_a_message_is_acknowledged_once_all_its_items_are() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    (event,) = events(client.receive("b", deliveries(session, 1, 1, 2, 3), 0))
    one, two, three = event.deliveries
    assert client.acknowledge([one], 0) == []
    assert client.fail([two], 0) == []
    assert client.acknowledge([one, two], 0) == []  # settled before
    assert sent(client.acknowledge([three], 0)) == [Acknowledge(session, [1], [(1, 1)])]
    # Repeated once, as it may be lost.
    assert Acknowledge(session, [1], [(1, 1)]) in sent(client.tick(10_500))
    assert not any(isinstance(message, Acknowledge) for message in sent(client.tick(30_000)))


def test_what_is_done_of_a_message_that_takes_long_is_acknowledged() -> None:
    client = Client("c", "b", Random(1))
    session = attached(client)
    (delivered,) = events(client.receive("b", deliveries(session, 1, 7, 8, 9, 10), 0))
    one, two, three, four = delivered.deliveries
    assert client.acknowledge([one], 10) == [] and client.fail([two], 10) == []
    assert [m for m in sent(client.tick(500)) if isinstance(m, Acknowledge)] == []
    parts = [m for m in sent(client.tick(1_200)) if isinstance(m, Acknowledge)]
    assert [(m.messages, m.failed, m.done) for m in parts] == [([], [(1, 1)], [(1, 0)])]
    assert [m for m in sent(client.tick(3_000)) if isinstance(m, Acknowledge)] == [], "once is enough"
    # Should that have got lost: the end of the message says it again.
    (whole,) = sent(client.acknowledge([three, four], 3_100))
    assert (whole.messages, whole.failed, whole.done) == ([1], [(1, 1)], [])


def test_whoever_has_acknowledged_everything_sends_no_flow_for_it() -> None:
    client = Client("c", "b", Random(1))
    session = attached(client)

    def flows(now_ms: int) -> list[int]:
        return [m.received for m in sent(client.tick(now_ms)) if isinstance(m, Flow)]

    (first,) = events(client.receive("b", deliveries(session, 1, 7), 0))
    assert flows(100) == [1], "the application is still at it"
    client.acknowledge(first.deliveries, 150)
    (second,) = events(client.receive("b", deliveries(session, 2, 8), 200))
    client.acknowledge(second.deliveries, 200)
    assert flows(300) == []
    client.receive("b", deliveries(session, 2, 8), 900)  # the acknowledgement was lost
    assert flows(1_000) == [2]
    assert flows(2_000) == [] and flows(4_100) == [2], "it is alive"
    (third,) = events(client.receive("b", deliveries(session, 3, 9), 6_000))
    client.acknowledge(third.deliveries, 6_000)
    assert flows(7_500) == [] and flows(8_900) == [], "the acknowledgement has said so"
    assert flows(9_100) == [3]


def test_an_attach_names_the_other_sessions() -> None:
    client = Client("c", "b", Random(1))
    one, effects = client.attach(["q"], 0)
    (first,) = [m for m in sent(effects) if isinstance(m, Attach)]
    _, effects = client.attach(["r"], 0)
    (second,) = [m for m in sent(effects) if isinstance(m, Attach)]
    assert (first.others, second.others) == ([], [first.session]) and second.serial > first.serial
    (end,) = sent(client.detach(one, 10))
    assert end.session == first.session and end.serial > second.serial
    (again,) = [m for m in sent(client.tick(5_000)) if isinstance(m, Attach)]
    assert again.session == second.session and again.others == [] and again.serial == end.serial


def test_items_that_were_settled_before_are_left_out() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    gone = Item("q", 1, 5, 1, -1)
    effects = client.receive("b", Deliveries(session, 1, [gone, Item("q", 2, 5, 1, 0)], [b"<a/>"]), 0)
    assert documents_of(effects) == [2]
    (event,) = events(effects)
    assert sent(client.fail(event.deliveries, 0)) == [Acknowledge(session, [1], [(1, 1)])]
    assert client.receive("b", Deliveries(session, 2, [gone], []), 0) == [Send("b", Acknowledge(session, [2]))]


def test_early_messages_are_bounded() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    for number in range(2, 200):
        client.receive("b", deliveries(session, number, number), 0)
    assert documents_of(client.receive("b", deliveries(session, 1, 1), 0)) == list(range(1, 66))


def test_a_broker_that_ignores_credit_cannot_fill_memory() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client, credit=10)
    taken = [documents_of(client.receive("b", deliveries(session, n, n), 0)) for n in range(1, 100)]
    assert sum(len(documents) for documents in taken) <= 22


def test_after_a_detach_a_session_with_another_name_is_opened() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    (event,) = events(client.receive("b", deliveries(session, 1, 1), 0))
    effects = client.receive("b", Detach(session, "restarted"), 50)
    assert events(effects) == [Interrupted(1, "restarted")]
    (attach,) = sent(effects)
    assert isinstance(attach, Attach) and attach.session != session
    assert client.acknowledge(event.deliveries, 60) == []  # they come again
    assert client.receive("b", Detach(session, "again"), 70) == []
    assert sent(client.receive("b", deliveries(session, 2, 2), 70)) == [Detach(session, "unknown", serial=3)]
    # Deliveries may overtake the answer to Attach.
    assert documents_of(client.receive("b", deliveries(attach.session, 1, 1), 80)) == [1]


def test_a_session_that_is_refused_again_and_again_is_not_asked_for_without_a_pause() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    _, effects = client.attach(["q"], 0)
    (attach,) = sent(effects)
    count = 0
    for now in range(0, 60_000, 100):
        effects = client.receive("b", Detach(attach.session, "full"), now) + client.tick(now)
        for message in sent(effects):
            if isinstance(message, Attach):
                attach, count = message, count + 1
    assert 5 <= count <= 20


def test_a_message_with_a_place_that_does_not_exist_ends_the_session() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    session = attached(client)
    effects = client.receive("b", Deliveries(session, 1, [Item("q", 1, 0, 1, 5)], [b""]), 2_000)
    assert sent(effects)[0] == Detach(session, "an item has no payload", serial=3)
    assert documents_of(effects) == []


def test_limits_of_receivers_and_names() -> None:
    client = Client("c", "b", Random(1), ClientSettings(receivers_max=1))
    receiver, _ = client.attach(["q"], 0)
    with pytest.raises(ClientError, match="TC405"):
        client.attach(["q"], 0)
    assert [type(message) for message in sent(client.detach(receiver, 0))] == [Detach]
    assert client.detach(receiver, 0) == []
    client.attach(["q"], 0)
    with pytest.raises(ValueError, match="credit"):
        client.attach(["q"], 0, credit=CREDIT_MAX + 1)
    with pytest.raises(ValueError, match="name"):
        Client("x" * 1000, "b", Random(1))


# --- a network that loses, repeats and reorders -----------------------------------------------------------------------


class SmallBroker:
    """Remembers what was done; a restart forgets leases and sessions."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.done: list[Command] = []
        self.answers: list[Answer] = []
        self.to_deliver = list(range(1, 40))
        self.finished: set[int] = set()
        self.restart()

    def restart(self) -> None:
        self.lease = (0, 0)
        self.session = ""
        self.epoch = 0
        self.number = 0
        self.sent: dict[int, Deliveries] = {}
        self.flows = 0

    def receive(self, message: Any) -> list[Any]:
        match message:
            case Hello():
                if self.lease[0] != message.nonce:
                    self.lease = (message.nonce, self.random.getrandbits(60))
                return [Welcome("b", "store", len(self.done), nonce=message.nonce, lease=self.lease[1])]
            case Request() if message.lease == self.lease[1]:
                if message.number == len(self.done) + 1:
                    self.done.append(message.command)
                    self.answers.append(Answer(message.number, [message.number]))
                if message.number <= len(self.done):
                    return [msgspec.structs.replace(self.answers[message.number - 1], lease=message.lease)]
            case Attach():
                if message.session != self.session:
                    self.restart_session(message.session)
                return [Attached(message.session, [], self.epoch), *self.deliver()]
            case Flow() if message.session == self.session and message.epoch in (0, self.epoch):
                return [*(self.sent[n] for n in sorted(self.sent) if n > message.received), *self.try_again(message)]
            case Acknowledge() if message.session == self.session and message.epoch in (0, self.epoch):
                failed = set(message.failed)
                for number in message.messages:
                    for place, item in enumerate(self.sent[number].items if number in self.sent else []):
                        if (number, place) in failed:
                            self.to_deliver.append(item.document)
                        else:
                            self.finished.add(item.document)
                    self.sent.pop(number, None)
                return self.deliver()
            case Flow() | Acknowledge():
                self.session = "" if message.session == self.session else self.session  # it was opened twice
                return [Detach(message.session, "unknown")]
            case _:
                pass
        return []

    def restart_session(self, name: str) -> None:
        again = [item.document for message in self.sent.values() for item in message.items]
        self.to_deliver = sorted({*range(1, 40)} - self.finished) if not self.sent else [*again, *self.to_deliver]
        self.session, self.number, self.sent = name, 0, {}
        self.epoch = self.random.getrandbits(60) + 1

    def try_again(self, flow: Flow) -> list[Any]:
        """What was received and not acknowledged for some time is delivered again."""
        self.flows += 1
        if self.flows % 8 == 0:
            for number in [number for number in self.sent if number <= flow.received]:
                self.to_deliver += [item.document for item in self.sent.pop(number).items]
        return self.deliver()

    def deliver(self) -> list[Any]:
        messages = []
        while self.session and self.to_deliver and len(self.sent) < 4:
            self.number += 1
            some, self.to_deliver = self.to_deliver[:3], self.to_deliver[3:]
            message = deliveries(self.session, self.number, *some)
            self.sent[self.number] = msgspec.structs.replace(message, epoch=self.epoch)
            messages.append(self.sent[self.number])
        return messages


class Run:
    """A client and a broker, and messages on their way between them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = SmallBroker(Random(seed + 1))
        self.flying: list[tuple[int, int, str, Any]] = []
        self.count = 0
        self.now = 0
        self.answered: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.acknowledged: list[str] = []
        self.delivered: list[Delivery] = []
        self.new_client()

    def new_client(self) -> None:
        settings = ClientSettings(request_ms=100, request_ms_max=500, receiver=ReceiverSettings(flow_ms=500))
        self.client = Client("c", "b", Random(self.random.getrandbits(60)), settings)
        self.names.clear()
        self.run(self.client.attach(["q"], self.now)[1])

    def send(self, to: str, message: Any) -> None:
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 2))):
            self.count += 1
            delay = self.random.choice((1, 5, 20, 300))
            heapq.heappush(self.flying, (self.now + delay, self.count, to, message))

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.send("b", effect.message)
            elif isinstance(effect, Deliver) and isinstance(effect.event, Answered):
                self.acknowledged.append(self.names.pop(effect.event.ticket))
            elif isinstance(effect, Deliver) and isinstance(effect.event, Delivered):
                self.delivered += effect.event.deliveries
                self.settle(effect.event.deliveries)

    def settle(self, items: list[Delivery]) -> None:
        for item in items:
            settle = self.client.fail if self.random.random() < 0.1 else self.client.acknowledge
            self.run(settle([item], self.now))

    def publish(self, name: str) -> None:
        ticket, effects = self.client.publish("s", [Document(b"", name)], self.now)
        self.names[ticket] = name
        self.run(effects)

    def step(self) -> None:
        self.now += 10
        while self.flying and self.flying[0][0] <= self.now:
            _, _, to, message = heapq.heappop(self.flying)
            if to == "b":
                for answer in self.broker.receive(message):
                    self.send("c", answer)
            else:
                self.run(self.client.receive("b", message, self.now))
        self.run(self.client.tick(self.now))


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_done_once_and_in_order_whatever_the_network_does(seed: int) -> None:
    run = Run(seed)
    for number in range(60):
        run.publish(str(number))
        run.step()
        if run.random.random() < 0.03:
            run.broker.restart()
    for _ in range(3_000):
        run.step()
    assert run.client.waiting() == 0
    ids = [command.documents[0].id for command in run.broker.done if isinstance(command, Publish)]
    assert ids == [str(number) for number in range(60)]
    assert run.acknowledged and sorted(run.acknowledged) == sorted(ids)
    assert {item.document for item in run.delivered} == set(range(1, 40)) == run.broker.finished


@pytest.mark.parametrize("seed", range(20))
def test_an_answer_is_never_taken_for_that_of_another_life(seed: int) -> None:
    """Clients die and come back while their messages are on the way. What is acknowledged was done."""
    run = Run(seed)
    for number in range(150):
        run.publish(str(number))
        run.step()
        if run.random.random() < 0.1:
            run.new_client()
    for _ in range(1_000):
        run.step()
    ids = [command.documents[0].id for command in run.broker.done if isinstance(command, Publish)]
    assert len(set(ids)) == len(ids)
    assert run.acknowledged and set(run.acknowledged) <= set(ids)
    assert ids == sorted(ids, key=int)


def test_refusals_reach_the_application() -> None:
    client = Client("c", "b", Random(1))
    welcome(client)
    ticket, effects = client.subscribe("q", "/a", 0, ordered=True)
    (request,) = sent(effects)
    assert request.command == Subscribe("q", "/a", ordered=True)
    refusal = Refusal(0, "TC112", "no")
    assert events(client.receive("b", Answer(1, [], [refusal], lease=1), 0)) == [Answered(ticket, [], [refusal])]
