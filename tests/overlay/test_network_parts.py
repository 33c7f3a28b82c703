"""The parts of a network broker, each by itself: links, repairs, positions, trees."""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import msgspec
import pytest
from support.lone_tree import NOTHING, ROUTING, Place, X, Y, announce, covered, tree

from treecast.document import read
from treecast.overlay.broker.rows import DOCUMENTS, DocumentRow, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import (
    Answer,
    Command,
    Document,
    Hello,
    Publish,
    RegisterSource,
    RemoveSource,
    Request,
    Subscribe,
    Welcome,
)
from treecast.overlay.onyx.control_messages import Broadcast, CatalogDelta, CatalogEntry, NewView
from treecast.overlay.onyx.early_plan import WHOLE
from treecast.overlay.onyx.link import Link
from treecast.overlay.onyx.link_formats import Arrival
from treecast.overlay.onyx.network_broker import Gone, NetworkBroker
from treecast.overlay.onyx.network_messages import (
    Announce,
    CatchUp,
    Covered,
    Forward,
    History,
    Latest,
    Parcel,
    Resync,
)
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.positions import POSITIONS, Positions
from treecast.overlay.onyx.repair import Repair
from treecast.overlay.onyx.routing import Delta
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.storage import Put, one_by_one
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


def parcel(number: int, body: bytes = b"<x/>") -> Parcel:
    return Parcel(number, "s", "", 0, "text", body)


def arrival(number: int, body: bytes = b"<x/>") -> Arrival:
    return Arrival(parcel(number, body), read(body))


def summary(version: int, after: int, upto: int, parcels: Parcels) -> tuple[int, int, list[int]]:
    return after, upto, [one.number for one in parcels]


def link(**settings: Any) -> Link:
    made = Link(NetworkSettings(**settings), summary)
    made.begin(version=1, since=0)
    return made


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_link_claims_what_concerns_nobody_with_the_next_message() -> None:
    one = link()
    one.offer(0, 3, Parcels.of([]), 0)
    assert one.take_ready() == []
    one.offer(3, 4, Parcels.of([parcel(4)]), 0)
    assert one.take_ready() == [(0, 4, [4])]
    one.offer(4, 6, Parcels.of([]), 10)
    one.tick(500)
    assert one.take_ready() == []
    one.tick(1_000)
    assert one.take_ready() == [(4, 6, [])], "nothing else came for a while"


def test_a_gap_stays_a_gap_and_what_was_claimed_is_not_sent_again() -> None:
    one = link()
    one.offer(0, 2, Parcels.of([parcel(1), parcel(2)]), 0)
    one.offer(5, 7, Parcels.of([parcel(6)]), 0)
    one.offer(4, 8, Parcels.of([parcel(5), parcel(6), parcel(8)]), 0)
    assert one.take_ready() == [(0, 2, [1, 2]), (5, 7, [6]), (7, 8, [8])]


def test_messages_have_limits() -> None:
    one = link(forward_documents_max=2)
    one.offer(0, 6, Parcels.of([parcel(number) for number in (1, 2, 3, 5)]), 0)
    assert one.take_ready() == [(0, 2, [1, 2]), (2, 6, [3, 5])]
    one = link(forward_bytes_max=1)
    one.offer(0, 2, Parcels.of([parcel(1), parcel(2)]), 0)
    assert one.take_ready() == [(0, 1, [1]), (1, 2, [2])]


def test_a_window_holds_back_and_a_full_buffer_cuts_the_link() -> None:
    one = link(link_window_bytes=1, link_buffer_bytes_max=100)
    for number in (1, 2):
        one.offer(number - 1, number, Parcels.of([parcel(number)]), 0)
    assert one.take_ready() == [(0, 1, [1])] and one.buffered_bytes() == 136
    one.offer(2, 3, Parcels.of([parcel(3)]), 0)
    assert one.cuts == 1 and one.buffered_bytes() == 68, "2 and 3 are given up"
    one.taken(1, 0)
    one.offer(3, 4, Parcels.of([parcel(4)]), 0)
    assert one.take_ready() == [(3, 4, [4])], "the child sees the gap"


