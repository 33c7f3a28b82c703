"""What a broker of a network does when it lives again, and what the others do then: nobody waits without need."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.lone_tree import NOTHING, ROUTING, Place, X, Y, announce, covered, tree

from treecast.model import Subscription
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.early_plan import WHOLE
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Announce, CatchUp, Covered, History, Latest, Positions, Resync
from treecast.overlay.onyx.routing import Delta, RoutingSettings, map_subscription
from treecast.overlay.onyx.routing.summary import Summary
from treecast.overlay.onyx.routing_protocol import LOCAL
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import TICK_MS, Effect, Send, Store
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


def test_a_child_that_lives_again_and_wants_the_same_is_covered_at_once() -> None:
    place = Place("p")
    middle = tree(place, "r", "r", "c")
    middle.take_announce("c", announce(1, 0, (X, NOTHING)))
    middle.flush()
    middle.take_covered("r", covered(middle.version, 3))
    place.take(Announce), place.take(Covered)
    middle.take_announce("c", announce(1, 0, (X, NOTHING), life=6))
    middle.flush()
    assert not place.take(Announce), "nothing is new to the parent"
    (answer,) = place.take(Covered)
    assert answer.announcer == 6
    middle.take_announce("c", announce(1, 0, (Y, NOTHING), life=7))
    middle.flush()
    (message,) = place.take(Announce)
    assert len(message.changes) == 1, "what it wanted before, and what it wants now, are one change"


class Own:
    """What a broker wants itself."""

    is_loaded = True

    def __init__(self) -> None:
        self.table: Any = ROUTING.table()
        self.table.update(LOCAL, X, NOTHING)

    def encoded(self) -> bytes:
        encoded: bytes = self.table.aggregate().encode()
        return encoded


def test_only_a_tree_with_children_has_a_table_of_its_own() -> None:
    place, own = Place("p"), Own()
    made = Tree("r", place, ROUTING, NetworkSettings(), Random(1), lambda: 0, own=own)
    made.change_plan(WHOLE)
    made.place_in("r", ["c"])
    assert made.table is own.table
    (message,) = place.take(Announce)
    assert ROUTING.decode(message.changes[0][0]) == X
    made.change_local(own.table.update(LOCAL, Y, NOTHING))
    made.flush()
    (message,) = place.take(Announce)
    assert ROUTING.decode(message.changes[0][0]) == Y
    made.take_announce("c", announce(1, 0, (X, NOTHING)))
    made.flush()
    assert made.table is not own.table and made.table.targets == (LOCAL, "c")
    assert not place.take(Announce), "its parent knows all of that"
    made.change_local(own.table.update(LOCAL, NOTHING, X))
    made.flush()
    assert not place.take(Announce), "the child wants it as well"
    root = Tree("p", place, ROUTING, NetworkSettings(), Random(1), lambda: 0, own=own)
    root.change_local(Delta(Y, NOTHING))
    assert not root.table.aggregate(), "nobody has to be told what a root wants itself"


def sent(effects: list[Effect], kind: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def write(storage: SimulatedStorage, effects: list[Effect]) -> list[Effect]:
    for effect in effects:
        if isinstance(effect, Store):
            storage.write(effect.changes)
    return effects


def test_a_broker_that_lives_again_asks_whom_it_needs_at_once() -> None:
    storage = SimulatedStorage()
    trees = {"r": {"b": "r", "c": "b"}}
    view = View(1, {name: BrokerInfo() for name in "rbc"}, trees)
    write(storage, NetworkBroker("b", storage, Random(1)).receive("registry", NewView(view), 0))
    again = NetworkBroker("b", storage, Random(3))
    first = again.tick(2_000)
    assert [message.to for message in sent(first, Resync)] == ["c"], "its child has to tell it what it wants"
    assert not sent(first, Announce), "and its parent is not told half of it"
    (told,) = sent(first, Positions)
    assert told.to == "r"
    # The tree does not bring anything yet: so what the root has is asked for at once.
    begun = again.receive("r", Latest("r", "store", 1, 5, 0), 2_001)
    assert not sent(begun, CatchUp)
    (question,) = sent(again.receive("r", Latest("r", "store", 1, 5, 9), 2_002), CatchUp)
    assert question.message.after == 0 and question.message.query == b"", "few are missing: all may come"
    assert sent(again.tick(2_000 + NetworkSettings().uncovered_ms), Positions), "and again soon"
    number = question.message.question
    answer = History("r", "store", 1, 5, number, 0, 9, 9 + NetworkSettings().history_few_max + 1, 0, [])
    (question,) = sent(again.receive("r", answer, 2_300), CatchUp)
    assert question.message.query, "many are missing: only those that are wanted"


def test_a_broker_with_many_subscriptions_serves_before_it_has_put_them_together() -> None:
    """Until then its parent is told nothing, and roots are asked for everything: half of it would lose documents."""
    storage = SimulatedStorage()
    settings = NetworkSettings(load_rows_max=2, history_few_max=0, history_queries_per_document=100)
    before = NetworkBroker("b", storage, Random(1), network=settings)
    turn = Turn(1)
    for number in range(5):
        before.broker.add(Subscribe(f"q{number}", f"/a[@k = '{number}']"), turn)
    write(storage, before.broker.finish(turn))
    view = View(1, {name: BrokerInfo() for name in "rb"}, {"r": {"b": "r"}})
    write(storage, before.receive("registry", NewView(view), 2))
    again = NetworkBroker("b", storage, Random(3), network=settings)
    begun = again.receive("r", Latest("r", "store", 1, 5, 9), 2_000)
    assert not sent(begun, Announce)
    (question,) = sent(begun, CatchUp)
    assert question.message.query == b""
    assert not sent([*again.tick(2_001), *again.tick(2_001)], Announce), "four of five are in the table"
    (told,) = sent(again.tick(2_002), Announce)
    assert told.message.base == 0 and len(ROUTING.decode(told.message.changes[0][0]).conjunctions) == 5
    (question,) = sent(again.tick(2_002 + settings.repair_ms), CatchUp)
    assert len(ROUTING.decode(question.message.query).conjunctions) == 5


def test_roots_are_not_sent_a_query_that_is_larger_than_what_is_missing() -> None:
    storage, settings = SimulatedStorage(), NetworkSettings(history_few_max=0, history_queries_per_document=2)
    broker = NetworkBroker("b", storage, Random(1), network=settings)
    turn = Turn(1)
    for number in range(5):
        broker.broker.add(Subscribe(f"q{number}", f"/a[@k = '{number}']"), turn)
    write(storage, broker.broker.finish(turn))
    write(storage, broker.receive("registry", NewView(View(1, {n: BrokerInfo() for n in "rb"}, {"r": {"b": "r"}})), 2))
    (question,) = sent(broker.receive("r", Latest("r", "store", 1, 5, 2), 3), CatchUp)
    assert question.message.query == b""
    broker = NetworkBroker("b", storage, Random(1), network=settings)
    broker.tick(2_000)
    (question,) = sent(broker.receive("r", Latest("r", "store", 1, 5, 3), 2_001), CatchUp)
    assert question.message.query != b""


def test_one_that_changes_meanwhile_is_put_together_at_once() -> None:
    storage, settings = SimulatedStorage(), NetworkSettings(load_rows_max=1)
    before = NetworkBroker("b", storage, Random(1), network=settings)
    turn = Turn(1)
    for number in range(3):
        before.broker.add(Subscribe(f"q{number}", f"/a[@k = '{number}']"), turn)
    write(storage, before.broker.finish(turn))
    again = NetworkBroker("b", storage, Random(3), network=settings)
    assert not again.wants.is_loaded
    turn = Turn(2)
    again.wants.remove_move("q2", turn)
    assert again.wants.is_loaded and len(ROUTING.decode(again.wants.encoded()).conjunctions) == 2


def test_rules_that_are_wanted_as_well_may_be_hidden() -> None:
    """What children want may be what generalisation has chosen too, and then be hidden by something wider."""
    settings = RoutingSettings(entries_max=6)
    texts = [f"/a/b[@k='{38 + n // 30}{n % 30:02}']" for n in range(60)]
    texts += [f"/a/b[starts-with(@k, '{start}')]" for start in ("38", "380", "381", "39", "390")] + ["/a/b"]
    pool = [each for text in texts for each in map_subscription(Subscription("", text)).conjunctions]
    for seed in range(40):
        draw, summary, held = Random(seed), Summary(settings, seed=1), list[Any]()
        for _ in range(25):
            if draw.random() < 0.6 or not held:
                added = draw.sample(pool, draw.randint(1, 20))
                summary.update(added)
                held += added
            else:
                draw.shuffle(held)
                count = draw.randint(1, len(held))
                summary.update([], held[:count])
                held = held[count:]
        assert summary.query() == summary.rebuilt()


def test_a_broker_that_lives_again_waits_for_its_children_before_it_tells_its_parent() -> None:
    place = Place("p")
    for children_answer in (True, False):
        middle = Tree("r", place, ROUTING, NetworkSettings(), Random(1), lambda: 0)
        middle.change_plan(WHOLE)
        middle.place_in("r", ["c"], lives_again=True)
        middle.flush()
        assert len(place.take(Resync)) == 1 and not place.take(Announce)
        assert not middle.is_covered(middle.version), "nothing counts before it is told"
        if children_answer:
            middle.take_announce("c", announce(1, 0, (X, NOTHING)))
            middle.flush()
        else:
            place.now_ms += NetworkSettings().announce_ms
            middle.tick()
        (message,) = place.take(Announce)
        assert message.base == 0 and (ROUTING.decode(message.changes[0][0]) == X) == children_answer
        place.take(Resync)


def test_large_announcements_wait_for_a_tick_and_questions_do_not() -> None:
    settings = NetworkSettings(announce_bytes_at_once=0, announces_waiting_max=2)
    broker = NetworkBroker("r", SimulatedStorage(), Random(1), network=settings)
    view = View(1, {name: BrokerInfo() for name in "rcd"}, {"r": {"c": "r", "d": "r"}})
    broker.receive("registry", NewView(view), 0)
    for child in "cd":
        assert not sent(broker.receive(child, announce(1, 0, (X, NOTHING)), 1), Covered)
    assert sent(broker.receive("c", CatchUp("r", 1, 1, 0), 1), History)
    assert not sent(broker.receive("c", announce(2, 1, (Y, NOTHING)), 2), Resync), "it is behind the first one"
    assert {message.to for message in sent(broker.tick(3), Covered)} == {"c"}
    assert {message.to for message in sent(broker.tick(4), Covered)} == {"d"}
    assert broker.trees["r"].children["c"].version == 2
    for version in (5, 6, 7):
        broker.receive("c", announce(version, version - 1, (X, NOTHING)), 5)
    assert not sent(broker.tick(6), Covered), "there were too many"


def test_documents_have_half_of_the_time_while_large_announcements_are_taken() -> None:
    settings = NetworkSettings(announce_bytes_at_once=0)
    broker = NetworkBroker("r", SimulatedStorage(), Random(1), network=settings)
    broker.receive("registry", NewView(View(1, {name: BrokerInfo() for name in "rcd"}, {"r": {"c": "r", "d": "r"}})), 0)
    for child in "cd":
        broker.receive(child, announce(1, 0, (X, NOTHING)), 1)
    assert sent(broker.tick(100), Covered)
    took_ms = 400
    assert not sent(broker.tick(100 + took_ms + TICK_MS), Covered), "the first one took that long"
    assert not sent(broker.tick(100 + 2 * took_ms), Covered)
    assert sent(broker.tick(100 + 2 * took_ms + TICK_MS), Covered)
