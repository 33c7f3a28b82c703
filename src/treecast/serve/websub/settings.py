"""Limits and times of the WebSub hub. Every queue, wait and retry has a bound here."""

from __future__ import annotations

import msgspec

SECOND_MS, DAY_S = 1_000, 86_400


class WebSubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are sent is a matter of `HookSettings`."""

    public_url: str = ""
    """Where the service is reached from outside, as `https://news.example`; else the host that a request names."""

    lease_s: int = 10 * DAY_S
    """A subscription lasts so long, unless its request says otherwise,"""
    lease_s_min: int = 60
    lease_s_max: int = 30 * DAY_S
    """within these bounds."""

    subscribers_max: int = 10_000
    topics_max: int = 10_000
    """Topics whose last payloads are known."""
    verifications_max: int = 1_000
    """Requests whose intent is being verified. Beyond it, the answer is 503."""
    verifications_per_host_max: int = 20
    """Of one callback's host: the hub is no tool for attacking others."""
    verify_attempts_max: int = 3
    """A callback that does not answer at all is asked so often."""

    attempts_max: int = 12
    """After so many failed attempts a payload is given up for this subscriber; the next one follows."""
    read_bytes_max: int = 256 << 10
    """Of payloads that are read at once for a subscriber that is behind."""
    store_ms: int = SECOND_MS
    """Positions and last payloads are stored so often; after a crash, what came after is sent again."""
    check_ms: int = 5 * SECOND_MS
    """How often leases and topics are looked at."""
    last_rows_max: int = 100_000
    """Documents that are looked through for the last payload of a topic that nobody has asked for before."""
    stop_ms: int = 3 * SECOND_MS
    """At the end, requests have so long to be answered."""
