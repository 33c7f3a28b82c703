"""Sealed documents in a network, message by message: brokers that lie, outlines of strangers, passes, small updates."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from treecast.overlay.peer import Send
from treecast.overlay.selective.member_peer import MemberPeer
from treecast.overlay.selective.outline_editions import change_to, is_possible, outline_of, rows_of
from treecast.overlay.selective.publication import Publication
from treecast.overlay.selective.selective_messages import OfTree, OutlineChange, Update
from treecast.overlay.selective.tree_broker import TreeBroker
from treecast.overlay.selective.tree_source import TreeSource
from treecast.selective.assembly import WHOLE, Assembly
from treecast.selective.parcels import mailbox
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher

pytestmark = pytest.mark.house

Change = Callable[[Update], Update]
STEP_MS = 100


class Network:
    """A source, one broker above two that face subscribers, and a member. `lies` alter what a broker sends."""

    def __init__(self, text: bytes) -> None:
        policies = Policies()
        policies.grant("desk", include=["/firm"], exclude=["//pay"])
        policies.join("desk", "ann")
        signer = Ed25519PrivateKey.from_private_bytes(bytes(32))
        self.publisher = Publisher("firm", policies, secret=bytes(32), signer=signer)
        self.publication = Publication(self.publisher)
        self.source = TreeSource("source", Random(1), neighbours=["b1"])
        self.peers: dict[str, Any] = {"source": self.source}
        self.peers["b1"] = TreeBroker("b1", 1, Random(2), neighbours=["source", "b2", "b3"])
        for name in ("b2", "b3"):
            self.peers[name] = TreeBroker(name, 2, Random(name), neighbours=["b1"], faces_subscribers=True)
        self.lies: dict[str, Change] = {}
        self.now_ms = 0
        self.bytes = 0
        """Of updates that the member was sent."""
        self.publish(text)

    def add_member(self, name: str = "ann", peer_name: str = "", brokers: tuple[str, ...] = ("b2", "b3")) -> MemberPeer:
        key = self.publisher.keys.member(name)
        assembly = Assembly(name, key, "firm", "desk", self.publisher.public_key, [WHOLE])
        peer = MemberPeer(peer_name or name, Random(3), assembly, mailbox(self.publisher, name), brokers=brokers)
        self.peers[peer_name or name] = peer
        return peer

    def publish(self, text: bytes) -> None:
        self.publisher.publish(text)
        for version in self.publication.collect(self.now_ms):
            self.perform("source", self.source.publish(version, self.now_ms))

    def perform(self, sender: str, effects: list[Any]) -> None:
        for effect in effects:
            if not isinstance(effect, Send) or effect.to not in self.peers:
                continue
            message = effect.message
            if isinstance(message, OfTree) and isinstance(message.message, Update):
                if sender in self.lies:
                    message = OfTree(message.tree, self.lies[sender](message.message))
                if isinstance(self.peers[effect.to], MemberPeer):
                    self.bytes += len(msgspec.msgpack.encode(message))
            self.perform(effect.to, self.peers[effect.to].receive(sender, message, self.now_ms))

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // STEP_MS):
            self.now_ms += STEP_MS
            for name, peer in list(self.peers.items()):
                self.perform(name, peer.tick(self.now_ms))


FIRM = b"<firm><name>Ida</name><pay>9</pay></firm>"


def altered(update: Update) -> Update:
    elements = [msgspec.structs.replace(one, payload=one.payload[:-1] + b"?") for one in update.elements]
    return msgspec.structs.replace(update, elements=elements)


def dropped(update: Update) -> Update:
    return msgspec.structs.replace(update, elements=[one for one in update.elements if one.id % 2])


def swapped(update: Update) -> Update:
    payloads = [one.payload for one in update.elements][::-1]
    pairs = zip(update.elements, payloads, strict=True)
    return msgspec.structs.replace(
        update, elements=[msgspec.structs.replace(one, payload=payload) for one, payload in pairs]
    )


@pytest.mark.parametrize("lie", [altered, dropped, swapped])
def test_a_member_leaves_a_broker_that_lies(lie: Change) -> None:
    network = Network(FIRM)
    member = network.add_member()
    network.run(1_000)
    assert member.assembly.fragments() == [b"<firm><name>Ida</name></firm>"]
    liar = member.view.broker
    network.lies[liar] = lie
    network.publish(FIRM.replace(b"Ida", b"Eva"))
    assert member.assembly.fragments() == [b"<firm><name>Ida</name></firm>"], "nothing is shown that is not verified"
    network.run(20_000)
    assert member.assembly.fragments() == [b"<firm><name>Eva</name></firm>"]
    assert member.view.broker != liar and member.refused


def test_without_a_pass_nothing_comes() -> None:
    network = Network(FIRM)
    network.publisher.policies.join("desk", "bob")
    stranger = network.add_member("ann", peer_name="eve")  # ann's keys, and another name
    second = network.add_member("ann", peer_name="ann#2")
    network.run(3_000)
    assert second.assembly.fragments() == [b"<firm><name>Ida</name></firm>"]
    assert not stranger.view.elements and stranger.view.refused
    assert network.peers["b2"].passes_refused + network.peers["b3"].passes_refused


@pytest.mark.parametrize("count", [1_000, pytest.param(42_000, marks=pytest.mark.long)], ids=["250KB", "10MB"])
def test_an_update_of_one_element_is_small_and_hidden_ones_cost_nothing(count: int) -> None:
    people = "".join(f"<person><name>{n:06} {'x' * 200}</name><pay>{n}</pay></person>" for n in range(count))
    text = f"<firm>{people}</firm>".encode()
    network = Network(text)
    member = network.add_member()
    network.run(1_000)
    assert member.assembly.version == 1
    network.bytes = 0
    network.publish(text.replace(b"<pay>77<", b"<pay>78<"))
    network.run(2_000)
    assert network.bytes == 0
    network.publish(text.replace(b"000077 ", b"changed "))
    network.run(2_000)
    assert member.assembly.version == 2 and b"changed" in member.assembly.fragments()[0]
    assert 0 < network.bytes < 2_000 < len(text) / 100, network.bytes


def test_outlines_of_strangers() -> None:
    assert outline_of([(0, -1), (5, 0), (7, 5), (6, 0)]) is not None
    for rows in (
        [],
        [(0, 0)],
        [(0, -1), (1, 2)],
        [(0, -1), (1, 0), (1, 0)],
        [(0, -1), (1, 0), (2, 0), (3, 1)],
        [(-1, -1)],
    ):
        assert outline_of(rows) is None
    outline = outline_of([(0, -1), (5, 0), (7, 5), (6, 0)])
    assert outline is not None
    for change in (
        OutlineChange([0], []),
        OutlineChange([9], []),
        OutlineChange([5, 7], []),
        OutlineChange([], [(5, 0, 0)]),
        OutlineChange([], [(8, 9, 0)]),
        OutlineChange([], [(8, 0, 3)]),
        OutlineChange([5], [(8, 7, 0)]),
        OutlineChange([], [(-8, 0, 0)]),
    ):
        assert not is_possible(outline, change)
    new = [(0, -1), (9, 0), (10, 9), (6, 0), (11, 6)]
    found = change_to(outline, new)
    assert found is not None and is_possible(outline, found)
    for top in found.removed:
        outline.remove(top)
    for id, parent, position in found.inserted:
        outline.insert(parent, position, id)
    assert rows_of(outline) == new
    assert change_to(outline, [(0, -1), (6, 0), (9, 0)]) is None, "ids do not move"
