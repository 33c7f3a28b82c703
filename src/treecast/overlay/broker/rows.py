"""What a broker stores, as typed rows. Each table is described beside its row.

Rows are arrays in MessagePack: fields go by position, new ones to the end with a default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from treecast.overlay.messages import Answer, SubscriptionOptions

META, SOURCES, SUBSCRIPTIONS, CHANGES = "meta", "sources", "subscriptions", "changes"
CLIENTS, DOCUMENTS, RECENT = "clients", "documents", "recent"
CURSORS, PARKED, EXPIRING, LETTERS, REDELIVERIES = "cursors", "parked", "expiring", "letters", "redeliveries"
LETTER_KEYS = "letter_keys"
"""`letter_keys[letter_key(…)]`: nothing. Dead letters by their subscriptions, to find those of one at once."""
RECORDS = "records"
"""`records[kind/key]`: values of the doors, as they gave them."""
STORE = "store"
"""`meta["store"]`: what identifies the data of a broker, drawn when it begins."""
BROKER_TABLES: dict[str, bool] = {
    **dict.fromkeys((CHANGES, DOCUMENTS, RECENT, LETTERS, REDELIVERIES), True),
    **dict.fromkeys((META, SOURCES, SUBSCRIPTIONS, CLIENTS, CURSORS, PARKED, EXPIRING, LETTER_KEYS, RECORDS), False),
}
"""All tables of a broker, and whether their keys are integers."""


def letter_key(subscription: str, number: int) -> str:
    """In the order of subscriptions, and then of numbers: no id contains a null."""
    return f"{subscription}\0{number:019}"


def number_of_letter(key: str) -> int:
    return int(key.rpartition("\0")[2])


class Row(msgspec.Struct, frozen=True, array_like=True):
    pass


class Counters(Row, frozen=True):
    """`meta["counters"]`: the last numbers that were given away, and where unfinished deliveries begin."""

    document: int = 0
    body: int = 0
    change: int = 0
    letter: int = 0
    floor: int = 0
    """Every delivery of a document up to this one is done, except those of parked queues."""


class SourceRow(Row, frozen=True):
    """`sources[id]`."""

    schema: str
    description: str


class SubscriptionRow(Row, frozen=True):
    """`subscriptions[id]`."""

    query: str
    namespaces: dict[str, str]
    ordered: bool
    deliver: str
    options: SubscriptionOptions
    change: int
    """The number of the last change, in `changes`."""
    since: int
    """The last document that was published before the subscription."""
    paused: bool = False


class ChangeRow(Row, frozen=True):
    """`changes[number]`: what the index has of a subscription since this change. Without a query, it was removed."""

    id: str
    query: str = ""
    namespaces: dict[str, str] = {}
    ordered: bool = False
    deliver: str = "document"


class ClientRow(Row, frozen=True):
    """`clients[name]`: the last request that was answered, and the last answers."""

    answered: int = 0
    answers: list[Answer] = []
    lease: int = 0
    nonce: int = 0
    """Of the `Hello` that began the lease."""
    heard_ms: int = 0


class EarlyRow(Row, frozen=True):
    """What was done to a document before it came: a list of steps. Empty: something, but nobody knows what."""

    steps: str = ""
    namespaces: dict[str, str] = {}
    empty: bool = False


class DocumentRow(Row, frozen=True):
    """`documents[number]`: what was published, and who gets what. Bodies are named by their numbers in the log. It is
    written by native code, `native/lanes/batch_rows.cpp`."""

    source: str
    id: str
    published_ms: int
    body: int
    bytes: int
    subscriptions: list[str]
    payloads: list[int]
    """By subscription: the number of a body."""
    origin: str = ""
    """In a network: the store of the root broker that it was published at, if not at this one,"""
    origin_number: int = 0
    """and its number there."""
    early: EarlyRow | None = None
    """What was done to it on the way; None: the body is as it was published."""


class RecentRow(Row, frozen=True):
    """`recent[document]`: a publisher's own id, to recognise a second copy."""

    name: str
    published_ms: int


class CursorRow(Row, frozen=True):
    """`cursors[subscription]`: a `Progress`. It is written by native code as well, `native/lanes/lanes.cpp`."""

    floor: int
    done: list[int] = []
    upto: int = 0
    open: list[int] = []


class ParkedRow(Row, frozen=True):
    """`parked[subscription]`: what it waits for has to be found among stored documents.

    Up to `rematch_until` each document is matched again: the subscription replays what it had not asked for before.
    """

    rematch_until: int = 0


class LetterRow(Row, frozen=True):
    """`letters[number]`: a delivery that was given up. It holds the payload, so that nothing else has to be kept."""

    subscription: str
    document: int
    published_ms: int
    reason: str
    attempts: int
    payload: bytes
    died_ms: int
    origin: str = ""
    origin_number: int = 0


class RecordCounts(Row, frozen=True):
    """`meta["records"]`: how many records of each kind there are."""

    kinds: dict[str, int]


AnyRow = TypeVar("AnyRow", bound=Row)
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[type, msgspec.msgpack.Decoder[object]] = {}
_LIST_DECODERS: dict[type, msgspec.msgpack.Decoder[object]] = {}
_ARRAY_32 = b"\xdd"  # how MessagePack begins an array with a length of 32 bits


def encode(row: Row) -> bytes:
    return _ENCODER.encode(row)


def decode(data: bytes, kind: type[AnyRow]) -> AnyRow:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.msgpack.Decoder(kind)
    return decoder.decode(data)  # type: ignore[return-value]


def decode_many(values: Sequence[bytes], kind: type[AnyRow]) -> list[AnyRow]:
    """The same for many rows at once.

    >>> decode_many([encode(CursorRow(1)), encode(CursorRow(2, [4]))], CursorRow)
    [CursorRow(floor=1, done=[], upto=0, open=[]), CursorRow(floor=2, done=[4], upto=0, open=[])]
    """
    # PERF: bench/broker_restart.py. One array of all rows takes half as long as a call for each.
    decoder = _LIST_DECODERS.get(kind)
    if decoder is None:
        decoder = _LIST_DECODERS[kind] = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]
    return decoder.decode(b"".join((_ARRAY_32, len(values).to_bytes(4, "big"), *values)))  # type: ignore[return-value]
