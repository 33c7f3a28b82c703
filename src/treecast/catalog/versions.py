"""Versions of a set of subscriptions that changes, and which batch of a stream used which.

A supplier gives the whole set as it is now. What differs from the last version is applied to the live index (removed,
replaced, added), which is then saved as the next version. Nothing is rebuilt, and a restart continues with the saved
file. A batch is bound to a version before it is worked on, in a SQLite file, with synchronous writes; it
keeps that version whatever happens, and the version's file stays until later batches have used newer ones.

    versions = Versions("checkpoint/treecast", lambda: pa.table({"id": ["q1"], "query": ["/a"]}))
    version = versions.of_batch(0)             # the same again after a crash
    index = Index.load(version.path)

Subscriptions that are refused (a bad query, an id that is there twice, no id at all) are left out, counted and logged.
If a supplier fails, the last version stays in force; its error is raised only if there is none yet.

A file of a version that is damaged counts as gone: the next version is built from scratch, with a warning. Damaged
records cannot be replaced, as they say which batches are done.

Codes: TC752 a version that is gone, TC753 records that cannot be kept, or are damaged.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast import durable
from treecast.catalog.changes import apply, nothing, rows_of
from treecast.catalog.index_settings import DEFAULTS, IndexSettings
from treecast.catalog.sqlite_errors import translate_sqlite_errors
from treecast.errors import PipelineError, TreecastError
from treecast.index import Index

if TYPE_CHECKING:
    import pyarrow as pa

    Supplier = Callable[[], pa.Table | Index | None]

VERSIONS_MAX = 3
BATCHES_MAX = 100_000  # records kept of batches that are done

log = logging.getLogger("treecast.catalog.versions")

_TABLES = """
CREATE TABLE IF NOT EXISTS stream (id TEXT);
CREATE TABLE IF NOT EXISTS versions (
    number INTEGER PRIMARY KEY, content TEXT, name TEXT, subscriptions INTEGER, refused INTEGER, settings TEXT);
CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY, version INTEGER NOT NULL, content TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Version:
    """One state of the set. `content` is the SHA-256 of its saved index."""

    number: int
    content: str
    path: Path
    subscriptions: int
    refused: int


@dataclass
class _Live:
    """The newest version in memory: the index, and the rows that it was made from."""

    index: Index
    rows: pa.Table
    """What `treecast.catalog.changes` makes of the given table."""
    number: int | None
    """Of the version that it is saved as; None before."""


