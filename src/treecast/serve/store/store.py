"""The store: the log of bodies and the tables of SQLite under one group commit.

A group is written in this order:

1. Bodies are appended to the log, and synced.
2. SQLite changes its tables and the row that says where the log ends, and commits, which syncs.
3. The number of the group is written beside the tables, and readers see it.

A crash before 2 leaves bytes in the log behind its end, which the next opening cuts off. So a group is there as a
whole or not at all. A log that is shorter than its rows say, or tables that are behind the last group, have lost
something that was synced: the store is then not opened, and nothing is changed (`losses.py`).

**After a failed sync** nobody knows what is on disk: the system may drop what it could not write, and report success
the next time. So the store then refuses to write until it is opened anew. Opening reads what is there, cuts the log,
and writes SQLite's own log once more before it reads it. Whether the group of the failed sync is there is decided then.

`write` is called by one thread at a time. Everything that reads may be called by other threads meanwhile, and does not
wait for a sync.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

from treecast.index import Index
from treecast.overlay.storage import BodyGoneError, Change, Key
from treecast.serve.store import backup, directory, failures, snapshots, verify
from treecast.serve.store.group import Group
from treecast.serve.store.last_group import LastGroup
from treecast.serve.store.log import SegmentLog
from treecast.serve.store.losses import expect_no_loss
from treecast.serve.store.settings import StoreSettings
from treecast.serve.store.tables import Tables

_TASK = "write a group"


class Store:
    """A directory in which a peer's state survives. Make one with `Store.open`."""

    def __init__(
        self,
        path: Path,
        identity: directory.Identity,
        lock: directory.Lock,
        tables: Tables,
        log: SegmentLog,
        last_group: LastGroup,
    ) -> None:
        self.path = path
        self.id = identity.id
        """Drawn when the store was made. A backup has the same."""
        self._identity = identity
        self._lock = lock
        self._tables = tables
        self._log = log
        self._last_group = last_group
        self._is_broken = False

    @classmethod
    def open(cls, path: str | Path, settings: StoreSettings = StoreSettings()) -> Store:  # noqa: B008  (frozen)
        """Open the store in this directory, or make one there.

        Raises StorageError: TC423 if something else is there or another process has it open, TC422 if it is damaged.
        """
        path = Path(path)
        lock = None
        try:
            directory.prepare(path)
            lock = directory.Lock(path)
            identity = directory.identify(path)
            is_loss_accepted = identity.is_complete and expect_no_loss(path, identity)
            directory.remove_strays(path)
            tables = Tables(path / directory.TABLES, settings, checks_log=not is_loss_accepted)
            try:
                log = SegmentLog.open(path / directory.BODIES, identity.mark, tables.segments(), settings)
                last_group = LastGroup(path, identity.mark, tables.last_group)
                identity = directory.complete(path, identity)
            except BaseException:
                tables.close()
                raise
        except BaseException as error:
            if lock is not None:
                lock.release()
            if isinstance(error, PermissionError):
                raise failures.refused(f"{path} cannot be opened: {error.strerror}", "check its owner") from error
            if isinstance(error, failures.CAUGHT):
                raise failures.failure(error, "open the store") from error
            raise
        return cls(path, identity, lock, tables, log, last_group)

    def close(self) -> None:
        """No other thread may use the store any more. What was written stays; closing twice is fine."""
        try:
            self._tables.close()
        except sqlite3.Error as error:
            raise failures.failure(error, "close the store") from error
        finally:
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, in order, all or none.

        Raises StorageError: TC421 if the disk is full, TC420 if it failed. After a failed sync every later call raises
        TC420, until the store is opened anew.
        """
        if self._is_broken:
            raise failures.failed(_TASK, "an earlier sync failed, and the store was not opened anew since")
        if not changes:
            return
        group = Group.of(changes)
        dropped = self._log.droppable(group.drop_before) if group.drop_before else []
        # Until the first sync, everything can be taken back.
        try:
            rows = self._log.prepare(group.bodies)
            made = self._tables.apply(group, rows, dropped)
        except failures.CAUGHT as error:
            self._take_back()
            raise failures.failure(error, _TASK) from error
        except BaseException:
            self._take_back()
            raise
        self._is_broken = True
        try:
            self._log.sync()
            self._tables.commit(made)
        except failures.CAUGHT as error:
            raise failures.failure(error, _TASK) from error
        self._is_broken = False
        self._last_group.put(self._tables.last_group)
        self._log.publish()
        self._log.drop(dropped)

    def _take_back(self) -> None:
        try:
            self._tables.roll_back()
            self._log.discard()
        except failures.CAUGHT:
            self._is_broken = True

    @property
    def is_broken(self) -> bool:
        """A sync has failed; the store has to be closed and opened anew before it can write."""
        return self._is_broken

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, key: int | str) -> bytes | None:
        return self._tables.get(table, key)

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        return self._tables.get_many(table, keys)

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        return self._tables.scan(table, after, count_max)

    def count(self, table: str) -> int:
        """How many rows a table has. They are counted one by one."""
        return self._tables.count(table)

    def body(self, number: int) -> bytes:
        prepared = self._log.prepared()  # before the look into the log: what is not there yet is here
        try:
            try:
                return self._log.body(number)
            except BodyGoneError:
                # A reader may see rows of a group that is committed, and not yet published: a matter of microseconds.
                for run in prepared:
                    if number in run.numbers and number <= self._tables.last_body():
                        place = run.numbers.index(number)
                        ends = (*run.offsets, run.size)
                        return self._log.read(run.segment, number, ends[place], ends[place + 1])
                raise
        except OSError as error:
            raise failures.failure(error, f"read document {number}") from error

    def body_bytes(self) -> int:
        return self._log.body_bytes

    def first_body(self) -> int | None:
        """The lowest number that is kept. Bodies are dropped by whole segments, so it may be lower than asked for."""
        prepared, segments = self._log.prepared(), self._log.segments  # in this order, as in `body`
        if segments:
            return segments[0].first
        firsts = [run.numbers[0] for run in prepared[:1]]
        return firsts[0] if firsts and firsts[0] <= self._tables.last_body() else None

    # --- saved indexes, backups, checks -------------------------------------------------------------------------------

    def save_index(self, index: Index, version: int, before: Callable[[], None] | None = None) -> None:
        """Save an index for `load_index`. It contains every change up to `version`, and perhaps more.

        `before` is called before it counts: it returns when the changes that the index contains are durable.
        """
        snapshots.save_index(self.path, index, version, before)

    def load_index(self) -> tuple[Index, int] | None:
        """The index that was saved last and its version; None if there is none, or it is damaged."""
        return snapshots.load_index(self.path)

    def backup(self, target: str | Path) -> None:
        """Copy the store, as it is after one of its groups, into an empty or new directory, while writing goes on.

        Sealed segments are hard links where both are on one file system. The copy has the same id: it takes the place
        of this store, and is not to run beside it.
        """
        with self._log.pinned():
            try:
                backup.copy(self.path, Path(target), self._identity)
            except failures.CAUGHT as error:
                raise failures.failure(error, "make a backup") from error

    def verify(self) -> list[verify.Damage]:
        """Read everything, while writing goes on, and list what is damaged."""
        with self._log.pinned():
            return verify.verify(self.path, self._identity)
