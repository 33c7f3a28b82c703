"""What has to be done about SQLite's write-ahead log before SQLite reads it: after a crash, or a failed sync.

**Groups that SQLite would lose without a word** are looked for.

SQLite's log is a header and frames, one for each page that was changed; the last frame of a transaction is marked. A
frame counts only if its checksum, which goes over all frames before it, is right. So after a crash SQLite ends its log
before the first frame that is torn. But it does the same before a bit that has flipped, and then forgets transactions
that were synced long ago.

The two can be told apart. A group is written only when the one before it is synced, so a crash leaves at most one
transaction that is torn. Where two or more end behind the place at which SQLite stopped, one of them was acknowledged:
the store is damaged. A flipped bit in the last group looks like a crash before it was synced; its number tells the two
apart, if that was written since (`last_group.py`).

**What a failed sync did not write** is written again. After such a failure the system may show frames that are not on
disk, and believe that they are. SQLite would copy them into its tables; a loss of power in the middle of that would
leave tables that are changed in part, and no log to repair them with. tests/serve/test_store_crash.py shows it.

The format is described in SQLite's documentation, "WAL-mode File Format".
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from treecast import durable
from treecast.serve.store import failures

_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, two salts, two checksums
_FRAME = struct.Struct(">6I")  # page, pages in the file after a commit or 0, two salts, two checksums
_COPY_BYTES = 1 << 20
_MAGIC = 0x377F0682  # the lowest bit: checksums of big-endian words


def _checksum(data: bytes, order: str) -> tuple[int, int]:
    """SQLite's checksum, here for headers only."""
    first = second = 0
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def _is_header(start: bytes) -> bool:
    """Whether SQLite takes this for the header of a log. Otherwise it reads nothing of it."""
    if len(start) < _HEADER.size:
        return False
    magic, *_, first, second = _HEADER.unpack(start)
    return magic & ~1 == _MAGIC and _checksum(start[:24], ">" if magic & 1 else "<") == (first, second)


def is_read(path: Path) -> bool:
    """Whether SQLite will look for frames in this log: behind a header that is right there is something."""
    try:
        with path.open("rb") as file:
            return _is_header(file.read(_HEADER.size)) and bool(file.read(1))
    except FileNotFoundError:
        return False


def committing_frames(path: Path) -> list[int]:
    """The numbers, from 1, of all frames that end a transaction, whether or not SQLite will read so far.

    Raises StorageError if the header is damaged: it is shorter than a sector, so no crash tears it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        start = os.pread(descriptor, _HEADER.size, 0)
        if len(start) < _HEADER.size or not any(start):
            return []  # nothing was ever synced to it
        if not _is_header(start):
            raise failures.damaged("the log of the tables is damaged: what was stored last is lost")
        _, _, page_bytes, _, *salts, _, _ = _HEADER.unpack(start)
        frames, size = [], _FRAME.size + page_bytes
        for number, offset in enumerate(range(_HEADER.size, os.fstat(descriptor).st_size, size), 1):
            frame = os.pread(descriptor, _FRAME.size, offset)
            if len(frame) == _FRAME.size:
                _, pages, *its_salts, _, _ = _FRAME.unpack(frame)
                if pages and its_salts == salts:
                    frames.append(number)
        return frames
    finally:
        os.close(descriptor)


def rewrite(path: Path) -> None:
    """Write a file over itself, and sync it: what is read from it is then on disk, whatever was believed before."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        offset = 0
        while data := os.pread(descriptor, _COPY_BYTES, offset):
            offset += os.pwrite(descriptor, data, offset)
        if offset:
            durable.sync_data(descriptor)
    finally:
        os.close(descriptor)
