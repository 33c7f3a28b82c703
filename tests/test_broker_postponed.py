"""A receiver that decides itself when failed deliveries come again, as senders of web hooks do."""

from __future__ import annotations

from typing import Any

import pytest
from test_broker import World, items, prepare

from treecast.overlay.messages import (
    Acknowledge,
    Attach,
    Detach,
    Flow,
    Hasten,
    Postponed,
    Subscribe,
    SubscriptionOptions,
)

pytestmark = pytest.mark.house


@pytest.fixture
def world() -> World:
    """With one delivery that was sent and received, and that may fail once, and has a second to be acknowledged."""
    world = prepare(World())
    options = SubscriptionOptions(attempts_max=1, acknowledge_ms=1_000)
    world.ask("sub", Subscribe("once", "/a", options=options))
    world.send("sub", Attach("s1", ["once"]))
    world.publish(b"<a/>")
    assert [document for _, document, _ in items(world.take("sub"))] == [1]
    world.send("sub", Flow("s1", 1, 10))
    return world


def later(world: World, ms: int) -> list[Any]:
    """What is sent within this time to a session that is alive."""
    sent = []
    for _ in range(ms // 200):
        world.wait(200)
        sent += items(world.take("sub"))
        world.send("sub", Flow("s1", 100, 10))
    return sent


def test_a_postponed_delivery_comes_again_when_its_time_has_come(world: World) -> None:
    """However often it failed: its receiver counts."""
    for message in (1, 2, 3):
        world.send("sub", Acknowledge("s1", [], postponed=[Postponed(message, 0, 20_000)]))
        assert later(world, 19_000) == []
        assert [document for _, document, _ in later(world, 2_000)] == [1]
    assert world.broker.stats()["letters"] == 0


def test_a_delivery_that_its_receiver_gives_up_is_a_dead_letter(world: World) -> None:
    world.send("sub", Acknowledge("s1", [], postponed=[Postponed(1, 0, 0, "the endpoint is gone")]))
    assert later(world, 5_000) == []
    assert world.broker.stats()["letters"] == 1
    world.send("sub", Acknowledge("s1", [], postponed=[Postponed(1, 0, 0), Postponed(7, 0, 0), Postponed(1, 9, 5)]))
    assert world.broker.stats()["letters"] == 1


def test_a_wait_is_bounded() -> None:
    world = prepare(World(postponed_ms_max=2_000))
    world.send("sub", Attach("s1", ["all"]))
    world.publish(b"<a/>")
    world.take("sub")
    world.send("sub", Flow("s1", 1, 10))
    world.send("sub", Acknowledge("s1", [], postponed=[Postponed(1, 0, 1 << 60)]))
    assert len(later(world, 3_000)) == 1


def test_a_patient_session_may_take_its_time(world: World) -> None:
    """As long as it lives."""
    world.send("sub", Detach("s1"))
    assert len(items(world.send("sub", Attach("s2", ["once"], patient=True)))) == 1
    for _ in range(20):
        world.wait(1_000)
        world.send("sub", Flow("s2", 1, 10))
    assert world.broker.stats()["letters"] == 0
    world.wait(11_000)
    assert world.broker.stats()["letters"] == 1


def test_a_patient_session_whose_acknowledgement_is_lost_does_not_hold_a_delivery_for_ever(world: World) -> None:
    """Its client says which messages it still works on; the others are waited for as long as usual."""
    world.send("sub", Detach("s1"))
    assert len(items(world.send("sub", Attach("s2", ["once"], patient=True)))) == 1
    for still_open, letters in (([1], 0), ([], 0), ([], 1)):
        for _ in range(2):
            world.wait(600)
            world.send("sub", Flow("s2", 1, 10, 0, still_open))
        assert world.broker.stats()["letters"] == letters


def test_what_is_hastened_comes_at_once(world: World) -> None:
    world.send("sub", Acknowledge("s1", [], postponed=[Postponed(1, 0, 3_600_000)]))
    assert later(world, 2_000) == []
    assert world.ask("sub", Hasten("once")).refusals == [] and world.ask("sub", Hasten("all")).refusals == []
    assert [document for _, document, _ in later(world, 1_000)] == [1]
    assert world.ask("sub", Hasten("nobody")).refusals[0].code == "TC412"
