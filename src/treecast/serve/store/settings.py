"""The settings of a store. `bench/store.py` measures some of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreSettings:
    """Sizes and bounds. All but `page_bytes`, which a store keeps for ever, may differ from one opening to the next."""

    segment_bytes_max: int = 64 << 20
    """A segment of the log that has reached this size is sealed. Bodies are dropped by whole segments."""
    segment_files_max: int = 64
    """Sealed segments that are kept open for reading."""
    segment_offsets_max: int = 16
    """Sealed segments whose offsets are kept in memory: about 12 bytes a body."""
    page_bytes: int = 8192
    """The size of SQLite's pages, when a store is made. On a busy machine 4, 8 and 16 KiB could not be told apart."""
    cache_bytes_max: int = 32 << 20
    """SQLite's cache, for each of the two connections."""
    checkpoint_bytes: int = 4 << 20
    """SQLite's log is copied into its tables whenever it has grown by about so much."""
    wal_bytes_max: int = 64 << 20
    """SQLite's log grows while a check or a backup reads everything. Afterwards its file is cut to this size."""
