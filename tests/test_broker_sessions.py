"""Sessions of one client that follow each other, whatever arrives late; and a document for many subscriptions."""

from __future__ import annotations

import pytest
from test_broker import World, items, prepare

from treecast.overlay.messages import (
    Acknowledge,
    Attach,
    Confirmation,
    Deliveries,
    Detach,
    Flow,
    Subscribe,
    SubscribeMany,
    SubscriptionOptions,
)
from treecast.overlay.peer import Effect, Send, Store

pytestmark = pytest.mark.house


@pytest.fixture
def world() -> World:
    return prepare(World())


def test_a_session_that_its_client_does_not_name_any_more_is_over(world: World) -> None:
    """Its `Detach` was overtaken by the next `Attach`, or is lost: what it holds comes at once, and in order."""
    world.send("sub", Attach("s1", ["all"], credit=2, life=7, serial=1))
    world.send("sub", Attach("other", ["b"], life=7, serial=2, others=["s1"]))
    world.publish(*[b"<a/>"] * 4)
    assert [d for _, d, _ in items(world.take("sub"))] == [1, 2]
    got = items(world.send("sub", Attach("s2", ["all"], credit=9, life=7, serial=4, others=["other"])))
    assert [d for _, d, _ in got] == [1, 2, 3, 4]
    assert world.broker.stats()["sessions"] == 2
    assert world.send("sub", Detach("s1", "done", serial=3)) == []
    # A copy of its `Attach` that arrives now opens nothing, and ends nothing.
    assert world.send("sub", Attach("s1", ["all"], credit=2, life=7, serial=1)) == []
    assert world.broker.stats()["sessions"] == 2


def test_an_attach_after_its_detach_opens_nothing(world: World) -> None:
    world.send("sub", Attach("s1", ["all"], life=7, serial=1))
    world.send("sub", Detach("s1", "done", serial=2))
    assert world.send("sub", Attach("s1", ["all"], life=7, serial=1)) == []
    assert world.broker.stats()["sessions"] == 0
    # Another life of the client counts for itself.
    assert world.send("sub", Attach("s9", ["all"], life=8, serial=1))
    assert world.broker.stats()["sessions"] == 1


def test_a_document_with_many_matches_is_delivered_to_each(world: World) -> None:
    many = [
        Subscribe(f"m{number:03}", "/many", deliver="elements" if number % 2 else "document") for number in range(90)
    ]
    world.ask("sub", SubscribeMany(many))
    world.send("sub", Attach("s1", [command.id for command in many]))
    for number in range(11):
        world.publish(b"<?xml version='1.0'?><many>%d</many>" % number)
    got = items(world.take("sub"))
    assert len(got) == 90 * 11 and len({(id, document) for id, document, _ in got}) == 90 * 11
    assert all(payload.startswith(b"<?xml") is not bool(int(id[1:]) % 2) for id, _, payload in got)


def confirmation_after_store(effects: list[Effect]) -> Confirmation:
    """The one among these. What it says is stored before it leaves."""
    (place,) = (n for n, effect in enumerate(effects) if isinstance(effect, Send) and effect.to == "sub")
    assert any(isinstance(effect, Store) for effect in effects[:place])
    effect = effects[place]
    assert isinstance(effect, Send) and isinstance(effect.message, Confirmation)
    return effect.message


@pytest.mark.parametrize("is_on_lane", [True, False])
def test_what_is_acknowledged_is_confirmed_when_it_is_stored(world: World, is_on_lane: bool) -> None:
    world.send("sub", Attach("s1", ["all"]))
    world.publish(*[b"<a/>"] * 3)
    message = world.take("sub")[-1]
    if not is_on_lane:
        effects = world.broker.receive("sub", Acknowledge("s1", [], done=[(1, 1)], confirmation=1), world.now_ms)
        assert confirmation_after_store(effects) == Confirmation("s1", 1)
        world.run(effects)
    effects = world.broker.receive("sub", Acknowledge("s1", [message.number], confirmation=2), world.now_ms)
    assert confirmation_after_store(effects) == Confirmation("s1", 2, [], [] if is_on_lane else [(1, 1)])
    world.run(effects)
    # Once more, as if the answer was lost: nothing is stored, and the session knows nothing of them any more.
    (again,) = world.send("sub", Acknowledge("s1", [message.number], done=[(1, 1)], confirmation=2))[-1:]
    assert again == Confirmation("s1", 2, [1], [(1, 1)])
    world.restart()
    assert items(world.send("sub", Attach("s2", ["all"]))) == []


def test_what_took_too_long_is_not_confirmed(world: World) -> None:
    """It waits to be tried again, or was sent again, when its acknowledgement comes."""
    world.ask("sub", Subscribe("hasty", "/a", options=SubscriptionOptions(acknowledge_ms=500)))
    world.send("sub", Attach("s1", ["hasty"]))
    world.publish(b"<a/>", b"<a/>")
    world.send("sub", Flow("s1", 1, 1_000))
    world.wait(1_000)
    confirmation = world.send("sub", Acknowledge("s1", [1], confirmation=1))[-1]
    assert confirmation == Confirmation("s1", 1, [1])
    world.wait(2_000)
    again = [message for message in world.take("sub") if isinstance(message, Deliveries)]
    assert {document for _, document, _ in items(again)} == {1, 2}
