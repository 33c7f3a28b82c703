"""A single registry that has lost its disk learns from brokers what it had told them, and decides nothing before."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from support.control_network import ControlNetwork

from treecast.overlay.messages import (
    Inspect,
    Inspected,
    PlaceSubscription,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveSource,
    Request,
)
from treecast.overlay.onyx.control_messages import (
    AskCatalog,
    AskView,
    CatalogPart,
    Heartbeat,
    Located,
    NewView,
    WhereIs,
)
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.registry import Registry
from treecast.overlay.onyx.registry.relearning import LEAP, Relearnt
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.registry.waiting import BYTES_MAX, MESSAGES_MAX
from treecast.overlay.onyx.view import BrokerInfo, View, first_epoch, term_of
from treecast.overlay.peer import Effect, Send
from treecast.sim import SimulatedStorage
from treecast.sim.onyx.member import Member

pytestmark = pytest.mark.house

REGISTRY = "r1"
LONG_MS = 12_000  # until brokers that are away are not waited for


class Hosting(Member):
    """Says which subscriptions it has."""

    hosted: tuple[str, ...] = ()
    is_mute = False

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Inspect) and self.is_mute:
            return []
        if isinstance(message, Inspect):
            rows: list[dict[str, str | int]] = [{"key": id} for id in sorted(self.hosted) if id > message.after]
            return [Send(sender, Inspected(message.question, rows[: message.count_max]))]
        return super().receive(sender, message, now_ms)


class Network(ControlNetwork):
    """Brokers a, b and c, on a line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(RegistrySettings(**settings))
        for place, name in enumerate("abc"):
            self.infos[name] = BrokerInfo(f"{name}:1", (float(place), 0.0))
            self.add(name, partial(self._member, name))
        self.run(1_000)

    def _member(self, name: str, storage: SimulatedStorage, random: Random) -> Member:
        settings = MembershipSettings(catalog_bytes_max=200)
        return Hosting(name, storage, random, self.names, settings, lambda: self.infos[name])

    def host(self, name: str, *ids: str) -> None:
        member = self.peers[name]
        assert isinstance(member, Hosting)
        member.hosted += ids

    def mute(self, *names: str) -> None:
        """They do not say what they host."""
        for name in names:
            member = self.peers[name]
            assert isinstance(member, Hosting)
            member.is_mute = True

    def lose_registry(self) -> None:
        self.stop(REGISTRY)
        self.lose_disk(REGISTRY)
        self.start(REGISTRY)

    def where(self, id: str) -> str | None:
        """None: no answer."""
        answers = self.tell("x", REGISTRY, WhereIs(1, "subscription", id))
        return next((answer.broker for answer in answers if isinstance(answer, Located)), None)

    def sources(self) -> dict[str, tuple[str, int]]:
        rows = self.registry().catalog.live()
        return {name: (row.entry.root, row.entry.number) for name, row in rows.items()}


def one_of_two(name: str, storage: SimulatedStorage, random: Random) -> Registry:
    return Registry(name, storage, random, None, ("r1", "r2"))


def settled() -> Network:
    network = Network()
    for place, name in enumerate("abc"):
        network.ask(RegisterSource(f"s{name}", "", "x" * 90, location=(float(place), 0.0)))
        placed = network.ask(PlaceSubscription(f"q{name}", location=(float(place), 0.0)))
        assert placed.places[0].broker == name
        network.host(name, f"q{name}")
    network.ask(RegisterSource("old"))
    network.ask(RemoveSource("old"))
    network.run(1_000)
    return network


def test_it_knows_what_it_had_told_them() -> None:
    network = settled()
    sources, view = network.sources(), network.registry().view
    network.lose_registry()
    network.run(4_000)
    registry = network.registry()
    assert [event for event in network.events[REGISTRY] if isinstance(event, Relearnt)] == [Relearnt(3, 3)]
    assert network.sources() == sources and set(sources) == {"sa", "sb", "sc"}
    assert registry.view.brokers.keys() == view.brokers.keys() and registry.view.epoch > view.epoch
    assert {name: info.number for name, info in registry.view.brokers.items()} == {
        name: info.number for name, info in view.brokers.items()
    }
    assert [network.where(f"q{name}") for name in "abc"] == ["a", "b", "c"]
    assert network.where("nobody") == ""

    # And it goes on: numbers are new ones, and brokers hear of changes.
    place = network.ask(RegisterSource("new", location=(2.0, 0.0))).places[0]
    assert place.number > LEAP and place.broker == "c"
    network.ask(RemoveSource("sa"))
    network.run(1_000)
    for name in "abc":
        member = network.member(name).membership
        assert set(member.catalog) == {"sb", "sc", "new"} and member.epoch == registry.view.epoch
        assert member.catalog_version == registry.catalog.version


