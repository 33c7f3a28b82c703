"""What brokers make of the catalog, and what the registry hears of them."""

from __future__ import annotations

import pytest
from support.broker_tree import BrokerTree

from treecast.overlay.messages import Document, Publish, Subscribe
from treecast.overlay.onyx.control_messages import CatalogDelta, CatalogEntry, Heartbeat
from treecast.overlay.onyx.settings import NetworkSettings

pytestmark = pytest.mark.house

DTD = "<!ELEMENT a EMPTY>"


def tree_of_two() -> BrokerTree:
    return BrokerTree("a", {"b": "a"}, NetworkSettings())


def accepts(tree: BrokerTree, body: bytes) -> bool:
    return tree.ask("a", Publish("s", [Document(body)]))


def test_a_root_looks_at_documents_with_the_schema_of_the_catalog() -> None:
    tree = tree_of_two()
    assert accepts(tree, b"<other/>"), "without a schema everything is valid"
    delta = CatalogDelta(0, 2, [CatalogEntry("s", "a", 1, DTD)])
    for name in tree.names:
        tree.network.tell("registry", name, delta)
        assert tree.broker(name).membership.catalog["s"].schema == DTD
    assert accepts(tree, b"<a/>") and not accepts(tree, b"<other/>")
    tree.network.stop("a")
    tree.network.start("a")
    tree.network.run(1_000)
    tree.greet("a")
    assert accepts(tree, b"<a/>") and not accepts(tree, b"<other/>"), "also when it lives again"
    tree.network.tell("registry", "a", CatalogDelta(2, 3, [CatalogEntry("s", "a", 1)]))
    assert accepts(tree, b"<other/>")


def test_a_broker_tells_the_registry_how_many_subscriptions_it_has() -> None:
    tree = tree_of_two()
    for id in ("q1", "q2"):
        assert tree.ask("b", Subscribe(id, "/a"))
    before = len(tree.network.sent)
    tree.network.run(1_000)
    beats = [(name, beat) for name, _, beat in tree.network.sent[before:] if isinstance(beat, Heartbeat)]
    assert {(name, beat.info.load) for name, beat in beats} == {("a", 0), ("b", 2)}
