"""A registry: who takes part, ids, roots and hosts, the catalog, migrations."""

from __future__ import annotations

import pytest
from support.control_network import ControlNetwork

from treecast.overlay.messages import (
    Detach,
    PlaceSubscription,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveSource,
    Unsubscribe,
)
from treecast.overlay.onyx.control_messages import (
    AskView,
    CatalogDelta,
    CatalogEntry,
    Gossip,
    Heartbeat,
    Located,
    Migrate,
    Moved,
    NewView,
    WhereIs,
)
from treecast.overlay.onyx.registry import RegistrySettings
from treecast.overlay.onyx.registry.placing import hosts_of_partitions
from treecast.overlay.onyx.registry_client import Found
from treecast.overlay.onyx.trees import changed_parents, cost_by_location, tree_of
from treecast.overlay.onyx.view import BrokerInfo

pytestmark = pytest.mark.house

NEAR, FAR = BrokerInfo("near:1", (0, 0)), BrokerInfo("far:1", (9, 0))


def three() -> dict[str, BrokerInfo]:
    return {name: BrokerInfo(f"{name}:1", (place, 0)) for place, name in enumerate(["a", "b", "c"])}


# --- who takes part ---------------------------------------------------------------------------------------------------


def test_brokers_join_leave_and_are_missed() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    registry = network.registry()
    assert sorted(registry.view.brokers) == ["a", "b", "c"]
    assert len({info.number for info in registry.view.brokers.values()}) == 3
    assert all(network.member(name).membership.epoch == registry.view.epoch for name in "abc")
    number = registry.view.brokers["b"].number
    network.do("a", network.member("a").leave(network.now_ms))
    network.stop("a")
    network.run(300)
    assert sorted(registry.view.brokers) == ["b", "c"], "it said goodbye"
    network.stop("b")
    network.run(1_000)
    assert sorted(registry.view.brokers) == ["b", "c"], "not missed yet"
    network.run(1_500)
    assert sorted(registry.view.brokers) == ["c"]
    network.start("b")
    network.run(500)
    assert registry.view.brokers["b"].number == number, "it has the id that it had"


def test_a_restart_is_forgiven() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    registry = network.registry()
    epoch = registry.view.epoch
    network.stop("a")
    network.run(1_000)
    network.start("a")
    network.run(1_000)
    assert registry.view.epoch == epoch, "it was back in time, with what it knew"
    network.do("a", network.member("a").leave(network.now_ms, is_restarting=True))
    network.stop("a")
    network.run(6_000)
    assert registry.view.epoch == epoch, "it said that it would be back"
    network.run(6_000)
    assert sorted(registry.view.brokers) == ["b", "c"]


def test_if_most_are_silent_the_registry_doubts_itself() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    for name in "ab":
        network.stop(name)
    network.run(4_000)
    assert len(network.registry().view.brokers) == 3
    network.run(6_000)
    assert sorted(network.registry().view.brokers) == ["c"]


def test_a_clock_that_jumps_is_nobodys_fault() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    epoch = network.registry().view.epoch
    for jump_ms in (100_000, -200_000):
        network.now_ms += jump_ms
        network.do("r1", network.registry().tick(network.now_ms))
        network.run(1_000)
    assert network.registry().view.epoch == epoch


def test_there_is_room_for_so_many_brokers() -> None:
    network = ControlNetwork(RegistrySettings(brokers_max=2))
    network.add_brokers(**three())
    assert len(network.registry().view.brokers) == 2
    assert network.tell("stranger", "r1", Heartbeat(1, 0, 0, 0)) == []


def test_a_missed_view_is_asked_for_from_a_broker() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    network.separate("r1", "c")
    network.run(3_000)
    assert sorted(network.registry().view.brokers) == ["a", "b"]
    assert network.member("c").membership.epoch == network.registry().view.epoch
    views = [
        message for sender, to, message in network.sent if to == "c" and isinstance(message, NewView) and sender != "r1"
    ]
    assert views, "the registry does not reach it, others do"
    assert not network.member("c").membership.is_member()


