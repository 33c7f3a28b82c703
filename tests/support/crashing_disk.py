"""What a loss of power leaves of a directory: a recording of tests/support/recording_disk.cpp, replayed up to a point.

What was synced by then is kept. Of the rest, any part may be there: nothing, all, the first writes, any writes, or
single sectors of them. Names are as strict: a file that was made or renamed has its name only after a sync of its
directory, or if the file system got so far by itself; changes of names in one directory survive in their order. What
a failed sync did not write is lost, although the process still sees it, unless it is written again.

This is harsher than most file systems, and what POSIX promises.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random

_ENTRY = struct.Struct("<ciqI")
_SECTOR_BYTES = 512
SOURCE = Path(__file__).with_name("recording_disk.cpp")


def compile_shim(directory: Path) -> Path:
    """The library to preload."""
    library = directory / "recording_disk.so"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", SOURCE, "-o", library, "-ldl"], check=True)
    return library


@dataclass(frozen=True)
class Operation:
    """One entry of a recording; see the source of the shim."""

    kind: str
    file: int
    number: int
    data: bytes

    def paths(self) -> tuple[str, str]:
        return self.data[: self.number].decode(), self.data[self.number :].decode()


def read_recording(path: Path) -> list[Operation]:
    data = path.read_bytes()
    operations, position = [], 0
    while position + _ENTRY.size <= len(data):
        kind, file, number, length = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        operations.append(Operation(kind.decode(), file, number, data[position : position + length]))
        position += length
    return operations


@dataclass
class File:
    """What was synced, and what was done since: writes, and cuts, which have no data."""

    synced: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        self.synced = apply(self.synced, self.changes)
        self.changes = []

    def drop(self, random: Random) -> None:
        """A sync has failed: what was not written is forgotten, and believed to be written."""
        self.synced = self.survivor(random)
        self.changes = []

    def survivor(self, random: Random) -> bytes:
        """What may be found after a crash."""
        changes = self.changes
        match random.choice(("nothing", "all", "first", "some", "sectors", "sectors")):
            case "nothing":
                changes = []
            case "first":
                changes = changes[: random.randint(0, len(changes))]
            case "some":
                changes = [change for change in changes if random.random() < 0.5]
            case "sectors":
                share = random.random()
                changes = [part for change in changes for part in sectors(*change) if random.random() < share]
            case "all":
                pass
        return apply(self.synced, changes)


def apply(content: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    result = bytearray(content)
    for offset, data in changes:
        end = offset + len(data or b"")
        if data is None:
            del result[end:]
        result.extend(bytes(max(0, end - len(result))))
        if data is not None:
            result[offset:end] = data
    return bytes(result)


def sectors(offset: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    """A change, in pieces that a disk writes as a whole."""
    if data is None:
        yield offset, None
        return
    begin = 0
    while begin < len(data):
        end = begin + _SECTOR_BYTES - (offset + begin) % _SECTOR_BYTES
        yield offset + begin, data[begin:end]
        begin = end


Names = dict[str, File | None]
"""Paths within the root. A directory has no file."""


def rename(names: Names, change: tuple[str, str, File | None]) -> None:
    """One change of names: what had the first has the second; either may be empty."""
    former, latter, file = change
    names.pop(former, None)
    if latter:
        names[latter] = file


class CrashingDisk:
    """The files of one directory, as they are and as they were synced."""

    def __init__(self, root: Path, random: Random) -> None:
        """Begins with what is in the directory now, all of it synced."""
        self._random = random
        self._root = str(root)
        self._names: Names = {
            str(path): None if path.is_dir() else File(path.read_bytes())
            for path in root.rglob("*")
            if not path.name.endswith("-shm")
        }
        self._synced_names: Names = dict(self._names)
        self._changes: dict[str, list[tuple[str, str, File | None]]] = {}  # of names, by directory
        self._open: dict[int, str | File] = {}
        self.acknowledged = 0
        """The last number that the process noted."""

    def replay(self, operation: Operation) -> None:
        match operation.kind:
            case "o" | "O":
                self._replay_open(operation.data.decode(), operation)
            case "C":
                self._open.pop(operation.file, None)
            case "W" | "T":
                file = self._open[operation.file]
                assert isinstance(file, File)
                file.changes.append((operation.number, operation.data if operation.kind == "W" else None))
            case "F":
                file = self._open[operation.file]
                if isinstance(file, File):
                    file.drop(self._random)
            case "S":
                self._sync(self._open[operation.file])
            case "P":  # another process, without a crash between
                self._open = {}
            case "N":
                self.acknowledged = operation.number
            case _:
                self._replay_names(operation)

    def _replay_open(self, path: str, operation: Operation) -> None:
        if operation.kind == "O":
            self._rename("", path, File())
        file = None if path == self._root else self._names[path]
        self._open[operation.file] = path if file is None else file
        if operation.number and file is not None:
            file.changes.append((0, None))

    def _replay_names(self, operation: Operation) -> None:
        path, other = operation.paths()
        match operation.kind:
            case "R":
                self._rename(path, other, self._names[path])
            case "L":
                self._rename("", other, self._names[path])
            case "U":
                self._rename(path, "", None)
            case "M":
                self._rename("", path, None)
            case _:
                raise AssertionError(operation.kind)

    def _rename(self, former: str, latter: str, file: File | None) -> None:
        rename(self._names, (former, latter, file))
        parents = {str(PurePosixPath(path).parent) for path in (former, latter) if path}
        (parent,) = parents
        self._changes.setdefault(parent, []).append((former, latter, file))

    def _sync(self, what: str | File) -> None:
        if isinstance(what, File):
            what.sync()
            return
        for change in self._changes.pop(what, ()):
            rename(self._synced_names, change)

    def _write(self, names: Names, target: Path, random: Random | None) -> None:
        target.mkdir(parents=True)
        for path, file in sorted(names.items(), key=lambda item: item[0]):
            place = target / PurePosixPath(path).relative_to(self._root)
            if not place.parent.exists():
                continue  # its directory has no name
            if file is None:
                place.mkdir()
            else:
                place.write_bytes(file.survivor(random) if random else apply(file.synced, file.changes))

    def crash(self, target: Path) -> None:
        """Write what a crash now may leave to a new directory."""
        random = self._random
        names = dict(self._synced_names)
        for _, changes in sorted(self._changes.items()):
            for change in changes[: random.randint(0, len(changes))]:
                rename(names, change)
        self._write(names, target, random)

    def copy(self, target: Path) -> None:
        """Write what the process itself saw to a new directory."""
        self._write(self._names, target, None)
