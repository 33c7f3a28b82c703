"""Limits and times of replicas. Every queue, window and retry has a bound here."""

from __future__ import annotations

import msgspec


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit two brokers in one data centre."""

    resend_ms: int = 200
    """What a backup has not answered is sent again after so long, then after twice as long, and so on."""
    resend_ms_max: int = 2_000
    alone_ms: int = 3_000
    """A primary whose answers waited for its backup for so long tells the control plane, which must decide."""

    window_groups_max: int = 1_000
    """Groups that are on their way to a backup,"""
    window_bytes_max: int = 16 << 20
    """and their bytes, unless a single one is larger."""
    part_bytes_max: int = 256 << 10
    """A larger group travels in parts."""
    group_bytes_max: int = 256 << 20
    """A larger group is not copied by itself: the backup gets a snapshot that contains it."""

    behind_groups_max: int = 10_000
    """A primary that is so many groups ahead of its backup takes no requests until the backup has caught up,"""
    behind_bytes_max: int = 256 << 20
    """nor if the rows of these groups are so large."""
    joining_groups_max: int = 500_000
    """A backup that is being filled falls behind meanwhile. If it falls behind further than the two limits above, it
    starts over and may fall behind twice as far as the last time, up to so many groups,"""
    joining_bytes_max: int = 4 << 30
    """and up to so many bytes of their rows, on disk."""
    held_effects_max: int = 20_000
    """A primary takes no requests either while so many answers and the like wait for the backup."""

    chunk_bytes_max: int = 256 << 10
    """Of a snapshot that travels as one message, unless a single row or body is larger."""
    chunk_rows_max: int = 256
    """Rows that are read at once."""
    chunks_ahead_max: int = 4
    """Chunks that are on their way."""

    replicas_max: int = 16
    """Brokers that one host serves or holds replicas of."""
    lineage_max: int = 64
    """Terms that a replica remembers, at least 2. What is older than those is replaced by a snapshot."""
    clean_rows_max: int = 1_000
    """Rows of a replica that is no longer needed, deleted in one step."""
