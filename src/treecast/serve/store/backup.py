"""A copy of a store that is in use: the tables as they are at one moment, and the part of the log that they name.

SQLite copies itself from a read transaction, so the copy is consistent, and writers go on meanwhile. Its rows name
the segments and their sizes. Sealed segments never change, so a hard link is enough. The last one is appended to by
either store, and is copied. The file that makes a store of the directory comes last: a copy that was interrupted is
no store, and cannot be opened.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from treecast import durable
from treecast.serve.store import directory as layout
from treecast.serve.store import failures
from treecast.serve.store.last_group import write_last_group
from treecast.serve.store.log import Descriptor, segment_files, segment_path
from treecast.serve.store.snapshots import snapshots
from treecast.serve.store.tables import connect, view_tables

_COPY_BYTES = 1 << 20


def copy(source: Path, target: Path, identity: layout.Identity) -> None:
    """Copy a store whose segments are pinned."""
    if target.exists() and any(target.iterdir()):
        raise failures.refused(f"{target} is not empty", "name a directory that is empty, or does not exist yet")
    target.mkdir(parents=True, mode=layout.DIRECTORY_MODE, exist_ok=True)
    (target / layout.BODIES).mkdir(mode=layout.DIRECTORY_MODE, exist_ok=True)
    layout.make_private(target)
    _copy_tables(source / layout.TABLES, target / layout.TABLES)
    rows, last_group = view_tables(target / layout.TABLES)
    for row in rows[:-1]:
        segment, *others, lost = segment_files(source / layout.BODIES, row.first)
        for path in (segment, *others, lost):
            if path.exists() or (path == segment and not lost.exists()):
                _link(path, target / layout.BODIES / path.name)
    for row in rows[-1:]:
        path = segment_path(source / layout.BODIES, row.first)
        _copy_start(path, segment_path(target / layout.BODIES, row.first), row.size)
    for _, path in snapshots(source)[:1]:
        with suppress(FileNotFoundError):  # a newer one took its place; without any, the copy starts more slowly
            _link(path, target / path.name)
    write_last_group(target, identity.mark, last_group or 0)
    durable.sync(target / layout.BODIES)
    durable.sync(target)
    durable.write(target / layout.IDENTITY, identity.to_bytes(), mode=layout.FILE_MODE)
    durable.sync(target.absolute().parent)


def _copy_tables(source: Path, target: Path) -> None:
    reader = connect(source)
    writer = connect(target, read_only=False)
    try:
        reader.backup(writer)
    finally:
        writer.close()
        reader.close()
    durable.sync(target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        target.touch(layout.FILE_MODE)
        shutil.copyfile(source, target)
        durable.sync(target)


def _copy_start(source: Path, target: Path, size: int) -> None:
    """The first bytes of a file that others append to."""
    file = Descriptor(source)
    target.touch(layout.FILE_MODE, exist_ok=False)
    with target.open("wb") as copied:
        for begin in range(0, size, _COPY_BYTES):
            copied.write(os.pread(file.number, min(_COPY_BYTES, size - begin), begin))
    durable.sync(target)
