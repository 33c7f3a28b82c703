"""The broker as a state machine: called directly, with a storage in memory."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.rows import LETTERS, LetterRow, decode
from treecast.overlay.messages import (
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
    Inspect,
    Item,
    Pause,
    Publish,
    Redeliver,
    RegisterSource,
    RemoveSource,
    Replay,
    Request,
    Subscribe,
    SubscribeMany,
    SubscriptionOptions,
    Unsubscribe,
    Welcome,
    opened,
)
from treecast.overlay.peer import Effect, Outbox, Send
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


class World:
    """A broker, its storage and a clock; messages arrive at once and in order."""

    def __init__(self, **settings: Any) -> None:
        self.storage = SimulatedStorage()
        self.settings = BrokerSettings(**settings)
        self.now_ms = 1_000_000
        self.inbox: dict[str, list[Any]] = {}
        self.numbers: dict[str, int] = {}
        self.outbox = Outbox()
        self.restart()

    def restart(self) -> None:
        """What was stored is there; all else is gone."""
        self.outbox = Outbox()
        self.inbox.clear()
        self.broker = Broker("b", self.storage, Random(1), self.settings)

    def run(self, effects: list[Effect]) -> None:
        self.outbox.add(effects)
        while True:
            if self.outbox.has_changes():
                self.storage.write(self.outbox.take_changes())
                self.outbox.stored()
            ready = self.outbox.take_ready()
            if not ready and not self.outbox.has_changes():
                return
            for effect in ready:
                if isinstance(effect, Send) and effect.to == "b":
                    self.outbox.add(self.broker.receive("b", effect.message, self.now_ms))
                elif isinstance(effect, Send):
                    message = opened(effect.message) if isinstance(effect.message, Deliveries) else effect.message
                    self.inbox.setdefault(effect.to, []).append(message)

    def send(self, client: str, message: Any) -> list[Any]:
        """The broker's messages to this client."""
        self.run(self.broker.receive(client, message, self.now_ms))
        return self.take(client)

    def take(self, client: str) -> list[Any]:
        return self.inbox.pop(client, [])

    def ask(self, client: str, command: Command) -> Answer:
        number = self.numbers[client] = self.numbers.get(client, 0) + 1
        answers = [m for m in self.send(client, Request(number, command)) if isinstance(m, Answer)]
        assert len(answers) == 1
        return answers[0]

    def wait(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.now_ms += 100
            self.run(self.broker.tick(self.now_ms))

    def publish(self, *bodies: bytes, source: str = "s", client: str = "pub") -> list[int]:
        return self.ask(client, Publish(source, [Document(body) for body in bodies])).documents


@pytest.fixture
def world() -> World:
    return prepare(World())


def prepare(world: World) -> World:
    assert world.ask("pub", RegisterSource("s")).refusals == []
    assert world.ask("sub", Subscribe("all", "/*")).refusals == []
    assert world.ask("sub", Subscribe("b", "//b", deliver="elements")).refusals == []
    return world


def items(messages: list[Any]) -> list[tuple[str, int, bytes]]:
    return [
        (item.subscription, item.document, message.payloads[item.payload])
        for message in messages
        if isinstance(message, Deliveries)
        for item in message.items
        if item.payload >= 0
    ]


def test_a_document_reaches_its_subscribers(world: World) -> None:
    world.send("sub", Attach("s1", ["all", "b", "none"]))
    assert world.publish(b"<a><b>1</b></a>", b"<a/>") == [1, 2]
    messages = world.take("sub")
    assert sorted(items(messages)) == [("all", 1, b"<a><b>1</b></a>"), ("all", 2, b"<a/>"), ("b", 1, b"<b>1</b>")]


def test_attaching_says_what_is_unknown(world: World) -> None:
    (attached,) = world.send("sub", Attach("s1", ["all", "none"]))
    assert attached == Attached("s1", ["none"], attached.epoch)


def test_numbers_go_on_after_a_restart(world: World) -> None:
    world.ask("sub", Unsubscribe("all"))
    assert world.publish(b"<a><b/></a>", b"<a/>") == [1, 2]
    world.restart()
    assert world.publish(b"<a/>") == [3]


def test_what_nobody_received_is_kept_until_somebody_attaches(world: World) -> None:
    world.publish(b"<a/>", b"<a><b/></a>")
    world.restart()
    got = items(world.send("sub", Attach("s1", ["all", "b"])))
    assert sorted(got) == [("all", 1, b"<a/>"), ("all", 2, b"<a><b/></a>"), ("b", 2, b"<b/>")]


def test_equal_payloads_travel_once(world: World) -> None:
    for n in range(20):
        world.ask("sub", Subscribe(f"x{n}", "//b"))
    world.send("sub", Attach("s1", [f"x{n}" for n in range(20)]))
    world.publish(b"<a><b/></a>")
    (message,) = world.take("sub")
    assert len(message.items) == 20 and message.payloads == [b"<a><b/></a>"]


def test_acknowledged_deliveries_do_not_come_again(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    (message,) = world.take("sub")
    world.send("sub", Acknowledge("s1", [message.number]))
    world.send("sub", Detach("s1"))
    assert items(world.send("sub", Attach("s2", ["all"]))) == []
    world.restart()
    assert items(world.send("sub", Attach("s3", ["all"]))) == []


def test_unacknowledged_deliveries_come_again_in_order(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>", b"<b/>", b"<c/>")
    world.take("sub")
    world.restart()
    assert [d for _, d, _ in items(world.send("sub", Attach("s2", ["all"])))] == [1, 2, 3]


def test_a_repeated_request_is_answered_again_and_not_done_again(world: World) -> None:
    request = Request(2, Publish("s", [Document(b"<a/>")]))
    first = world.send("pub", request)
    world.restart()
    assert world.send("pub", request) == first == [Answer(2, [1])]
    assert world.broker.stats()["documents"] == 1


def test_a_request_that_comes_too_early_is_ignored(world: World) -> None:
    assert world.send("pub", Request(3, Publish("s", [Document(b"<a/>")]))) == []
    assert world.send("pub", Hello("pub")) == [Welcome("b", world.broker.store_id, 1, lease=1)]


def test_a_publishers_own_ids_are_deduplicated(world: World) -> None:
    documents = [Document(b"<a/>", "one"), Document(b"<a/>", "two"), Document(b"<b/>", "one")]
    assert world.ask("pub", Publish("s", documents)).documents == [1, 2, 1]
    world.restart()
    assert world.ask("pub", Publish("s", documents[1:])).documents == [2, 1]
    world.ask("pub", RegisterSource("other"))
    assert world.ask("pub", Publish("other", documents[:1])).documents == [3]


def test_ids_are_forgotten_after_their_time_and_number() -> None:
    world = prepare(World(duplicates_ms=1_000, duplicates_max=2))
    assert world.ask("pub", Publish("s", [Document(b"<a/>", "one")])).documents == [1]
    world.now_ms += 2_000
    assert world.ask("pub", Publish("s", [Document(b"<a/>", "two")])).documents == [2]
    assert world.ask("pub", Publish("s", [Document(b"<a/>", "one")])).documents == [3]
    assert world.storage.count("recent") == 2


def test_a_bad_document_is_refused_and_the_others_are_not(world: World) -> None:
    answer = world.ask("pub", Publish("s", [Document(b"<a/>"), Document(b"<a>"), Document(b"<b/>")]))
    assert answer.documents == [1, 0, 2]
    assert [(r.item, r.code[:3]) for r in answer.refusals] == [(1, "TC2")]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Publish("unknown", [Document(b"<a/>")]), "TC410"),
        (Subscribe("x", "a/b"), "TC104"),
        (Subscribe("", "/a"), "TC414"),
        (Subscribe("x" * 2000, "/a"), "TC414"),
        (Subscribe("x", "/a", deliver="nonsense"), "TC144"),
        (Unsubscribe("none"), "TC412"),
        (Pause("none"), "TC412"),
        (Replay("none"), "TC412"),
        (Redeliver([7]), "TC416"),
        (RemoveSource("none"), "TC410"),
        (Publish("s", [Document(b"<a/>")] * 1001), "TC411"),
    ],
)
def test_a_refused_request_changes_nothing(world: World, command: Command, code: str) -> None:
    def stored() -> dict[str, dict[int | str, bytes]]:
        return {name: rows for name, rows in world.storage.tables().items() if name not in ("clients", "meta")}

    before = stored()
    (refused,) = world.ask("pub", command).refusals
    assert (refused.item, refused.code) == (-1, code)
    assert before == stored()


