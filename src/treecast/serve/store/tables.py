"""Tables of small values in SQLite, and the rows that say which part of the log counts.

SQLite has a write-ahead log of its own, and syncs it with every group. Two connections are open: one writes, the other
reads, so that a reader never waits for a sync. Each value has a checksum of its table, key and value behind it, because
SQLite has none on its pages; `PRAGMA integrity_check` finds damage in their structure.

A table is made when something is first put into it: with an integer key, or with a text key, in the order of code
points (which is the order of UTF-8's bytes).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

from treecast.overlay.checksums import checked_rows, crc32
from treecast.overlay.storage import Key
from treecast.serve.store import failures, wal
from treecast.serve.store.group import Group, TableChanges
from treecast.serve.store.log import SegmentRow
from treecast.serve.store.settings import StoreSettings

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_CHECKSUM = Struct("<I")
_CHECKSUM_BYTES = _CHECKSUM.size
_BUSY_SECONDS = 10.0
_KEYS_AT_ONCE = 1_000


def connect(path: Path, *, read_only: bool = True, options: str = "") -> sqlite3.Connection:
    """A connection that any thread may use, without transactions of its own."""
    if not read_only:
        path.touch(0o600)  # SQLite would let others read it; its log and index of that get the mode of the tables
    address = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}{options}"
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


class Table:
    """A table of the store: its statements, and the checksums of its values."""

    def __init__(self, name: str, key_type: type) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"not the name of a table: {name!r}")
        self.name = name
        self.key_type = key_type
        self.seed = crc32(name.encode())
        kind = "INTEGER PRIMARY KEY, value BLOB)" if key_type is int else "TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
        self.create = f"CREATE TABLE t_{name} (key {kind}"
        self.put = f"REPLACE INTO t_{name} VALUES (?, ?)"
        self.delete = f"DELETE FROM t_{name} WHERE key = ?"
        self.delete_before = f"DELETE FROM t_{name} WHERE key < ?"
        self.get = f"SELECT value FROM t_{name} WHERE key = ?"
        self.get_many = f"SELECT key, value FROM t_{name} WHERE key IN (%s)"
        self.scan = f"SELECT key, value FROM t_{name} WHERE key > ? ORDER BY key LIMIT ?"
        self.between = f"SELECT key, value FROM t_{name} WHERE key BETWEEN ? AND ? LIMIT ?"
        self.count = f"SELECT count(*) FROM t_{name}"
        self.all = f"SELECT key, value FROM t_{name}"

    def checksum(self, key: int | str, value: bytes) -> bytes:
        data = key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key.encode()
        return _CHECKSUM.pack(crc32(value, crc32(data, self.seed)))

    def is_intact(self, key: object, stored: object) -> bool:
        if not isinstance(key, self.key_type) or not isinstance(stored, bytes):
            return False
        value = stored[:-_CHECKSUM_BYTES]
        return self.checksum(key, value) == stored[-_CHECKSUM_BYTES:]  # type: ignore[arg-type]

    def value(self, key: int | str, stored: object) -> bytes:
        """What was put there; raises StorageError if it is not what is there."""
        if not self.is_intact(key, stored):
            raise failures.damaged(f"the value of {key!r} in table {self.name!r} is damaged")
        assert isinstance(stored, bytes)
        return stored[:-_CHECKSUM_BYTES]

    def values(self, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, bytes]]:
        """What was put there, by key; raises StorageError if something else is there."""
        # PERF: bench/broker_restart.py. The same as `value`, without its calls.
        seed, end, is_int, found = self.seed, -_CHECKSUM_BYTES, self.key_type is int, []
        for key, stored in rows:
            try:
                data = key.to_bytes(8, "little", signed=True) if is_int else key.encode()
                value = stored[:end]
                if crc32(value, crc32(data, seed)).to_bytes(4, "little") != stored[end:]:
                    self.value(key, stored)
            except (AttributeError, TypeError):
                self.value(key, stored)
                raise
            found.append((key, value))
        return found


class Tables:
    """The SQLite file of a store."""

    def __init__(self, path: Path, settings: StoreSettings, *, checks_log: bool = True) -> None:
        self._path = path
        self._settings = settings
        log = path.with_name(f"{path.name}-wal")
        committing = wal.committing_frames(log) if checks_log else []
        wal.rewrite(log)
        self.last_group = 0
        """The number of the group that was committed last."""
        self._writer = connect(path, read_only=False)
        self._reader = self._writer
        self._reading = Lock()  # threads that share a connection would get each other's errors
        try:
            # From now on there are two, so that closing one of them leaves SQLite's log alone, damaged or not.
            self._writer.execute(f"PRAGMA page_size = {settings.page_bytes}")
            self._writer.execute("PRAGMA auto_vacuum = NONE")
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._reader = connect(path)
            self._reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # only now it opens the files
            self._check_log(committing)
            self._prepare()
            self._reader.execute(f"PRAGMA cache_size = {-settings.cache_bytes_max // 1024}")
            self._tables = dict(read_schema(self._writer))
        except BaseException:
            self._writer.close()
            self._reader.close()  # a connection that only reads leaves SQLite's log where it is
            raise

    def _check_log(self, committing: Sequence[int]) -> None:
        _, frames, _ = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if sum(frame > frames for frame in committing) > 1:
            raise failures.damaged("the log of the tables is damaged: groups that were stored are lost")

    def _prepare(self) -> None:
        settings, run = self._settings, self._writer.execute
        run("PRAGMA synchronous = FULL")
        run("PRAGMA secure_delete = OFF")
        run(f"PRAGMA cache_size = {-settings.cache_bytes_max // 1024}")
        (page_bytes,) = run("PRAGMA page_size").fetchone()
        run(f"PRAGMA wal_autocheckpoint = {max(1, settings.checkpoint_bytes // page_bytes)}")
        run(f"PRAGMA journal_size_limit = {settings.wal_bytes_max}")
        run(
            "CREATE TABLE IF NOT EXISTS segment"
            " (first INTEGER PRIMARY KEY, last INTEGER, size INTEGER, bodies INTEGER, checksum INTEGER)"
        )
        run("CREATE TABLE IF NOT EXISTS last_group (one INTEGER PRIMARY KEY, number INTEGER, checksum INTEGER)")
        # What a crash left is copied into the tables now: a log that is empty is read fast, and cannot be damaged.
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.last_group = _read_last_group(self._writer) or 0

    def close(self) -> None:
        self._reader.close()  # first: the last one that is closed copies SQLite's log and removes it
        self._writer.close()

    # --- writing: one thread ------------------------------------------------------------------------------------------

    def apply(self, group: Group, rows: Sequence[SegmentRow], dropped: Sequence[int]) -> dict[str, Table]:
        """Run all statements of a group, which `commit` or `roll_back` then ends. Returns the tables it makes."""
        run, run_many = self._writer.execute, self._writer.executemany
        run("BEGIN IMMEDIATE")
        number = self.last_group + 1
        run("REPLACE INTO last_group VALUES (1, ?, ?)", (number, _number_checksum(number)))
        made: dict[str, Table] = {}
        for name, changes in group.tables.items():
            table = self._tables.get(name)
            if table is None:
                table = made[name] = Table(name, changes.key_type)
                run(table.create)
            _change(self._writer, table, changes)
        if rows:
            run_many("REPLACE INTO segment VALUES (?, ?, ?, ?, ?)", [(*row, _row_checksum(row)) for row in rows])
        if dropped:
            run_many("DELETE FROM segment WHERE first = ?", [(first,) for first in dropped])
        return made

    def commit(self, made: dict[str, Table]) -> None:
        # Readers know of a table before it is there, rather than after.
        if made:
            self._tables = {**self._tables, **made}
        self._writer.execute("COMMIT")
        self.last_group += 1

    def roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    # --- reading: any thread ------------------------------------------------------------------------------------------

    def _rows(self, statement: str, values: tuple[int | str, ...] = ()) -> list[tuple[object, ...]]:
        try:
            with self._reading:
                return self._reader.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):  # it is being made
                return []
            raise failures.failure(error, "read") from error
        except sqlite3.Error as error:
            raise failures.failure(error, "read") from error

    def _number(self, statement: str) -> int:
        for (number,) in self._rows(statement):
            return number if isinstance(number, int) else 0
        return 0

    def get(self, name: str, key: int | str) -> bytes | None:
        table = self._tables.get(name)
        if table is None or type(key) is not table.key_type:
            return None
        for (stored,) in self._rows(table.get, (key,)):
            return table.value(key, stored)
        return None

    def get_many(self, name: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        table = self._tables.get(name)
        if table is None:
            return {}
        wanted = {key for key in keys if type(key) is table.key_type}
        if len(wanted) > _KEYS_AT_ONCE:
            # PERF: bench/broker_restart.py. Most of many keys may have no value; if few have one, those are read.
            rows = self._rows(table.between, (min(wanted), max(wanted), len(wanted) + 1))
            if len(rows) <= len(wanted):
                return dict(table.values(row for row in rows if row[0] in wanted))
        return self._look_up(table, sorted(wanted))  # neighbours are on the same page

    def _look_up(self, table: Table, wanted: list[Any]) -> dict[Any, bytes]:
        found: dict[Any, bytes] = {}
        for begin in range(0, len(wanted), _KEYS_AT_ONCE):
            some = wanted[begin : begin + _KEYS_AT_ONCE]
            found.update(table.values(self._rows(table.get_many % ",".join("?" * len(some)), tuple(some))))
        return found

    def scan(self, name: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        table = self._tables.get(name)
        if table is None:
            return []
        if type(after) is not table.key_type:
            raise TypeError(f"the keys of {name!r} are {table.key_type.__name__}")
        return table.values(self._rows(table.scan, (after, count_max)))

    def count(self, name: str) -> int:
        table = self._tables.get(name)
        return self._number(table.count) if table else 0

    def segments(self) -> list[SegmentRow]:
        return read_segments(self._reader)

    def last_body(self) -> int:
        """The number of the last body that is committed."""
        return self._number("SELECT max(last) FROM segment")


def _change(connection: sqlite3.Connection, table: Table, changes: TableChanges) -> None:
    if changes.key_type is not table.key_type:
        raise TypeError(f"the keys of {table.name!r} are {table.key_type.__name__}, not {changes.key_type.__name__}")
    if changes.before is not None:
        connection.execute(table.delete_before, (changes.before,))
    puts = checked_rows(table.seed, changes.values)
    if len(puts) < len(changes.values):
        connection.executemany(table.delete, [(key,) for key, value in changes.values.items() if value is None])
    if puts:
        connection.executemany(table.put, puts)


def _row_checksum(row: SegmentRow) -> int:
    return crc32(repr(tuple(row)).encode())


def read_segments(connection: sqlite3.Connection) -> list[SegmentRow]:
    """The rows of the log's segments, ascending."""
    rows = []
    for *values, checksum in connection.execute("SELECT * FROM segment ORDER BY first"):
        row = SegmentRow(*values)
        if _row_checksum(row) != checksum:
            raise failures.damaged(f"the row of segment {row.first} is damaged")
        rows.append(row)
    return rows


