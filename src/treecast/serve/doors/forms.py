"""What the HTTP door takes and gives, as JSON. The OpenAPI description is made from these structs.

Fields that are not known are refused, so that a misspelt setting is not ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from treecast.overlay.broker.rows import SourceRow, SubscriptionRow
from treecast.overlay.messages import Name, Number, Subscribe, SubscriptionOptions, Text
from treecast.serve.doors.envelopes import Envelope
from treecast.serve.doors.problems import Problem

DEFAULTS = SubscriptionOptions()


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


# --- subscriptions ----------------------------------------------------------------------------------------------------


class SubscriptionForm(_Form, frozen=True):
    """A subscription: a query, what is delivered of a document that it matches, and how."""

    query: Text
    namespaces: dict[Name, Text] = {}
    ordered: bool = False
    deliver: Literal["document", "elements"] = "document"
    attempts_max: Number = DEFAULTS.attempts_max
    acknowledge_ms: Number = DEFAULTS.acknowledge_ms
    expires_ms: Number = DEFAULTS.expires_ms

    def command(self, id: str) -> Subscribe:
        options = SubscriptionOptions(self.attempts_max, self.acknowledge_ms, self.expires_ms)
        return Subscribe(id, self.query, self.namespaces, self.ordered, self.deliver, options)


class SubscriptionAnswer(msgspec.Struct, frozen=True):
    id: str
    query: str
    namespaces: dict[str, str]
    ordered: bool
    deliver: str
    attempts_max: int
    acknowledge_ms: int
    expires_ms: int
    paused: bool


def subscription_answer(id: str, row: SubscriptionRow) -> SubscriptionAnswer:
    options = row.options
    return SubscriptionAnswer(
        id,
        row.query,
        row.namespaces,
        row.ordered,
        row.deliver,
        options.attempts_max,
        options.acknowledge_ms,
        options.expires_ms,
        row.paused,
    )


class SubscriptionsAnswer(_Answer, frozen=True):
    """`next`, if there are more: ask again with `?after=` this."""

    subscriptions: list[SubscriptionAnswer]
    next: str = ""


class ImportRefusal(msgspec.Struct, frozen=True):
    """A row of an import that cannot be used; rows are counted from 0."""

    row: int
    id: str
    code: str
    message: str


class ImportAnswer(msgspec.Struct, frozen=True):
    """What was imported, or of a dry run, what would be. `refused` has the first of those that are refused."""

    rows: int
    added: int
    changed: int
    refused_count: int
    refused: list[ImportRefusal]


class ReplayForm(_Form, frozen=True):
    """From a document, or from a time in milliseconds since 1970, or from everything that is kept."""

    from_document: Number = 0
    from_ms: Number = 0


class ReplayAnswer(_Answer, frozen=True):
    """`first` is the first document that is replayed: what is missing before it is no longer kept."""

    first: int


class TryForm(_Form, frozen=True):
    """A query that is not registered yet."""

    query: Text
    namespaces: dict[Name, Text] = {}
    ordered: bool = False
    deliver: Literal["document", "elements"] = "document"


class TryMatch(_Answer, frozen=True):
    document: int
    published: str
    payload: str
    payload_encoding: str = ""
    is_cut: bool = False


class TryAnswer(_Answer, frozen=True):
    """`problem` says what is wrong with the query; then nothing else is said. `is_complete`: it was compared with all
    subscriptions that there are."""

    is_valid: bool
    problem: Problem | None = None
    covers: list[str] = []
    covered_by: list[str] = []
    compared: int = 0
    is_complete: bool = False
    documents: int = 0
    matches: list[TryMatch] = []


# --- documents and sources --------------------------------------------------------------------------------------------


class DocumentAnswer(_Answer, frozen=True):
    """The number of the document."""

    document: int


class BatchLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a batch."""

    document: str
    id: Name = ""
    encoding: Literal["", "base64"] = ""


class BatchItem(_Answer, frozen=True):
    """What became of a document: its number, or a problem."""

    status: int
    document: int = 0
    problem: Problem | None = None


class BatchAnswer(_Answer, frozen=True):
    """In the order of the lines."""

    documents: list[BatchItem]


class SourceForm(_Form, frozen=True):
    schema: Text = ""
    description: Text = ""


class SourceAnswer(msgspec.Struct, frozen=True):
    id: str
    schema: str
    description: str


def source_answer(id: str, row: SourceRow) -> SourceAnswer:
    return SourceAnswer(id, row.schema, row.description)


class SourcesAnswer(_Answer, frozen=True):
    sources: list[SourceAnswer]
    next: str = ""


# --- deliveries -------------------------------------------------------------------------------------------------------


class PullForm(_Form, frozen=True):
    """Up to `max` deliveries; wait up to `wait_ms` for the first one."""

    max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=30_000)] = 0


class PullAnswer(_Answer, frozen=True):
    deliveries: list[Envelope]


class SettleForm(_Form, frozen=True):
    """The ids of deliveries that were pulled."""

    deliveries: Annotated[list[Name], msgspec.Meta(max_length=10_000)]


class SettleAnswer(msgspec.Struct, frozen=True):
    """`unknown` are those that were not waited for: they were settled before, or took too long and come again."""

    settled: int
    unknown: list[str]


class Letter(msgspec.Struct, frozen=True):
    """A delivery that was given up."""

    letter: int
    subscription: str
    document: int
    reason: str
    attempts: int
    bytes: int
    died: str


class LettersAnswer(_Answer, frozen=True):
    letters: list[Letter]
    next: str = ""


class RedeliverForm(_Form, frozen=True):
    letters: Annotated[list[Number], msgspec.Meta(max_length=10_000)]


# --- sockets ----------------------------------------------------------------------------------------------------------


class SocketPublish(_Form, frozen=True):
    """A document; `ref` comes back with its answer."""

    document: str
    id: Name = ""
    encoding: Literal["", "base64"] = ""
    source: Name = ""
    ref: Name = ""


class SocketMessage(_Form, frozen=True):
    """What a client says on a socket: one or more of these.

    `subscriptions`: what it receives from, once, unless the address says it. `credit`: how many deliveries it wants to
    hold without acknowledging them. `ack` and `fail`: the ids of deliveries that it has dealt with, or wants again."""

    subscriptions: Annotated[list[Name], msgspec.Meta(max_length=10_000)] | None = None
    credit: Number | None = None
    ack: Annotated[list[Name], msgspec.Meta(max_length=10_000)] = []
    fail: Annotated[list[Name], msgspec.Meta(max_length=10_000)] = []
    publish: SocketPublish | None = None


class SocketOpened(msgspec.Struct, frozen=True):
    """Credit may be given."""

    opened: list[str]


class SocketUnknown(msgspec.Struct, frozen=True):
    """Ids that were acknowledged or failed, but are not held: settled before, or too late, and then they come again."""

    unknown: list[str]


class SocketInterrupted(msgspec.Struct, frozen=True):
    """Everything that is not acknowledged comes again."""

    interrupted: str


class SocketPublished(_Answer, frozen=True):
    """What became of a document."""

    published: BatchItem
    ref: str = ""