class Versions:
    """The versions of one stream, in a directory of this machine or mounted on it. For any thread, one at a time."""

    def __init__(
        self,
        directory: str | Path,
        supplier: Supplier,
        settings: IndexSettings = DEFAULTS,
        *,
        versions_max: int = VERSIONS_MAX,
    ) -> None:
        if versions_max < 2:
            raise ValueError(f"versions_max must be 2 or more, not {versions_max}")
        self._directory = Path(directory).absolute()
        self._supplier = supplier
        self._settings = settings
        self._versions_max = versions_max
        self._lock = threading.Lock()
        self._live: _Live | None = None
        self._saved_revision: tuple[Index, int] | None = None  # the index that is the last version, and its revision
        self.failures = 0
        """How often the supplier has failed, so that the last version stayed in force."""
        self._intact: set[Path] = set()  # files of versions that have been checked
        self._database = self._open()
        try:
            self._check_records()
            self.stream = self._stream()
            self._prune()
        except BaseException:
            self._database.close()
            raise

    def begin(self) -> None:
        """Make the first version, if there is none: the start of a stream reports bad subscriptions."""
        with self._lock:
            if self.last() is None:
                self._current()

    def of_batch(self, batch: int) -> Version:
        """The version that the batch is bound to; bound now, durably, if it was not."""
        with self._lock:
            version_rows = self._rows("SELECT version FROM batches WHERE batch = ?", batch)
            if version_rows:
                return self._bound_version(version_rows[0][0], batch)
            version = self._current()
            with self._transaction():
                self._database.execute("INSERT INTO batches VALUES (?, ?, ?)", (batch, version.number, version.content))
                self._database.execute("DELETE FROM batches WHERE batch <= ?", (batch - BATCHES_MAX,))
            self._prune()
            return version

    def last(self) -> Version | None:
        """The newest version."""
        rows = self._rows(
            "SELECT number, content, name, subscriptions, refused FROM versions ORDER BY number DESC LIMIT 1"
        )
        return self._version(*rows[0]) if rows else None

    def batches(self) -> dict[int, tuple[int, str]]:
        """Which batch used which version: number and content, of those that are still recorded."""
        rows = self._rows("SELECT batch, version, content FROM batches ORDER BY batch")
        return {batch: (version, content) for batch, version, content in rows}

    def close(self) -> None:
        """Release the index and the records; a scheduler that called this object may keep it forever."""
        with self._lock:
            self._live, self._saved_revision, self._supplier = None, None, lambda: None
            self._database.close()

    # -- the records

    def _open(self) -> sqlite3.Connection:
        with translate_sqlite_errors(self._storage_error, self._damage_error):
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self._storage_error(error) from None
            database = sqlite3.connect(self._directory / "versions.sqlite", check_same_thread=False)
            try:
                database.execute("PRAGMA synchronous=FULL")
                database.executescript(_TABLES)
            except BaseException:
                database.close()
                raise
        return database

    def _rows(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        with translate_sqlite_errors(self._storage_error, self._damage_error):
            return self._database.execute(question, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with translate_sqlite_errors(self._storage_error, self._damage_error), self._database:
            yield

    def _storage_error(self, error: object) -> PipelineError:
        return PipelineError(
            f"the versions of the subscriptions cannot be kept in {self._directory}: {error}",
            code="TC753",
            hint="name a checkpoint directory that can be written to, and that outlives the query",
        )

    def _damage_error(self, reason: object) -> PipelineError:
        return PipelineError(
            f"the records of versions in {self._directory} are damaged: {reason}",
            code="TC753",
            hint="restore the checkpoint from a copy, or start again with another checkpoint directory",
        )

    def _check_records(self) -> None:
        ((verdict,),) = self._rows("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self._damage_error(str(verdict).splitlines()[-1])

    def _stream(self) -> str:
        with self._transaction():
            self._database.execute("BEGIN IMMEDIATE")
            row = self._database.execute("SELECT id FROM stream").fetchone()
            if row is None:
                row = (durable.unused_name(),)
                self._database.execute("INSERT INTO stream VALUES (?)", row)
        return str(row[0])

    def _version(self, number: int, content: str, name: str, subscriptions: int, refused: int) -> Version:
        return Version(number, content, self._directory / f"{name}.tcx", subscriptions, refused)

    def _bound_version(self, number: int, batch: int) -> Version:
        rows = self._rows("SELECT number, content, name, subscriptions, refused FROM versions WHERE number = ?", number)
        version = self._version(*rows[0]) if rows else None
        if version is not None and self._is_intact(version):
            return version
        # What the subscriptions are now may be the same, to the byte.
        now = None if version is None else self._current()
        if version is None or now is None or now.content != version.content:
            raise self._gone_error(f"batch {batch} used version {number} of the subscriptions")
        return replace(version, path=now.path)

    def _gone_error(self, what: str) -> PipelineError:
        return PipelineError(
            f"{what}, which is gone from {self._directory}, or damaged",
            code="TC752",
            hint="restore it, or start again with another checkpoint directory",
        )

    def _is_intact(self, version: Version) -> bool:
        """Whether its file is there, and as it was saved; read once only."""
        if not version.path.exists():
            return False
        if version.path not in self._intact:
            if _content_of(version.path) != version.content:
                log.warning("the file of version %d is damaged: %s", version.number, version.path)
                return False
            self._intact.add(version.path)
        return True

    def _prune(self) -> None:
        """Remove versions beyond the limit, but not the one of the last batch, and files that no version knows."""
        oldest = "SELECT number FROM versions ORDER BY number DESC LIMIT -1 OFFSET ?"
        last_used = "SELECT version FROM batches ORDER BY batch DESC LIMIT 1"
        with self._transaction():
            self._database.execute(
                f"DELETE FROM versions WHERE number IN ({oldest}) AND number NOT IN ({last_used})",
                (self._versions_max,),
            )
        names = {name for (name,) in self._rows("SELECT name FROM versions")}
        self._intact = {path for path in self._intact if path.stem in names}
        for path in self._directory.iterdir():
            if path.suffix in (".tcx", ".arrow", ".part", ".new") and path.stem not in names:
                path.unlink(missing_ok=True)

    # -- the set

    def _current(self) -> Version:
        """The version of the set as it is now: the last one, unless something has changed."""
        last = self.last()
        try:
            supply = self._supplier()
            rows = None if isinstance(supply, Index) or supply is None else rows_of(supply)
        except Exception as error:  # whatever a table that is just rewritten may raise: the stream goes on without
            if last is None:
                raise
            self.failures += 1
            log.warning("the subscriptions cannot be read now, version %d stays in force: %s", last.number, error)
            return self._keep(last)
        if supply is None and last is not None:
            return self._keep(last)
        try:
            return self._of_index(supply, last) if isinstance(supply, Index) else self._follow(last, rows)
        except BaseException:
            self._live = None  # half changed, perhaps: the saved one is whole
            raise

    def _keep(self, last: Version) -> Version:
        if not self._is_intact(last):
            raise self._gone_error(f"version {last.number} of the subscriptions stays in force")
        return last

    def _of_index(self, index: Index, last: Version | None) -> Version:
        """Saving it shows whether it has changed, unless it has not since it was saved."""
        now = (index, index.revision)
        if last is None or self._saved_revision != now or not self._is_intact(last):
            last, self._saved_revision = self._save(index, None, 0, last), now
        return last

    def _follow(self, last: Version | None, supply: tuple[pa.Table, int] | None) -> Version:
        new_rows, left_out = supply or rows_of(nothing())
        live = self._live
        if live is None:
            live = self._restore(last)
            try:
                rows, changes = apply(live.index, live.rows, new_rows)
            except (TreecastError, ValueError) as error:  # the rows are not those of the index
                log.warning("the saved subscriptions are damaged, they are built from nothing: %s", error)
                live = self._empty()
                rows, changes = apply(live.index, live.rows, new_rows)
        else:
            rows, changes = apply(live.index, live.rows, new_rows)
        if not changes and last is not None and live.number == last.number:
            self._live = live
            return last
        version = self._save(live.index, rows, left_out, last)
        self._saved_revision = None
        self._live = _Live(live.index, rows, version.number)
        log.info("version %d: %d subscriptions, %s", version.number, version.subscriptions, changes)
        if version.refused:
            log.warning("version %d leaves out %d refused subscriptions", version.number, version.refused)
        return version

    def _restore(self, last: Version | None) -> _Live:
        """The last version from its files; an empty one where there is none, or none with these settings."""
        import pyarrow as pa

        if last is not None:
            ((settings,),) = self._rows("SELECT settings FROM versions WHERE number = ?", last.number)
            rows_path = last.path.with_suffix(".arrow")
            if settings == self._settings.text() and rows_path.exists() and self._is_intact(last):
                try:
                    with pa.OSFile(str(rows_path), "rb") as file:
                        rows = pa.ipc.open_file(file).read_all()
                    rows.validate(full=True)
                    if rows.schema.equals(nothing(rows=True).schema):
                        return _Live(Index.load(last.path), rows, last.number)
                except (OSError, pa.ArrowException, TreecastError) as error:
                    log.warning("version %d cannot be read, it is built from nothing: %s", last.number, error)
        return self._empty()

    def _empty(self) -> _Live:
        return _Live(self._settings.index(), nothing(rows=True), None)

    def _save(self, index: Index, rows: pa.Table | None, left_out: int, last: Version | None) -> Version:
        """The index as the next version, unless it is the last one to the byte."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if rows is None:
            self._live = None  # what was live is a table of before
        temporary = durable.unused_path(self._directory)
        index.save(temporary)
        content = _content_of(temporary)
        if rows is None and last is not None and last.content == content:
            if self._is_intact(last):
                temporary.unlink()
            else:
                durable.rename(temporary, last.path)
            return last
        number = 1 if last is None else last.number + 1
        name = f"{number:08d}-{content[:16]}"
        refused_count = left_out
        if rows is not None:
            refused_count += pc.sum(rows.column("refused")).as_py() or 0
            with (
                durable.replacing(self._directory / f"{name}.arrow") as file,
                pa.ipc.new_file(file, rows.schema) as writer,
            ):
                writer.write_table(rows)
        version = self._version(number, content, name, len(index), refused_count)
        durable.rename(temporary, version.path)
        self._intact.add(version.path)
        with self._transaction():
            self._database.execute(
                "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)",
                (number, content, name, version.subscriptions, refused_count, self._settings.text()),
            )
        return version


def _content_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