def test_nothing_is_decided_before_it_knows() -> None:
    network = settled()
    network.lose_registry()
    before = len(network.sent)
    placed = network.ask(PlaceSubscription("qc", location=(0.0, 0.0)))
    assert placed.places[0].broker == "c", "where it is, and not where it would go today"
    views = [message for by, _, message in network.sent[before:] if by == REGISTRY and isinstance(message, NewView)]
    assert all(set(message.view.brokers) == set("abc") for message in views)
    assert {row["key"]: row["host"] for row in network.rows("subscriptions")} == {"qa": "a", "qb": "b", "qc": "c"}


def test_ids_that_a_broker_has_not_told_yet_are_waited_for() -> None:
    network = settled()
    network.host("b", *(f"many-{number:04}" for number in range(2_500)))
    network.lose_registry()
    network.cut.add(("b", REGISTRY))
    network.run(LONG_MS)
    network.cut.clear()
    heard = len(network.sent)
    network.now_ms += 400
    network.do("b", network.peers["b"].tick(network.now_ms))  # a heartbeat, and no answer yet
    assert not [message for by, _, message in network.sent[heard:] if isinstance(message, Inspected) and by == "b"]
    assert network.where("many-2499") is None, "b may have it"
    network.run(1_000)
    assert network.where("many-2499") == "b" and network.where("nobody") == ""
    assert len(network.registry().hosts) == 2_503


def test_what_a_broker_hosts_that_is_away_is_learnt_when_it_is_back() -> None:
    network = settled()
    network.stop("c")
    network.lose_registry()
    network.run(LONG_MS)
    assert network.registry().is_in_charge and set(network.sources()) == {"sa", "sb", "sc"}
    assert network.where("qc") == "", "nobody who is there has it"
    network.stop(REGISTRY)
    network.start(REGISTRY)  # it remembers who has not told it yet
    network.run(1_000)
    network.start("c")
    network.host("c", "qc")
    network.run(1_000)
    assert network.where("qc") == "c" and network.registry().view.brokers.keys() == set("abc")


def test_a_broker_that_was_away_brings_a_later_catalog() -> None:
    """The others had not heard of the last source. What was registered since the disk was lost is kept as well."""
    network = settled()
    for name in "ab":
        network.cut |= {(REGISTRY, name), ("a", name), ("b", name), ("c", name)}
    network.ask(RegisterSource("last", location=(2.0, 0.0)))
    network.run(500)
    assert "last" in network.member("c").membership.catalog and "last" not in network.member("a").membership.catalog
    network.ask(RemoveSource("sb"))
    network.run(500)
    network.stop("c")
    network.cut.clear()
    network.lose_registry()
    network.run(LONG_MS)
    assert "sb" in network.sources(), "nobody who is there knows better"
    network.ask(RegisterSource("since", location=(0.0, 0.0)))
    network.start("c")
    network.run(4_000)
    assert set(network.sources()) == {"sa", "sc", "since", "last"}
    for name in "abc":
        assert set(network.member(name).membership.catalog) == set(network.sources())


def test_nobody_is_told_what_there_is_not_before_a_broker_is_heard() -> None:
    """With an empty disk everything would be unknown."""
    network = settled()
    network.lose_registry()
    before = len(network.sent)
    assert network.where("qa") is None
    network.run(4_000)
    answers = [message for _, to, message in network.sent[before:] if to == "x" and isinstance(message, Located)]
    assert [answer.broker for answer in answers] == ["a"], "it need not be asked again"

    # Where there is no broker, nobody waits for long.
    for name in "abc":
        network.stop(name)
    network.lose_registry()
    assert network.where("qa") is None
    network.run(2_000)
    assert network.where("qa") == ""