def test_a_broker_that_hears_of_a_newer_view_asks_for_it() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    epoch = network.registry().view.epoch
    assert network.tell("b", "a", Gossip(epoch + 1)) == [AskView(epoch)]
    assert network.tell("b", "a", Gossip(epoch)) == []
    assert network.tell("b", "a", AskView(epoch - 1)) == [NewView(network.registry().view)]
    assert network.tell("b", "a", AskView(epoch)) == []


def test_a_change_of_the_catalog_is_not_applied_before_what_it_is_based_on() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    membership = network.member("a").membership
    network.tell("r1", "a", CatalogDelta(3, 4, [CatalogEntry("s4", "a", 4)]))
    assert membership.catalog_version == 0 and not membership.catalog
    network.tell("r1", "a", CatalogDelta(0, 3, [CatalogEntry("s3", "a", 3)]))
    network.tell("r1", "a", CatalogDelta(1, 4, [CatalogEntry("s4", "a", 4)]))
    assert membership.catalog_version == 4 and sorted(membership.catalog) == ["s3", "s4"]


def test_a_view_keeps_the_trees_of_the_one_before() -> None:
    network = ControlNetwork(RegistrySettings(fan_out_max=2))
    network.add_brokers(**{f"b{number:02}": BrokerInfo("", (number * 7 % 13, number)) for number in range(12)})
    before = network.registry().view.trees["b00"]
    gone = before["b11"]
    network.do(gone, network.member(gone).leave(network.now_ms))
    network.stop(gone)
    network.run(300)
    after = network.registry().view.trees["b00"]
    assert changed_parents(before, after) == sum(parent == gone for parent in before.values()) > 0
    fresh = tree_of("b00", after.keys() | {"b00"}, cost_by_location(network.registry().view.brokers), 2)
    assert changed_parents(before, fresh) > changed_parents(before, after)


# --- sources and the catalog ------------------------------------------------------------------------------------------


def test_a_root_is_near_and_has_bandwidth() -> None:
    network = ControlNetwork()
    network.add_brokers(
        near=BrokerInfo("near:1", (0, 0), bandwidth=1_000), far=BrokerInfo("far:1", (9, 0), bandwidth=1_000_000)
    )
    small = network.ask(RegisterSource("small", location=(1, 0), messages_per_second=1, message_bytes=900))
    large = network.ask(RegisterSource("large", location=(1, 0), messages_per_second=1, message_bytes=900))
    assert [small.places[0].broker, small.places[0].address] == ["near", "near:1"]
    assert large.places[0].broker == "far", "the near one has no bandwidth left"
    assert small.places[0].number != large.places[0].number
    huge = network.ask(RegisterSource("huge", location=(1, 0), messages_per_second=1, message_bytes=10**9))
    assert huge.places[0].broker == "far", "enough for nobody: the one that lacks least"
    again = network.ask(RegisterSource("small", "<!ELEMENT a EMPTY>", location=(9, 0)))
    assert again.places[0].number == small.places[0].number and again.places[0].broker == "near", "it stays"


def test_each_root_has_a_tree() -> None:
    network = ControlNetwork(RegistrySettings(former_ms=0))
    network.add_brokers(**three())
    for place, name in enumerate("abc"):
        assert network.ask(RegisterSource(f"s{name}", location=(place, 0))).places[0].broker == name
    network.run(300)
    assert network.registry().view.roots() == ("a", "b", "c")
    assert network.member("b").view.sources == {"sa": "a", "sb": "b", "sc": "c"}
    network.ask(RemoveSource("sa"))
    network.run(300)
    assert network.registry().view.roots() == ("b", "c")
    assert network.member("b").view.sources == {"sb": "b", "sc": "c"}


