"""What travels on links: formats agreed on by link, dictionaries, one payload for many, and links served first."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.peer_network import PeerNetwork

from treecast.document import Document, read
from treecast.errors import PeerError
from treecast.index import Index
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import Document as PublishedDocument
from treecast.overlay.messages import Publish, RegisterSource, Request, Subscribe
from treecast.overlay.onyx import network_broker
from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.link import Link
from treecast.overlay.onyx.link_formats import Arrival, LinkFormats
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import (
    Announce,
    CatchUp,
    Covered,
    DictionaryKnown,
    Forward,
    History,
    LinkDictionary,
    Parcel,
)
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.publication import prepare
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.packets import packet_of
from treecast.overlay.peer import Send, Store
from treecast.wire import FORMATS, Codec

pytestmark = pytest.mark.house

NEWS = b'<news kind="a"><item area="SF">%d</item></news>'


class Chain(PeerNetwork):
    """Three brokers: a, then b, then c. Documents are published at a."""

    def __init__(self, **settings: NetworkSettings) -> None:
        super().__init__()
        self.number = 0
        for name in "abc":
            self.add(name, self._factory(name, settings.get(name, NetworkSettings())))
        self.view = View(1, {name: BrokerInfo() for name in "abc"}, {"a": {"b": "a", "c": "b"}})
        for name in "abc":
            self.tell("registry", name, NewView(self.view))

    def _factory(self, name: str, settings: NetworkSettings) -> Callable[..., NetworkBroker]:
        def make(storage: Any, random: Random) -> NetworkBroker:
            return NetworkBroker(name, storage, random, BrokerSettings(announces=True), settings)

        return make

    def subscribe(self, broker: str, id: str, query: str = "//item") -> None:
        self.tell(f"client of {id}", broker, Request(1, Subscribe(id, query)))
        assert id in self.peers[broker].index

    def publish(self, count: int, body: bytes = NEWS) -> list[bytes]:
        if not self.number:
            self.tell("publisher", "a", Request(1, RegisterSource("s")))
        self.number += 1
        bodies = [body.replace(b"%d", b"%d" % (self.number * 1000 + n)) for n in range(count)]
        command = Publish("s", [PublishedDocument(each) for each in bodies])
        self.tell("publisher", "a", Request(self.number + 1, command))
        return bodies

    def got(self, broker: str) -> list[bytes]:
        """Payloads that subscribers of a broker get."""
        return [payload for e in self.events[broker] if isinstance(e, Published) for payload in e.payloads]

    def messages(self, kind: type, to: str) -> list[Any]:
        return [message for _, receiver, message in self.sent if receiver == to and isinstance(message, kind)]

    def formats(self, to: str) -> list[str]:
        return [parcel.format for parcel in self.forwarded(to)]

    def forwarded(self, to: str) -> list[Parcel]:
        return [parcel for message in self.messages(Forward, to) for parcel in Parcels.read(message.documents)]


def wishing(*names: str, **more: Any) -> NetworkSettings:
    return NetworkSettings(link_formats=names, **more)


# --- agreeing ------------------------------------------------------------------------------------------------------


def test_each_link_has_the_first_format_of_its_sender_that_its_receiver_reads() -> None:
    chain = Chain(
        a=wishing("binary-zstd", "binary"),
        b=wishing("text-zlib", link_reads=("text", "binary", "text-zlib")),
        c=NetworkSettings(link_reads=("binary",)),
    )
    chain.subscribe("b", "q")
    chain.subscribe("c", "r")
    bodies = chain.publish(3)
    assert chain.formats("b") == ["binary"] * 3 and chain.formats("c") == ["text"] * 3
    assert chain.got("b") == chain.got("c") == bodies
    (announced, *_) = chain.messages(Announce, "a")
    assert announced.formats == ["text", "binary", "text-zlib"]
    assert {message.format for message in chain.messages(Covered, "b")} == {"binary"}


def test_a_broker_that_says_nothing_of_formats_gets_text_and_unknown_names_are_passed_over() -> None:
    formats = LinkFormats(NetworkSettings())
    assert formats.choose([], 0) == "text" and formats.choose(["brotli", "binary"], 0) == "binary"
    with pytest.raises(ValueError, match="TC486"):
        NetworkSettings(link_formats=("brotli",))


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith("dictionary")])
def test_deliveries_are_the_same_in_every_format(name: str) -> None:
    chain = Chain(a=wishing(name), b=wishing("binary"), c=NetworkSettings())
    chain.subscribe("c", "q", "for $x in //item return <i>{$x}</i>")
    chain.subscribe("b", "r")
    bodies = chain.publish(
        2, b'<?xml version="1.0"?>\n<n:news xmlns:n="u" k=\'1\'><item>&lt;%d</item><!-- --></n:news>'
    )
    assert chain.formats("b") == [name] * 2 and chain.got("b") == bodies
    assert [payload[:3] for payload in chain.got("c")] == [b"<i>"] * 2


def test_the_header_of_a_packet_names_flow_root_and_format() -> None:
    parcel = Parcel(1, "s", "", 0, "binary", b"")
    forward = packet_of(Forward("a", "store", 1, 1, 1, 0, 1, Parcels.of([parcel]).packed), root="b")
    history = packet_of(History("a", "store", 1, 1, 1, 0, 1, 1, 0, [parcel]), root="b")
    for packet in (forward, history):
        assert (packet.flow, packet.root, packet.format) == ("message", "a", "binary")


def test_a_message_has_one_format() -> None:
    made: list[list[str]] = []
    link = Link(NetworkSettings(), lambda v, after, upto, parcels: made.append([p.format for p in parcels]))
    link.begin(version=1, since=0)
    formats = ["binary", "text", "text"]
    link.offer(0, 3, Parcels.of([Parcel(n, "s", "", 0, name, b"") for n, name in enumerate(formats, 1)]), 0)
    assert made == [["binary"], ["text", "text"]]


def test_what_the_root_is_asked_for_comes_in_a_format_that_the_asker_reads() -> None:
    chain = Chain(a=wishing("dictionary-zstd"), c=NetworkSettings(link_reads=("binary-zstd",)))
    chain.subscribe("c", "q")
    chain.cut = {("b", "c")}
    bodies = chain.publish(2)
    chain.run(3_000)
    (asked, *_) = [m for m in chain.messages(CatchUp, "a") if m.formats == ["binary-zstd"]]
    assert asked.after == 0 and chain.got("c") == bodies
    answers = [parcel.format for message in chain.messages(History, "c") for parcel in message.documents]
    assert set(answers) == {"binary-zstd"}


# --- read once, passed on as it came --------------------------------------------------------------------------------


def test_a_document_is_read_once_and_leaves_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain()
    chain.subscribe("b", "q")
    chain.subscribe("c", "r")
    encoded: list[int] = []
    publish = Index.render_published

    def counting(index: Index, texts: list[bytes], *more: Any) -> Any:
        encoded.append(len(texts))
        return publish(index, texts, *more)

    monkeypatch.setattr(Index, "render_published", counting)
    monkeypatch.setattr(Codec, "encode_many", None)
    bodies = chain.publish(4)
    assert encoded == [4], "by the root; the others pass on what came"
    assert chain.got("b") == chain.got("c") == bodies
    (first,), (second,) = chain.messages(Forward, "b"), chain.messages(Forward, "c")
    assert list(Parcels.read(first.documents)) == list(Parcels.read(second.documents))


@pytest.mark.parametrize("format", ["text", "binary-zlib"])
def test_links_that_need_more_are_served_as_before(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "render_published", None)
    chain = Chain(a=wishing(format))
    chain.subscribe("b", "q")
    assert chain.publish(3) == chain.got("b")


def test_what_was_prepared_for_other_links_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain()
    chain.subscribe("b", "q")

    def stale(*given: Any) -> object:
        made = prepare(*given)
        assert made is not None
        return made[0], made[1]._replace(links=["another"])

    monkeypatch.setattr(network_broker, "prepare", stale)
    assert chain.publish(3) == chain.got("b")
    assert chain.formats("b") == ["binary"] * 3


def test_matching_and_rendering_take_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain()
    chain.subscribe("b", "q")
    given: list[type] = []
    index = chain.peers["b"].index
    render = index.render_columns

    def noting(documents: list[Any], **more: Any) -> Any:
        given.extend(map(type, documents))
        return render(documents, **more)

    monkeypatch.setattr(index, "render_columns", noting)
    chain.publish(3)
    assert given == [Document] * 3 and len(chain.got("b")) == 3


def test_one_payload_for_many_subscribers() -> None:
    chain = Chain()
    for number in range(5):
        chain.subscribe("c", f"q{number}", f"//item[. != '{number}']")
    bodies = chain.publish(2)
    assert sorted(chain.got("c")) == sorted(bodies * 5)
    for receiver in "bc":
        sent = [parcel.number for parcel in chain.forwarded(receiver)]
        assert sent == [1, 2], "each document crosses a link once"


# --- dictionaries --------------------------------------------------------------------------------------------------

LEARNING = wishing("dictionary", dictionary_documents=4)


def test_a_root_learns_a_dictionary_which_all_links_use() -> None:
    chain = Chain(a=LEARNING, b=LEARNING)
    chain.subscribe("c", "q")
    first = chain.publish(4)
    second = chain.publish(2)
    assert chain.formats("b")[:4] == ["binary"] * 4, "nobody has it yet"
    (name, _) = chain.formats("c")[4:]
    assert name.startswith("dictionary:") and chain.formats("b")[4:] == [name, name]
    assert chain.got("c") == first + second
    sizes = [len(parcel.body) for parcel in chain.forwarded("c")]
    assert max(sizes[4:]) < min(sizes[:4])
    known = chain.peers["c"].trees["a"].formats.dictionary
    assert known is not None and known.fingerprint == int(name.partition(":")[2], 16)


def test_a_dictionary_that_did_not_arrive_is_told_again() -> None:
    chain = Chain(a=LEARNING)
    chain.subscribe("b", "q")
    chain.cut = {("a", "b")}
    chain.publish(4)
    assert chain.messages(LinkDictionary, "b") and chain.peers["b"].trees["a"].formats.dictionary is None
    chain.cut = set()
    chain.run(2_000)
    bodies = chain.publish(1)
    assert chain.formats("b")[-1].startswith("dictionary:") and chain.got("b")[-1:] == bodies


def test_a_broker_that_has_lost_its_dictionary_is_told_it_again() -> None:
    chain = Chain(a=LEARNING)
    chain.subscribe("b", "q")
    chain.publish(4)
    chain.start("b")
    chain.tell("registry", "b", NewView(chain.view))
    chain.tell("registry", "b", NewView(chain.view))
    chain.run(1_000)
    bodies = chain.publish(2)
    assert chain.formats("b")[-1].startswith("dictionary:") and chain.got("b")[-2:] == bodies
    late = DictionaryKnown("a", 1, 1, 77)  # of a life before
    chain.tell("b", "a", late)
    assert chain.peers["a"].trees["a"].children["b"].dictionary != 77


def test_dictionaries_are_bounded_and_older_ones_forgotten() -> None:
    formats = LinkFormats(NetworkSettings(link_formats=("dictionary",), dictionaries_max=1, dictionary_documents=2))
    arrivals = [Arrival(Parcel(n, "s", "", 0, "text", NEWS), read(NEWS)) for n in range(1, 3)]
    assert formats.learn(arrivals, root_life=5) and formats.dictionary is not None
    old = formats.dictionary
    (sent, _) = formats.write(arrivals, formats.choose(["dictionary"], old.fingerprint))
    assert formats.read([sent])[0].body == NEWS
    assert formats.learn(arrivals, root_life=5) and not formats.learn(arrivals, root_life=5), "twice, not more"
    assert not formats.adopt(old, root_life=4), "it is from before"
    newer = LinkFormats(NetworkSettings())
    with pytest.raises(PeerError, match="TC487"):
        newer.read([sent])


def test_a_codec_has_one_name() -> None:
    """Others could be sent in any number, and each would be remembered."""
    formats = LinkFormats(NetworkSettings(link_formats=("dictionary",), dictionary_documents=2))
    formats.learn([Arrival(Parcel(n, "s", "", 0, "text", NEWS), read(NEWS)) for n in range(1, 3)], root_life=5)
    assert formats.dictionary is not None
    name = f"{formats.dictionary.fingerprint:08x}"
    assert formats.codec(f"dictionary:{name}") is formats.codec(f"dictionary:{name}")
    for other in (*(f"dictionary:{more}{name}" for more in ("0x", "0", " ")), "text:1", "binary:", "binary:2"):
        with pytest.raises(PeerError, match=r"TC48[67]"):
            formats.codec(other)


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parcel", [("brotli", b"1"), ("binary", b"nonsense"), ("dictionary:00000001", b"\2\1\0\0\0")])
def test_what_cannot_be_read_is_asked_for_as_text(parcel: tuple[str, bytes]) -> None:
    chain = Chain()
    chain.subscribe("b", "q")
    chain.cut = {("a", "b")}
    bodies = chain.publish(1)
    (sent,) = chain.messages(Forward, "b")
    (good,) = Parcels.read(sent.documents)
    wrong = Parcel(good.number, good.source, good.id, good.published_ms, *parcel)
    chain.cut = set()
    fields = (sent.root, sent.store, sent.epoch, sent.life, sent.version, sent.after, sent.upto)
    chain.tell("a", "b", Forward(*fields, Parcels.of([wrong]).packed))
    assert chain.peers["b"].misread == 1
    asked = chain.messages(CatchUp, "a")[-1]
    assert asked.formats == [] and chain.got("b") == bodies


# --- links first -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_links_are_served_before_the_own_subscribers(first: bool) -> None:
    chain = Chain(b=NetworkSettings(routes_first=first))
    chain.subscribe("b", "q")
    chain.subscribe("c", "r")
    broker = chain.peers["b"]
    chain.cut = {("a", "b")}
    bodies = chain.publish(2)
    (message,) = chain.messages(Forward, "b")
    effects = broker.receive("a", message, chain.now_ms)
    stores = [effect for effect in effects if isinstance(effect, Store)]
    (passed, *rest) = [effect for effect in effects if isinstance(effect, Send)]
    assert passed.to == "c" and passed.is_urgent and len(Parcels.read(passed.message.documents)) == 2
    assert bool(stores) is not first, "what its own subscribers get is matched and stored in a turn of its own"
    assert [effect.to for effect in rest][:1] == ["b"]
    chain.do("b", effects)
    assert chain.got("b") == bodies and broker.positions.number("a") == message.upto


def test_what_waits_is_served_before_anything_that_could_change_it() -> None:
    """A request, a view, an answer of the root: they find the broker as if nothing had waited."""
    chain = Chain()
    chain.subscribe("b", "q")
    chain.subscribe("c", "r")
    broker = chain.peers["b"]
    chain.cut = {("a", "b")}
    chain.publish(1)
    chain.publish(1)
    one, other = chain.messages(Forward, "b")
    effects = broker.receive("a", one, chain.now_ms) + broker.receive("a", other, chain.now_ms)
    assert broker.positions.number("a") == one.after
    effects += broker.receive("registry", NewView(chain.view), chain.now_ms)
    assert broker.positions.number("a") == other.upto
    chain.do("b", effects)
    assert len(chain.got("b")) == 2


def test_no_more_waits_than_the_settings_allow() -> None:
    chain = Chain(b=NetworkSettings(local_bytes_max=1))
    chain.subscribe("b", "q")
    chain.subscribe("c", "r")
    chain.cut = {("a", "b")}
    chain.publish(1)
    (message,) = chain.messages(Forward, "b")
    chain.peers["b"].receive("a", message, chain.now_ms)
    assert chain.peers["b"].positions.number("a") == message.upto
