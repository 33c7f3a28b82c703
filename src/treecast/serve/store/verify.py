"""Reads a whole store, and lists what is damaged: bits rot, and nobody notices until the day they are needed.

It may run while the store is in use, in a thread of its own. It takes about as long as reading the files.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treecast.errors import SnapshotError, TreecastError
from treecast.index import Index
from treecast.overlay.storage import StorageError
from treecast.serve.store import directory as layout
from treecast.serve.store.log import Descriptor, SegmentRow, offsets_path, read_whole, segment_path
from treecast.serve.store.segment import offsets_from_bytes, scan
from treecast.serve.store.snapshots import snapshots
from treecast.serve.store.tables import connect, read_schema, read_segments

_MESSAGES_MAX = 100


@dataclass(frozen=True)
class Damage:
    """Something that is not as it was written. `is_repairable`: the store works without it, and makes it again."""

    file: str
    message: str
    is_repairable: bool = False


def verify(path: Path, identity: layout.Identity) -> list[Damage]:
    """Check a store whose segments are pinned."""
    found = [*_verify_identity(path, identity)]
    try:
        connection = connect(path / layout.TABLES)
        try:
            connection.execute("BEGIN")  # all of it is read as it is at one moment
            found += _verify_tables(connection)
            rows = read_segments(connection)
        finally:
            connection.close()
    except (sqlite3.Error, StorageError) as error:
        return [*found, Damage(layout.TABLES, str(error))]
    for place, row in enumerate(rows):
        found += _verify_segment(path / layout.BODIES, row, identity.mark, is_sealed=place + 1 < len(rows))
    return [*found, *_verify_snapshots(path)]


def _verify_identity(path: Path, identity: layout.Identity) -> Iterator[Damage]:
    try:
        if layout.Identity.from_bytes((path / layout.IDENTITY).read_bytes(), path.name) != identity:
            yield Damage(layout.IDENTITY, "it has changed since the store was opened")
    except (OSError, TreecastError) as error:
        yield Damage(layout.IDENTITY, str(error))


def _verify_tables(connection: sqlite3.Connection) -> Iterator[Damage]:
    for (message,) in connection.execute(f"PRAGMA integrity_check({_MESSAGES_MAX})"):
        if message != "ok":
            yield Damage(layout.TABLES, message)
    for name, table in read_schema(connection):
        for key, stored in connection.execute(table.all):
            if not table.is_intact(key, stored):
                yield Damage(layout.TABLES, f"the value of {key!r} in table {name!r}")


def _verify_segment(bodies: Path, row: SegmentRow, mark: bytes, *, is_sealed: bool) -> Iterator[Damage]:
    path = segment_path(bodies, row.first)
    name = f"{layout.BODIES}/{path.name}"
    try:
        file = Descriptor(path)
        data = read_whole(file, row.size)
    except OSError as error:
        yield Damage(name, f"bodies {row.first} to {row.last}: {error.strerror}")
        return
    if len(data) < row.size:
        yield Damage(name, f"{row.size} bytes were stored, {len(data)} are there")
    found = scan(data, mark, first=row.first, last=row.last)
    for low, high in found.damaged:
        yield Damage(name, f"body {low}" if low == high else f"bodies {low} to {high}, or some of them")
    if len(found.numbers) != row.bodies and not found.damaged:
        yield Damage(name, f"{row.bodies} bodies were stored, {len(found.numbers)} are there")
    if is_sealed:
        offsets = offsets_path(bodies, row.first)
        content = offsets.read_bytes() if offsets.exists() else b""
        if content and offsets_from_bytes(content, row.first, row.size) is None:
            yield Damage(f"{layout.BODIES}/{offsets.name}", "a checksum differs", is_repairable=True)


def _verify_snapshots(path: Path) -> Iterator[Damage]:
    for _, file in snapshots(path)[:1]:
        try:
            Index.load(file)
        except FileNotFoundError:
            pass  # a newer one took its place
        except (SnapshotError, OSError) as error:
            if os.path.lexists(file):
                yield Damage(file.name, str(error).partition("\n")[0], is_repairable=True)
