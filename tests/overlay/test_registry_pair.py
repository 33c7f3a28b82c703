"""Two registries: copies, taking over, going on alone, and what nobody is told before both have it."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from support.control_network import ControlNetwork

from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import PlaceSubscription, RegisterSource, RemovePlace
from treecast.overlay.onyx.control_messages import Grant, NewView, Ship, ShipPart, Shipped, Stand
from treecast.overlay.onyx.membership import Membership
from treecast.overlay.onyx.registry import RegistrySettings
from treecast.overlay.onyx.registry.rows import LOCAL
from treecast.overlay.onyx.view import BrokerInfo, View, first_epoch, term_of
from treecast.overlay.shadow import Shadow
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


def pair(settings: RegistrySettings | None = None, brokers: str = "abc") -> ControlNetwork:
    network = ControlNetwork(settings, registries=2)
    network.add_brokers(**{name: BrokerInfo(f"{name}:1", (place, 0)) for place, name in enumerate(brokers)})
    assert network.registry("r1").pair.row.is_paired
    return network


def copied(network: ControlNetwork) -> bool:
    """Both have the same rows."""
    first, second = (
        {name: rows for name, rows in network.storages[registry].tables().items() if rows and name != LOCAL}
        for registry in ("r1", "r2")
    )
    return first == second


def test_the_backup_has_everything_and_takes_over() -> None:
    network = pair()
    first = network.ask(RegisterSource("news"))
    assert copied(network)
    epoch = network.registry("r1").view.epoch
    network.stop("r1")
    network.run(4_000)
    registry = network.registry("r2")
    assert registry.pair.is_active and registry.pair.row.term == 3
    assert registry.view.epoch > epoch and term_of(registry.view.epoch) == 3
    assert all(network.member(name).membership.epoch == registry.view.epoch for name in "abc")
    second = network.ask(RegisterSource("sport"))
    assert second.places[0].number > first.places[0].number, "ids go on"
    network.start("r1")
    network.run(3_000)
    assert not network.registry("r1").pair.is_primary, "it follows now"
    assert registry.pair.row.is_paired and copied(network)
    network.stop("r2")
    network.run(4_000)
    assert network.registry("r1").pair.is_active and "sport" in network.registry("r1").catalog.live()


def test_a_client_that_repeats_its_request_gets_the_same_answer_from_the_backup() -> None:
    network = pair()
    network.ask(RegisterSource("other"))
    network.cut.add(("r1", "client"))
    ticket, effects = network.peers["client"].request(RegisterSource("news"), network.now_ms)
    network.do("client", effects)
    number = network.registry("r1").catalog.rows["news"].entry.number
    network.stop("r1")
    network.run(8_000)
    (answered,) = [event for event in network.events["client"] if event.ticket == ticket]
    assert answered.places[0].number == number, "done once"


def test_nothing_is_told_before_the_other_registry_has_it() -> None:
    network = pair()
    network.cut.add(("r1", "r2"))
    ticket, effects = network.peers["client"].request(RegisterSource("news"), network.now_ms)
    network.do("client", effects)
    assert "news" in network.registry("r1").catalog.rows, "it is done"
    assert not network.events["client"], "but nobody is told"
    assert all("news" not in network.member(name).membership.catalog for name in "abc")
    network.cut.clear()
    network.run(1_000)
    assert [event.ticket for event in network.events["client"]] == [ticket]
    assert network.member("c").membership.catalog


def test_without_its_partner_a_registry_asks_the_brokers_and_goes_on_alone() -> None:
    network = pair()
    network.stop("r2")
    network.run(4_000)
    registry = network.registry("r1")
    assert registry.pair.is_active and registry.pair.row.term == 4 and not registry.pair.row.is_paired
    assert network.ask(RegisterSource("news")).places
    # The other one is back while the first is away: it lacks something, and brokers know that.
    network.stop("r1")
    network.start("r2")
    network.run(10_000)
    assert not network.registry("r2").pair.is_primary
    assert any(isinstance(message, Grant) and not message.is_granted for _, to, message in network.sent if to == "r2")
    network.start("r1")
    network.run(3_000)
    assert network.registry("r1").pair.row.is_paired and copied(network)


def test_it_is_ready_when_the_other_one_knows_that_they_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    network = pair()
    registry = network.registry("r1")
    network.stop("r2")
    network.run(4_000)
    second = network.start("r2")
    receive = second.receive

    def receive_no_news(sender: str, message: Any, now_ms: int) -> Any:
        is_news = isinstance(message, Ship) and message.is_paired
        return [] if is_news else receive(sender, message, now_ms)

    monkeypatch.setattr(second, "receive", receive_no_news)
    network.run(1_000)
    assert registry.pair.row.is_paired and not registry.pair.is_ready
    assert copied(network) and not second.pair.row.may_stand, "it has everything, and does not know what that means"
    monkeypatch.undo()
    network.run(1_000)
    assert registry.pair.is_ready and second.pair.row.may_stand
    network.stop("r1")
    network.run(4_000)
    assert second.pair.is_active


def test_without_most_brokers_nobody_takes_over() -> None:
    network = pair()
    network.separate("r2", "a")
    network.separate("r2", "b")
    network.stop("r1")
    network.run(10_000)
    assert not network.registry("r2").pair.is_primary
    network.cut.clear()
    network.run(5_000)
    assert network.registry("r2").pair.is_active


def test_one_that_is_cut_off_cannot_change_anything() -> None:
    """The first registry hears one broker, the second all others: only what the second says counts."""
    network = pair(brokers="abcde")
    for name in ("r2", "client", "b", "c", "d", "e"):
        network.separate("r1", name)
    for name in "bcde":
        network.separate("a", name)
    network.separate("a", "r2")
    network.run(12_000)
    assert network.registry("r2").pair.is_active and sorted(network.registry("r2").view.brokers) == ["b", "c", "d", "e"]
    assert term_of(network.member("a").membership.epoch) == 2, "it has what it had"
    views = [message.view for sender, _, message in network.sent if sender == "r1" and isinstance(message, NewView)]
    network.cut.clear()
    network.run(4_000)
    assert {network.member(name).membership.epoch for name in "abcde"} == {network.registry("r2").view.epoch}
    known = network.registry("r2").pair.base_epoch
    assert max(view.epoch for view in views) <= known, "nothing that the second did not know"


def test_a_large_store_is_copied_in_parts() -> None:
    network = ControlNetwork(RegistrySettings(ship_bytes_max=2_000, groups_max=3), registries=2)
    network.add_brokers(a=BrokerInfo(), b=BrokerInfo(), c=BrokerInfo())
    for number in range(5):
        network.ask(PlaceSubscription(f"p{number}"))
    network.stop("r2")
    network.run(4_000)
    for number in range(5):
        network.ask(RemovePlace(f"p{number}"))
    for number in range(30):
        network.ask(RegisterSource(f"s{number:02}", "", "x" * 400))
        network.ask(PlaceSubscription(f"q{number:02}"))
    network.start("r2")
    before = len(network.sent)
    network.run(3_000)
    parts = [message for _, to, message in network.sent[before:] if to == "r2" and isinstance(message, ShipPart)]
    assert len(parts) > 8 and all(sum(len(row.value or b"") for row in part.rows) < 3_000 for part in parts)
    assert network.registry("r1").pair.row.is_paired and copied(network)


def test_parts_of_two_copies_are_never_put_together() -> None:
    """The first part of an old copy comes late: what follows in a new one does not fit to it."""
    network = ControlNetwork(RegistrySettings(ship_bytes_max=500, groups_max=1), registries=2)
    network.add_brokers(a=BrokerInfo(), b=BrokerInfo(), c=BrokerInfo())

    def copy_again(name: str) -> list[ShipPart]:
        network.stop("r2")
        network.run(4_000)
        for number in range(5):
            network.ask(RegisterSource(f"{name}{number}", "", "x" * 300))
        network.start("r2")
        before = len(network.sent)
        network.run(3_000)
        assert copied(network)
        return [message for _, to, message in network.sent[before:] if to == "r2" and isinstance(message, ShipPart)]

    old, new = copy_again("old"), copy_again("new")
    assert old[0].part == new[0].part == 1 and new[-1].is_last
    network.cut.add(("r2", "r1"))  # so that the other one does not help
    network.stop("r1")
    for message in (old[0], *new[1:]):
        late = msgspec.structs.replace(message, term=network.registry("r2").pair.row.term)
        network.tell("r1", "r2", late)
    assert not network.registry("r2").pair.row.is_complete
    for message in new[1:]:
        network.tell("r1", "r2", message)
    network.start("r1")
    network.cut.clear()
    network.run(3_000)
    assert network.registry("r1").pair.row.is_paired and copied(network)


def test_a_registry_without_its_disk_does_not_begin_anew() -> None:
    network = pair()
    network.ask(RegisterSource("news"))
    network.stop("r1")
    network.lose_disk("r1")
    network.start("r1")
    network.run(500)
    assert not network.registry("r1").pair.is_primary, "it asks first"
    network.run(5_000)
    assert network.registry("r2").pair.is_active and copied(network)
    assert "news" in network.registry("r2").catalog.live()


def test_the_first_registry_begins_only_if_the_other_one_has_nothing() -> None:
    network = ControlNetwork(registries=2)
    network.stop("r2")
    network.run(5_000)
    assert not network.registry("r1").pair.is_primary, "it does not know whether the other one has something"
    network.start("r2")
    network.run(1_000)
    assert network.registry("r1").pair.is_active and network.registry("r1").pair.row.is_paired


def test_brokers_that_promised_a_higher_term_are_won_back_by_consent() -> None:
    """Somebody stood and did not win: brokers follow nobody with a lower term."""
    network = pair()
    epoch = network.registry("r1").view.epoch
    for name in "abc":
        network.tell("r2", name, Stand(7, epoch))
    network.run(3_000)
    registry = network.registry("r1")
    assert registry.pair.row.term == 8 and registry.pair.is_active and registry.pair.takeovers == 0
    assert {term_of(network.member(name).membership.epoch) for name in "abc"} == {8}
    assert network.registry("r2").pair.row.term == 8


def test_the_other_registry_stands_in_for_brokers_that_are_gone_for_good() -> None:
    """A broker gives its promise and leaves, so most of them never have a view of the new term."""
    network = pair(brokers="ab")
    epoch = network.registry("r1").view.epoch
    network.stop("b")
    network.stop("r1")
    network.run(3_000)
    registry = network.registry("r2")
    network.tell("b", "r2", Grant(3, epoch))
    network.run(5_000)
    assert registry.pair.is_primary and not registry.pair.is_active, "one of two is not most of them"
    network.start("r1")
    network.run(8_000)
    assert registry.pair.is_active and registry.pair.row.is_paired and copied(network)
    assert registry.pair.row.term == 3 and sorted(registry.view.brokers) == ["a"]


def test_messages_of_a_term_that_is_over_change_nothing() -> None:
    network = pair()
    network.stop("r1")
    network.run(4_000)
    registry = network.registry("r2")
    number = registry.pair.row.number
    network.tell("r1", "r2", Ship(2, number, number + 1, []))
    network.tell("stranger", "r2", Ship(99, number, number + 1, []))
    assert registry.pair.is_active and registry.pair.row.number == number


# --- promises of brokers ----------------------------------------------------------------------------------------------


def stand(membership: Membership, term: int, epoch: int) -> Any:
    turn = Turn(0)
    membership.receive("r2", Stand(term, epoch), turn)
    return turn


def test_a_promise_is_kept_and_survives() -> None:
    storage = SimulatedStorage()

    def start() -> Membership:
        return Membership("b", ("r1", "r2"), Shadow(storage), Random(1))

    membership = start()
    assert not stand(membership, 3, 0).sends[0].message.is_granted, "without a view it may have forgotten a promise"
    turn = Turn(0)
    view = View(first_epoch(2) + 1, {"b": BrokerInfo()}, {"b": {}})
    assert membership.receive("r1", NewView(view), turn)
    storage.write(turn.changes)
    turn = stand(membership, 3, view.epoch)
    assert turn.sends[0].message == Grant(3, view.epoch)
    storage.write(turn.changes)
    for kept in (membership, start()):
        assert kept.promised == 3
        assert not stand(kept, 2, view.epoch + 9).sends[0].message.is_granted, "a lower term"
        assert not stand(kept, 5, view.epoch - 1).sends[0].message.is_granted, "the candidate lacks a view"
        assert stand(kept, 3, view.epoch).sends[0].message.is_granted, "the same one again"
        later = View(view.epoch + 1, {"b": BrokerInfo()}, {"b": {}})
        assert kept.receive("r1", NewView(later), Turn(0)) == [] and kept.refused_views == 1, "its term is over"
    winner = View(first_epoch(3) + 1, {"b": BrokerInfo()}, {"b": {}})
    assert membership.receive("r2", NewView(winner), Turn(0)) and membership.epoch == winner.epoch


def test_strangers_cannot_ask_for_promises_or_change_the_catalog() -> None:
    network = pair()
    member = network.member("a")
    before = (member.membership.promised, member.membership.catalog_version)
    assert network.tell("stranger", "a", Stand(99, 2**62)) == []
    network.tell("stranger", "a", NewView(View(first_epoch(99), {"a": BrokerInfo()}, {"a": {}})))
    assert sorted(member.view.brokers) == ["a", "b", "c"]
    assert (member.membership.promised, member.membership.catalog_version) == before


@pytest.mark.parametrize("name", ["r1", "r2"])
def test_a_disk_that_was_put_back_to_an_older_state(name: str) -> None:
    """Whichever of the two it was: what the other one has counts, and no number is given away again."""
    network = pair()
    older = network.copy_disk(name)
    places = {id: network.ask(PlaceSubscription(id)).places[0] for id in ("q1", "q2", "q3")}
    network.ask(RegisterSource("news"))
    epoch = network.registry("r1").view.epoch
    network.put_back(name, older)
    place = network.ask(PlaceSubscription("q4")).places[0]
    assert place.number not in {place.number for place in places.values()}
    network.ask(RegisterSource("sport"))
    network.run(4_000)
    registry = next(network.registry(name) for name in network.names if network.registry(name).is_in_charge)
    assert registry.pair.is_ready and copied(network) and registry.view.epoch >= epoch
    rows = {row["key"]: row["host"] for row in network.rows("subscriptions", registry.name)}
    assert rows == {id: place.broker for id, place in {**places, "q4": place}.items()}
    for broker in "abc":
        assert set(network.member(broker).membership.catalog) == {"news", "sport"}


def test_a_report_that_comes_late_makes_no_copy() -> None:
    network = pair()
    row = network.registry("r1").pair.row
    late = Shipped(row.term, row.term, row.number, may_stand=True)
    network.ask(RegisterSource("news"))
    before = len(network.sent)
    for _ in range(10):
        network.tell("r2", "r1", late)
        network.run(500)
    assert not [message for _, _, message in network.sent[before:] if isinstance(message, ShipPart)]
    assert network.registry("r1").pair.is_ready
