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


Filtering = Literal["", "complete", "partial"]
"""How far a ring has filtered a document: complete, every subscription that it matches has it in its queue, on disk;
partial, some states or hosts could not be reached, and the ring goes on trying. Empty: there is no ring."""


class DocumentAnswer(_Answer, frozen=True):
    """The number of the document; from a ring, also whether it got everywhere, and what could not be reached."""

    document: int
    filtering: Filtering = ""
    unreachable: list[str] = []


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
    filtering: Filtering = ""
    unreachable: list[str] = []


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
    """It is stored: what was acknowledged never comes again. `unknown` are those that were not waited for: they were
    settled before, or took too long and come again."""

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


# --- documents that are kept ------------------------------------------------------------------------------------------


class DocumentSummary(_Answer, frozen=True):
    """`matches` is how many subscriptions it matched, `subscriptions` the first of them. `excerpt` is its beginning,
    unless it is large."""

    document: int
    source: str
    published: str
    bytes: int
    matches: int
    subscriptions: list[str] = []
    id: str = ""
    excerpt: str = ""
    early: str = ""
    """In a network: the steps that were done to it before it came to this broker; empty: it is as it was published."""


class DocumentsAnswer(_Answer, frozen=True):
    """Newest first. `next`, if there are more: ask again with `?before=` this."""

    documents: list[DocumentSummary]
    next: int = 0


class Span(msgspec.Struct, frozen=True):
    """Bytes of the document: what was selected (`result`), or what a condition looked at (`evidence`)."""

    start: int
    end: int
    kind: Literal["result", "evidence"]
    path: str
    line: int


class ExplainedStep(msgspec.Struct, frozen=True):
    """A step of the query, where it led, and why its conditions hold, in words."""

    step: str
    path: str
    line: int
    conditions: list[str]


class DocumentMatch(_Answer, frozen=True):
    """What one subscription got of a document. `state` is `waiting` until it was delivered or given up, then `done`;
    `gone` if the subscription was removed. `note` says why there is no explanation. Without `payload`, it was the
    document."""

    subscription: str
    state: Literal["waiting", "done", "gone"]
    query: str = ""
    payload: str | None = None
    payload_encoding: str = ""
    is_cut: bool = False
    steps: list[ExplainedStep] = []
    spans: list[Span] = []
    note: str = ""


class MatchesAnswer(_Answer, frozen=True):
    """`encoding` is that of the document, as browsers call it. `next`, if there are more matches."""

    document: int
    encoding: str
    bytes: int
    total: int
    matches: list[DocumentMatch]
    next: str = ""


class RefusedDocument(_Answer, frozen=True):
    """A document that was not accepted. `excerpt` is its beginning, as far as it arrived."""

    number: int
    refused: str
    source: str
    code: str
    detail: str
    hint: str = ""
    id: str = ""
    bytes: int = 0
    excerpt: str = ""


class RefusalsAnswer(_Answer, frozen=True):
    """Newest first, as far as they are remembered; `total` counts all since the start."""

    refusals: list[RefusedDocument]
    total: int
    next: int = 0


# --- the status -------------------------------------------------------------------------------------------------------


class Totals(msgspec.Struct, frozen=True):
    """Since the start. `delivered` counts deliveries that were sent, also those that were sent again; `matched` those
    that were due."""

    published: int
    matched: int
    delivered: int
    refused: int


class Rates(msgspec.Struct, frozen=True):
    """By second."""

    published: float
    delivered: float
    refused: float


class RecentRates(msgspec.Struct, frozen=True):
    """Over the last 10 and 60 seconds."""

    last_10_s: Rates
    last_60_s: Rates


class History(msgspec.Struct, frozen=True):
    """One number for each of the last seconds, the newest last; rates by second, and the lag of receivers."""

    published: list[float]
    delivered: list[float]
    refused: list[float]
    lag_ms: list[int]


class Lag(msgspec.Struct, frozen=True):
    """How long ago the first document was published that somebody who receives at present has not got; and the same for
    all subscriptions, also those that nobody reads. 0 if there is none."""

    receivers_ms: int
    oldest_ms: int
    oldest_document: int


class QueueDepth(msgspec.Struct, frozen=True):
    """What a subscription waits for. Of a parked one, `waiting` is what is in memory: there is more on disk. `sent` is
    not acknowledged yet. `oldest_ms`: the age of the first."""

    subscription: str
    waiting: int
    sent: int
    receivers: int
    is_parked: bool
    is_paused: bool
    oldest_document: int
    oldest_ms: int


class Sizes(msgspec.Struct, frozen=True):
    """What there is now. `document_bytes` are those of documents and payloads that are kept, `store_bytes` of all files
    in the data directory, `free_bytes` what its disk has left."""

    subscriptions: int
    sources: int
    documents: int
    letters: int
    sessions: int
    streams: int
    document_bytes: int
    store_bytes: int
    free_bytes: int


class StatusAnswer(msgspec.Struct, frozen=True):
    """How the broker is doing. `queues` are those that wait for most, parked ones first."""

    broker: str
    version: str
    store: str
    now: str
    started: str
    uptime_ms: int
    first_document: int
    last_document: int
    totals: Totals
    rates: RecentRates
    history: History
    lag: Lag
    queues: list[QueueDepth]
    sizes: Sizes


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


class TicketAnswer(_Answer, frozen=True):
    """For one request to an event stream or a WebSocket, until `ends`."""

    ticket: str
    ends: str


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