def test_what_waits_does_not_keep_the_rest_of_its_message() -> None:
    one = link(link_window_bytes=1)
    one.offer(0, 1, Parcels.of([parcel(1)]), 0)
    message = msgspec.msgpack.encode([parcel(number, b"x" * 1_000) for number in range(2, 12)])
    before = sys.getrefcount(message)
    one.offer(1, 11, Parcels.read(msgspec.Raw(message)).having([1] + [0] * 9, 1), 0)
    assert one.buffered_bytes() > 0 and sys.getrefcount(message) == before


def test_what_is_never_taken_counts_as_lost() -> None:
    one = link(link_window_bytes=1, link_stall_ms=100)
    one.offer(0, 1, Parcels.of([parcel(1)]), 0)
    one.offer(1, 2, Parcels.of([parcel(2)]), 0)
    one.tick(50)
    assert one.take_ready() == [(0, 1, [1])]
    one.tick(100)
    assert one.take_ready() == [(1, 2, [2])]


def test_nothing_is_claimed_before_the_child_is_covered() -> None:
    one = Link(NetworkSettings(), summary)
    one.offer(0, 1, Parcels.of([parcel(1)]), 0)
    one.tick(10_000)
    assert one.take_ready() == []


# --- repairs and positions --------------------------------------------------------------------------------------------


def test_a_root_is_asked_when_patience_ends() -> None:
    repair = Repair(NetworkSettings(patience_ms=100), Random(1))
    repair.hear_of(9, position=4, now_ms=0)
    repair.watch(4, 50)
    assert not repair.next_question(4, 1, 1, 50)
    repair.watch(6, 120)
    assert not repair.next_question(6, 1, 1, 120), "the tree brings it"
    repair.watch(6, 220)
    assert repair.next_question(6, 1, 1, 220)


def test_an_answer_without_a_subscription_that_counts_by_now_is_dropped() -> None:
    repair = Repair(NetworkSettings(), Random(1))
    repair.want(9)
    question = repair.next_question(4, version=1, needed=1, now_ms=0)
    assert not repair.is_answer(question, needed=2)
    question = repair.next_question(4, version=3, needed=2, now_ms=0)
    assert repair.is_answer(question, needed=3), "it was asked for already"


def test_early_ranges_are_taken_in_order_within_their_limit() -> None:
    repair = Repair(NetworkSettings(early_bytes_max=300), Random(1))
    first = [arrival(7)]
    repair.keep(6, 7, first)
    repair.keep(7, 8, [arrival(8)])
    assert repair.take_early(5) is None
    assert repair.take_early(6) == (7, first)
    assert repair.take_early(8) is None and repair.early_bytes == 0, "it is of no use any more"
    for number in range(10, 20):
        repair.keep(number, number + 1, [arrival(number + 1)])
    assert 0 < repair.early_bytes <= 300 and repair.is_needed(19)


def test_positions_only_advance() -> None:
    positions = Positions([])
    positions.begin("r", "store", 5)
    positions.advance("r", 3)
    assert positions.number("r") == 5 and positions.store_of("r") == "store"
    positions.advance("r", 8)
    turn = Turn(0)
    positions.store(turn)
    (put,) = turn.changes
    assert Positions([("r", put.value)]).number("r") == 8 and put.table == POSITIONS  # type: ignore[union-attr]
    assert not positions.has_changed()


# --- trees ------------------------------------------------------------------------------------------------------------


def forward(after: int, upto: int, *parcels: Parcel, version: int = 1, life: int = 7) -> Forward:
    return Forward("r", "store", 1, life, version, after, upto, Parcels.of(parcels).packed)


def test_a_root_covers_at_once() -> None:
    place = Place("r")
    root = tree(place, "r", None, "c")
    place.last = 4
    root.take_announce("c", announce(1, 0, (X, NOTHING)))
    (answer,) = place.take(Covered)
    assert (answer.version, answer.since, answer.announcer) == (1, 4, 5)
    root.pass_on(4, 6, [arrival(5), arrival(6, b"<y/>")])
    (message,) = place.take(Forward)
    assert [one.number for one in Parcels.read(message.documents)] == [5] and (message.after, message.upto) == (4, 6)


