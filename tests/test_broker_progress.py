"""What is done stays done, in any order and however much of it there is, while a single delivery is not."""

from __future__ import annotations

from random import Random

import pytest
from test_broker import World, prepare

from treecast.overlay.broker.rows import CURSORS, CursorRow, decode, encode
from treecast.overlay.messages import Acknowledge, Attach, Deliveries, Flow
from treecast.overlay.storage import Put

pytestmark = pytest.mark.house

ROUNDS, BATCH = 5, 700


def messages(world: World) -> list[Deliveries]:
    return [message for message in world.take("sub") if isinstance(message, Deliveries)]


def documents(message: Deliveries) -> list[int]:
    return [item.document for item in message.items if item.payload >= 0]


def attach(world: World, session: str) -> list[Deliveries]:
    received = world.send("sub", Attach(session, ["all"]))
    return [message for message in received if isinstance(message, Deliveries)]


@pytest.mark.parametrize("is_on_lane", [True, False])
def test_any_number_of_deliveries_is_done_behind_one_that_is_not(is_on_lane: bool) -> None:
    world = prepare(World())
    attach(world, "s1")
    world.publish(b"<a/>")
    (first,) = messages(world)
    if not is_on_lane:  # the subscription is dealt with one by one
        world.publish(b"<a/>")
        (second,) = messages(world)
        world.send("sub", Acknowledge("s1", [], done=[(second.number, 0)]))
    for _ in range(ROUNDS):
        world.publish(*[b"<a/>"] * BATCH)
        world.send("sub", Acknowledge("s1", [message.number for message in messages(world)]))
    data = world.storage.get(CURSORS, "all")
    assert data is not None and len(data) < 20
    for session in ("s2", "s3"):
        world.restart()
        assert [documents(message) for message in attach(world, session)] == [documents(first)]
    world.send("sub", Acknowledge("s3", [1]))
    world.restart()
    assert attach(world, "s4") == []


@pytest.mark.parametrize("seed", range(6))
def test_nothing_that_was_acknowledged_comes_again(seed: int) -> None:
    """In any order, with little room in memory, so that most is read from disk, and with restarts."""
    random = Random(seed)
    settings = {"queue_memory_max": random.choice([1, 2, 5, 50]), "items_per_message_max": random.choice([1, 3, 100])}
    world = prepare(World(**settings))
    done: set[int] = set()
    for life in range(12):
        session, held = f"s{life}", []
        arrived = attach(world, session)
        for _ in range(random.randint(1, 6)):
            world.publish(*[b"<a/>"] * random.randint(1, 8))
            arrived += messages(world)
            held += [(m.number, place, item.document) for m in arrived for place, item in enumerate(m.items)]
            assert not done & {document for _, _, document in held}
            chosen = random.sample(held, random.randint(0, len(held)))
            held = [one for one in held if one not in chosen]
            done |= {document for _, _, document in chosen}
            acknowledge = Acknowledge(session, [], done=[(number, place) for number, place, _ in chosen])
            world.run(world.broker.receive("sub", Flow(session, 1_000, 1_000), world.now_ms))
            world.run(world.broker.receive("sub", acknowledge, world.now_ms))
            arrived = []
        world.restart()
    assert not done & {document for message in attach(world, "last") for document in documents(message)}
    assert len(done) > 20


def test_what_an_earlier_version_stored_is_understood() -> None:
    world = prepare(World())
    world.publish(*[b"<a/>"] * 6)
    world.storage.write([Put(CURSORS, "all", encode(CursorRow(1, [3, 5])))])
    world.restart()
    (message,) = attach(world, "s1")
    assert documents(message) == [2, 4, 6]
    world.send("sub", Acknowledge("s1", [], done=[(1, 1)]))
    data = world.storage.get(CURSORS, "all")
    assert data is not None and decode(data, CursorRow) == CursorRow(1, [], 5, [2])
    world.restart()
    (message,) = attach(world, "s2")
    assert documents(message) == [2, 6]
