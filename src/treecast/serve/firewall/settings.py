"""Limits and times of the firewall. Every queue, wait and retry has a bound here."""

from __future__ import annotations

import msgspec


class FirewallSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit back ends in the same data centre."""

    rules_bytes_max: int = 4 << 20
    """Of the file with the rules,"""
    rules_max: int = 10_000
    """which has so many rules,"""
    backends_max: int = 1_000
    """so many back ends,"""
    paths_max: int = 1_000
    """and so many paths."""

    dispatches_max: int = 2_000
    """Documents that are being sent on. Beyond it, the answer is 503,"""
    dispatches_bytes_max: int = 256 << 20
    """and beyond so many bytes of them."""
    backend_concurrency_max: int = 64
    """Requests to one back end at the same time, unless its rules say otherwise;"""
    backend_queue_max: int = 256
    """so many more wait for it,"""
    backend_queue_ms: int = 5_000
    """for so long."""

    connect_ms: int = 2_000
    answer_ms: int = 15_000
    """A back end has so long to answer, with all of the body, unless the rules say otherwise,"""
    answer_bytes_max: int = 16 << 20
    """which has so many bytes at most."""
    keep_alive_ms: int = 1_500
    """An idle connection is used again within this time. A server that closes it sooner loses a request."""
    attempts_max: int = 3
    """Back ends that are tried for one document and one rule."""

    failures_max: int = 3
    """After so many failures in a row a back end gets nothing,"""
    rest_ms: int = 5_000
    """for so long; then one document is tried. If that fails, it rests twice as long, and so on,"""
    rest_ms_max: int = 60_000
    check_ms: int = 5_000
    """A back end with a health check is looked at so often,"""
    check_answer_ms: int = 2_000
    """has so long to answer,"""
    check_failures_max: int = 3
    """gets nothing after so many failures in a row,"""
    check_successes_min: int = 2
    """and something again after so many successes."""
    stop_ms: int = 3_000
    """At the end, connections have so long to be closed."""
