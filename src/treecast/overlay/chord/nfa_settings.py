"""Limits and times of the distributed NFA. All peers of a ring have the same `fragment_length`."""

from __future__ import annotations

import msgspec


class NfaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of the paper where it has some."""

    fragment_length: int = 0
    """The paper's `l`: how far the states are that a peer has copies of beside each of its own."""
    shed_rate: float = 0.1
    """A state that more than this share of all documents visit gets copies; 1: never."""
    shed_documents_min: int = 20
    """Documents after which that is looked at."""
    shed_copies: int = 10

    walk_ms: int = 2_000
    """A query that has not reached its last state after so long starts again,"""
    walk_attempts_max: int = 30
    """up to so often."""
    attempts_max: int = 8
    """How often a state is looked for before it counts as unreachable."""
    again_ms: int = 400
    """Time between these attempts."""
    notify_attempts_max: int = 6
    """Rounds of asking a host that does not answer. Then it counts as unreachable."""

    whole_bytes_max: int = 64 << 10
    """A larger document travels in fragments."""
    documents_max: int = 256
    """Documents that a peer works on, or remembers to have worked on. Beyond that visits wait. Also documents that a
    publisher waits for: beyond that, one is reported with the publisher itself as unreachable."""
    checks_max: int = 1_000
    """Queries with predicates that are kept compiled."""
    locations_max: int = 10_000
    """Ranges of the ring whose owners are remembered. 0: every visit begins with a lookup."""
    recent_max: int = 10_000
    """Pairs of document and subscription that a host remembers, so that it delivers none twice."""
    joins_max: int = 1_000
    """Patterns that wait for more of their parts."""
    notices_max: int = 100_000
    """States with copies that a peer knows of."""
    subscriptions_max: int = 1_000_000
    """Subscriptions of one host."""