def test_many_subscriptions_are_added_or_none(world: World) -> None:
    assert world.ask("sub", SubscribeMany([Subscribe("x", "/a"), Subscribe("y", "/b")])).refusals == []
    nonsense = SubscribeMany([Subscribe("v", "/a"), Subscribe("w", "/a", deliver="nonsense")])
    assert world.ask("sub", nonsense).refusals[0].code == "TC144"
    world.restart()
    assert world.broker.index.match(b"<b/>") == ["all", "b", "y"] and world.broker.stats()["subscriptions"] == 4
    for bad in (Subscribe("z", "b["), Subscribe("x", "/c")):
        assert len(world.ask("sub", SubscribeMany([Subscribe("w", "/a"), bad])).refusals) == 1
        assert world.broker.stats()["subscriptions"] == 4 and world.storage.count("subscriptions") == 4


def test_counts_are_limited() -> None:
    world = World(sources_max=1, subscriptions_max=1)
    world.ask("c", RegisterSource("s"))
    assert world.ask("c", RegisterSource("t")).refusals[0].code == "TC413"
    world.ask("c", Subscribe("a", "/a"))
    assert world.ask("c", Subscribe("b", "/a")).refusals[0].code == "TC413"
    assert world.ask("c", Subscribe("a", "/b")).refusals == []