def test_a_former_root_keeps_its_tree_for_those_who_still_lack_its_documents() -> None:
    network = ControlNetwork(RegistrySettings(former_ms=5_000))
    network.add_brokers(**three())
    for place, name in enumerate("ab"):
        network.ask(RegisterSource(f"s{name}", location=(place, 0)))
    network.ask(RemoveSource("sa"))
    network.run(300)
    assert network.registry().view.roots() == ("a", "b") and network.member("c").view.sources == {"sb": "b"}
    assert network.ask(RegisterSource("sa", location=(2, 0))).places[0].broker == "c"
    network.stop("r1")
    network.start("r1")
    network.run(1_000)
    assert network.registry().view.roots() == ("a", "b", "c"), "also if its source is elsewhere by now"
    network.run(5_000)
    assert network.registry().view.roots() == ("b", "c")


def test_the_catalog_travels_along_a_tree_and_only_changes_do() -> None:
    network = ControlNetwork()
    network.add_brokers(**{f"b{number}": BrokerInfo(f"b{number}:1", (number, 0)) for number in range(12)})
    for number in range(5):
        network.ask(RegisterSource(f"s{number}", "", "x" * 100))
    registry = network.registry()
    assert registry.spread == registry.catalog.version == 5, "all have answered along the tree"
    deltas = [message for sender, _, message in network.sent if sender == "r1" and isinstance(message, CatalogDelta)]
    assert not deltas, "the registry has sent nothing but broadcasts, to roots"
    network.add_brokers(late=BrokerInfo("late:1", (0, 5)))
    assert network.member("late").membership.catalog == network.member("b1").membership.catalog
    network.run(1_000)
    before = len(network.sent)
    network.ask(RegisterSource("s3", "", "y"))
    carried = [message.delta for _, _, message in network.sent[before:] if type(message).__name__ == "Broadcast"]
    assert len(carried) >= 13 and all([entry.source for entry in delta.entries] == ["s3"] for delta in carried)


def test_what_the_tree_did_not_bring_comes_with_a_heartbeat_in_small_messages() -> None:
    network = ControlNetwork(RegistrySettings(catalog_bytes_max=250))
    network.add_brokers(**three())
    network.separate("r1", "c")
    for name in "ab":
        network.separate(name, "c")
    for number in range(6):
        network.ask(RegisterSource(f"s{number}", "", "x" * 100))
    network.cut.clear()
    before = len(network.sent)
    network.run(2_000)
    sent = [message for _, to, message in network.sent[before:] if to == "c" and isinstance(message, CatalogDelta)]
    assert len(sent) >= 3 and all(len(delta.entries) <= 2 for delta in sent)
    assert len(network.member("c").membership.catalog) == 6


def test_a_broker_that_missed_a_removal_hears_of_it() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    network.ask(RegisterSource("news"))
    network.run(300)
    network.stop("b")
    network.ask(RemoveSource("news"))
    network.start("b")
    assert "news" in network.member("b").membership.catalog
    network.run(1_000)
    assert network.member("b").membership.catalog == {}


def test_a_source_keeps_its_root_unless_told_otherwise() -> None:
    for reroot_ms, root in ((0, "a"), (3_000, "b")):
        network = ControlNetwork(RegistrySettings(reroot_ms=reroot_ms))
        network.add_brokers(**three())
        network.ask(RegisterSource("news", location=(0, 0)))
        network.stop("a")
        network.run(8_000)
        assert network.registry().catalog.rows["news"].entry.root == root


def test_requests_are_refused_with_a_reason() -> None:
    network = ControlNetwork(RegistrySettings(sources_max=1, subscribers_max=1, subscriptions_max=1))

    def code(answer: object) -> str:
        return network.ask(answer).refusals[0].code  # type: ignore[arg-type]

    assert code(RegisterSource("news")) == "TC481"
    assert code(RegisterSubscriber("u")) == "TC481" and code(PlaceSubscription("q")) == "TC481"
    network.add_brokers(**three())
    ids = [network.ask(RegisterSource("news")).places[0].number]
    assert code(RegisterSource("other")) == "TC413" and code(RegisterSource("")) == "TC414"
    assert code(RemoveSource("other")) == "TC410" and code(RemovePlace("q")) == "TC412"
    assert code(Unsubscribe("q")) == "TC480"
    ids += [network.ask(RegisterSubscriber("u")).places[0].number, network.ask(PlaceSubscription("q")).places[0].number]
    assert code(RegisterSubscriber("v")) == "TC413" and code(PlaceSubscription("p")) == "TC413"
    assert len(set(ids)) == 3


