"""The limits and repetitions of the control plane: each is met once, and the answer is the one that was promised."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from support.control_network import ControlNetwork

from treecast.overlay.messages import PlaceSubscription, RegisterSource
from treecast.overlay.onyx.control_messages import Broadcast, Collected, NewView, Ship, ShipPart, WhereIs
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.registry import RegistrySettings
from treecast.overlay.onyx.registry_client import RegistryClient, RegistryClientSettings
from treecast.overlay.onyx.tree_broadcast import TreeBroadcastSettings
from treecast.overlay.onyx.view import BrokerInfo

pytestmark = pytest.mark.house


def line(count: int) -> dict[str, BrokerInfo]:
    return {f"b{number:02}": BrokerInfo(f"b{number:02}:1", (number, 0)) for number in range(count)}


def test_brokers_that_come_together_are_in_few_views() -> None:
    views = {}
    for view_ms in (0, 500):
        network = ControlNetwork(RegistrySettings(view_ms=view_ms))
        network.add_brokers(**line(10))
        for name in list(network.peers):
            if name.startswith("b"):
                network.do(name, network.member(name).leave(network.now_ms))
                network.run(50)
        views[view_ms] = len({message.view.epoch for _, _, message in network.sent if isinstance(message, NewView)})
    assert views[500] <= 5 < views[0]


def test_there_is_a_tree_for_so_many_roots() -> None:
    network = ControlNetwork(RegistrySettings(roots_max=2))
    network.add_brokers(**line(4))
    roots = [network.ask(RegisterSource(f"s{place}", location=(place, 0))).places[0].broker for place in range(3)]
    assert roots == ["b00", "b01", "b01"], "no room for a third root: the nearest of those that are"
    assert network.registry().view.roots() == ("b00", "b01")
    for name in ("b00", "b01"):
        network.stop(name)
    network.run(9_000)
    assert network.ask(RegisterSource("s9")).refusals[0].code == "TC481"


def test_a_root_has_its_tree_when_its_source_is_told_of_it() -> None:
    network = ControlNetwork(RegistrySettings(view_ms=100_000))
    network.add_brokers(**line(4))
    assert network.ask(RegisterSource("news", location=(3, 0))).places[0].broker == "b03"
    assert network.member("b00").view.roots() == ("b03",)


def test_a_broadcast_that_was_lost_is_repeated() -> None:
    network = ControlNetwork(RegistrySettings(fan_out_max=1))
    network.membership = MembershipSettings(heartbeat_ms=1_000_000)  # so that nothing else brings it
    network.settings = msgspec.structs.replace(network.settings, silent_ms=10_000_000)
    network.stop("r1")
    network.start("r1")
    network.add_brokers(**line(3))
    network.run(1_000)
    registry = network.registry()
    assert len(registry.view.brokers) == 3
    root = registry.view.roots()[0]
    (child,) = registry.view.children(root, root)
    network.cut.add((root, child))
    network.ask(RegisterSource("news", location=(0, 0)))
    assert registry.spread == 0 and not network.member(child).membership.catalog
    network.cut.clear()
    network.run(1_000)
    assert network.member(child).membership.catalog and registry.spread == 1
    sent = [to for sender, to, message in network.sent if sender == root and isinstance(message, Broadcast)]
    assert sent.count(child) >= 2


def test_a_broadcast_is_given_up_and_few_are_open() -> None:
    network = ControlNetwork()
    settings = TreeBroadcastSettings(repeat_ms=100, give_up_ms=1_000, open_max=2)
    network.membership = MembershipSettings(broadcast=settings)
    network.add_brokers(**line(2))
    network.cut.add(("b00", "b01"))
    for number in range(4):
        network.ask(RegisterSource(f"s{number}", location=(0, 0)))
    trees = network.member("b00").membership._trees
    assert len(trees._open) == 2
    network.run(2_000)
    assert not trees._open
    assert network.tell("b01", "b00", Collected("b00", network.registry().view.epoch, 1, 1)) == []


def test_so_many_questions_wait_and_not_for_ever() -> None:
    network = ControlNetwork()
    network.membership = MembershipSettings(questions_max=2, question_ms=500)
    network.add_brokers(**line(1))
    network.cut.add(("b00", "r1"))
    for number in range(5):
        network.tell("x", "b00", WhereIs(number, "subscription", "q"))
    assert sum(isinstance(message, WhereIs) for _, to, message in network.sent if to == "r1") == 2
    network.run(600)
    network.cut.clear()
    network.ask(PlaceSubscription("q"))
    network.tell("x", "b00", WhereIs(9, "subscription", "q"))
    assert [message.broker for _, to, message in network.sent if to == "x"] == ["b00"], "there is room again"


def test_a_client_remembers_so_many_places_and_asks_so_many_questions() -> None:
    client = RegistryClient("c", ("r1",), Random(1), RegistryClientSettings(cached_max=2, questions_max=2))
    network = ControlNetwork()
    network.add_brokers(**line(1))
    network.peers["client"] = client
    for number in range(3):
        network.ask(RegisterSource(f"s{number}"))
        network.do("client", client.where("source", f"s{number}", network.now_ms)[1])
    known = [client.where("source", f"s{number}", network.now_ms)[0] is not None for number in range(3)]
    assert known == [False, True, True]
    for number in range(9):
        client.where("subscription", f"q{number}", network.now_ms)
    assert len(client._questions) == 2


def test_a_client_asks_the_other_registry_but_does_not_run_to_and_fro() -> None:
    """While nobody is in charge, both say that the other one is."""
    network = ControlNetwork(registries=2)
    network.stop("r2")
    network.run(500)
    assert not network.registry("r1").pair.is_primary
    network.start("r2")
    network.separate("r1", "r2")
    before = len(network.sent)
    ticket, effects = network.peers["client"].request(RegisterSource("news"), network.now_ms)
    network.do("client", effects)
    network.run(2_000)
    asked = [to for sender, to, _ in network.sent[before:] if sender == "client"]
    assert {"r1", "r2"} == set(asked) and len(asked) < 60
    network.cut.clear()
    network.add_brokers(**line(1))
    network.run(3_000)
    assert [event.ticket for event in network.events["client"]] == [ticket]


def test_so_many_messages_are_held_and_so_many_groups_kept() -> None:
    network = ControlNetwork(RegistrySettings(held_max=3, groups_max=2, lease_ms=1_000_000), registries=2)
    network.add_brokers(**line(3))
    pair = network.registry("r1").pair
    assert pair.row.is_paired
    network.cut.add(("r1", "r2"))
    for number in range(6):
        _, effects = network.peers["client"].request(RegisterSource(f"s{number}"), network.now_ms)
        network.do("client", effects)
    assert len(pair._held) == 3 and len(pair._groups) <= 2
    assert not network.events["client"]
    network.cut.clear()
    network.run(5_000)
    assert len(network.events["client"]) == 6, "what was not held is asked for again"
    assert network.registry("r2").pair.row.number == pair.row.number


def test_requests_are_ignored_while_too_many_groups_wait_for_the_other_registry() -> None:
    """Otherwise groups would be dropped, and the whole store be copied, again and again as long as clients ask."""
    network = ControlNetwork(RegistrySettings(groups_max=2, lease_ms=1_000_000), registries=2)
    network.add_brokers(**line(3))
    registry = network.registry("r1")
    first, before = registry.pair.row.number, len(network.sent)
    network.cut.add(("r1", "r2"))
    for number in range(6):
        _, effects = network.peers["client"].request(RegisterSource(f"s{number}"), network.now_ms)
        network.do("client", effects)
    network.stop("b00")
    network.run(5_000)
    assert registry.pair.row.number == first + 2 and registry.stats()["ignored"] >= 4
    assert "b00" in registry.view.brokers, "views wait too"
    network.cut.clear()
    network.run(8_000)
    assert len(network.events["client"]) == 6 and "b00" not in registry.view.brokers
    assert not any(isinstance(message, ShipPart) for _, _, message in network.sent[before:])


def test_groups_travel_together_as_far_as_they_fit() -> None:
    network = ControlNetwork(RegistrySettings(ship_bytes_max=1_500, lease_ms=1_000_000), registries=2)
    network.add_brokers(**line(3))
    network.cut.add(("r1", "r2"))
    for number in range(6):
        _, effects = network.peers["client"].request(RegisterSource(f"s{number}", "", "x" * 300), network.now_ms)
        network.do("client", effects)
    network.cut.clear()
    before = len(network.sent)
    network.run(2_000)
    shipped = [message for _, to, message in network.sent[before:] if to == "r2" and isinstance(message, Ship)]
    ships = [message for message in shipped if message.rows]
    assert len(ships) >= 2 and all(ship.number > ship.base for ship in ships)
    assert all(sum(len(row.value or b"") for row in ship.rows) < 4_000 for ship in ships)
    assert network.registry("r1").pair.is_settled()