def test_silent_clients_make_room_for_others() -> None:
    world = World(clients_max=1, client_ms=60_000)
    world.ask("a", RegisterSource("s"))
    assert world.ask("c", RegisterSource("t")).refusals[0].code == "TC413"
    assert world.storage.count("clients") == 1
    world.now_ms += 120_000
    world.restart()
    assert world.send("c", Request(1, RegisterSource("t")))[0].refusals == []
    assert world.storage.count("clients") == 1


def test_a_full_store_refuses() -> None:
    world = prepare(World(store_bytes_max=10))
    world.publish(b"<abcdefghijk/>")
    assert world.ask("pub", Publish("s", [Document(b"<a/>")])).refusals[0].code == "TC415"


def test_failed_deliveries_are_tried_again_and_become_dead_letters() -> None:
    world = prepare(World(retry_ms=100, retry_ms_max=400))
    world.ask("sub", Subscribe("all", "/*", options=SubscriptionOptions(attempts_max=3)))
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    attempts = []
    for _ in range(60):
        for message in world.take("sub"):
            if isinstance(message, Deliveries):
                attempts += [item.attempt for item in message.items]
                world.send("sub", Acknowledge("s1", [], [(message.number, 0)]))
        world.send("sub", Flow("s1", message.number, 100)) if attempts else None
        world.wait(100)
    assert attempts == [1, 2, 3]
    ((number, data),) = world.storage.scan(LETTERS, 0, 10)
    letter = decode(data, LetterRow)
    assert (letter.subscription, letter.document, letter.attempts, letter.payload) == ("all", 1, 3, b"<a/>")
    # After a restart it is not delivered, until it is asked for.
    world.restart()
    assert items(world.send("sub", Attach("s2", ["all"]))) == []
    assert world.ask("sub", Redeliver([number])).refusals == []
    world.restart()
    messages = world.send("sub", Attach("s3", ["all"]))
    assert items(messages) == [("all", 1, b"<a/>")]
    world.send("sub", Acknowledge("s3", [messages[-1].number]))
    assert world.storage.count(LETTERS) == 0


def test_what_is_not_acknowledged_in_time_is_tried_again(world: World) -> None:
    world.ask("sub", Subscribe("all", "/*", options=SubscriptionOptions(acknowledge_ms=2_000)))
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    (message,) = world.take("sub")
    got: list[Any] = []
    for _ in range(60):
        world.send("sub", Flow("s1", message.number, 100))
        world.wait(100)
        got += items(world.take("sub"))
    assert ("all", 1, b"<a/>") in got