def test_everything_survives_a_restart() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    ids = {network.ask(RegisterSource(f"s{number}")).places[0].number for number in range(3)}
    network.ask(PlaceSubscription("q"))
    before = network.registry()
    network.stop("r1")
    after = network.start("r1")
    assert (after.view, after.catalog.rows, len(after.hosts)) == (before.view, before.catalog.rows, 1)
    network.run(1_000)
    assert after.view == before.view, "nobody was forgotten meanwhile"
    assert network.ask(RegisterSource("s9")).places[0].number not in ids


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_a_host_is_near_or_has_little_to_do() -> None:
    network = ControlNetwork(RegistrySettings(policy="near", near_slack=1.0))
    network.add_brokers(near=NEAR, beside=BrokerInfo("beside:1", (1, 0), load=10), far=FAR)
    assert network.ask(RegisterSubscriber("u", (0.5, 0))).places[0].broker == "near"
    hosts = [network.ask(PlaceSubscription(f"q{number}", location=(0.5, 0))).places[0].broker for number in range(4)]
    assert set(hosts) == {"near"}, "beside has more to do"
    network = ControlNetwork(RegistrySettings(policy="load"))
    network.add_brokers(near=NEAR, far=FAR)
    hosts = [network.ask(PlaceSubscription(f"q{number}", location=(0.5, 0))).places[0].broker for number in range(4)]
    assert sorted(hosts) == ["far", "far", "near", "near"]
    assert network.ask(PlaceSubscription("q0", location=(0.5, 0))).places[0].broker == hosts[0], "it stays"


def test_subscriptions_move_to_a_new_broker_but_not_too_many() -> None:
    settings = RegistrySettings(policy="load", rebalance_ms=1_000, migrations_per_minute_max=4, migrations_open_max=3)
    network = ControlNetwork(settings)
    network.add_brokers(a=NEAR)
    for number in range(20):
        network.ask(PlaceSubscription(f"q{number:02}"))
    network.add_brokers(b=FAR)
    network.run(20_000)
    registry = network.registry()
    assert registry.hosts.moved == 4, "no more in a minute"
    assert all(len(message.moves) <= 3 for _, _, message in network.sent if isinstance(message, Migrate))
    network.run(240_000)
    counts = registry.hosts.loads({"a": NEAR, "b": FAR})
    assert counts["a"] <= settings.skew_max * 10 and counts["a"] + counts["b"] == 20
    moved = registry.hosts.moved
    network.run(30_000)
    assert registry.hosts.moved == moved, "even is even"


def test_a_migration_is_repeated_until_it_is_done() -> None:
    network = ControlNetwork(RegistrySettings(policy="load", rebalance_ms=500, repeat_ms=500))
    network.add_brokers(a=NEAR)
    for number in range(6):
        network.ask(PlaceSubscription(f"q{number}"))
    network.cut.add(("r1", "a"))
    network.add_brokers(b=FAR)
    hosts = network.registry().hosts
    assert hosts.open_moves == 2 and hosts.moved == 0, "the old host does not hear of it"
    network.cut.clear()
    network.run(1_000)
    assert hosts.open_moves == 0 and hosts.moved == 2
    assert sorted(str(row["host"]) for row in network.rows("subscriptions")) == ["a", "a", "a", "a", "b", "b"]