def test_a_child_is_covered_when_its_parent_is() -> None:
    place = Place("p")
    middle = tree(place, "r", "r", "c")
    first = place.take(Announce)[0].version
    middle.take_announce("c", announce(1, 0, (X, NOTHING)))
    middle.flush()
    (further,) = place.take(Announce)
    assert (further.base, further.version) == (first, first + 1) and not place.take(Covered)
    assert middle.take_covered("r", covered(first, 3)) and not place.take(Covered), "that was before the child"
    assert middle.take_covered("r", covered(first + 1, 5))
    (answer,) = place.take(Covered)
    assert (answer.version, answer.since) == (1, 5)


def test_what_the_aggregate_contains_is_covered_at_once() -> None:
    place = Place("p")
    middle = tree(place, "r", "r", "c")
    middle.change_local(Delta(X, NOTHING))
    middle.change_plan(WHOLE)
    middle.flush()
    middle.take_covered("r", covered(middle.version, 3))
    begin = middle.accept("r", forward(3, 8, version=middle.version))
    assert begin == 3
    middle.pass_on(3, 8, [])
    middle.take_announce("c", announce(1, 0, (X, NOTHING)))
    (answer,) = place.take(Covered)
    assert answer.since == 8, "what was passed on before is not in it"


def test_ranges_are_taken_from_the_covering_parent_only() -> None:
    place = Place("p")
    leaf = tree(place, "r", "r")
    version = leaf.version
    assert leaf.accept("r", forward(0, 4, version=version)) is None, "not covered"
    leaf.take_covered("r", covered(version, 3))
    assert leaf.accept("q", forward(0, 4, version=version)) is None, "not the parent"
    assert leaf.accept("r", forward(0, 4, version=version - 1)) is None, "chosen by an old query"
    assert leaf.accept("r", forward(0, 3, version=version)) is None, "before it was covered"
    assert leaf.accept("r", forward(0, 4, version=version)) == 3
    assert leaf.accept("r", forward(3, 4, version=version, life=8)) is None, "the parent lives again"
    (again,) = place.take(Announce)[-1:]
    assert again.base == 0 and not leaf.is_covered()


def test_a_new_parent_is_told_everything() -> None:
    place = Place("p")
    leaf = tree(place, "r", "r")
    leaf.change_local(Delta(X, NOTHING))
    leaf.flush()
    leaf.take_covered("r", covered(leaf.version, 3))
    place.take(Announce)
    leaf.place_in("q", ())
    (message,) = place.take(Announce)
    assert message.base == 0 and ROUTING.decode(message.changes[0][0]) == X
    assert not leaf.is_covered() and not leaf.take_covered("r", covered(leaf.version, 9))


def test_what_makes_no_sense_is_asked_for_again() -> None:
    place = Place("r")
    root = tree(place, "r", None, "c")
    root.take_announce("c", announce(3, 2, (X, NOTHING)))
    assert len(place.take(Resync)) == 1, "the base is not known"
    root.take_announce("c", announce(1, 0, (X, NOTHING)))
    root.take_announce("c", announce(2, 1, (NOTHING, Y)))
    assert root.misunderstood == 1 and not root.children
    place.take(Covered)
    place.now_ms = 1_000
    root.tick()
    assert len(place.take(Resync)) == 1
    root.take_announce("stranger", announce(1, 0, (X, NOTHING)))
    assert not root.children


def test_a_late_announcement_changes_nothing() -> None:
    place = Place("r")
    root = tree(place, "r", None, "c")
    root.take_announce("c", announce(1, 0, (X, NOTHING)))
    root.take_announce("c", announce(2, 1, (Y, NOTHING)))
    for late in (announce(1, 0, (X, NOTHING)), announce(9, 0, (X, NOTHING), life=4)):
        root.take_announce("c", late)
    assert len(root.table.collect("c")) == 2 and root.children["c"].version == 2  # type: ignore[attr-defined]


