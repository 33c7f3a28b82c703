"""Limits and times of web hooks. Every queue, wait and retry has a bound here."""

from __future__ import annotations

import msgspec

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults follow the advice of Standard Webhooks: many attempts over days."""

    allow: list[str] = []
    """Networks that hooks may reach although they are not public, as `10.1.0.0/16`."""

    hooks_max: int = 1_000
    subscriptions_per_hook_max: int = 100
    url_chars_max: int = 2_000
    concurrency_max: int = 100
    """Attempts of one hook at the same time, whatever it asks for."""
    rate_max: int = 10_000
    """Attempts a second of one hook, likewise."""
    attempts_max: int = 100
    """Attempts for one delivery, likewise."""

    ahead_max: int = 16
    """Deliveries that a hook holds beside those that it is sending."""
    settle_ms: int = 20
    """The broker is told after so long what was accepted, several at once."""

    connections_max: int = 200
    """Over all hooks. Attempts beyond it wait for one."""
    resolvers_max: int = 8
    """Threads that look up names."""
    resolve_ms: int = 5 * SECOND_MS
    connect_ms: int = 5 * SECOND_MS
    attempt_ms: int = 20 * SECOND_MS
    """An endpoint has so long to answer, connecting included,"""
    response_ms: int = SECOND_MS
    """and its answer's body so long to arrive after that: only its beginning is read, and its status counts."""
    response_bytes_max: int = 4_096
    response_kept_bytes_max: int = 300
    """Of the body, in the log of attempts."""

    retry_ms: int = 5 * SECOND_MS
    """A failed delivery is tried again after so long, then after twice as long, and so on,"""
    retry_ms_max: int = 6 * HOUR_MS
    retry_after_ms_max: int = HOUR_MS
    """An endpoint may ask to be left alone for so long."""
    failures_in_row_max: int = 10
    """After so many failures in a row attempts are made one at a time, until one succeeds."""
    failing_ms_max: int = 5 * DAY_MS
    """A hook that has only failed for so long is disabled."""

    overlap_ms: int = DAY_MS
    """After a rotation the old secret signs for so long, unless the request says otherwise;"""
    overlap_ms_max: int = 30 * DAY_MS
    secrets_max: int = 5
    """of so many secrets at most."""

    attempts_kept_max: int = 50
    """In the log of each hook."""
    store_ms: int = SECOND_MS
    """The log is stored so often; a crash loses what came after."""
    join_ms: int = 5 * SECOND_MS
    """A subscription that was removed and added again is received from after so long."""
    letters_max: int = 10_000
    """Dead letters that are sent again by one request."""
    stop_ms: int = 3 * SECOND_MS
    """At the end, attempts have so long to be answered."""
