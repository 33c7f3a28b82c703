"""The messages between clients and a broker, as typed structs.

A **client** is a publisher, a subscriber, or both. Its name identifies it across connections and restarts. It has one
stream of numbered *requests*: 1, 2, 3, … The broker handles them in order and remembers durably how far it got.
A request that arrives again is answered again, but not done again; one that arrives too early is ignored, and the
client sends it again later. So requests may be lost, duplicated and reordered on the way.

A **session** is a client's wish to receive the deliveries of some subscriptions. It lives in the broker's memory, as
long as the client sends `Flow` now and then. Messages with deliveries are numbered within a session; the client takes
them in order and asks for those that are missing. A delivery is done when the client acknowledges it. What was not
acknowledged when a session ends is delivered again to the next one.

Brokers of a network speak to each other, and to their registry, with messages of their own: see `packets.py`, which
has all that travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

PROTOCOL_VERSION = 1
WINDOW_MAX = 16
"""Requests of one client that may wait for their answers; the broker remembers as many answers."""


NAME_CHARS_MAX = 1_000
TEXT_CHARS_MAX = 1 << 20
DOCUMENTS_MAX = 10_000
"""Documents in one `Publish`."""
ITEMS_MAX = 100_000
"""Entries of any other list in a message."""

# What decoders check. The size of a whole message is limited by its frame.
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_FEW = msgspec.Meta(max_length=DOCUMENTS_MAX)
_MANY = msgspec.Meta(max_length=ITEMS_MAX)


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- a client's requests ----------------------------------------------------------------------------------------------


class Document(_Message, frozen=True):
    """A document to publish. A broker drops a second one with the same source and id (within its window)."""

    body: bytes
    id: Name = ""
    source: Name = ""
    """Empty: the source of the request."""


class RegisterSource(_Message, frozen=True, tag="source"):
    """Add a source of documents to the catalog, or change it. `schema` is a DTD, or empty.

    A registry chooses its root broker by the rest: where it is, and how much it is expected to send.
    """

    source: Name
    schema: Text = ""
    description: Text = ""
    location: tuple[float, float] = (0.0, 0.0)
    messages_per_second: Number = 0
    message_bytes: Number = 0


class RemoveSource(_Message, frozen=True, tag="no-source"):
    source: Name


class Publish(_Message, frozen=True, tag="publish"):
    """Documents of a source, and of others where they say so. Each is accepted or refused by itself; their order is
    kept."""

    source: Name
    documents: Annotated[list[Document], _FEW]

    def sources(self) -> list[str]:
        """Of each document."""
        return [document.source or self.source for document in self.documents]


class SubscriptionOptions(_Message, frozen=True):
    """How deliveries of a subscription are made."""

    attempts_max: Number = 5
    """After so many failed attempts a delivery becomes a dead letter."""
    acknowledge_ms: Number = 30_000
    """A delivery that is not acknowledged within this time counts as a failed attempt."""
    expires_ms: Number = 0
    """The subscription is removed when nobody received from it for so long. 0: never."""


class Subscribe(_Message, frozen=True, tag="subscribe"):
    """Add a subscription, or change the one that has this id."""

    id: Name
    query: Text
    namespaces: dict[Name, Text] = {}
    ordered: bool = False
    deliver: Text = "document"
    options: SubscriptionOptions = SubscriptionOptions()


class SubscribeMany(_Message, frozen=True, tag="subscribe-many"):
    """Add new subscriptions: all of them, or none if one is refused or exists already."""

    subscriptions: Annotated[list[Subscribe], _FEW]


class Unsubscribe(_Message, frozen=True, tag="unsubscribe"):
    id: Name


class Pause(_Message, frozen=True, tag="pause"):
    """Deliver nothing of this subscription until it is resumed. Matches are kept meanwhile."""

    id: Name
    paused: bool = True


class Replay(_Message, frozen=True, tag="replay"):
    """Start over: deliver what the subscription matches among documents that are kept, from a document or time on.
    What it still waits for from before that is dropped.

    They come before everything that is published from now on, without a gap. What is kept begins later than asked for:
    the answer says where.
    """

    id: Name
    from_document: Number = 0
    from_ms: Number = 0


class Redeliver(_Message, frozen=True, tag="redeliver"):
    """Deliver dead letters again, by their numbers."""

    letters: Annotated[list[Number], _MANY]


class Hasten(_Message, frozen=True, tag="hasten"):
    """Try again at once what waits to be tried again: whoever could not take it can now."""

    id: Name


class Advance(_Message, frozen=True, tag="advance"):
    """Deliveries of these subscriptions, each up to a document, are done: somebody got them without a session.

    A subscription that does not exist any more is left out.
    """

    positions: Annotated[list[tuple[Name, Number]], _MANY]


class SetRecord(_Message, frozen=True, tag="record"):
    """Keep a small value of a door, under a kind and a key. Only from the broker's own process."""

    kind: Name
    key: Name
    value: bytes