def test_a_migration_ends_with_its_subscription_or_a_broker() -> None:
    network = ControlNetwork(RegistrySettings(policy="load", rebalance_ms=500, repeat_ms=500))
    network.add_brokers(a=NEAR)
    for number in range(6):
        network.ask(PlaceSubscription(f"q{number}"))
    network.cut.add(("r1", "a"))
    network.add_brokers(b=FAR)
    hosts = network.registry().hosts
    network.ask(RemovePlace("q5"))
    assert hosts.open_moves == 1
    network.do("b", network.member("b").leave(network.now_ms))
    network.stop("b")
    network.run(300)
    assert hosts.open_moves == 0


def test_hosts_by_content() -> None:
    """Queries that compare the same thing with the same value meet at one broker; a new broker gets its share."""
    network = ControlNetwork(RegistrySettings(policy="content", partitions=8, rebalance_ms=500, near_slack=0))
    network.add_brokers(a=NEAR, b=FAR)
    for number in range(60):
        network.ask(PlaceSubscription(f"q{number:02}", f"/a[@k='{number % 12}']/b[{number // 12 + 1}]"))
    network.run(5_000)

    def hosts() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in network.rows("subscriptions"):
            value = str(row["query"]).split("'")[1]
            found.setdefault(value, set()).add(str(row["host"]))
        return found

    assert all(len(names) == 1 for names in hosts().values()), "one value, one broker"
    before = hosts()
    network.add_brokers(c=BrokerInfo("c:1", (4, 0)))
    network.run(5_000)
    after = hosts()
    assert all(len(names) == 1 for names in after.values())
    assert all(after[value] in (before[value], {"c"}) for value in before), "only the new broker gets something"
    assert any(names == {"c"} for names in after.values())
    network.stop("r1")
    network.start("r1")
    network.run(2_000)
    assert all(len(names) == 1 for names in hosts().values()), "also after a restart"
    answer = network.ask(PlaceSubscription("wrong", "/a["))
    assert answer.refusals[0].code.startswith("TC1")


def host_of(network: ControlNetwork, id: str) -> object:
    return next(row["host"] for row in network.rows("subscriptions") if row["key"] == id)


def test_a_query_that_changes_may_leave_its_partition() -> None:
    network = ControlNetwork(RegistrySettings(policy="content", partitions=8, rebalance_ms=500))
    network.add_brokers(a=NEAR, b=FAR)
    for number in range(36):
        network.ask(PlaceSubscription(f"q{number:02}", f"/a[@k='{number % 12}']"))
    network.run(3_000)
    before = host_of(network, "q00")
    other = next(number for number in range(12) if host_of(network, f"q{number:02}") != before)
    network.ask(PlaceSubscription("q00", f"/a[@k='{other}'][b]"))
    assert host_of(network, "q00") == before, "until it has moved"
    network.run(3_000)
    assert host_of(network, "q00") == host_of(network, f"q{other:02}") != before


def test_a_registry_gets_another_policy() -> None:
    """Queries that nobody knows stay where they are; placed again, they count."""
    network = ControlNetwork(RegistrySettings(policy="load", rebalance_ms=500))
    network.add_brokers(a=NEAR, b=FAR)
    for number in range(24):
        network.ask(PlaceSubscription(f"q{number:02}", f"/a[@k='{number % 2}']"))
    before = {row["key"]: row["host"] for row in network.rows("subscriptions")}
    network.settings = RegistrySettings(policy="content", partitions=2, rebalance_ms=500)
    network.stop("r1")
    network.start("r1")
    network.run(2_000)
    assert {row["key"]: row["host"] for row in network.rows("subscriptions")} == before
    for number in range(22):
        network.ask(PlaceSubscription(f"q{number:02}", f"/a[@k='{number % 2}']"))
    network.ask(RemovePlace("q22"))
    network.run(5_000)
    after = {row["key"]: row["host"] for row in network.rows("subscriptions")}
    hosts = [{after[f"q{number:02}"] for number in range(value, 22, 2)} for value in range(2)]
    assert all(len(names) == 1 for names in hosts), "one value, one broker"
    assert after["q23"] == before["q23"]


