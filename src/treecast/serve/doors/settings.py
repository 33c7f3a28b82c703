"""Limits and times of the HTTP door. Every queue, buffer and wait has a bound here."""

from __future__ import annotations

import msgspec

from treecast.serve.hooks.settings import HookSettings
from treecast.serve.websub.settings import WebSubSettings


class DoorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a broker with thousands of clients."""

    connections_max: int = 20_000
    """Further ones are closed at once. They are fewer where the system allows few open files (`LimitNOFILE`)."""
    handshake_ms: int = 10_000
    """A connection with TLS has so long for its handshake. It counts meanwhile."""
    header_ms: int = 10_000
    """The header of a request has so long to arrive,"""
    header_bytes_max: int = 64 << 10
    """at most so many bytes, with the address and its line ends,"""
    body_ms: int = 30_000
    """and its body so long after that."""
    keep_alive_ms: int = 75_000
    """A connection that asks nothing for so long is closed."""
    stalled_ms: int = 30_000
    """A connection that does not take what it is sent for so long is closed."""
    answer_ms: int = 30_000
    """What the broker has not answered for so long is answered with 503."""
    stop_ms: int = 5_000
    """At the end, requests have so long to be answered."""

    document_bytes_max: int = 16 << 20
    """Of one document, after unpacking."""
    batch_bytes_max: int = 32 << 20
    """Of a batch of documents, after unpacking."""
    request_bytes_max: int = 4 << 20
    """Of any other body."""
    bodies_bytes_max: int = 256 << 20
    """Of all bodies that are arriving."""
    documents_per_batch_max: int = 1_000

    waiting_documents_max: int = 50_000
    """Documents that wait to be handed to the broker. Beyond it, the answer is 503."""
    waiting_bytes_max: int = 128 << 20
    publish_documents_max: int = 500
    """Documents that are handed to the broker at once,"""
    publish_bytes_max: int = 8 << 20
    """unless a single one is larger."""
    publishes_max: int = 2
    """So many such groups are under way: one is written while the next one is matched."""
    gather_ms: int = 2
    """A group that has less than half the documents of the last one waits so long for more."""

    streams_max: int = 20_000
    subscriptions_per_stream_max: int = 1_000
    stream_bytes_max: int = 256 << 10
    """Events that wait for one stream to take them. Beyond it, they are read from disk later."""
    heartbeat_ms: int = 15_000
    advance_ms: int = 1_000
    """How often the broker is told what event streams have sent."""

    pulls_max: int = 1_000
    """Subscriptions that are pulled from at the same time."""
    pull_deliveries_max: int = 1_000
    """Deliveries of one pull, and those of one subscription that are pulled and not acknowledged."""
    pull_wait_ms_max: int = 30_000
    pull_idle_ms: int = 60_000
    """A subscription that nobody pulls from for so long, and that has nothing to acknowledge, is left to others."""

    sockets_max: int = 10_000
    socket_message_bytes_max: int = 1 << 20
    """Of what a client says at once: larger documents are published by requests."""
    socket_credit_max: int = 1_000
    """Deliveries that a socket may hold without acknowledging them,"""
    socket_ahead: int = 64
    """and those of them that may be on their way to it, as long as it reads."""
    socket_publishes_max: int = 100
    """Documents of one socket that have no answer yet. Beyond it, nothing more is read from it."""
    socket_ping_ms: int = 15_000
    """How often a socket is asked whether it lives; it has so long to answer."""
    socket_close_ms: int = 2_000
    """A socket that is being closed has so long to agree."""
    socket_origins: list[str] = []
    """Web pages of these origins, as `https://example.org`, may open sockets; else only those of the service itself."""

    transfers_max: int = 2
    """Imports and exports of subscriptions at the same time."""
    import_bytes_max: int = 1 << 30
    """Of subscriptions that are imported at once, after unpacking: they are written to a temporary file,"""
    import_ms: int = 600_000
    """and have so long to arrive."""
    refused_rows_max: int = 1_000
    """Refused rows of an import that the answer lists."""

    page_rows_max: int = 1_000
    read_documents_max: int = 1_000
    """Documents in one answer, for those who read all of them,"""
    read_bytes_max: int = 8 << 20
    """and bytes of them, unless a single one is larger."""
    search_rows_max: int = 10_000
    """Subscriptions that one search looks at; the next one goes on from there."""
    excerpt_bytes_max: int = 64 << 10
    """A list of documents shows the beginning of those that have at most so many bytes."""
    explain_bytes_max: int = 16 << 20
    """Bytes that are read to explain matches, over all matches of one answer. Beyond it, they are only listed."""
    explained_max: int = 50
    """Matches of one answer."""
    refusals_max: int = 200
    """Refused documents that are remembered, in memory."""
    status_ms: int = 500
    """Whoever asks for the status within so long gets the same answer."""
    status_rest: int = 50
    """Looking for the longest queues rests for so many times as long as it took, so that it costs at most 2 %."""
    status_queues_max: int = 20
    disk_ms: int = 10_000
    """How often the sizes of files are looked at."""
    try_documents_max: int = 100
    """A query is tried on so many of the last documents,"""
    try_bytes_max: int = 8 << 20
    """and at most so many bytes of them,"""
    try_subscriptions_max: int = 500
    """and compared with so many subscriptions."""

    hooks: HookSettings = HookSettings()
    websub: WebSubSettings = WebSubSettings()