def test_strangers_are_not_heard() -> None:
    broker = NetworkBroker("r", SimulatedStorage(), Random(1))
    broker.receive("registry", NewView(View(1, {"r": BrokerInfo(), "c": BrokerInfo()}, {"r": {"c": "r"}})), 0)
    question = CatchUp("r", 1, 1, 0)

    def answers(sender: str) -> int:
        effects = broker.receive(sender, question, 0)
        return sum(isinstance(effect, Send) and isinstance(effect.message, History) for effect in effects)

    assert answers("c") == 1 and answers("stranger") == 0


def test_what_a_root_did_not_keep_is_said_to_be_gone() -> None:
    """A broker that was away for too long: it goes on behind the gap, and says so."""
    broker = NetworkBroker("c", SimulatedStorage(), Random(1))
    broker.receive("client", Request(1, Subscribe("q", "/x")), 0)
    view = View(1, {"r": BrokerInfo(), "c": BrokerInfo()}, {"r": {"c": "r"}})
    (announced,) = sent(broker.receive("registry", NewView(view), 0), Announce)
    asked = sent(broker.receive("r", Covered("r", "store", 1, 7, broker.life, announced.version, 9), 0), CatchUp)
    assert not asked and broker.positions.number("r") == 9, "without subscriptions it need not have what was before"
    assert len(broker.index) == 1, "now it is covered"
    broker.receive("r", Latest("r", "store", 1, 7, 20), 0)
    (question,) = sent(broker.tick(1_000), CatchUp)
    assert question.after == 9
    history = History("r", "store", 1, 7, question.question, 9, 20, 20, 15, [parcel(18)])
    events = [effect.event for effect in broker.receive("r", history, 1_000) if isinstance(effect, Deliver)]
    assert events == [Gone("r", 9, 15)] and broker.gone == 6
    assert broker.positions.number("r") == 20 and broker.broker.last_document == 1


def test_a_subscription_waits_for_what_the_tree_brought_before_it() -> None:
    """It was chosen without the new query: here the child has wanted the same for long, so nobody has to be asked."""
    broker = NetworkBroker("p", SimulatedStorage(), Random(1))
    view = View(1, {name: BrokerInfo() for name in "rpc"}, {"r": {"p": "r", "c": "p"}})
    broker.receive("registry", NewView(view), 0)
    (announced,) = sent(broker.receive("c", announce(1, 0, (X, NOTHING)), 0), Announce)
    broker.receive("r", Covered("r", "store", 1, 7, broker.life, announced.version, 3), 0)
    early = forward(6, 8, parcel(7), version=announced.version)
    (question,) = sent(broker.receive("r", early, 0), CatchUp)
    broker.receive("client", Request(1, Subscribe("q", "/x")), 0)
    assert broker.stats()["held"] == 1, "7 is here already, and was chosen without it"
    broker.receive("r", History("r", "store", 1, 7, question.question, 3, 6, 8, 0), 0)
    assert broker.positions.number("r") == 8 and len(broker.index) == 1


def test_documents_that_come_before_anything_is_covered_are_those_of_their_root() -> None:
    storage = SimulatedStorage()
    broker = NetworkBroker("c", storage, Random(1))
    broker.receive("registry", NewView(View(1, {"c": BrokerInfo()}, {})), 0)
    broker.receive("client", Request(1, Subscribe("q", "/x")), 0)
    both = {"r": BrokerInfo(), "c": BrokerInfo()}
    broker.receive("registry", NewView(View(2, both, {"r": {"c": "r"}})), 0)
    broker.receive("r", forward(0, 1, parcel(1)), 0)
    (question,) = sent(broker.tick(1_000), CatchUp)
    broker.receive("r", History("r", "", 2, 7, question.question, 0, 1, 1, 0, [parcel(1)]), 1_000)
    assert not broker.positions.is_known("r"), "nobody says whose it is"
    effects = broker.receive("r", History("r", "store", 2, 7, question.question, 0, 1, 1, 0, [parcel(1)]), 1_000)
    changes = [change for effect in effects if isinstance(effect, Store) for change in one_by_one(effect.changes)]
    (row,) = [decode(c.value, DocumentRow) for c in changes if isinstance(c, Put) and c.table == DOCUMENTS]
    assert (row.origin, row.origin_number) == ("store", 1) and broker.positions.store_of("r") == "store"


