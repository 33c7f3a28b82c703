"""Saved indexes in the directory of a store: the newest one, named after its version, so that a start is fast.

A saved index is only a short cut. One that is damaged is passed over with a warning, and its owner then builds the
index from what it has in its tables.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from treecast import durable
from treecast.errors import SnapshotError
from treecast.index import Index
from treecast.serve.store import failures

log = logging.getLogger("treecast.serve.store")

_WAITING = "index-new.unfinished"
_NAME = re.compile(r"index-(\d{20})\.tcx")


def snapshots(directory: Path) -> list[tuple[int, Path]]:
    """Versions and files, the newest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in directory.glob("index-*.tcx"))
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


def save_index(directory: Path, index: Index, version: int, before: Callable[[], None] | None = None) -> None:
    """Save an index, and remove those with other versions.

    The index may contain changes that are not durable yet. Until they are, the file must not count: `before` is called
    when it is written, and returns when they are.
    """
    path = directory / f"index-{version:020}.tcx"
    waiting = directory / _WAITING
    try:
        index.save(waiting)
        waiting.chmod(0o600)
        if before is not None:
            before()
        durable.rename(waiting, path)
    except OSError as error:
        raise failures.failure(error, "save the index") from error
    for _, other in snapshots(directory):
        if other != path:
            with suppress(OSError):  # the next save tries again
                other.unlink()


def load_index(directory: Path) -> tuple[Index, int] | None:
    """The newest index that can be loaded, and its version."""
    for version, path in snapshots(directory):
        try:
            return Index.load(path), version
        except (SnapshotError, OSError) as error:
            log.warning("%s is passed over: %s", path.name, error)
    return None