def _number_checksum(number: int) -> int:
    return crc32(b"%d" % number)


def _read_last_group(connection: sqlite3.Connection) -> int | None:
    for number, checksum in connection.execute("SELECT number, checksum FROM last_group"):
        if not isinstance(number, int) or _number_checksum(number) != checksum:
            raise failures.damaged("the row of the last group is damaged")
        return number
    return None


class TablesView(NamedTuple):
    """What tables say of the rest of their store."""

    segments: list[SegmentRow]
    last_group: int | None
    """None: no version that numbers groups has written to them."""


def view_tables(path: Path) -> TablesView:
    """Read tables that are not open. No file changes: SQLite neither recovers its log nor makes files of its own.

    Raises StorageError if they are damaged, and sqlite3.Error.
    """
    log, index = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
    if not wal.is_read(log):
        return _view(path, "&immutable=1")
    # SQLite wants to see the index of its log. It does not believe it, as nobody else has it open, nor change it.
    is_missing = not index.exists()
    if is_missing:
        index.touch(mode=0o600)
    try:
        return _view(path, "&readonly_shm=1")
    finally:
        if is_missing:
            index.unlink()


def _view(path: Path, options: str) -> TablesView:
    connection = connect(path, options=options)
    try:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        if "segment" not in names:
            raise failures.damaged(f"{path.parent.name}/{path.name} has lost its tables")
        last_group = _read_last_group(connection) if "last_group" in names else None
        return TablesView(read_segments(connection), last_group)
    finally:
        connection.close()


def read_schema(connection: sqlite3.Connection) -> Iterator[tuple[str, Table]]:
    """The tables of the store that are there."""
    for name, statement in connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"):
        if name.startswith("t_"):
            table = Table(name[2:], str if "WITHOUT ROWID" in statement else int)
            if statement != table.create:
                raise failures.damaged(f"the table {name[2:]!r} is damaged")
            yield table.name, table