class RemoveRecord(_Message, frozen=True, tag="no-record"):
    """No error if there is none. Only from the broker's own process."""

    kind: Name
    key: Name


class RegisterSubscriber(_Message, frozen=True, tag="subscriber"):
    """To a registry: which broker is near? Again after the subscriber has moved."""

    subscriber: Name
    location: tuple[float, float] = (0.0, 0.0)


class PlaceSubscription(_Message, frozen=True, tag="place"):
    """To a registry: which broker is to be the host of this subscription? The host is then sent `Subscribe`."""

    id: Name
    query: Text = ""
    namespaces: dict[Name, Text] = {}
    location: tuple[float, float] = (0.0, 0.0)


class RemovePlace(_Message, frozen=True, tag="no-place"):
    """To a registry: the subscription is no more."""

    id: Name


Command = (
    RegisterSource
    | RemoveSource
    | Publish
    | Subscribe
    | SubscribeMany
    | Unsubscribe
    | Pause
    | Replay
    | Redeliver
    | Hasten
    | Advance
    | SetRecord
    | RemoveRecord
    | RegisterSubscriber
    | PlaceSubscription
    | RemovePlace
)


class Request(_Message, frozen=True, tag="request"):
    """`lease` is that of the last `Welcome`. A request with another lease is ignored."""

    number: Number
    command: Command
    lease: Number = 0


# --- the broker's answers ---------------------------------------------------------------------------------------------


class Refusal(_Message, frozen=True):
    """What was not accepted, and why. `item` counts the documents of a `Publish`; -1 is all of it."""

    item: Annotated[int, msgspec.Meta(ge=-1, le=DOCUMENTS_MAX)]
    code: Name
    message: Text


class Place(_Message, frozen=True):
    """What a registry has chosen: an id, and the broker to go to, by the view of this epoch."""

    number: Number
    broker: Name
    address: Name
    epoch: Number


class Partial(_Message, frozen=True):
    """A document that a ring has not filtered to the end: states and hosts that could not be reached."""

    item: Number
    unreachable: Annotated[list[Text], _MANY]


class Answer(_Message, frozen=True, tag="answer"):
    """A request was done, or refused: then nothing has changed.

    For `Publish`: `documents` has a number for each that was accepted, 0 for a refused one; a duplicate has the number
    of the original. For `Replay`: `[first]`, the number of the first document that is replayed.
    """

    number: Number
    documents: Annotated[list[Number], _FEW] = []
    refusals: Annotated[list[Refusal], _FEW] = []
    lease: Number = 0
    """That of the request."""
    copies: Annotated[list[Number], _FEW] = []
    """For `Publish`: the places of documents that were published before, and were dropped."""
    places: Annotated[list[Place], _FEW] = []
    """From a registry."""
    partial: Annotated[list[Partial], _FEW] | None = None
    """For `Publish`, from a peer of a ring: documents that did not get everywhere yet. None: not from a ring."""


class Hello(_Message, frozen=True, tag="hello"):
    """The first message of a client, and again whenever it wants to know where it stands.

    It begins a lease, unless its `nonce` is that of the lease that the client has. Only requests with that lease count
    from now on: so those that an earlier life of the client has sent, and that are still on their way, change nothing.
    """

    client: Name
    version: Number = PROTOCOL_VERSION
    nonce: Number = 0
    to: Name = ""
    """The peer that it is for, where one process serves several. Empty: whichever is there."""


