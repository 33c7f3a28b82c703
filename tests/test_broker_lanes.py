"""The fast way of deliveries, beside the slow one: the same deliveries, order and cursors; and what leaves a lane."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from test_broker import World, items, prepare

from treecast.overlay.broker.rows import CURSORS, DOCUMENTS, CursorRow, DocumentRow, decode
from treecast.overlay.messages import (
    Acknowledge,
    Attach,
    Deliveries,
    Flow,
    Pause,
    Subscribe,
    SubscriptionOptions,
    Unsubscribe,
)

pytestmark = pytest.mark.house

BODIES = (b"<a><b>1</b></a>", b"<a/>", b"<c/>")


def is_on_lane(world: World, id: str) -> bool:
    return world.broker._backlog.queues[id].slot >= 0


def messages(world: World) -> list[Deliveries]:
    return [message for message in world.take("sub") if isinstance(message, Deliveries)]


def tell(world: World, message: Any) -> list[Deliveries]:
    return [answer for answer in world.send("sub", message) if isinstance(answer, Deliveries)]


def cursor(world: World, id: str) -> CursorRow:
    data = world.storage.get(CURSORS, id)
    assert data is not None
    return decode(data, CursorRow)


@pytest.fixture
def world() -> World:
    world = prepare(World())
    world.send("sub", Attach("s1", ["all", "b"], credit=100))
    return world


def test_deliveries_that_go_well_stay_on_the_lane(world: World) -> None:
    world.publish(*BODIES)
    (message,) = messages(world)
    assert items([message]) == [
        ("all", 1, BODIES[0]),
        ("b", 1, b"<b>1</b>"),
        ("all", 2, BODIES[1]),
        ("all", 3, BODIES[2]),
    ]
    assert is_on_lane(world, "all") and is_on_lane(world, "b")
    assert world.broker.stats()["queued"] == 4 and world.broker.stats()["queued_most"] == 3
    world.send("sub", Acknowledge("s1", [message.number]))
    assert (cursor(world, "all"), cursor(world, "b")) == (CursorRow(3), CursorRow(1))
    assert is_on_lane(world, "all") and world.broker.stats()["unfinished_documents"] == 0


def test_rows_are_those_that_were_always_stored(world: World) -> None:
    world.publish(*BODIES)
    rows = [decode(data, DocumentRow) for _, data in world.storage.scan(DOCUMENTS, 0, 10)]
    assert [row.subscriptions for row in rows] == [["all", "b"], ["all"], ["all"]]
    assert [world.storage.body(number) for number in rows[0].payloads] == [BODIES[0], b"<b>1</b>"]
    assert [row.payloads == [row.body] for row in rows] == [False, True, True]


def test_messages_that_are_acknowledged_out_of_order(world: World) -> None:
    for body in BODIES:
        world.publish(body)
    first, _, third = messages(world)
    world.send("sub", Acknowledge("s1", [third.number]))
    assert cursor(world, "all") == CursorRow(0, [], 3, [1, 2])
    world.send("sub", Acknowledge("s1", [first.number]))
    assert cursor(world, "all") == CursorRow(1, [], 3, [2])
    world.restart()
    assert items(world.send("sub", Attach("s2", ["all"]))) == [("all", 2, BODIES[1])]


def leave_by_pause(world: World, message: Deliveries) -> None:
    world.ask("sub", Pause("all", True))
    world.ask("sub", Pause("all", False))


def leave_by_failing(world: World, message: Deliveries) -> None:
    world.send("sub", Acknowledge("s1", [], [(message.number, 0)]))


def leave_by_part(world: World, message: Deliveries) -> None:
    world.send("sub", Acknowledge("s1", [], done=[(message.number, 0)]))


def leave_by_another_session(world: World, message: Deliveries) -> None:
    world.send("other", Attach("o1", ["all"]))


def leave_by_time(world: World, message: Deliveries) -> None:
    world.send("sub", Flow("s1", message.number, 100))
    world.now_ms += 31_000
    world.send("sub", Flow("s1", message.number, 100))
    world.wait(100)


@pytest.mark.parametrize(
    "leave", [leave_by_pause, leave_by_failing, leave_by_part, leave_by_another_session, leave_by_time]
)
def test_a_subscription_leaves_its_lane_and_comes_back(
    world: World, leave: Callable[[World, Deliveries], None]
) -> None:
    world.publish(*BODIES)
    (message,) = messages(world)
    leave(world, message)
    assert not is_on_lane(world, "all")
    got = {("all", item[1]) for item in items([message])}
    for _ in range(50):
        again = messages(world)
        got |= {item[:2] for item in items(again)}
        world.send("sub", Acknowledge("s1", [message.number, *(one.number for one in again)]))
        world.wait(100)
    assert cursor(world, "all").floor == 3 and got >= {("all", 1), ("all", 2), ("all", 3)}
    assert world.broker.stats()["queued"] == world.broker.stats()["unfinished_documents"] == 0
    assert is_on_lane(world, "all") is (leave is not leave_by_another_session)


def test_what_a_message_has_of_a_subscription_that_left_is_settled(world: World) -> None:
    world.publish(*BODIES)
    (message,) = messages(world)
    leave_by_pause(world, message)
    world.send("sub", Acknowledge("s1", [message.number]))
    assert cursor(world, "all") == CursorRow(3) and cursor(world, "b") == CursorRow(1)
    assert is_on_lane(world, "all"), "it is back"


def test_a_message_that_is_sent_again_stays_on_the_lane(world: World) -> None:
    world.publish(*BODIES)
    (message,) = messages(world)
    world.wait(600)
    again = tell(world, Flow("s1", 0, 100))
    assert again and all(one == message for one in again) and is_on_lane(world, "all")
    world.ask("sub", Unsubscribe("b"))
    world.wait(600)
    (opened,) = messages(world)[:1]
    assert [item.payload >= 0 for item in opened.items] == [True, False, True, True]


def test_a_lane_has_no_more_than_a_subscription_may_wait_for() -> None:
    world = prepare(World(queue_memory_max=4, refill_rows_max=2))
    world.send("sub", Attach("s1", ["all"], credit=2))
    for number in range(20):
        world.publish(b"<a>%d</a>" % number)
    assert not is_on_lane(world, "all") and world.broker.stats()["queued_most"] <= 4
    got: list[int] = []
    for _ in range(200):
        some = messages(world)
        got += [item[1] for item in items(some)]
        world.send("sub", Acknowledge("s1", [one.number for one in some]))
        world.wait(100)
    assert got == list(range(1, 21)) and cursor(world, "all").floor == 20


def test_one_session_with_a_backlog_and_a_lane_gets_both() -> None:
    """With room for one delivery at a time neither waits for the end of the other."""
    world = prepare(World())
    for number in range(10):
        world.publish(b"<a>%d</a>" % number)
    world.ask("sub", Subscribe("new", "/new"))
    some = tell(world, Attach("s1", ["all", "new"], credit=1))
    world.publish(*(b"<new>%d</new>" % number for number in range(10)))
    order: list[str] = []
    for _ in range(100):
        order += [item[0] for item in items(some)]
        some = tell(world, Acknowledge("s1", [one.number for one in some]))
    assert sorted(order) == ["all"] * 20 + ["new"] * 10 and "new" in order[:6]


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_give_the_same(seed: int) -> None:
    """Random traffic, with failures and ends of sessions: every delivery arrives, and the stored cursors agree."""

    def run(*, is_fast: bool) -> dict[str, list[int]]:
        draw, tags, world = Random(seed), Random(-seed), prepare(World(retry_ms=100, queue_memory_max=8))
        options = SubscriptionOptions(attempts_max=100)
        for name in ("x", "y"):
            world.ask("sub", Subscribe(name, f"//{name}", options=options))
        if not is_fast:
            world.broker._backlog.lanes.join = lambda queue: None  # type: ignore[method-assign]
        ids, session = ["all", "b", "x", "y"], 1
        got: dict[str, list[int]] = {id: [] for id in ids}
        world.send("sub", Attach("s1", ids, credit=20))
        held: list[Deliveries] = []
        for step in range(200):
            if step < 80:
                some = b"".join(b"<%s/>" % tag for tag in (b"b", b"x", b"y") if tags.random() < 0.5)
                world.publish(b"<a>" + some + b"</a>")
            held += messages(world)
            draw.shuffle(held)
            what = draw.random() if step < 140 else 0.5
            for message in held:
                for subscription, document, _ in items([message]):
                    if document not in got[subscription]:
                        got[subscription].append(document)
            if what < 0.1 and held:
                held += tell(world, Acknowledge(f"s{session}", [], [(held[0].number, 0)]))
            elif what < 0.15:
                session += 1
                held = tell(world, Attach(f"s{session}", ids, credit=20, life=session))
            elif what < 0.6 or step >= 100:
                held = tell(world, Acknowledge(f"s{session}", [message.number for message in held]))
            world.wait(100)
        stats = world.broker.stats()
        assert (stats["queued"], stats["parked"], stats["unfinished_documents"]) == (0, 0, 0)
        assert all(cursor(world, id).floor >= max(numbers) for id, numbers in got.items())
        return {id: sorted(numbers) for id, numbers in got.items()}

    assert run(is_fast=True) == run(is_fast=False)
