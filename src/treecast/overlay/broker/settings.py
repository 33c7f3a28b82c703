"""Limits and times of a broker. Every queue, cache and retry has a bound here."""

from __future__ import annotations

import msgspec

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit one machine with a disk of its own."""

    documents_per_publish_max: int = 1_000
    sources_max: int = 10_000
    clients_max: int = 100_000
    client_ms: int = 7 * DAY_MS
    """If there are so many, those that were silent for so long are forgotten."""
    subscriptions_max: int = 10_000_000

    record_bytes_max: int = 256 << 10
    """Of one value that a door keeps,"""
    records_per_kind_max: int = 100_000
    record_kinds_max: int = 100
    """of so many of a kind, and so many kinds."""

    schema_bytes_max: int = 1 << 20
    """Of the DTD of a source,"""
    schema_chars_max: int = 4 << 20
    """whose parameter entities expand to so many characters at most,"""
    schema_transitions_max: int = 200_000
    """and its content models to so many transitions of automata;"""
    schemas_transitions_max: int = 1_000_000
    """those of all sources together. Beyond it, DTDs that were not used for longest are compiled anew when needed."""
    validated_bytes_max: int = 4 << 20
    """Of a document whose source has a DTD: checking 1 MB takes about 0.1 s."""
    refuse_unwanted: bool = False
    """Documents that no subscription matches are refused, and their publishers are told so."""

    duplicates_max: int = 100_000
    """The ids of so many documents are remembered, to drop those that are published again."""
    duplicates_ms: int = 10 * MINUTE_MS
    """And for so long at most."""

    sessions_max: int = 20_000
    subscriptions_per_session_max: int = 10_000
    credit_max: int = 10_000
    """Deliveries that one session may have without acknowledging them, whatever it asks for."""
    session_ms: int = 10 * SECOND_MS
    """A session from which nothing was heard for so long is over."""
    items_per_message_max: int = 1_024
    message_bytes_max: int = 1 << 20
    """Of payloads in a message, unless a single one is larger."""
    resend_ms: int = 500
    """A message that its client has not received is sent again after so long."""

    retry_ms: int = SECOND_MS
    """A failed delivery is tried again after so long, then after twice as long, and so on."""
    retry_ms_max: int = MINUTE_MS
    postponed_ms_max: int = DAY_MS
    """A receiver that decides itself when to try again waits so long at most."""

    queue_memory_max: int = 1_000
    """Deliveries of one subscription that are in memory. If there are more, the rest is read from disk later."""
    waiting_memory_max: int = 4_000_000
    """Deliveries in memory of all subscriptions that nobody receives from at present."""
    cached_rows_max: int = 4_096
    refill_rows_max: int = 512
    """Documents that are looked at in one step when a queue is filled again from disk."""
    refill_queues_max: int = 8
    """Queues that are filled again in one step. Between steps the broker does other work."""

    keep_ms: int = DAY_MS
    """Documents are kept for replay for so long after they were published,"""
    keep_bytes: int = 10 << 30
    """and at most so many bytes of them. Neither drops what was not delivered yet."""
    undelivered_ms_max: int = 7 * DAY_MS
    """What could not be delivered for so long becomes a dead letter."""
    store_bytes_max: int = 100 << 30
    """Beyond this, nothing is accepted until something has been delivered or dropped."""
    retention_step_ms: int = 10 * SECOND_MS
    retention_rows_max: int = 2_000

    announces: bool = False
    """Whoever runs the broker gets a `Published` event for each document, once it is durable."""

    save_index_changes: int = 50_000
    """The index is saved after so many changes."""
