"""Sessions of one client that follow each other, whatever arrives late; and a document for many subscriptions."""

from __future__ import annotations

import pytest
from test_broker import World, items, prepare

from treecast.overlay.messages import Attach, Detach, Subscribe, SubscribeMany

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
