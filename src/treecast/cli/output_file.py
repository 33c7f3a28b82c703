"""Files and directories that appear under their names only when they are complete.

Everything is written beside its place, under a hidden name, and renamed at the end; when something goes wrong, nothing
is left behind.
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


@contextlib.contextmanager
def file_beside(path: str) -> Iterator[BinaryIO]:
    """A file to write to, renamed to `path` at the end. A device or pipe is written to directly."""
    target = Path(path)
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as file:
            yield file
        return
    part = _part_of(target)
    try:
        file = part.open("wb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
    try:
        with file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
    part = _part_of(target)
    try:
        part.mkdir()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
    try:
        yield part
        part.replace(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _part_of(target: Path) -> Path:
    name = target.absolute().name if target.name in ("", ".", "..") else target.name
    return target.absolute().parent / f".{name}.{os.getpid()}.part"