def test_partitions_are_even_and_few_move() -> None:
    names = [f"b{number}" for number in range(8)]
    before = hosts_of_partitions(names, 64)
    after = hosts_of_partitions(names[:-1], 64)
    assert all(before.count(name) == 8 for name in names)
    assert max(after.count(name) for name in names) == 10, "64 in seven parts"
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    assert 8 <= moved <= 20, "the eight of the broker that has gone, and some for evenness"


# --- where things are -------------------------------------------------------------------------------------------------


def test_any_broker_says_where_something_is() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    network.ask(RegisterSource("news", location=(1, 0)))
    network.ask(PlaceSubscription("q", location=(2, 0)))
    network.ask(RegisterSubscriber("u", (0, 0)))
    network.run(300)
    epoch = network.registry().view.epoch
    assert network.tell("x", "a", WhereIs(7, "source", "news")) == [Located(7, "b", "b:1", epoch)]
    for peer in ("r1", "a"):
        before = len(network.sent)
        network.tell("x", peer, WhereIs(8, "subscription", "q"))
        network.tell("x", peer, WhereIs(9, "subscriber", "u"))
        network.tell("x", peer, WhereIs(10, "subscription", "nobody"))
        answers = {message.question: message.broker for _, to, message in network.sent[before:] if to == "x"}
        assert answers == {8: "c" if network.registry().hosts.row("q").host == "c" else "b", 9: "a", 10: ""}  # type: ignore[union-attr]
    moved = network.member("a").membership.moved_source("news")
    assert moved == Moved("source", "news", "b", "b:1", epoch)
    assert network.member("b").membership.moved_source("news") is None


def test_answers_are_remembered_until_somebody_says_moved() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    network.ask(RegisterSource("news", location=(1, 0)))
    client = network.peers["client"]
    found, effects = client.where("source", "news", network.now_ms)
    assert found is None
    network.do("client", effects)
    found, effects = client.where("source", "news", network.now_ms)
    assert found.broker == "b" and effects == []
    network.tell("b", "client", Moved("source", "news", "c", "c:1", found.epoch - 1))
    assert client.where("source", "news", network.now_ms)[0].broker == "b", "older than what is known"
    network.tell("b", "client", Moved("source", "news", "c", "c:1", found.epoch))
    assert client.where("source", "news", network.now_ms)[0] == Found("source", "news", "c", "c:1", found.epoch)
    client.forget("source", "news")
    assert client.where("source", "news", network.now_ms)[0] is None


def test_a_registry_shows_itself() -> None:
    network = ControlNetwork()
    network.add_brokers(**three())
    network.ask(RegisterSource("news", description="all of it"))
    network.run(300)
    assert [row["key"] for row in network.rows("brokers")] == ["a", "b", "c"]
    trees = network.rows("trees")
    assert [row["key"] for row in trees] == ["a/a", "a/b", "a/c"] and trees[0]["depth"] == 0
    assert network.rows("sources")[0]["root"] == "a"
    stats = {row["key"]: row["value"] for row in network.rows("stats")}
    assert stats["brokers"] == 3 and stats["in_charge"] == 1 and stats["depth"] in (1, 2)
    assert network.rows("letters") == []


# --- who may join -----------------------------------------------------------------------------------------------------


def test_only_allowed_brokers_join_and_others_are_told_now_and_then() -> None:
    network = ControlNetwork(RegistrySettings(allow=("a", "edge-*")))
    names = ("a", "edge-1", "alice")
    network.add_brokers(**{name: BrokerInfo(f"{name}:1") for name in names})
    assert sorted(network.registry().view.brokers) == ["a", "edge-1"]
    told = [message for _, to, message in network.sent if to == "alice" and isinstance(message, Detach)]
    assert len(told) == 1 and told[0].reason.startswith("TC610")
    assert network.registry().stats()["not_allowed"] > 1
    assert network.registry().admission.refusal("r1") is not None  # that of a registry
    assert network.registry().admission.refusal("host:a") is not None
