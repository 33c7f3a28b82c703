"""What a broker of a network does for clients: only what its registry has told it of."""

from __future__ import annotations

from random import Random

import pytest

from treecast.overlay.broker import Broker
from treecast.overlay.messages import Answer, Command, Document, Publish, RegisterSource, RemoveSource, Request
from treecast.overlay.onyx.control_messages import CatalogDelta, CatalogEntry, Moved, NewView
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Effect, Send, Store
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

REGISTRY = "registry"


class Root:
    """Broker a, which the registry has made the root of source s."""

    def __init__(self, storage: SimulatedStorage | None = None) -> None:
        self.broker = NetworkBroker("a", storage or SimulatedStorage(), Random(1), registries=(REGISTRY,))
        self.requests = 0
        self.broker.receive(REGISTRY, NewView(View(1, {"a": BrokerInfo()}, {"a": {}})), 0)
        self.broker.receive(REGISTRY, CatalogDelta(0, 1, [CatalogEntry("s", "a", 1)]), 0)

    def ask(self, command: Command) -> list[str]:
        """The codes of the refusals."""
        self.requests += 1
        effects: list[Effect] = self.broker.receive("publisher", Request(self.requests, command), 0)
        answers = (one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Answer))
        return [refusal.code for refusal in next(answers).refusals]


def test_the_sources_of_a_network_are_changed_at_its_registry() -> None:
    root = Root()
    assert root.ask(RegisterSource("mine")) == ["TC480"]
    assert root.ask(RemoveSource("s")) == ["TC480"]
    assert root.ask(Publish("mine", [Document(b"<a/>")])) == ["TC410"], "nobody would get it"
    assert root.ask(Publish("s", [Document(b"<a/>")])) == []


def test_a_source_that_was_removed_takes_no_documents() -> None:
    root = Root()
    assert root.ask(Publish("s", [Document(b"<a/>")])) == []
    root.broker.receive(REGISTRY, CatalogDelta(1, 2, [CatalogEntry("s", "", 1)]), 0)
    assert root.ask(Publish("s", [Document(b"<a/>")])) == ["TC410"]
    assert root.broker.broker.tail.sources() == {}


def test_each_source_of_a_request_is_looked_at_by_itself() -> None:
    root = Root()
    there = BrokerInfo(address="b.example:7300")
    root.broker.receive(REGISTRY, NewView(View(2, {"a": BrokerInfo(), "b": there}, {"a": {}, "b": {}})), 0)
    root.broker.receive(REGISTRY, CatalogDelta(1, 2, [CatalogEntry("elsewhere", "b", 1)]), 0)
    documents = [Document(b"<a/>", "1", source) for source in ("s", "elsewhere", "s", "mine")]
    effects = root.broker.receive("publisher", Request(1, Publish("", documents)), 0)
    messages = [one.message for one in effects if isinstance(one, Send) and one.to == "publisher"]
    (moved,) = (one for one in messages if isinstance(one, Moved))
    assert (moved.name, moved.to) == ("elsewhere", "b")
    (answer,) = (one for one in messages if isinstance(one, Answer))
    assert answer.documents == [1, 0, 1, 0]
    assert [(refused.item, refused.code) for refused in answer.refusals] == [(1, "TC471"), (3, "TC410")]


def test_a_broker_that_was_alone_before_has_no_sources_of_its_own_in_a_network() -> None:
    storage = SimulatedStorage()
    alone = Broker("a", storage, Random(1))
    effects = alone.receive("client", Request(1, RegisterSource("mine")), 0)
    storage.write([change for effect in effects if isinstance(effect, Store) for change in effect.changes])
    root = Root(storage)
    assert "mine" in root.broker.broker.tail.sources()
    assert root.ask(Publish("mine", [Document(b"<a/>")])) == ["TC410"]
