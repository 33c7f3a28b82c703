"""Packets: a message and its header. All messages of all peers are known here, so that frames can be decoded.

The header names the flow of a packet, its root broker and its format (ONYX, section 5, Figure 10):

    >>> from treecast.overlay.messages import Flow
    >>> packet_of(Flow("s1", received=3, credit=100), root="b1").flow
    'control'

A peer that has messages of its own defines them in a module beside it, as a union of tagged structs, and adds the union
to `Message` here. Tags are unique among all of them. What a peer does not know, it ignores.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, assert_never, cast

import msgspec

from treecast import _native
from treecast.overlay.chord.chord_messages import RingMessage
from treecast.overlay.chord.nfa_messages import NfaMessage
from treecast.overlay.messages import (
    Advance,
    Command,
    Deliveries,
    Hasten,
    Name,
    Pause,
    Payloads,
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
from treecast.overlay.messages import Message as ClientMessage
from treecast.overlay.onyx.control_messages import CATALOG_MESSAGES, ControlMessage
from treecast.overlay.onyx.move_messages import MoveMessage
from treecast.overlay.onyx.network_messages import NO_DOCUMENTS, QUERY_MESSAGES, Forward, History, NetworkMessage
from treecast.overlay.replica.messages import ReplicaMessage
from treecast.overlay.selective.selective_messages import SelectiveMessage

Message = (
    ClientMessage
    | ControlMessage
    | NetworkMessage
    | MoveMessage
    | ReplicaMessage
    | RingMessage
    | NfaMessage
    | SelectiveMessage
)

FlowName = Literal["catalog", "message", "query", "control"]


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """A message and its header. `root` is the root broker of its documents; `format` how they are written."""

    flow: FlowName
    root: Name
    format: Name
    message: Message


def packet_of(message: Any, root: str = "", format: str = "text") -> Packet:
    """The packet of a message, with the flow it belongs to."""
    flow: FlowName = "control"
    if isinstance(message, Request):
        flow = flow_of(message.command)
    elif isinstance(message, Deliveries):
        flow = "message"
    elif isinstance(message, CATALOG_MESSAGES):
        flow = "catalog"
    elif isinstance(message, Forward):
        flow, root = "message", message.root
        format = _native.parcel_format(message.documents) or format  # one for all of them
    elif isinstance(message, History):
        flow, root = "message", message.root
        format = message.documents[0].format if message.documents else format  # likewise
    elif isinstance(message, QUERY_MESSAGES):
        flow, root = "query", message.root
    return Packet(flow, root, format, message)


def flow_of(command: Command) -> FlowName:
    """Where a request belongs."""
    match command:
        case Publish():
            return "message"
        case RegisterSource() | RemoveSource():
            return "catalog"
        case Subscribe() | SubscribeMany() | Unsubscribe() | PlaceSubscription() | RemovePlace():
            return "query"
        case Pause() | Replay() | Redeliver() | Hasten() | Advance():
            return "query"
        case SetRecord() | RemoveRecord() | RegisterSubscriber():
            return "control"
        case _:
            assert_never(command)


TAIL_BYTES_MIN = 16 << 10
_ENCODER = msgspec.msgpack.Encoder()


class Tail(NamedTuple):
    """Documents at the end of a packet, which are not copied into a frame. The last `extra_bytes` of the encoded packet
    are left out of the frame: the empty list in place of the documents, or what follows them. What follows them is the
    last of the parts."""

    parts: tuple[bytes | memoryview | msgspec.Raw, ...]
    size: int
    extra_bytes: int


def split(packet: Packet) -> tuple[Packet, Tail | None]:
    """A packet as it is encoded, without the documents at its end, and these; None if they are few."""
    message: Any = packet.message
    if isinstance(message, Forward):
        if len(message.documents) < TAIL_BYTES_MIN:
            return packet, None
        empty = Forward(
            *(message.root, message.store, message.epoch, message.life, message.version, message.after, message.upto)
        )
        tail = Tail((message.documents,), len(message.documents), len(NO_DOCUMENTS))
        return Packet(packet.flow, packet.root, packet.format, empty), tail
    if not isinstance(message, Deliveries) or not isinstance(payloads := cast(Any, message.payloads), Payloads):
        return packet, None
    is_small = payloads.bytes < TAIL_BYTES_MIN
    there: Any = msgspec.Raw(payloads.joined() if is_small else payloads.start)
    head = Deliveries(message.session, message.number, message.items, there, message.epoch)
    packet = Packet(packet.flow, packet.root, packet.format, head)
    if is_small:
        return packet, None
    after = _ENCODER.encode(message.epoch)
    return packet, Tail((*payloads.parts, after), payloads.bytes + len(after), len(after))
