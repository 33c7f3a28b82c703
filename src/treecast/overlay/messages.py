"""The messages between clients and a broker, as typed structs.

A **client** is a publisher, a subscriber, or both. Its name identifies it across connections and restarts. It has one
stream of numbered *requests*: 1, 2, 3, … The broker handles them in order and remembers durably how far it got.
A request that arrives again is answered again, but not done again; one that arrives too early is ignored, and the
client sends it again later. So requests may be lost, duplicated and reordered on the way.

A **session** is a client's wish to receive the deliveries of some subscriptions. It lives in the broker's memory, as
long as the client sends `Flow` now and then. Messages with deliveries are numbered within a session; the client takes
them in order and asks for those that are missing. A delivery is done when the client acknowledges it. What was not
acknowledged when a session ends is delivered again to the next one.

Every packet has a header that names its flow, root broker and format (ONYX, section 6, Figure 10):

    >>> packet_of(Flow("s1", received=3, credit=100), root="b1").flow
    'control'
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

PROTOCOL_VERSION = 1
WINDOW_MAX = 16
"""Requests of one client that may wait for their answers; the broker remembers as many answers."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- a client's requests ----------------------------------------------------------------------------------------------


class Document(_Message):
    """A document to publish. A broker drops a second one with the same source and id (within its window)."""

    body: bytes
    id: str = ""


class RegisterSource(_Message, tag="source"):
    """Add a source of documents to the catalog, or change it. `schema` is a DTD, or empty."""

    source: str
    schema: str = ""
    description: str = ""


class RemoveSource(_Message, tag="no-source"):
    source: str


class Publish(_Message, tag="publish"):
    """Documents of one source. Each is accepted or refused by itself; their order is kept."""

    source: str
    documents: list[Document]


class SubscriptionOptions(_Message):
    """How deliveries of a subscription are made."""

    attempts_max: int = 5
    """After so many failed attempts a delivery becomes a dead letter."""
    acknowledge_ms: int = 30_000
    """A delivery that is not acknowledged within this time counts as a failed attempt."""
    expires_ms: int = 0
    """The subscription is removed when nobody received from it for so long. 0: never."""


class Subscribe(_Message, tag="subscribe"):
    """Add a subscription, or change the one that has this id."""

    id: str
    query: str
    namespaces: dict[str, str] = {}
    ordered: bool = False
    deliver: str = "document"
    options: SubscriptionOptions = SubscriptionOptions()


class Unsubscribe(_Message, tag="unsubscribe"):
    id: str


class Pause(_Message, tag="pause"):
    """Deliver nothing of this subscription until it is resumed. Matches are kept meanwhile."""

    id: str
    paused: bool = True


class Replay(_Message, tag="replay"):
    """Deliver what the subscription matches among documents that are kept, from a document or time on.

    They come before everything that is published from now on, without a gap. What is kept begins later than asked for:
    the answer says where.
    """

    id: str
    from_document: int = 0
    from_ms: int = 0


class Redeliver(_Message, tag="redeliver"):
    """Deliver dead letters again, by their numbers."""

    letters: list[int]


Command = RegisterSource | RemoveSource | Publish | Subscribe | Unsubscribe | Pause | Replay | Redeliver


class Request(_Message, tag="request"):
    number: int
    command: Command


# --- the broker's answers ---------------------------------------------------------------------------------------------


class Refusal(_Message):
    """What was not accepted, and why. `item` counts the documents of a `Publish`."""

    item: int
    code: str
    message: str


class Answer(_Message, tag="answer"):
    """A request was done, or refused: then nothing has changed.

    For `Publish`: `documents` has a number for each that was accepted, 0 for a refused one; a duplicate has the number
    of the original. For `Replay`: `[first]`, the number of the first document that is replayed.
    """

    number: int
    documents: list[int] = []
    refusals: list[Refusal] = []


class Hello(_Message, tag="hello"):
    """The first message of a client, and again whenever it wants to know where it stands."""

    client: str
    version: int = PROTOCOL_VERSION


class Welcome(_Message, tag="welcome"):
    """`answered`: the number of the last request of this client that was done or refused. `store` identifies the broker's
    data, for ids of deliveries."""

    broker: str
    store: str
    answered: int
    version: int = PROTOCOL_VERSION


# --- deliveries -------------------------------------------------------------------------------------------------------


class Attach(_Message, tag="attach"):
    """Open a session, or repeat that. The name of a session is never used twice. `credit` is that of `Flow`."""

    session: str
    subscriptions: list[str]
    credit: int = 1000


class Attached(_Message, tag="attached"):
    """The session is open. `unknown`: those of its subscriptions that do not exist; they are left out."""

    session: str
    unknown: list[str] = []


class Flow(_Message, tag="flow"):
    """A session is alive. Its client has all messages up to `received`, and wants to hold at most `credit` deliveries that
    it has not acknowledged. Sent every `FLOW_MS` at least, and when a message is missing."""

    session: str
    received: int
    credit: int


FLOW_MS = 1_000


class Item(_Message):
    """One delivery. `payload` is a place in the message's list of payloads."""

    subscription: str
    document: int
    published_ms: int
    attempt: int
    payload: int


class Deliveries(_Message, tag="deliveries"):
    """Equal payloads are in the list once."""

    session: str
    number: int
    items: list[Item]
    payloads: list[bytes]


class Acknowledge(_Message, tag="acknowledge"):
    """Messages of a session that are dealt with. `failed` has items that are to be tried again, as (message, place)."""

    session: str
    messages: list[int]
    failed: list[tuple[int, int]] = []


class Detach(_Message, tag="detach"):
    """The session is over, or unknown. From either side."""

    session: str
    reason: str = ""


class Durable(_Message, tag="durable"):
    """From a peer to itself: the changes of this group are durable. See `Shadow`."""

    group: int


Message = Request | Answer | Hello | Welcome | Attach | Attached | Flow | Deliveries | Acknowledge | Detach | Durable

# --- packets ----------------------------------------------------------------------------------------------------------

FlowName = Literal["catalog", "message", "query", "control"]
_COMMAND_FLOWS: dict[type, FlowName] = {
    RegisterSource: "catalog",
    RemoveSource: "catalog",
    Publish: "message",
    Subscribe: "query",
    Unsubscribe: "query",
    Pause: "query",
    Replay: "query",
    Redeliver: "query",
}


class Packet(_Message):
    """A message and its header. `root` is the root broker of its documents; `format` how they are written."""

    flow: FlowName
    root: str
    format: str
    message: Message


def packet_of(message: Any, root: str = "", format: str = "text") -> Packet:
    """The packet of a message, with the flow it belongs to."""
    flow: FlowName = "control"
    if isinstance(message, Request):
        flow = _COMMAND_FLOWS[type(message.command)]
    elif isinstance(message, Deliveries):
        flow = "message"
    return Packet(flow, root, format, message)
