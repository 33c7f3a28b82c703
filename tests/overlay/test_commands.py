"""Every command and every message has somebody who handles it; what nobody knows is refused, and not acknowledged."""

from __future__ import annotations

from random import Random
from typing import Any, get_args
from zlib import crc32

import msgspec
import pytest
from test_broker import World, prepare

from treecast.errors import PeerError
from treecast.overlay.chord.chord_messages import RingMessage
from treecast.overlay.chord.nfa_messages import NfaMessage
from treecast.overlay.chord.nfa_peer import NfaPeer
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.frames import FrameDecoder, FrameError, encode
from treecast.overlay.messages import (
    Advance,
    Command,
    Document,
    Hasten,
    Pause,
    PlaceSubscription,
    Publish,
    Redeliver,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveRecord,
    RemoveSource,
    Replay,
    Request,
    SetRecord,
    Subscribe,
    SubscribeMany,
    Unsubscribe,
)
from treecast.overlay.packets import packet_of
from treecast.sim.storage import SimulatedStorage

pytestmark = pytest.mark.house

COMMANDS: list[Command] = [
    RegisterSource("t"),
    RemoveSource("s"),
    Publish("s", [Document(b"<a/>")]),
    Subscribe("q", "/a"),
    SubscribeMany([Subscribe("r", "/a")]),
    Unsubscribe("all"),
    Pause("all"),
    Replay("all"),
    Redeliver([]),
    Hasten("all"),
    Advance([("all", 1)]),
    SetRecord("k", "1", b"v"),
    RemoveRecord("k", "1"),
    RegisterSubscriber("n"),
    PlaceSubscription("q"),
    RemovePlace("q"),
]
FOR_REGISTRIES = (RegisterSubscriber, PlaceSubscription, RemovePlace)


class Strange(msgspec.Struct, frozen=True, array_like=True, tag="strange"):
    """A command that one side has and the other has not."""

    name: str = ""


def test_these_are_all_commands() -> None:
    assert {type(command) for command in COMMANDS} == set(get_args(Command))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_broker_does_each_command_or_refuses_it(command: Command) -> None:
    assert packet_of(Request(1, command)).flow in ("catalog", "message", "query", "control")
    world = prepare(World())
    codes = [refusal.code for refusal in world.ask("other", command).refusals]
    assert codes == (["TC480"] if isinstance(command, FOR_REGISTRIES) else [])


def test_a_command_that_a_broker_does_not_know_is_refused() -> None:
    world = prepare(World())
    strange: Any = Strange("x")
    answer = world.ask("other", strange)
    assert [(refusal.item, refusal.code) for refusal in answer.refusals] == [(-1, "TC480")]
    assert "a broker does not know Strange" in answer.refusals[0].message
    assert world.ask("other", Subscribe("q", "/a")).refusals == [], "it goes on"


def test_a_command_that_nobody_knows_is_no_message() -> None:
    """A frame is decoded as a whole, so its connection ends."""
    (data,) = encode([packet_of(Request(1, Unsubscribe("q")))])
    renamed = data.replace(b"unsubscribe", b"unsubscribf")
    assert renamed != data
    decoder = FrameDecoder()
    with pytest.raises(FrameError) as caught:
        decoder.feed(_with_checksum(renamed))
    assert caught.value.code == "TC404" and isinstance(caught.value, PeerError)


def _with_checksum(frame: bytes) -> bytes:
    start = frame[:8] + crc32(frame[16:]).to_bytes(4, "big")
    return start + crc32(start).to_bytes(4, "big") + frame[16:]


def test_a_peer_of_a_ring_handles_each_message_of_rings() -> None:
    peer = NfaPeer("p0", SimulatedStorage(), Random(1), ChordSettings(base=("p0", "p1", "p2", "p3")))
    kinds = {*get_args(RingMessage), *get_args(NfaMessage)}
    assert {*peer.handlers, *peer.answer_types} == kinds
    assert not peer.handlers.keys() & peer.answer_types
