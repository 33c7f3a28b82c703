"""Limits and times of a worker of a fleet. Every queue, buffer and wait has a bound here."""

from __future__ import annotations

import msgspec

SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a server of NATS on the same network.

    Sizes and ages of streams count when the first worker of a fleet makes them. Streams that exist are used as they
    are: NATS's own tools change them.
    """

    replicas: int = 1
    """Copies of each stream, in a cluster of NATS servers."""
    documents_bytes_max: int = 2 << 30
    """Of documents that are kept. If more wait to be matched, publishers are refused with TC415."""
    documents_keep_bytes: int = 1 << 30
    """Documents that were matched are kept up to this, so that second copies are recognised."""
    documents_ms_max: int = 7 * DAY_MS
    """A document that no worker took for so long is dropped."""
    deliveries_bytes_max: int = 4 << 30
    """Of deliveries that are kept. Beyond it the oldest are dropped, and readers are told that they are gone,"""
    deliveries_ms_max: int = 7 * DAY_MS
    """and after so long."""
    parts_bytes_max: int = 2 << 30
    """Of bodies that are too large for one message of NATS."""
    catalog_bytes_max: int = 1 << 30
    """Of subscriptions and sources. Beyond it, further ones are refused."""
    duplicates_ms: int = 2 * MINUTE_MS
    """For so long the ids of documents and deliveries are remembered, to drop second copies."""
    subscriptions_max: int = 10_000_000
    sources_max: int = 10_000

    connect_ms: int = 10_000
    """How long the first connection may take."""
    reconnect_ms: int = 250
    """Later, a connection is tried again so often, without end."""
    request_ms: int = 5_000
    """A question to NATS is answered within this time, or asked again."""
    retry_ms: int = 100
    """How long to wait before something is asked again."""
    store_ms: int = 60_000
    """What NATS has not stored after so long, with repetitions, is left to another try."""
    store_messages_max: int = 1_000
    """Messages that are on their way to NATS at once, of one request,"""
    store_bytes_max: int = 4 << 20
    """and bytes of them, unless a single one is larger."""
    outgoing_bytes_max: int = 16 << 20
    """Bytes that wait for the connection to take them."""

    documents_per_batch_max: int = 256
    """Documents that a worker takes at once, and matches together."""
    batch_bytes_max: int = 16 << 20
    """Bytes of documents that are matched together, unless a single one is larger."""
    documents_taken_max: int = 100_000
    """Documents that all workers together have taken and not yet dealt with."""
    lanes: int = 2
    """Batches that are under way: one is matched while the deliveries of another are stored."""
    document_ack_ms: int = 15_000
    """Documents of a worker that dies are taken by another one after so long."""
    catalog_ms_max: int = 10_000
    """How long a worker waits for its subscriptions to be up to date."""
    catalog_batch_max: int = 5_000
    """Changes of subscriptions that are read at once."""
    removed_ms: int = DAY_MS
    """What was removed is remembered for so long. A worker that was cut off for half of it starts over."""
    removed_at_once_max: int = 1_000
    """Subscriptions whose removal is forgotten when a worker starts, at most."""
    sweep_ms: int = 30_000
    """How often a worker looks whether matched documents can be dropped."""

    live_messages_max: int = 10_000
    """Deliveries that wait to be handed to event streams, for one subscription. Beyond it, they are read later."""
    reads_max: int = 32
    """Questions for stored deliveries that one event stream has under way."""
    settle_ms: int = 500
    """How long other workers are asked whether they hold deliveries that are acknowledged here."""