def test_an_impatient_client_waits_on_where_it_was() -> None:
    """It begins anew and asks again, sooner than the network answers: what it asks for stays announced meanwhile."""
    broker = NetworkBroker("c", SimulatedStorage(), Random(1), network=NetworkSettings(cover_ms_max=500))
    view = View(1, {"r": BrokerInfo(), "c": BrokerInfo()}, {"r": {"c": "r"}})
    first = sent(broker.receive("registry", NewView(view), 0), Announce)[0].version

    def begin(now_ms: int) -> int:
        (welcome,) = sent(broker.receive("client", Hello("client", nonce=now_ms + 1), now_ms), Welcome)
        return int(welcome.lease)

    def ask(lease: int, query: str, now_ms: int) -> list[Any]:
        return sent(broker.receive("client", Request(1, Subscribe("q", query), lease), now_ms), Announce)

    (announced,) = ask(begin(0), "/x", 0)
    again = begin(100)
    assert announced.version == first + 1 and not ask(again, "/x", 100), "nothing has changed"
    broker.receive("r", Covered("r", "store", 1, 7, broker.life, announced.version, 0), 110)
    assert len(broker.index) == 1 and broker.stats()["held"] == 0


def test_what_a_client_does_not_ask_for_again_is_forgotten() -> None:
    broker = NetworkBroker("c", SimulatedStorage(), Random(1), network=NetworkSettings(cover_ms_max=500))
    view = View(1, {"r": BrokerInfo(), "c": BrokerInfo()}, {"r": {"c": "r"}})
    broker.receive("registry", NewView(view), 0)
    broker.receive("client", Request(1, Subscribe("q", "/x")), 0)
    broker.receive("client", Hello("client", nonce=1), 10)
    assert broker.stats()["held"] == 1
    broker.receive("client", Request(1, Subscribe("q", "/y"), 1), 20)
    assert broker.stats()["held"] == 1 and broker.trees["r"].table.aggregate().encode() == Y.encode()
    broker.receive("client", Hello("client", nonce=2), 30)
    broker.tick(600)
    assert broker.stats()["held"] == 0 and broker.trees["r"].table.aggregate().encode() == NOTHING.encode()


def test_documents_of_a_source_that_has_no_tree_are_refused() -> None:
    """Once they were accepted, acknowledged, and went nowhere: whoever registers a source at a broker goes round the
    registry, which makes the trees."""
    broker = NetworkBroker("c", SimulatedStorage(), Random(1), registries=("registry",))
    view = View(1, {"c": BrokerInfo()}, {"c": {}})
    broker.receive("registry", NewView(view), 0)
    numbers = iter(range(1, 10))

    def codes(command: Command) -> list[str]:
        (answer,) = sent(broker.receive("client", Request(next(numbers), command), 0), Answer)
        return [refusal.code for refusal in answer.refusals]

    def change(version: int, root: str) -> None:
        delta = CatalogDelta(version - 1, version, [CatalogEntry("news", root, 7)])
        broker.receive("registry", Broadcast("c", 1, version, delta), 0)

    news = Publish("news", [Document(b"<a/>")])
    assert codes(RegisterSource("news")) == codes(RemoveSource("news")) == ["TC480"]
    assert codes(news) == ["TC410"]
    change(1, "c")
    assert codes(news) == []
    change(2, "")
    assert codes(news) == ["TC410"], "it was removed"
    change(3, "b")
    assert codes(news) == ["TC471"]


def sent(effects: list[Effect], kind: type) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]