def test_a_lost_message_is_sent_again(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    world.take("sub")  # lost
    world.wait(1_000)
    assert set(items(world.take("sub"))) == {("all", 1, b"<a/>")}
    world.send("sub", Flow("s1", 1, 100))
    world.wait(1_000)
    assert items(world.take("sub")) == []


def test_a_broker_can_be_looked_at() -> None:
    world = prepare(World(queue_memory_max=2, retry_ms=100))
    world.ask("sub", Subscribe("weak", "/a", options=SubscriptionOptions(attempts_max=1)))
    world.publish(b"<a/>", b"<c/>", b"<c/>")
    (message,) = [m for m in world.send("sub", Attach("s1", ["weak"])) if isinstance(m, Deliveries)]
    world.send("sub", Acknowledge("s1", [], [(message.number, 0)]))

    def look(kind: Any, after: str = "", count_max: int = 100) -> list[dict[str, str | int]]:
        (answer,) = world.send("admin", Inspect(7, kind, after, count_max))
        assert answer.question == 7
        rows: list[dict[str, str | int]] = answer.rows
        return rows

    (letter,) = look("letters")
    assert (letter["key"], letter["subscription"], letter["reason"]) == ("1", "weak", "refused by its subscriber")
    assert look("letters", "1") == []
    assert [row["key"] for row in look("subscriptions")] == ["all", "b", "weak"]
    assert [row["key"] for row in look("subscriptions", "all", 1)] == ["b"]
    assert look("queues") == [{"key": "all", "waiting": 0, "sent": 0, "receivers": 0, "parked": 1}]
    assert [row["key"] for row in look("sources")] == ["s"]
    assert {"key": "subscriptions", "value": 3} in look("stats")


def test_a_session_holds_no_more_than_its_credit(world: World) -> None:
    world.send("sub", Attach("s1", ["all"], credit=3))
    world.publish(*[b"<a/>"] * 10)
    first = items(world.take("sub"))
    assert [d for _, d, _ in first] == [1, 2, 3]
    world.send("sub", Flow("s1", 1, 3))
    assert items(world.send("sub", Acknowledge("s1", [1])) + world.take("sub"))[0][1] == 4


def test_a_silent_session_ends_and_its_deliveries_go_to_the_next(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    world.take("sub")
    world.wait(world.settings.session_ms + 1_000)
    assert [m for m in world.take("sub") if isinstance(m, Detach)]
    assert items(world.send("sub", Attach("s2", ["all"]))) == [("all", 1, b"<a/>")]


def test_a_stranger_cannot_touch_a_session(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    world.take("sub")
    assert world.send("thief", Acknowledge("s1", [1])) == [Detach("s1", "there is no such session")]
    assert isinstance(world.send("thief", Attach("s1", ["all"]))[0], Detach)
    world.send("thief", Detach("s1"))
    assert world.broker.stats()["sessions"] == 1 and world.broker.stats()["queued"] == 1


def test_two_sessions_share_a_subscription(world: World) -> None:
    world.send("c1", Attach("s1", ["all"], credit=5))
    world.send("c2", Attach("s2", ["all"], credit=5))
    world.publish(*[b"<a/>"] * 10)
    one, two = items(world.take("c1")), items(world.take("c2"))
    assert sorted(d for _, d, _ in one + two) == list(range(1, 11)) and one and two


def test_a_paused_subscription_gets_everything_later(world: World) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.ask("sub", Pause("all"))
    world.publish(b"<a/>")
    assert items(world.take("sub")) == []
    world.restart()
    world.send("sub", Attach("s2", ["all"]))
    assert items(world.take("sub")) == []
    number = world.numbers["sub"] = world.numbers["sub"] + 1
    assert items(world.send("sub", Request(number, Pause("all", False)))) == [("all", 1, b"<a/>")]


def test_a_removed_subscription_gets_nothing_more(world: World) -> None:
    world.send("sub", Attach("s1", ["all", "b"], credit=1))
    world.publish(b"<a><b/></a>", b"<a/>")
    world.ask("sub", Unsubscribe("all"))
    world.publish(b"<a/>")
    world.send("sub", Flow("s1", 9, 100))
    world.wait(1_000)
    world.restart()
    got = items(world.send("sub", Attach("s2", ["all", "b"])))
    assert got == [("b", 1, b"<b/>")]
    assert world.broker.stats()["unfinished_documents"] == 1


@pytest.mark.parametrize("memory", [1_000, 1])
def test_after_a_restart_a_subscription_gets_nothing_of_another_that_had_its_id(memory: int) -> None:
    world = prepare(World())
    world.publish(b"<a><b/></a>", b"<a><b/></a>")  # which `b` waits for, so they are looked at
    world.ask("sub", Unsubscribe("all"))
    world.ask("sub", Subscribe("all", "/*"))
    world.publish(b"<c/>")
    world.settings = BrokerSettings(waiting_memory_max=memory)
    world.restart()
    world.inbox["sub"] = world.send("sub", Attach("s1", ["all"], credit=50))
    assert list(receive_all(world, "sub", "s1", 20)) == [("all", 3, b"<c/>")]
    world.send("sub", Detach("s1"))
    world.inbox["sub"] = world.send("sub", Attach("s2", ["b"], credit=50))
    assert [number for _, number, _ in receive_all(world, "sub", "s2", 20)] == [1, 2]
    stats = world.broker.stats()
    assert (stats["parked"], stats["waiting"], stats["queued"], stats["unfinished_documents"]) == (0, 0, 0, 0)


def receive_all(world: World, client: str, session: str, rounds: int = 400) -> Iterator[tuple[str, int, bytes]]:
    """What a well-behaved client gets, message by message, each acknowledged."""
    received = 0
    messages = world.take(client)
    for _ in range(rounds):
        while messages:
            message = messages.pop(0)
            if isinstance(message, Deliveries) and message.number == received + 1:
                received = message.number
                yield from items([message])
                messages += world.send(client, Acknowledge(session, [received]))
        messages += world.send(client, Flow(session, received, 50))
        world.wait(100)
        messages += world.take(client)


def test_a_subscriber_that_is_far_behind_gets_everything_in_order() -> None:
    world = prepare(World(queue_memory_max=10, refill_rows_max=7))
    for _ in range(20):
        world.publish(*[b"<a/>"] * 5)
    assert world.broker.stats()["parked"] == 1
    world.inbox["sub"] = world.send("sub", Attach("s1", ["all"], credit=50))
    got = [d for _, d, _ in receive_all(world, "sub", "s1", 60)]
    assert got == list(range(1, 101))
    stats = world.broker.stats()
    assert (stats["parked"], stats["queued"], stats["unfinished_documents"]) == (0, 0, 0)
    assert world.storage.count("parked") == 0


def test_a_slow_session_does_not_grow_its_queue() -> None:
    world = prepare(World(queue_memory_max=10))
    world.send("sub", Attach("s1", ["all"], credit=2))
    for _ in range(20):
        world.publish(*[b"<a/>"] * 5)
        assert world.broker.stats()["queued_most"] <= 10
    world.restart()
    world.inbox["sub"] = world.send("sub", Attach("s2", ["all"], credit=50))
    assert sorted({d for _, d, _ in receive_all(world, "sub", "s2", 60)}) == list(range(1, 101))


def test_a_replay_comes_before_what_is_new_and_has_no_gap(world: World) -> None:
    world.publish(*[b"<a/>", b"<c/>", b"<a/>"])
    world.ask("sub", Subscribe("late", "/a"))
    world.publish(b"<a/>")
    world.inbox["sub"] = world.send("sub", Attach("s1", ["late"], credit=50))
    assert [d for _, d, _ in receive_all(world, "sub", "s1", 5)] == [4]
    assert world.ask("sub", Replay("late", from_document=1)).documents == [1]
    world.publish(b"<a/>", b"<c/>")
    world.restart()
    world.publish(b"<a/>")
    world.inbox["sub"] = world.send("sub", Attach("s2", ["late"], credit=50))
    assert [d for _, d, _ in receive_all(world, "sub", "s2", 20)] == [1, 3, 4, 5, 7]
    assert world.storage.count("parked") == 0


def test_a_replay_from_a_time_and_from_what_is_gone() -> None:
    world = prepare(World(keep_ms=60_000, retention_step_ms=100))
    world.ask("sub", Unsubscribe("all"))
    world.publish(b"<a/>")
    world.now_ms += 100_000
    world.wait(300)
    world.publish(b"<a/>", b"<a/>")
    assert world.ask("sub", Replay("b", from_document=1)).documents == [2]
    assert world.ask("sub", Replay("b", from_ms=world.now_ms + 1)).documents == [4]


def test_retention_keeps_what_was_not_delivered() -> None:
    world = prepare(World(keep_ms=1_000, retention_step_ms=100, undelivered_ms_max=60_000))
    world.publish(b"<a/>", b"<b/>")
    world.wait(5_000)
    assert world.storage.count("documents") == 2
    world.inbox["sub"] = world.send("sub", Attach("s1", ["all", "b"]))
    list(receive_all(world, "sub", "s1", 10))
    world.wait(5_000)
    assert world.storage.count("documents") == 0
    assert world.publish(b"<a/>") == [3]


def test_what_waits_too_long_becomes_a_dead_letter() -> None:
    world = prepare(World(retention_step_ms=100, undelivered_ms_max=5_000))
    world.publish(b"<a/>")
    world.wait(10_000)
    ((_, data),) = world.storage.scan(LETTERS, 0, 10)
    assert decode(data, LetterRow).reason == "expired" and decode(data, LetterRow).payload == b"<a/>"
    assert world.storage.count("documents") == 0 and world.broker.stats()["waiting"] == 0


def test_an_abandoned_subscription_expires() -> None:
    world = prepare(World())
    world.ask("sub", Subscribe("brief", "/*", options=SubscriptionOptions(expires_ms=30_000)))
    world.send("sub", Attach("s1", ["brief"]))
    for _ in range(50):
        world.send("sub", Flow("s1", 0, 10))
        world.wait(1_000)
    assert world.broker.stats()["subscriptions"] == 3
    world.send("sub", Detach("s1"))
    world.restart()
    world.wait(45_000)
    assert world.broker.stats()["subscriptions"] == 2


def test_a_changed_subscription_keeps_what_it_matched(world: World) -> None:
    world.publish(b"<a><b/></a>")
    world.ask("sub", Subscribe("b", "//c"))
    world.publish(b"<a><b/></a>", b"<c/>")
    assert items(world.send("sub", Attach("s1", ["b"]))) == [("b", 1, b"<b/>"), ("b", 3, b"<c/>")]


def test_a_saved_index_is_brought_up_to_date(world: World) -> None:
    index, version = world.broker.index, 2
    world.ask("sub", Subscribe("c", "/c"))
    world.ask("sub", Subscribe("b", "/x"))
    world.ask("sub", Unsubscribe("all"))
    world.broker = Broker("b", world.storage, Random(1), world.settings, index, version)
    assert sorted(world.broker.index.match(b"<c/>")) == ["c"]
    assert world.broker.index.match(b"<x/>") == ["b"]


def test_the_same_calls_give_the_same_effects() -> None:
    def run() -> bytes:
        world = prepare(World())
        world.publish(b"<a/>", b"<b/>")
        world.send("sub", Attach("s1", ["all", "b"]))
        world.wait(500)
        return msgspec.msgpack.encode(world.storage.tables())

    assert run() == run()


def test_an_item_that_was_settled_keeps_the_places_of_the_others(world: World) -> None:
    world.send("sub", Attach("s1", ["all", "b"]))
    world.publish(b"<a><b/></a>")
    world.take("sub")
    world.ask("sub", Unsubscribe("all"))
    world.wait(1_000)
    resent = [m for m in world.send("sub", Flow("s1", 0, 10)) + world.take("sub") if isinstance(m, Deliveries)]
    assert [item.payload >= 0 for item in resent[0].items] == [False, True]
    assert resent[0].items[0] == Item("", 0, 0, 0, -1)


def test_a_session_that_was_opened_twice_ends_when_its_client_knows_the_first(world: World) -> None:
    """An acknowledgement of what the first one sent must not settle what the second one sends."""
    (attached,) = world.send("sub", Attach("s1", ["all"]))
    world.restart()
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    world.take("sub")
    assert world.send("sub", Acknowledge("s1", [1], epoch=attached.epoch)) == [Detach("s1", "it was opened twice")]
    assert [document for _, document, _ in items(world.send("sub", Attach("s2", ["all"])))] == [1]
