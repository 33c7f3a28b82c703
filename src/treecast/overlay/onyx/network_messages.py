"""The messages between the brokers of a network: documents down a tree, routing queries up it, repairs with a root.

All of them may be lost, doubled, late, or overtaken by others. Each names the *root* broker whose tree it belongs to,
and the *epoch* of the view that its sender has: a receiver with an older view asks for the new one.

A *life* is one run of a broker, from a start to the next crash; later lives have higher numbers. What a broker knows of
its children's queries dies with its life, so whatever depends on that names the life.

    >>> Forward("b1", "5f1c", 3, 7, 2, after=10, upto=12).documents == NO_DOCUMENTS
    True
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.overlay.messages import ITEMS_MAX, Name, Number

QUERY_BYTES_MAX = 64 << 20
"""Of routing queries in one message; the frame is limited as well."""
PLAN_CHARS_MAX = 64 << 10
"""Of a plan; that is as long as a query may be."""

_MANY = msgspec.Meta(max_length=ITEMS_MAX)
QueryBytes = Annotated[bytes, msgspec.Meta(max_length=QUERY_BYTES_MAX)]
DICTIONARY_BYTES_MAX = 1 << 20
"""Of a dictionary that travels; brokers make them smaller."""
FORMATS_MAX = 64
Formats = Annotated[list[Name], msgspec.Meta(max_length=FORMATS_MAX)]
"""Names of formats that somebody reads, the best first. Names of later versions are passed over."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- documents, down the tree of their root ---------------------------------------------------------------------------


class Parcel(_Message, frozen=True, gc=False):
    """A document on its way. `number` is its root's; `format` says how `body` is written (`link_formats.py`)."""

    number: Number
    source: Name
    id: Name
    published_ms: Number
    format: Name
    body: bytes
    early: str = ""
    """The mark of the plan by which it was changed before a link; empty: it is as it was published."""


NO_DOCUMENTS = msgspec.Raw(b"\x90")
"""An empty list of them, as it travels."""


class Forward(_Message, frozen=True, tag="forward"):
    """The documents (after, upto] of a root, less those that concern nothing behind this link.

    `store` identifies the root's data. `life` is the sender's; `version` is that of the receiver's routing query which
    the sender had, and which was covered, when it chose these documents.
    """

    root: Name
    store: Name
    epoch: Number
    life: Number
    version: Number
    after: Number
    upto: Number
    documents: msgspec.Raw = NO_DOCUMENTS
    """A list of `Parcel`, as it travels: `parcels.py` reads and writes it."""

    def __post_init__(self) -> None:
        """What was decoded lies in the room of a connection, which receives other bytes soon."""
        if not self.documents:
            raise ValueError("there is no list of documents")
        msgspec.structs.force_setattr(self, "documents", self.documents.copy())


class Taken(_Message, frozen=True, tag="taken"):
    """To the parent: everything that came up to this number was dealt with, so there is room for more."""

    root: Name
    epoch: Number
    upto: Number


# --- routing queries, up the tree -------------------------------------------------------------------------------------


class Plan(_Message, frozen=True):
    """What may be done to documents before they go over the link to a broker, for all that is behind it.

    `steps` is a list of steps for whole documents; empty: nothing may be done, documents go as they are. If nobody
    behind the link wants anything, any plan will do.
    """

    steps: Annotated[str, msgspec.Meta(max_length=PLAN_CHARS_MAX)] = ""
    namespaces: Annotated[dict[Name, Name], msgspec.Meta(max_length=PLAN_CHARS_MAX)] = {}
    empty: bool = False
    """Whether everyone gets an empty payload where nothing is left."""
    is_wanted: bool = True


class Announce(_Message, frozen=True, tag="announce"):
    """What a broker and all behind it want of a root has changed. `base` is the version that the changes begin from;
    0: they are all. Equal `base` and `version`: nothing has changed, and no answer came so far."""

    root: Name
    epoch: Number
    life: Number
    version: Number
    base: Number
    changes: Annotated[list[tuple[QueryBytes, QueryBytes]], _MANY] = []
    """What is added and what is removed, one after the other."""
    formats: Formats = []
    """What the announcer reads; besides text, which everybody reads."""
    plan: Plan | None = None
    """What may be done early from this version on; None: as before, or, where `base` is 0, nothing."""


class Covered(_Message, frozen=True, tag="covered"):
    """The tables all the way up to the root have this version. Documents after `since` that come by the tree are
    complete; for those up to it, ask the root. `life` is the sender's, `announcer` that of the `Announce`."""

    root: Name
    store: Name
    epoch: Number
    life: Number
    announcer: Number
    version: Number
    since: Number
    format: Name = "text"
    """In which documents will come, unless both ends agree on a dictionary later."""


class Resync(_Message, frozen=True, tag="resync"):
    """To a child: announce everything. The sender has lost, or never had, what came before."""

    root: Name
    epoch: Number
    life: Number


class LinkDictionary(_Message, frozen=True, tag="dictionary"):
    """To a child: the dictionary of a root's documents, as its root has learnt it in that life. It is not used before
    the child has it."""

    root: Name
    epoch: Number
    life: Number
    root_life: Number
    dictionary: Annotated[bytes, msgspec.Meta(max_length=DICTIONARY_BYTES_MAX)]


class DictionaryKnown(_Message, frozen=True, tag="dictionary-known"):
    """To the parent: the dictionary with this fingerprint is here. `life` is the sender's."""

    root: Name
    epoch: Number
    life: Number
    fingerprint: Number


# --- repairs, with the root -------------------------------------------------------------------------------------------


class CatchUp(_Message, frozen=True, tag="catch-up"):
    """To a root: what do you have after this number? Only what `query` matches, or, if it is empty, everything."""

    root: Name
    epoch: Number
    question: Number
    after: Number
    query: QueryBytes = b""
    formats: Formats = []
    """What the asker reads, besides text."""


class History(_Message, frozen=True, tag="history"):
    """From a root: its documents (after, upto] that were asked for. Those up to `gone_until` are not kept any more.
    `last` is the last that it has; ask again if there are more."""

    root: Name
    store: Name
    epoch: Number
    life: Number
    question: Number
    after: Number
    upto: Number
    last: Number
    gone_until: Number
    documents: Annotated[list[Parcel], _MANY] = []


class Positions(_Message, frozen=True, tag="positions"):
    """To a root: its documents up to `number` are durable here, as far as they concern anybody here."""

    root: Name
    store: Name
    epoch: Number
    number: Number


class Latest(_Message, frozen=True, tag="latest"):
    """From a root, to a broker that is behind: the last document that it has."""

    root: Name
    store: Name
    epoch: Number
    life: Number
    number: Number


NetworkMessage = (
    Forward
    | Taken
    | Announce
    | Covered
    | Resync
    | LinkDictionary
    | DictionaryKnown
    | CatchUp
    | History
    | Positions
    | Latest
)
QUERY_MESSAGES = (Announce, Covered, Resync)
"""Those of the query flow. `Forward` and `History` are of the message flow; the others are control packets."""


class ServeLocal(_Message, frozen=True):
    """A broker to itself: the links are served; now its own subscribers. It never travels."""


class BeginAnew(_Message, frozen=True):
    """A broker to itself: what identifies its data is deleted, and it has to start again. It never travels."""