class Welcome(_Message, frozen=True, tag="welcome"):
    """`answered`: the number of the last request of this client that was done or refused. `store` identifies the
    broker's data, for ids of deliveries. `nonce` is that of the `Hello`; `lease` goes into requests, and is a number
    that was never used before."""

    broker: Name
    store: Name
    answered: Number
    version: Number = PROTOCOL_VERSION
    nonce: Number = 0
    lease: Number = 0


# --- deliveries -------------------------------------------------------------------------------------------------------


class Attach(_Message, frozen=True, tag="attach"):
    """Open a session, or repeat that. The name of a session is never used twice. `credit` is that of `Flow`.

    `life` is a number that a client draws when it starts. Sessions of its other lives are over: what they hold comes
    again at once and in order, instead of after everything else when they have timed out.
    """

    session: Name
    subscriptions: Annotated[list[Name], _MANY]
    credit: Number = 1000
    life: Number = 0
    serial: Number = 0
    """Counts the sessions that the client began and ended in this life: one with a lower serial was overtaken, and is
    ignored. 0: not counted."""
    others: Annotated[list[Name], _MANY] = []
    """With a serial: the client's other sessions. Those that it does not name are over, even if the `Detach` that says
    so is late, or lost. So what they hold comes again at once and in order."""
    patient: bool = False
    """What the session holds is its own business as long as it lives: it is not tried again after `acknowledge_ms`."""


class Attached(_Message, frozen=True, tag="attached"):
    """The session is open. `unknown`: those of its subscriptions that do not exist; they are left out.

    `epoch` is drawn by the broker when it opens a session, and is in all messages of it. A repeated `Attach` may open a
    session again that was over; then numbers of messages begin anew, and an acknowledgement of one that was sent before
    must not be taken for one of what is sent now. 0: not known, and not looked at.
    """

    session: Name
    unknown: Annotated[list[Name], _MANY] = []
    epoch: Number = 0


class Flow(_Message, frozen=True, tag="flow"):
    """A session is alive. Its client has all messages up to `received`, and wants to hold at most `credit` deliveries
    that it has not acknowledged. Sent every `FLOW_MS` at least, and when a message is missing."""

    session: Name
    received: Number
    credit: Number
    epoch: Number = 0
    open: Annotated[list[Number], msgspec.Meta(max_length=ITEMS_MAX)] | None = None
    """Of a patient session: the messages that its application has not dealt with. Nobody else watches over those that
    were dealt with, and whose acknowledgement is lost."""


FLOW_MS = 3_000


class Item(_Message, frozen=True):
    """One delivery. `payload` is a place in the message's list of payloads; -1 if the delivery was settled before this
    message could be sent again: then there is nothing to do, and the item only keeps the places of the others."""

    subscription: Name
    document: Number
    published_ms: Number
    attempt: Number
    payload: Annotated[int, msgspec.Meta(ge=-1, le=ITEMS_MAX)]
    origin: Name = ""
    """In a network: the store of the root broker that the document was published at, if not at this one,"""
    origin_number: Number = 0
    """and its number there. They make the id of the delivery, whichever broker it comes from."""


NOTHING = Item("", 0, 0, 0, -1)


class Deliveries(_Message, frozen=True, tag="deliveries"):
    """Equal payloads are in the list once."""

    session: Name
    number: Number
    items: Annotated[list[Item], _MANY]
    payloads: Annotated[list[bytes], _MANY]
    epoch: Number = 0


class Payloads:
    """Payloads as they travel: an array of MessagePack, in parts that follow each other.

    >>> payloads = Payloads(2, [b"\\xc4\\x01a", b"\\xc4\\x01b"])
    >>> msgspec.msgpack.decode(payloads.joined())
    [b'a', b'b']
    """

    __slots__ = ("bytes", "parts", "start")

    def __init__(self, count: int, parts: Sequence[bytes | memoryview]) -> None:
        self.start = b"\xdd" + count.to_bytes(4, "big")
        self.parts = parts
        self.bytes = sum(map(len, parts))

    def joined(self) -> bytes:
        return b"".join((self.start, *self.parts))


_ITEMS = msgspec.msgpack.Decoder(list[Item])
_PAYLOADS = msgspec.msgpack.Decoder(list[bytes])