def test_a_heartbeat_is_enough_for_what_waits() -> None:
    """What comes after it must not overtake what was asked before."""
    network = settled()
    network.stop(REGISTRY)
    network.start(REGISTRY)
    assert network.where("qa") is None
    before = len(network.sent)
    network.now_ms += 1_000
    network.do("a", network.peers["a"].tick(network.now_ms))
    answers = [message.broker for _, to, message in network.sent[before:] if to == "x" and isinstance(message, Located)]
    assert answers == ["a"]


def test_questions_that_wait_are_bounded() -> None:
    network = settled()
    network.lose_registry()
    for number in range(MESSAGES_MAX + 7):
        network.tell("x", REGISTRY, WhereIs(number, "subscription", "qa"))
    assert network.registry().stats()["ignored"] == 7
    network.run(4_000)
    asked = {message.question for _, to, message in network.sent if to == "x" and isinstance(message, Located)}
    assert asked == set(range(MESSAGES_MAX))
    network.lose_registry()
    schema = RegisterSource("news", "x" * (BYTES_MAX // 2))
    for _ in range(3):
        network.tell("x", REGISTRY, Request(1, schema))
    assert network.registry().stats()["ignored"] == 2


def test_a_disk_that_was_put_back_to_an_older_state() -> None:
    """What was placed since then is where it was, and no number is given away again."""
    network = settled()
    older = network.copy_disk(REGISTRY)
    later = network.ask(PlaceSubscription("later", location=(2.0, 0.0))).places[0]
    network.host(later.broker, "later")
    number = network.ask(RegisterSource("last", location=(2.0, 0.0))).places[0].number
    network.ask(RemoveSource("sa"))
    network.run(1_000)
    network.put_back(REGISTRY, older)
    assert network.where("later") is None, "it is not in this state of the disk"
    again = network.ask(PlaceSubscription("later", location=(0.0, 0.0))).places[0]
    assert again.broker == later.broker != "a"
    assert network.ask(RegisterSource("since")).places[0].number > max(number, again.number)
    assert set(network.sources()) == {"sb", "sc", "last", "since"}


def test_brokers_that_follow_a_higher_term() -> None:
    """From a time with two registries."""
    network = Network()
    network.ask(RegisterSource("news"))
    view = View(first_epoch(7) + 3, network.registry().view.brokers, network.registry().view.trees)
    for name in "abc":
        network.tell(REGISTRY, name, NewView(view))
    network.lose_registry()
    network.run(4_000)
    assert term_of(network.registry().view.epoch) > 7 and set(network.sources()) == {"news"}
    assert {network.member(name).membership.epoch for name in "abc"} == {network.registry().view.epoch}


def test_a_new_network_has_nothing_to_learn() -> None:
    network = Network()
    assert network.registry().is_in_charge
    assert not [message for _, _, message in network.sent if isinstance(message, AskCatalog | AskView | CatalogPart)]
    network.stop(REGISTRY)
    network.start(REGISTRY)
    network.run(1_000)
    assert not [message for _, _, message in network.sent if isinstance(message, AskCatalog | CatalogPart)]


def test_a_broker_that_was_in_no_view_when_the_disk_was_lost() -> None:
    network = settled()
    network.stop("c")
    network.run(4_000)
    assert set(network.registry().view.brokers) == set("ab")
    network.lose_registry()
    network.run(4_000)
    network.start("c")
    network.host("c", "qc")
    assert network.ask(PlaceSubscription("qc", location=(0.0, 0.0))).places[0].broker == "c"


def test_brokers_that_left_politely() -> None:
    """The last of them has a view without brokers."""
    network = settled()
    for name in "abc":
        network.do(name, network.peers[name].leave(network.now_ms))
        network.run(200)
    for name in "abc":
        network.stop(name)
    network.lose_registry()
    for name in "abc":
        network.start(name)
    network.run(LONG_MS)
    assert network.registry().is_in_charge and set(network.sources()) == {"sa", "sb", "sc"}
    assert set(network.registry().view.brokers) == set("abc")


@pytest.mark.parametrize("mute", ["a", "c"])
def test_a_broker_that_does_not_answer_is_not_waited_for_without_end(mute: str) -> None:
    """The latest catalog is asked of c first."""
    network = settled()
    network.lose_registry()
    network.cut.add((REGISTRY, mute))
    network.run(25_000)
    assert network.registry().is_in_charge and set(network.sources()) == {"sa", "sb", "sc"}
    assert network.where("nobody") == ""
    assert network.where("qb") == "b"


def test_one_broker_that_boasts_learns_nothing() -> None:
    """Of another network, perhaps; or what it says makes no sense."""
    network = settled()
    epoch = network.registry().view.epoch
    for beat in (Heartbeat(1, epoch + 5, 2, 0), Heartbeat(1, 2**62, 2**40, 2**62), Heartbeat(1, 1, 2**62, 99)):
        for _ in range(100):
            network.tell("z", REGISTRY, beat)
            network.run(100)
            assert network.registry().is_in_charge
    assert not [event for event in network.events[REGISTRY] if isinstance(event, Relearnt)]


def test_answers_that_make_no_sense() -> None:
    network = settled()
    network.stop("c")
    network.lose_registry()
    network.run(LONG_MS)
    network.tell("c", REGISTRY, Heartbeat(1, 0, 0, 0))
    network.run(100)
    (question,) = {m.question for _, to, m in network.sent if to == "c" and isinstance(m, Inspect)}
    for rows in ([{"id": "x"}], [{"key": 5}], [{"key": "b"}, {"key": "a"}], [{"key": ""}]):
        network.tell("c", REGISTRY, Inspected(question, rows))  # type: ignore[arg-type]
    assert network.registry().relearning.subscriptions == 2
    assert network.where("nobody") is None, "it has still to say what it hosts"


def test_the_second_of_two_registries_asks_nobody() -> None:
    """A single one has lost its disk, has not heard everybody yet, and gets a partner. Who is not in charge writes
    nothing of its own, or the other would take that for a copy."""
    network = settled()
    network.stop("c")
    network.lose_registry()
    network.run(LONG_MS)
    network.names = ("r1", "r2")
    for name in network.names:
        network._factories[name] = partial(one_of_two, name)
        network.events[name] = []
    network.storages["r2"] = SimulatedStorage()
    for name in "ab":
        network.stop(name)
        network.start(name)
    network.stop("r1")
    network.start("r1")
    network.start("r2")
    network.run(10_000)
    assert network.registry("r1").pair.is_ready
    network.stop("r2")
    network.start("r2")
    before = len(network.sent)
    network.tell("c", "r2", Heartbeat(1, 0, 0, 0))
    network.run(2_000)
    assert not [m for by, to, m in network.sent[before:] if (by, to) == ("r2", "c") and isinstance(m, Inspect)]


def test_a_former_root_keeps_its_tree() -> None:
    network = settled()
    network.ask(RemoveSource("sa"))
    network.run(500)
    network.lose_registry()
    network.run(4_000)
    assert network.registry().view.roots() == ("a", "b", "c")


@pytest.mark.parametrize("seed", range(20))
def test_drawn_histories(seed: int) -> None:
    """Whatever was done, whoever is away, however often: in the end nothing is missing, and no number is used twice."""
    random = Random(seed)
    network = Network()
    hosts: dict[str, str] = {}
    roots: dict[str, str] = {}
    numbers: list[int] = []
    for step in range(30):
        kind = random.choice(["source", "source", "place", "place", "place", "user", "remove", "away", "lose"])
        location = (random.uniform(0, 2), 0.0)
        if kind == "source":
            place = network.ask(RegisterSource(f"s{step}", location=location)).places[0]
            roots[f"s{step}"] = place.broker
            numbers.append(place.number)
        elif kind == "place":
            place = network.ask(PlaceSubscription(f"q{step}", location=location)).places[0]
            hosts[f"q{step}"] = place.broker
            numbers.append(place.number)
            if place.broker in network.peers:
                network.host(place.broker, f"q{step}")
        elif kind == "user":
            numbers.append(network.ask(RegisterSubscriber(f"u{step}", location)).places[0].number)
        elif kind == "remove" and roots:
            network.ask(RemoveSource(source := random.choice(sorted(roots))))
            del roots[source]
        elif kind == "away":
            away = random.choice("abc")
            network.run(500)
            network.stop(away)
            network.run(random.choice([500, 3_000]))
            network.start(away)
            network.host(away, *(id for id, host in hosts.items() if host == away))
            network.run(1_000)
        elif kind == "lose":
            network.run(1_000)
            network.lose_registry()
            if random.random() < 0.5:
                network.run(random.choice([100, 2_500]))
                network.lose_registry()
    network.run(5_000)
    assert {name: root for name, (root, _) in network.sources().items()} == roots
    assert {row["key"]: row["host"] for row in network.rows("subscriptions")} == hosts
    assert len(set(numbers)) == len(numbers)
    for name in "abc":
        assert {s: e.root for s, e in network.member(name).membership.catalog.items()} == roots


def test_queries_that_an_older_disk_has_go_on_deciding() -> None:
    network = Network(policy="content")
    command = PlaceSubscription("q", query="/a[b=1]")
    host = network.ask(command).places[0].broker
    network.host(host, "q")
    older = network.copy_disk(REGISTRY)
    network.ask(RegisterSource("news"))
    network.run(1_000)
    network.put_back(REGISTRY, older)
    network.run(4_000)
    assert [event for event in network.events[REGISTRY] if isinstance(event, Relearnt)]
    assert [place.broker for place in network.ask(command).places] == [host]
    assert not network.ask(RemovePlace("q")).refusals and not network.ask(command).refusals


def test_places_that_only_an_older_disk_knows() -> None:
    """Since then one subscription was removed, and another one was placed anew, elsewhere."""
    network = settled()
    older = network.copy_disk(REGISTRY)
    for id, host in (("qa", "a"), ("qb", "b")):
        network.ask(RemovePlace(id))
        network.member(host).hosted = ()  # type: ignore[attr-defined]
    network.infos["a"] = BrokerInfo("a:1", (50.0, 0.0))  # it is far from everybody now
    network.run(1_000)
    other = network.ask(PlaceSubscription("qa", location=(2.0, 0.0))).places[0].broker
    assert other != "a"
    network.host(other, "qa")
    network.put_back(REGISTRY, older)
    network.cut.add((REGISTRY, other))
    network.run(LONG_MS)
    assert network.where("qa") in (None, "")
    network.cut.clear()
    assert network.ask(PlaceSubscription("qa", location=(50.0, 0.0))).places[0].broker == other
    network.run(2_000)
    assert {row["key"]: row["host"] for row in network.rows("subscriptions")} == {"qa": other, "qc": "c"}


def test_a_place_of_an_older_disk_is_not_told_before_brokers_have_said_where_things_are() -> None:
    network = settled()
    older = network.copy_disk(REGISTRY)
    network.ask(RegisterSource("last"))
    network.run(1_000)
    network.mute("a", "b", "c")
    network.put_back(REGISTRY, older)
    network.run(4_000)
    assert network.registry().is_in_charge and network.where("qa") is None, "it may be elsewhere by now"
    network.run(LONG_MS)
    assert network.where("qa") == "a", "they give no answer"


def test_a_place_that_was_given_again_is_not_dropped() -> None:
    """Its broker comes back, and says what it hosts, before the subscription is there."""
    network = settled()
    older = network.copy_disk(REGISTRY)
    network.ask(RegisterSource("last"))
    network.run(1_000)
    network.stop("c")
    network.put_back(REGISTRY, older)
    network.run(LONG_MS)
    assert network.ask(PlaceSubscription("qc", location=(2.0, 0.0))).places[0].broker == "c"
    network.start("c")
    network.run(2_000)
    assert network.where("qc") == "c"


def test_no_request_gets_the_answer_of_another_one() -> None:
    """The registry begins with an empty disk; then the older one is found. Numbers of requests come a second time."""
    network = settled()
    older = network.copy_disk(REGISTRY)
    network.lose_registry()
    network.run(4_000)
    network.ask(RegisterSource("first"))
    network.run(1_000)
    network.put_back(REGISTRY, older)
    network.run(4_000)
    for name in ("sa", "sb", "sc", "first"):
        network.ask(RemoveSource(name))
        place = network.ask(PlaceSubscription(f"of-{name}")).places[0]
        assert place.number > LEAP
    assert not network.sources()
