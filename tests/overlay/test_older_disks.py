"""A broker whose disk was put back to an older state: what it acknowledges from then on reaches everybody."""

from __future__ import annotations

import pytest
from support.broker_tree import BrokerTree

from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import Document, Publish, Subscribe
from treecast.overlay.onyx.network_messages import CatchUp
from treecast.overlay.onyx.settings import NetworkSettings

pytestmark = pytest.mark.house


def publish(tree: BrokerTree, *texts: str) -> None:
    assert tree.ask("a", Publish("s", [Document(f"<n>{text}</n>".encode()) for text in texts]))


def texts_at(tree: BrokerTree, name: str) -> list[str]:
    payloads = [
        payload for event in tree.network.events[name] if isinstance(event, Published) for payload in event.payloads
    ]
    return [payload.decode().removeprefix("<n>").removesuffix("</n>") for payload in payloads]


def chain(*names: str) -> BrokerTree:
    """The root is a; each of the others is the parent of the next."""
    tree = BrokerTree("a", dict(zip(names, ("a", *names), strict=False)), NetworkSettings())
    for name in names:
        assert tree.ask(name, Subscribe(f"q-{name}", "/n"))
    tree.network.run(1_000)
    return tree


@pytest.mark.parametrize("waits_ms", [0, 2_000])
def test_a_root_goes_on_with_data_of_another_name(waits_ms: int) -> None:
    tree = chain("b", "c")
    publish(tree, "1", "2")
    older, store = tree.network.copy_disk("a"), tree.broker("a").broker.store_id
    publish(tree, "3", "4", "5", "6")
    tree.network.run(2_000)
    tree.network.put_back("a", older)
    tree.network.run(waits_ms)
    tree.greet("a")
    publish(tree, "new 3", "new 4")  # with numbers that b and c know
    tree.network.run(5_000)
    assert [error.code for error in tree.network.failures] == ["TC428"]
    assert tree.broker("a").broker.store_id != store
    tree.greet("a")
    publish(tree, "new 5")
    tree.network.run(1_000)
    for name in "bc":
        got = texts_at(tree, name)
        assert got[:6] == ["1", "2", "3", "4", "5", "6"]
        assert got[6:] == ["1", "2", "new 3", "new 4", "new 5"], "from the beginning, and in order"


def test_a_root_that_lives_again_with_its_own_disk_keeps_its_name() -> None:
    tree = chain("b", "c")
    publish(tree, "1", "2")
    tree.network.run(2_000)
    store = tree.broker("a").broker.store_id
    tree.network.put_back("a", tree.network.copy_disk("a"))
    tree.greet("a")
    publish(tree, "3")
    tree.network.run(5_000)
    assert tree.broker("a").broker.store_id == store and not tree.network.failures
    assert texts_at(tree, "b") == texts_at(tree, "c") == ["1", "2", "3"]


def test_a_question_about_other_data_does_not_say_what_is_needed() -> None:
    """It was under way when the root began anew: what it has must be kept for the asker all the same."""
    tree = chain("b")
    publish(tree, "1", "2")
    older = tree.network.copy_disk("a")
    publish(tree, "3", "4")
    tree.network.run(2_000)
    tree.network.put_back("a", older)
    tree.network.run(500)
    while not tree.network.failures:
        tree.network.run(50)
    epoch = tree.broker("a").epoch
    tree.network.tell("b", "a", CatchUp("a", epoch, 99, 4))
    needed_from = tree.broker("a").broker.retention.needed_by_others
    assert needed_from is not None and needed_from() <= 3
