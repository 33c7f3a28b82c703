"""Messages that came together: which are one run, and that a broker does with them what it does with each alone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from treecast.errors import PeerError
from treecast.model import Subscription
from treecast.overlay.broker import Broker
from treecast.overlay.messages import Answer, Document, Hello, Publish, RegisterSource, Request, Welcome
from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.forward_runs import runs
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Announce, Covered, Forward, Parcel, Taken
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Effect, Peer, Send, Store, receive_all
from treecast.sim import SimulatedStorage
from treecast.wire import Codec

pytestmark = pytest.mark.house

ROOT, OWN, CHILD, CLIENT = "r", "o", "c", "client"


def forward(after: int, upto: int, **changes: Any) -> Forward:
    parcels = [Parcel(n, "s", "", 0, "text", b"<a n='%d'/>" % n) for n in range(after + 1, upto + 1)]
    message = Forward(ROOT, "store", 1, 7, 3, after, upto, Parcels.of(parcels).packed)
    return msgspec.structs.replace(message, **changes)


# --- which messages are a run -----------------------------------------------------------------------------------------


def test_what_continues_the_last_message_is_of_its_run() -> None:
    messages = [forward(0, 2), forward(2, 4), Taken(ROOT, 1, 9), forward(4, 6)]
    assert list(runs(messages)) == [messages[:2], messages[2], messages[3:]]
    assert list(runs([])) == []


@pytest.mark.parametrize("field", ["root", "store", "epoch", "life", "version", "after"])
def test_what_may_be_judged_differently_begins_a_run(field: str) -> None:
    first, second = forward(0, 2), forward(2, 4)
    assert list(runs([first, second])) == [[first, second]]
    value = "other" if field in ("root", "store") else getattr(second, field) + 1
    other = msgspec.structs.replace(second, **{field: value})
    assert list(runs([first, other])) == [[first], [other]]


# --- documents of several messages ------------------------------------------------------------------------------------


def test_documents_of_several_messages() -> None:
    first, second = forward(0, 3).documents, forward(3, 5).documents
    both = Parcels.read(first, second)
    assert [parcel.number for parcel in both] == [1, 2, 3, 4, 5]
    assert (both.first, both.last, both.format, len(both)) == (1, 5, "text", 5)
    # A whole message leaves as it came, and nothing of it is copied.
    assert both.after(3).packed is second
    assert [part.packed is one for (part, _), one in zip(both.parts(3, 10_000, 0), (first, second), strict=True)] == [
        True,
        True,
    ]
    # Others are written anew.
    assert [parcel.number for parcel in Parcels.read(both.after(2).packed)] == [3, 4, 5]
    assert [parcel.number for parcel in Parcels.read(both.packed)] == [1, 2, 3, 4, 5]
    some = both.having([1, 0, 1, 1, 0], 1)
    assert [parcel.number for parcel in Parcels.read(some.packed)] == [1, 3, 4]


def test_messages_without_documents_are_read_too() -> None:
    none = Parcels.of([]).packed
    assert len(Parcels.read(none, none)) == 0 and Parcels.read().first == 0
    assert [parcel.number for parcel in Parcels.read(none, forward(0, 1).documents, none)] == [1]
    with pytest.raises(PeerError) as refused:
        Parcels.read(none, msgspec.Raw(b"\xc1"))
    assert refused.value.code == "TC404"


# --- a broker ---------------------------------------------------------------------------------------------------------


class Scene:
    """A broker of a tree, whose neighbours and clients the test plays."""

    def __init__(self, name: str, parents: dict[str, str], *, is_gathering: bool, **settings: int) -> None:
        self._is_gathering = is_gathering
        self._storage = SimulatedStorage()
        network = NetworkSettings(link_formats=("binary",), **settings)  # type: ignore[arg-type]
        self.broker = NetworkBroker(name, self._storage, Random(1), network=network)
        self.sent: list[tuple[str, Any]] = []
        names = {name: BrokerInfo() for name in (ROOT, *parents)}
        self.tell("registry", NewView(View(1, names, {ROOT: parents})))

    def announce(self, query: str, *formats: str) -> None:
        """The child wants what this query says."""
        routing = PathRouting(seed=1)
        wanted = routing.map(Subscription("", query)).encode()
        self.tell(CHILD, Announce(ROOT, 1, 5, 1, 0, [(wanted, routing.empty().encode())], list(formats)))

    def tell(self, sender: str, *messages: Any) -> None:
        if self._is_gathering and len(messages) > 1:
            self._happen(receive_all(self.broker, sender, messages, 0))
        else:
            for message in messages:
                self._happen(self.broker.receive(sender, message, 0))

    def tick(self) -> None:
        self._happen(self.broker.tick(0))

    def _happen(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self._storage.write(effect.changes)
            elif isinstance(effect, Send) and effect.to == self.broker.name:
                self._happen(self.broker.receive(effect.to, effect.message, 0))
            elif isinstance(effect, Send):
                self.sent.append((effect.to, effect.message))

    def forwards(self) -> list[Forward]:
        """What went to the child."""
        return [message for to, message in self.sent if to == CHILD and isinstance(message, Forward)]

    def passed_on(self) -> list[int]:
        """Numbers of the documents that went to the child."""
        return [parcel.number for message in self.forwards() for parcel in Parcels.read(message.documents)]


def between(*, is_gathering: bool, query: str = "/a", **settings: int) -> tuple[Scene, int]:
    """A broker between its root and a child, and the version by which documents have to be chosen."""
    scene = Scene(OWN, {OWN: ROOT, CHILD: OWN}, is_gathering=is_gathering, **settings)
    scene.announce(query)
    version = [message for _, message in scene.sent if isinstance(message, Announce)][-1].version
    scene.tell(ROOT, Covered(ROOT, "store", 1, 7, scene.broker.life, version, 0))
    return scene, version


@pytest.mark.parametrize(("query", "wanted"), [("/a", list(range(1, 10))), ("/a[@n='2']", [2])])
def test_a_run_is_passed_on_as_its_messages_one_by_one(query: str, wanted: list[int]) -> None:
    for is_gathering in (True, False):
        scene, version = between(is_gathering=is_gathering, query=query)
        messages = [forward(n, n + 3, version=version) for n in (0, 3, 6)]
        scene.tell(ROOT, *messages, Taken("q", 1, 1))
        assert scene.passed_on() == wanted
        assert (scene.broker.forwarded, scene.broker.positions.number(ROOT)) == (9, 9)


@pytest.mark.parametrize(("window", "told"), [(4 << 20, [3]), (4 * 2 * 30, [1, 2, 3])])
def test_a_parent_is_told_of_room_now_and_then(window: int, told: list[int]) -> None:
    """Not for each message, but for each that is a quarter of what may be on its way; and with the next tick."""
    scene, version = between(is_gathering=False, link_window_bytes=window)
    large = Parcels.of([Parcel(n, "s", "", 0, "text", b"<a>" + b"x" * 60 + b"</a>") for n in (1, 2, 3)])
    for number in (1, 2, 3):
        documents = large.after(number - 1).having([1] + [0] * (3 - number), 1).packed
        scene.tell(ROOT, msgspec.structs.replace(forward(number - 1, number, version=version), documents=documents))
    scene.tick()
    assert [message.upto for to, message in scene.sent if to == ROOT and isinstance(message, Taken)] == told


def test_a_message_that_cannot_be_read_spoils_no_other() -> None:
    for is_gathering in (True, False):
        scene, version = between(is_gathering=is_gathering)
        messages = [forward(n, n + 3, version=version) for n in (0, 3, 6)]
        broken = Parcels.of([Parcel(n, "s", "", 0, "binary", b"\x01broken") for n in (4, 5, 6)]).packed
        messages[1] = msgspec.structs.replace(messages[1], documents=broken)
        scene.tell(ROOT, *messages)
        assert scene.broker.misread == 1
        assert scene.passed_on() == [1, 2, 3, 7, 8, 9]


def test_requests_that_came_together_go_down_the_tree_as_one_range() -> None:
    texts = [[b"<a n='1'/>", b"<b/>"], [b"<a n='2'/>"], [b"<c/>", b"<a>"], [b"<a n='3'/>"]]
    for is_gathering in (True, False):
        scene = Scene(ROOT, {CHILD: ROOT}, is_gathering=is_gathering)
        scene.announce("/a[@n]", "binary")
        scene.tell(CLIENT, Hello(CLIENT, nonce=1))
        lease = next(message.lease for _, message in scene.sent if isinstance(message, Welcome))
        scene.tell(CLIENT, Request(1, RegisterSource("s"), lease))
        requests = [Request(2 + at, Publish("s", list(map(Document, some))), lease) for at, some in enumerate(texts)]
        scene.tell(CLIENT, *requests)
        found = [Parcels.read(message.documents) for message in scene.forwards()]
        bodies = [Codec("binary").decode(parcel.body).data for parcels in found for parcel in parcels]
        assert bodies == [b"<a n='1'/>", b"<a n='2'/>", b"<a n='3'/>"]
        assert len(found) == (1 if is_gathering else 3)
        assert scene.forwards()[-1].upto == 5, "one of six was refused"


# --- clients ----------------------------------------------------------------------------------------------------------


def start_broker() -> tuple[Broker, SimulatedStorage, int]:
    storage = SimulatedStorage()
    broker = Broker("b", storage, Random(1))
    (welcome,) = [
        effect.message
        for effect in broker.receive(CLIENT, Hello(CLIENT, nonce=1), 0)
        if isinstance(effect, Send) and isinstance(effect.message, Welcome)
    ]
    broker.receive(CLIENT, Request(1, RegisterSource("s"), welcome.lease), 0)
    return broker, storage, welcome.lease


def test_requests_that_came_together_are_one_group_of_changes() -> None:
    broker, _, lease = start_broker()
    requests = [Request(n, Publish("s", [Document(b"<a/>")]), lease) for n in (2, 3, 4)]
    effects = receive_all(broker, CLIENT, [*requests, requests[0]], 0)
    assert sum(isinstance(effect, Store) for effect in effects) == 1
    answers = [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Answer)]
    # In order, each once; the repeated one is answered as it was.
    assert [(answer.number, answer.documents) for answer in answers] == [(2, [1]), (3, [2]), (4, [3]), (2, [1])]


def test_a_peer_that_gathers_nothing_gets_messages_one_by_one() -> None:
    class Plain:
        name = "p"

        def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
            return [Send(sender, message)]

        def tick(self, now_ms: int) -> list[Effect]:
            return []

    peer: Peer = Plain()
    assert receive_all(peer, "q", [1, 2], 0) == [Send("q", 1), Send("q", 2)]
    assert receive_all(peer, "q", [], 0) == []
