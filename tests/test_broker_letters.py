"""Dead letters by their subscriptions: found without looking at those of others."""

from __future__ import annotations

import pytest
from test_broker import World, prepare

from treecast.overlay.broker.rows import LETTER_KEYS, letter_key
from treecast.overlay.messages import (
    Acknowledge,
    Attach,
    Deliveries,
    Redeliver,
    Request,
    Subscribe,
    SubscriptionOptions,
)
from treecast.overlay.storage import Delete, Put

pytestmark = pytest.mark.house


def world_with_letters() -> World:
    """Letter 1 is that of `weak`, 2 that of `weaker`."""
    world = prepare(World(retry_ms=100))
    for id in ("weak", "weaker"):
        world.ask("sub", Subscribe(id, "/a", options=SubscriptionOptions(attempts_max=1)))
    world.publish(b"<a/>")
    for session, id in (("s1", "weak"), ("s2", "weaker")):
        (message,) = [m for m in world.send("sub", Attach(session, [id])) if isinstance(m, Deliveries)]
        world.send("sub", Acknowledge(session, [], [(message.number, 0)]))
    return world


def keys_of(world: World) -> list[str]:
    return [key for key, _ in world.storage.scan(LETTER_KEYS, "", 100)]


def test_letters_are_found_by_subscription_and_prefix() -> None:
    world = world_with_letters()
    tail = world.broker.tail
    assert keys_of(world) == [letter_key("weak", 1), letter_key("weaker", 2)]
    assert [tail.letters_of(id, 10) for id in ("wea", "weak", "weaker")] == [[], [1], [2]]
    assert [number for number, _ in tail.letters("wea", "", 10)] == [1, 2]
    assert [number for number, _ in tail.letters("wea", letter_key("weak", 1), 10)] == [2]
    assert [letter.subscription for _, letter in tail.letters("weaker", "", 10)] == ["weaker"]
    again = world.send("sub", Request(world.numbers["sub"] + 1, Redeliver([1])))
    (message,) = [m for m in again if isinstance(m, Deliveries)]
    world.send("sub", Acknowledge("s1", [message.number]))
    assert keys_of(world) == [letter_key("weaker", 2)]


def test_a_store_of_an_older_version_gets_them() -> None:
    """One that was never written to by this one, and one that an older version has written to since."""
    world = world_with_letters()
    keys = keys_of(world)
    for change in (Delete(LETTER_KEYS, keys[0]), Put(LETTER_KEYS, letter_key("gone", 3), b"")):
        world.storage.write([change])
        world.restart()
        world.wait(100)
        assert keys_of(world) == keys
