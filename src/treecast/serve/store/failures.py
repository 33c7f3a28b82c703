"""What a disk or SQLite reports, as a `StorageError` with a code and a hint.

TC420 storing failed: an input/output error, or a failed sync
TC421 the disk is full
TC422 what is stored is damaged
TC423 not a store of ours, of another version, or in use by another process
"""

from __future__ import annotations

import errno
import sqlite3

from treecast.overlay.storage import StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

CAUGHT = (OSError, sqlite3.Error)
"""What `failure` takes."""


def failure(error: OSError | sqlite3.Error, task: str) -> StorageError:
    """The error of a store that could not do `task`: "write a group"."""
    if isinstance(error, OSError):
        return full(task) if error.errno in _FULL else failed(task, error.strerror or str(error))
    # Extended codes have the plain one in their lowest byte. SQLite's module raises some errors without any.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return full(task)
    if code in _DAMAGED:
        return damaged(f"the tables are damaged: {error}")
    return failed(task, f"{error} ({getattr(error, 'sqlite_errorname', 'SQLite')})")


def failed(task: str, reason: str) -> StorageError:
    return StorageError(
        f"could not {task}: {reason}", code="TC420", hint="look into the system's log for errors of the disk"
    )


def full(task: str) -> StorageError:
    return StorageError(
        f"could not {task}: the disk is full", code="TC421", hint="make room, or let retention keep less"
    )


VERIFY = "verify the store, and restore a backup if what is lost matters"


def damaged(message: str, hint: str = VERIFY) -> StorageError:
    return StorageError(message, code="TC422", hint=hint)


def refused(message: str, hint: str) -> StorageError:
    return StorageError(message, code="TC423", hint=hint)
