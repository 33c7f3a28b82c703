"""Bring an index to the executors: saved, named after its content, and added to the session's files.

Spark copies such a file to each executor when the first task there asks for it. A second job with the same index ships
nothing: an index that was filled by the same calls in the same order is saved as the same bytes in every process.
Broadcasting its bytes instead would give every Python worker its own copy.

A stream whose subscriptions change ships a file for each version, and withdraws those that no batch will use again.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from treecast import durable
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.spark.batch.worker import Ticket
from treecast.spark.internals import forget_added_file, session_key
from treecast.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_files_of_sessions: set[tuple[str, str]] = set()  # session, and the name of one of ours that it has
_saved_files: dict[tuple[str, int, int, int], Path] = {}  # a file as it was when we looked -> ours of the same content
_askers_by_file: dict[str, set[object]] = {}  # the name of one of ours -> the files it was made of, or who asked for it
SAVED_FILES_MAX = 64
_directory: Path | None = None


def ship(
    session: SparkSession,
    source: Index | str | Path,
    *,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    asker: object = None,
) -> Ticket:
    """Make the index available to all executors of the session, and say how a worker finds it.

    An `asker` may give it back (`give_back`) once it is no longer needed; without an asker it stays.
    """
    if cache_bytes_max < 0:
        raise ValueError(f"cache_bytes_max must be 0 or more, not {cache_bytes_max}")
    file = _save_copy(source, asker)
    size = file.stat().st_size
    key = (session_key(session), file.name)
    if key not in _files_of_sessions:
        session.addArtifacts(str(file), file=True)
        _files_of_sessions.add(key)
    return Ticket(VERSION, file.name, size, cache_bytes_max)


def withdraw(session: SparkSession, source: Path) -> None:
    """Take back what was shipped for this saved index, unless something else asked for the same content.

    New executors no longer fetch it, and the driver's copies go. What an executor has fetched stays with it until the
    application ends.
    """
    keys = [key for key in _saved_files if key[0] == str(source.absolute())]
    for key in keys:
        _drop(session, _saved_files.pop(key).name, key)


def give_back(session: SparkSession, asker: object, in_use: Collection[str] = ()) -> None:
    """Take back what was shipped for this asker, except for the files `in_use`, on the same terms."""
    for name in [name for name, askers in _askers_by_file.items() if asker in askers and name not in in_use]:
        _drop(session, name, asker)


def _drop(session: SparkSession, name: str, asker: object) -> None:
    askers = _askers_by_file.get(name, set())
    askers.discard(asker)
    if askers:
        return
    _askers_by_file.pop(name, None)
    _files_of_sessions.difference_update({key for key in _files_of_sessions if key[1] == name})
    forget_added_file(session, name)
    (_own_directory() / name).unlink(missing_ok=True)


def _save_copy(source: Index | str | Path, asker: object) -> Path:
    """A file of this process with the content of the index, named after it."""
    directory = _own_directory()
    key: tuple[str, int, int, int] | None = None
    if not isinstance(source, Index):
        path = Path(source).absolute()
        status = path.stat()
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key in _saved_files and _saved_files[key].exists():
            return _saved_files[key]
    new = durable.unused_path(directory, ".tcx")
    if isinstance(source, Index):
        source.save(new)
    else:
        Index.load(source)  # raises for what is damaged or something else, before anything starts
        try:
            new.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, new)
    with new.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    file = new.replace(directory / f"treecast-{digest[:32]}.tcx")
    _askers_by_file.setdefault(file.name, set()).add(asker if key is None else key)
    if key is not None:
        _saved_files[key] = file
        while len(_saved_files) > SAVED_FILES_MAX:
            _saved_files.pop(next(iter(_saved_files)))
    return file


def _own_directory() -> Path:
    global _directory
    if _directory is None or not _directory.exists():
        _directory = Path(tempfile.mkdtemp(prefix="treecast-driver-"))
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    return _directory
