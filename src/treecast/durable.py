"""Files that must survive: written beside their place, synced, renamed, and the directory synced behind them.

    durable.write(Path("run.json"), b"{}")                  # the old content or the new one, whatever happens
    with durable.replacing(Path("matches.csv")) as file:    # the same, for what is written piece by piece
        file.write(b"…")
    durable.write_new(Path("payload.xml"), b"<a/>")         # never over what is there; False where something is

Whoever looks sees the old file or the new one, never a part; after a loss of power, too. What goes wrong before the
rename leaves the old file and nothing beside it; a process that is killed may leave a file called `.treecast-….part`.

Use `rename` where something else has written and synced the file, and `sync` where only that is missing. What can be
made again, such as a copy of an index in a temporary directory, wants no sync: `unused_path` and `Path.replace` do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

Data: TypeAlias = bytes | bytearray | memoryview

# What file systems say that have no hard links, and those that have no sync of directories.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def unused_name(prefix: str = "", suffix: str = "") -> str:
    """A name that nobody has, on any machine."""
    return f"{prefix}{os.urandom(16).hex()}{suffix}"


def unused_path(directory: Path, suffix: str = ".part") -> Path:
    """A path in this directory that nobody has, hidden; to be written and then renamed."""
    return directory / unused_name(".treecast-", suffix)


def write(path: Path, data: Data, *, mode: int = 0o666) -> None:
    """Give a file this content, or leave it as it is and raise OSError. `mode` is reduced by the umask."""
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at the end. An exception leaves things as they were."""
    beside = unused_path(path.absolute().parent)
    try:
        with _named_after(path):
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                yield file
                _flush(file)
            rename(beside, path)
    finally:
        _remove(beside)


def write_new(path: Path, data: Data) -> bool:
    """Make a file with this content; False, and nothing happens, where one is there.

    It takes its name by a hard link, which fails where the name is taken. Where the file system has none, by a rename:
    of two that write at the same time, the second then wins.
    """
    beside = unused_path(path.absolute().parent)
    try:
        with _named_after(path), beside.open("xb") as file:
            file.write(data)
            _flush(file)
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            beside.replace(path)
        sync(path.absolute().parent)
        return True
    finally:
        _remove(beside)


def rename(source: Path, target: Path) -> None:
    """Let a file or directory, which is synced, take another place; what was there is gone."""
    source.replace(target)
    sync(target.absolute().parent)


def sync(path: Path) -> None:
    """Let what is written to a file, or the names in a directory, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some mounted file systems sync files, but no directories.
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Let what is written to an open file survive a loss of power. If it fails, what was written since may be lost.

    After a failure a second attempt says nothing: the system may have dropped what it could not write, and report
    success. Whoever called has to write again what was not synced, or to give up.
    """
    os.fdatasync(descriptor)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _remove(beside: Path) -> None:
    with suppress(OSError):  # a disk that is gone keeps its litter; what went wrong before counts
        beside.unlink(missing_ok=True)


@contextmanager
def _named_after(path: Path) -> Iterator[None]:
    """Let errors of the file beside name the file that is meant."""
    try:
        yield
    except OSError as error:
        if str(error.filename).endswith(".part"):
            error.filename = str(path)
        raise
