"""Brokers in a tree: ONYX's Figures 4 and 6 by the links that documents cross; drawn subscriptions."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from generators.link_sets import Drawing, outcome
from support.broker_tree import BrokerTree
from support.sanitized import fewer
from test_papers import ONYX
from test_papers_transformations import SERIES, TIDES, article

from treecast.index import Index
from treecast.model import Subscription
from treecast.overlay.messages import Subscribe, Unsubscribe
from treecast.overlay.onyx.early_plan import is_restructured
from treecast.overlay.onyx.routing import RoutingSettings, RoutingTable
from treecast.overlay.onyx.settings import NetworkSettings

pytestmark = pytest.mark.house

FIGURE_4 = {"b2": "b1", "b3": "b2", "b4": "b1", "b5": "b4", "b6": "b4"}
"""Six brokers; Brokers 5 and 6 are behind Broker 4."""


@pytest.mark.parametrize("entries_max", [1_000, 1])
def test_documents_of_the_paper_cross_the_links_behind_which_they_are_wanted(entries_max: int) -> None:
    """With a budget of one, Broker 4 asks for all of SF (Figure 6, box d), and keeps what nobody wants there."""
    settings = NetworkSettings(plan_bytes_max=0)
    tree = BrokerTree("b1", FIGURE_4, settings, {"b4": RoutingSettings(entries_max=entries_max)})
    for name, id, query in (("b2", "NY", ONYX["NY"]), ("b5", "Q1", ONYX["Q1"]), ("b5", "Q2", ONYX["Q2"])):
        assert tree.ask(name, Subscribe(id, query))
    assert tree.ask("b6", Subscribe("Q3", TIDES))
    table = tree.broker("b1").trees["b1"].table
    assert isinstance(table, RoutingTable)
    assert str(table.collect("b2")) == ONYX["NY"]
    assert (str(table.collect("b4")) == ONYX["area"]) is (entries_max == 1)

    def links(document: str) -> set[tuple[str, str]]:
        return {(sender, to) for sender, to, _ in tree.publish([document.encode()])[0]}

    fishing = article("SF", "News").replace('tobject.subject.type="News"', 'tobject.subject.matter="fishing"')
    first, to_5, to_6 = ("b1", "b4"), ("b4", "b5"), ("b4", "b6")
    assert links(article("NY", "Stock")) == {("b1", "b2")}
    assert links(article("SF", "Stock")) == {first, to_5}
    assert links(fishing) == {first, to_5}
    assert links(article("SF", "News", SERIES)) == {first, to_6}
    assert links(article("SF", "Stock", SERIES)) == {first, to_5, to_6}
    assert links(article("SF", "News")) == ({first} if entries_max == 1 else set())
    assert links(article("LA", "Stock", SERIES)) == set()


def drawn_tree(random: Random) -> BrokerTree:
    settings = NetworkSettings(
        link_formats=random.choice([(), ("binary",), ("dictionary", "binary"), ("binary-zlib",)]),
        dictionary_documents=random.choice([2, 64]),
        own_at_once_max=random.choice([0, 2, 200_000]),
        routes_first=random.random() < 0.7,
        plan_steps_max=random.choice([1, 64]),
    )
    routing = RoutingSettings(entries_max=random.choice([1, 3, 20_000]), set_values_min=2)
    parents = {"b2": "b1", "b3": "b2", "b4": "b1"}
    return BrokerTree("b1", parents, settings, dict.fromkeys(("b1", *parents), routing))


def made_by(one: Subscription, documents: list[bytes]) -> list[bytes]:
    """What a subscription makes of each document, without brokers."""
    if one.deliver == "document" and one.query.startswith("/"):
        index = Index()
        index.add_many([one])
        return [document for document in documents if index.match(document)]
    return [made for made in (outcome(one, document) for document in documents) if isinstance(made, bytes)]


def test_drawn_subscriptions_get_what_they_make_of_each_document() -> None:
    """Wherever they are, whatever comes and goes, and whatever was done to documents on the way; in order, and once."""
    seen: Counter[str] = Counter()
    for seed in range(fewer(40)):
        drawing = Drawing(seed)
        random, tree = drawing.random, drawn_tree(drawing.random)
        held: dict[str, tuple[str, Subscription]] = {}
        for _ in range(3):
            for one in [*drawing.family(), *drawing.family()]:
                name = random.choice(tree.names)
                if tree.ask(name, Subscribe(one.id, one.query, dict(one.namespaces), one.ordered, one.deliver)):
                    held[one.id] = name, one
            for id in random.sample(sorted(held), len(held) // 3):
                assert tree.ask(held.pop(id)[0], Unsubscribe(id))
            tree.network.run(500)
            documents = [drawing.document() for _ in range(3)]
            crossings, delivered = tree.publish(documents)
            for id, (_, one) in held.items():
                expected = made_by(one, documents)
                assert delivered.get(id, []) == expected, (seed, one.query, documents)
                seen["deliveries"] += len(expected)
            seen["parts"] += sum(parcel.early != "" for *_, parcel in crossings)
            seen["restructured"] += sum(is_restructured(parcel.early) for *_, parcel in crossings)
        assert not any(tree.broker(name).unfit for name in tree.names)
    assert min(seen["parts"], seen["restructured"], seen["deliveries"]) > fewer(20), seen
