"""Limits and times of a peer of a ring that serves clients."""

from __future__ import annotations

import msgspec

from treecast.overlay.chord.nfa_peer import Method


class RingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer does for publishers and subscribers; the ring itself has `ChordSettings` and `NfaSettings`."""

    method: Method = "recursive"
    """How documents are filtered that are published here."""
    filters_max: int = 16
    """Documents of this peer that are filtered at once. The others wait, on disk."""
    underway_max: int = 100_000
    """Documents that are not through. Beyond that, none is accepted (TC474)."""
    again_ms: int = 2_000
    """A document that did not get everywhere is filtered again after so long, then after twice as long, and so on,"""
    again_ms_max: int = 60_000
    give_up_ms: int = 3_600_000
    """until it is so old."""

    held_requests_max: int = 10_000
    """Requests that wait until the ring has a subscription. Others are ignored, and come again."""
    removal_ms: int = 30_000
    """A subscription that the ring could not remove is removed again after so long."""
    fetches_max: int = 1_000
    """Documents with matches that a host asks for at once. Beyond that, it is told of a match again."""
    taken_max: int = 100_000
    """Documents that a host remembers to have taken, so that it takes none twice."""
