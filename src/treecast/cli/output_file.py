"""What verbs write: files and directories that appear under their names only when they are complete.

    with file_beside("matches.csv") as file:
        file.write(b"…")

Everything is written to the same directory under a hidden name, and renamed at the end. If something goes wrong,
nothing is left; a verb that ends with status 1 raises DiscardedError for that. Files are durable then
(`treecast.durable`). The files of a directory are not synced one by one: there may be a hundred thousand of them, and
the verb can be called again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from treecast import durable


class DiscardedError(Exception):
    """Raised inside `file_beside` or `directory_beside` by a verb that has reported why there will be no results."""


def appears_at_the_end(path: str) -> bool:
    """Whether results are hidden until they are complete: not where a device or pipe is written to directly."""
    target = Path(path)
    return not target.exists() or stat.S_ISREG(target.stat().st_mode) or target.is_dir()


@contextlib.contextmanager
def file_beside(path: str) -> Iterator[BinaryIO]:
    """A file to write to, renamed to `path` at the end. A device or pipe is written to directly."""
    target = Path(path)
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as file:
            yield file
        return
    with durable.replacing(target) as file:
        yield file


@contextlib.contextmanager
def directory_beside(path: str) -> Iterator[Path]:
    """A directory to fill, renamed to `path` at the end. What is there already is not touched: `path` may be an empty
    directory or nothing at all."""
    target = Path(path)
    if target.is_dir():
        if any(target.iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    elif target.exists():
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    part = durable.unused_path(target.absolute().parent)
    try:
        part.mkdir()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
    try:
        yield part
        durable.rename(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
