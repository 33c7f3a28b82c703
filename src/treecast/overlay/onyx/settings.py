"""Limits and times of a broker's part in a network. Every buffer, wait and retry has a bound here."""

from __future__ import annotations

import msgspec

from treecast.errors import PeerError
from treecast.wire import FORMATS, parse_format


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit brokers that reach each other within tens of milliseconds."""

    link_window_bytes: int = 4 << 20
    """What was sent on a link and not taken yet; more waits in the link's buffer,"""
    link_buffer_bytes_max: int = 32 << 20
    """which holds so much. A link that cannot keep up loses its buffer: the child asks the root for what it lost."""
    link_stall_ms: int = 2_000
    """If nothing is taken for so long, what is on its way counts as lost."""
    forward_documents_max: int = 256
    forward_bytes_max: int = 1 << 20
    """Of one message, unless a single document is larger."""
    idle_ms: int = 1_000
    """A link on which nothing was sent for so long is told that there was nothing for it."""
    taken_bytes: int = 1 << 20
    """A parent is told after so many bytes, or a quarter of this broker's own window, that there is room for more, and
    with the next tick in any case. No parent should have a smaller window."""

    link_formats: tuple[str, ...] = ("binary",)
    """In which documents are sent to a child: the first of these that it reads, or text. Compressed ones take several
    times the CPU; they are for links that are slower than that."""
    link_reads: tuple[str, ...] = FORMATS
    """What this broker reads, and tells others; besides text."""
    dictionary_documents: int = 64
    """A root learns a dictionary from so many documents, and once more after so many times as many; if a format of
    its links has one."""
    dictionary_bytes_max: int = 256 << 10
    dictionaries_max: int = 4
    """Of one root, that are known at a time: documents of the one before may still be on their way."""
    routes_first: bool = True
    """What was passed on leaves before the broker's own subscribers are served. Without it, all is one turn,"""
    local_bytes_max: int = 8 << 20
    """as it is where so much of what came waits for that."""
    own_at_once_max: int = 200_000
    """Up to so many subscriptions of its own, a broker that routes a document looks for them in the same go: what it
    passes on leaves some microseconds a document later, and no document is read twice. 0: it never does."""

    early_bytes_max: int = 8 << 20
    """Of documents of one root that arrived before others which are missing. More are asked for again."""
    repair_ms: int = 500
    """A question to a root without an answer is asked again after so long, then after twice as long, and so on."""
    repair_ms_max: int = 10_000
    patience_ms: int = 300
    """What a root has and the tree does not bring within this time is asked for."""
    history_rows_max: int = 1_000
    """Documents that a root looks at for one answer,"""
    history_bytes_max: int = 1 << 20
    """and bytes in it, unless the first document is larger."""
    history_few_max: int = 64
    """If at most so many are missing, all of them are sent: that costs less than to send and to compile a query."""
    history_queries_per_document: int = 10
    """The same if the asker has so many subscriptions for each that is missing: its query is the larger."""
    history_query_bytes_max: int = 1 << 20
    """A longer routing query is not sent along: then everything comes."""
    history_filters_max: int = 16
    """Of questions that were asked last: their queries, compiled."""

    positions_ms: int = 1_000
    """Positions are told to the roots so often; those that changed without any document are stored then."""
    uncovered_ms: int = 200
    """And so often while some tree does not cover the broker, for instance after a restart: until it does, what the
    roots say is all that the broker lives on."""
    absent_ms_max: int = 86_400_000
    """Documents are kept for a broker that has left, for so long. Retention decides on top of that."""

    announce_ms: int = 500
    """What is not covered after so long is asked for again, then after twice as long, and so on."""
    announce_ms_max: int = 10_000
    announce_bytes_at_once: int = 16 << 10
    """A larger announcement waits for a tick, which takes one of them: tables of thousands of queries take long to
    change, and after a restart all children announce everything. Meanwhile questions are answered."""
    announces_waiting_max: int = 1_000
    """Of one child in one tree. If there are more, it has to announce everything again."""
    cover_ms_max: int = 20_000
    """A subscription that is not covered within this time is refused."""
    plan_bytes_max: int = 4_096
    """Of a plan for a link: what may be done to documents before they cross it. 0: nothing is ever done."""
    plan_queries_max: int = 4_096
    """Different queries of a broker's own subscriptions that a plan is made for; with more of them, documents come
    whole."""
    plan_steps_max: int = 64
    """Queries that are looked at for the plan in one turn. The rest waits for the next tick, and documents come whole
    until then."""
    load_rows_max: int = 2_000
    """Of a broker's own subscriptions, that are put into its routing table in one turn after a restart."""
    held_requests_max: int = 10_000
    """Requests that wait for that, or behind one that does. More are not taken: their clients ask again."""

    def __post_init__(self) -> None:
        try:
            for name in (*self.link_formats, *self.link_reads):
                parse_format(name)
        except PeerError as error:
            raise ValueError(str(error)) from None

    moves_max: int = 100
    """Subscriptions that are on their way to other hosts at a time,"""
    arrivals_max: int = 100_000
    """and that have come from others: each is remembered as long as it is here."""
    moved_max: int = 100_000
    """Subscriptions that have gone, and whose clients are told where they are. Others ask the registry."""
    move_documents_max: int = 1_000
    """Deliveries that a subscription may take along,"""
    move_bytes_max: int = 4 << 20
    """and their bytes. With more to deliver it does not move."""
    move_ms_max: int = 60_000
    """A subscription that could not be handed over within this time stays."""
    move_repeat_ms: int = 1_000

    @property
    def bytes_per_taken(self) -> int:
        """How many bytes come between two messages `Taken` to a parent."""
        return min(self.taken_bytes, self.link_window_bytes // 4)
