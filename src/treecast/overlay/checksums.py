"""CRC-32 of what travels in frames and lies in stores, by native code: of one thing, or of many by one call.

>>> from zlib import crc32 as expected
>>> crc32(b"<a/>") == expected(b"<a/>")
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treecast import _native

crc32 = _native.crc32
"""As `zlib.crc32`, several times as fast."""


def log_records(mark: bytes, first: int, data: bytes, ends: Sequence[int], head_bytes: int) -> tuple[bytes, list[int]]:
    """Bodies with consecutive numbers as records of a log, and where each begins: see `treecast.serve.store.segment`.
    In `data` they stand one behind the other, each with a head, which no record has."""
    return _native.log_records(mark, first, data, ends, head_bytes)


def checked_rows(seed: int, rows: dict[Any, bytes | None]) -> list[tuple[int | str, bytes]]:
    """Keys, and values with checksums behind them, without those that are None: see `treecast.serve.store.tables`."""
    return _native.checked_rows(seed, rows)
