"""The number of the group that was stored last, beside the tables: it shows when they are older than the rest.

Theory of operation. SQLite's log may be cut short, deleted, or put back together with older tables: by a person, a
program that copies files, or a file system. SQLite then shows an older state without a word, and a store that went on
from there would cut off the bodies which these tables do not name. So groups are numbered. A number is in the tables by
the commit of its group, and is written here afterwards, before anybody is told that the group is stored. However a
process dies, this one is never ahead of the tables. It is only if tables were lost.

It is not synced with each group: after a loss of power it may be further behind, and then says less.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     LastGroup(Path(directory), b"MARKMARK", 7).put(8)
    ...     read_last_group(Path(directory), b"MARKMARK")
    8
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from struct import Struct

from treecast import durable
from treecast.overlay.checksums import crc32
from treecast.serve.store import failures
from treecast.serve.store.log import Descriptor

log = logging.getLogger("treecast.serve.store")

NAME = "last-group"
_FIELDS = Struct("<8sQ")  # the store's mark, the number


class LastGroup:
    """The file, open for writing. If there is none, it is made, and has the last group that the tables have."""

    def __init__(self, directory: Path, mark: bytes, committed: int) -> None:
        self._mark = mark
        path = directory / NAME
        if not path.exists():
            write_last_group(directory, mark, committed)
        self._file = Descriptor(path, os.O_WRONLY)

    def put(self, number: int) -> None:
        """This group is committed, so that cannot fail any more: without its number, less is known later."""
        try:
            os.pwrite(self._file.number, _to_bytes(self._mark, number), 0)  # less than a sector: it is never torn
        except OSError as error:
            log.warning("the number of group %d could not be written: %s", number, error)


def write_last_group(directory: Path, mark: bytes, number: int) -> None:
    """Make the file, durably."""
    durable.write(directory / NAME, _to_bytes(mark, number), mode=0o600)


def read_last_group(directory: Path, mark: bytes) -> int | None:
    """The number; None if there is no such file. Raises StorageError if it is damaged, or of another store."""
    try:
        data = (directory / NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _FIELDS.size or data != _to_bytes(mark, number := _FIELDS.unpack_from(data)[1]):
        raise failures.damaged(
            f"{directory.name}/{NAME} is damaged, or of another store",
            f"put it back, or restore a backup; without {NAME} the store goes on from what its tables say",
        )
    return int(number)


def _to_bytes(mark: bytes, number: int) -> bytes:
    fields = _FIELDS.pack(mark, number)
    return fields + crc32(fields).to_bytes(4, "little")
