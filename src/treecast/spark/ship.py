"""Bring an index to the executors: saved, named after its content, and added to the session's files.

Spark copies such a file to each executor when the first task there asks for it. A second job with the same index ships
nothing. Broadcasting its bytes instead would give every Python worker a copy of its own.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from treecast.errors import PipelineError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.spark.worker import Ticket
from treecast.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shipped: set[tuple[str, str]] = set()
_directory: Path | None = None


def ship(session: SparkSession, source: Index | str | Path, *, cache_bytes_max: int = CACHE_BYTES_MAX) -> Ticket:
    """Make the index available to all executors of the session, and say how a worker finds it."""
    if cache_bytes_max < 0:
        raise ValueError(f"cache_bytes_max must be 0 or more, not {cache_bytes_max}")
    file = _saved(source)
    size = file.stat().st_size
    key = (_session_key(session), file.name)
    if key not in _shipped:
        session.addArtifacts(str(file), file=True)
        _shipped.add(key)
    return Ticket(VERSION, file.name, size, cache_bytes_max)


def _saved(source: Index | str | Path) -> Path:
    """A file of this process with the content of the index, named after it."""
    directory = _own_directory()
    new = directory / f"new-{uuid.uuid4().hex}.tcx"
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
    return new.replace(directory / f"treecast-{digest[:32]}.tcx")


def _own_directory() -> Path:
    global _directory
    if _directory is None or not _directory.exists():
        _directory = Path(tempfile.mkdtemp(prefix="treecast-driver-"))
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    return _directory


def _session_key(session: SparkSession) -> str:
    """What tells sessions apart, classic or Connect."""
    if hasattr(session, "session_id"):
        return str(session.session_id)
    context = session.sparkContext
    if context._jsc is None:
        raise PipelineError("the Spark session was stopped", code="TC702", hint="make a new one")
    return f"{context.applicationId} {session._jsparkSession.sessionUUID()}"