def opened(message: Deliveries) -> Deliveries:
    """With its items as structs and its payloads as bytes. What a broker in the same process sends may have them as
    they would travel: brokers write most items without making structs, and cut out no payloads."""
    items: Any = message.items
    payloads: Any = message.payloads
    if not isinstance(payloads, Payloads):
        return message
    return msgspec.structs.replace(message, items=_ITEMS.decode(items), payloads=_PAYLOADS.decode(payloads.joined()))


def payload_bytes(message: Deliveries) -> int:
    """Of all payloads of a message, without opening it."""
    payloads: Any = message.payloads
    return payloads.bytes if isinstance(payloads, Payloads) else sum(map(len, payloads))


def item_count(message: Deliveries) -> int:
    """How many items there are, without opening it.

    >>> item_count(Deliveries("s", 1, [NOTHING], []))
    1
    """
    items = message.items
    if not isinstance(items, msgspec.Raw):
        return len(items)
    start = bytes(memoryview(items)[:5])
    size = {0xDC: 2, 0xDD: 4}.get(start[0], 0)  # of the length of an array that has more than 15 entries
    return int.from_bytes(start[1 : 1 + size], "big") if size else start[0] & 0x0F


class Postponed(_Message, frozen=True):
    """An attempt failed, and its client decides what follows: another one after `wait_ms`, however many there were; or
    with 0 none, and the delivery becomes a dead letter for this reason."""

    message: Number
    place: Number
    wait_ms: Number
    reason: Name = ""


class Acknowledge(_Message, frozen=True, tag="acknowledge"):
    """Messages of a session that are dealt with. `failed` has items that are to be tried again, as (message, place)."""

    session: Name
    messages: Annotated[list[Number], _MANY]
    failed: Annotated[list[tuple[Number, Number]], _MANY] = []
    epoch: Number = 0
    done: Annotated[list[tuple[Number, Number]], _MANY] = []
    """Items that are dealt with, in messages that are not yet."""
    postponed: Annotated[list[Postponed], _MANY] = []
    confirmation: Number = 0
    """Not 0: the broker answers with a `Confirmation` of this number, or with `Detach`; until then this comes again."""


class Confirmation(_Message, frozen=True, tag="confirmation"):
    """What the `Acknowledge` with this number says is stored, and what of it is done never comes again.

    But not of these messages and items, which the session did not hold any more: they were settled before, or took too
    long. If the first `Confirmation` is lost, the second one has all of them.
    """

    session: Name
    number: Number
    gone_messages: Annotated[list[Number], _MANY] = []
    gone_items: Annotated[list[tuple[Number, Number]], _MANY] = []


class Detach(_Message, frozen=True, tag="detach"):
    """The session is over, or unknown. From either side."""

    session: Name
    reason: Text = ""
    serial: Number = 0
    """From a client: that of `Attach`. A copy of the session's `Attach` that arrives later does not open it again."""


# --- looking at a broker ----------------------------------------------------------------------------------------------

Kind = Literal["letters", "queues", "sources", "subscriptions", "stats", "brokers", "trees", "ring", "states"]
"""Brokers and trees are those of a registry, the last two of a peer of a ring."""


class Inspect(_Message, frozen=True, tag="inspect"):
    """Look at a broker. Changes nothing, so it has no place among the requests; if no answer comes, ask again.

    `after` is the `key` of the last row that is known, or empty: answers have a limited size.
    """

    question: Number
    kind: Kind
    after: Name = ""
    count_max: Number = 100


class Inspected(_Message, frozen=True, tag="inspected"):
    """Rows by their keys. Of `queues` only those that are not empty have rows."""

    question: Number
    rows: Annotated[list[dict[str, str | int]], _FEW]


# --- from a peer to itself --------------------------------------------------------------------------------------------


class Durable(_Message, frozen=True, tag="durable"):
    """From a peer to itself: the changes of this group are durable. See `Shadow`."""

    group: Number


class Continue(_Message, frozen=True, tag="continue"):
    """From a peer to itself: there is more to do than one turn should do."""


class IndexSaved(_Message, frozen=True, tag="saved"):
    """From whoever runs a peer: an index with all changes up to `version` is saved. See `SaveIndex`."""

    version: Number


Message = (
    Request
    | Answer
    | Hello
    | Welcome
    | Attach
    | Attached
    | Flow
    | Deliveries
    | Acknowledge
    | Confirmation
    | Detach
    | Inspect
    | Inspected
    | Durable
    | Continue
    | IndexSaved
)
