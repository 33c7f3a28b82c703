"""What is inside a file: itself, what gzip packed, or the members of an archive, as streams that never grow too large.

    for entry in entries(found, pattern="*", ratio_max=250):
        entry.name, entry.stream.read(65536)         # "a.zip!/x/y.xml"

Everything is decompressed piece by piece. What is corrupt raises PipelineError from `read`, behind all that could be
read; an archive that grows to more than `ratio_max` times its size (and more than 64 MiB) is not read further. Archives
in archives are not opened. Memory: one piece, and for zip its directory.
"""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from treecast.errors import PipelineError
from treecast.spark.source_files import Found, fits, kind_of, look

PIECE_BYTES = 32 << 10
RATIO_MAX = 250
RATIO_FREE_BYTES = 64 << 20
XZ_MEMORY_BYTES = 256 << 20
# Everything that zipfile, tarfile and the decompressors raise for bytes that are not theirs.
CORRUPT = (
    *(EOFError, OSError, RuntimeError, NotImplementedError, ValueError, KeyError, IndexError, OverflowError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)


class Readable(Protocol):
    """What is needed of a stream."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Entry:
    """A document or record file: what it is called, and how to read it, once, before the next is asked for."""

    name: str
    stream: Readable
    sequential: bool = False
    """Nothing behind it can be read where it cannot."""


class Bounded:
    """Counts what comes out of a file against what went in, over all its members."""

    def __init__(self, found: Found, ratio_max: int) -> None:
        self._left = max(found.bytes * ratio_max, RATIO_FREE_BYTES)
        self._message = f"the file unpacks to more than {ratio_max} times its size"

    def stream(self, source: Readable) -> Readable:
        return _Counted(source, self)

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise PipelineError(self._message, code="TC715", hint="raise ratio_max if that is right")


class _Counted:
    def __init__(self, source: Readable, bounded: Bounded) -> None:
        self._source = source
        self._bounded = bounded

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._bounded.take(len(data))
        return data


class Inflating:
    """What a compressed stream holds; several in a row are read as one, as gzip and its like do."""

    def __init__(self, source: Readable, make: Callable[[], Any]) -> None:
        self._source = source
        self._make = make
        self._inner = make()
        self._input = b""
        self._started = self._ended = False
        self._failed: Exception | None = None

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        wanted = size
        while wanted > 0 and not self._ended and self._failed is None:
            try:
                data = self._step(min(wanted, PIECE_BYTES))
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                self._failed = error
                break
            parts.append(data)
            wanted -= len(data)
        if self._failed is not None and not any(parts):  # what could be read comes first
            raise PipelineError(f"the compressed data is corrupt: {_reason(self._failed)}", code="TC714")
        return b"".join(parts)

    def _step(self, size: int) -> bytes:
        needs_input = getattr(self._inner, "needs_input", True)  # zlib hands back what it did not take
        if needs_input and not self._input:
            self._input = self._source.read(PIECE_BYTES)
            if not self._input:
                raise EOFError("it ends too soon" if self._started else "it is empty")
        self._started = True
        data: bytes = self._inner.decompress(self._input, size)
        self._input = getattr(self._inner, "unconsumed_tail", b"")
        if self._inner.eof:
            rest = self._inner.unused_data or self._source.read(PIECE_BYTES)
            self._ended = not rest.strip(b"\0")  # tapes pad with zeros
            if not self._ended:
                self._inner, self._input = self._make(), rest
        return data


def inflating(source: Readable, kind: str) -> Readable:
    """A stream behind "gz", "bz2" or "xz"."""
    makers: dict[str, Callable[[], Any]] = {
        "gz": lambda: zlib.decompressobj(wbits=31),
        "bz2": bz2.BZ2Decompressor,
        "xz": lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES),
    }
    return Inflating(source, makers[kind])


def entries(
    found: Found, *, pattern: str = "*", ratio_max: int = RATIO_MAX
) -> Iterator[Entry | tuple[str, PipelineError]]:
    """What is in the file; of a member that cannot be opened, its name and why. Raises PipelineError for the file."""
    kind = kind_of(found.path)
    check_same(found)
    try:
        with Path(found.path).open("rb") as file:
            bounded = Bounded(found, ratio_max)
            if kind == "plain":
                yield Entry(found.path, file)
            elif kind == "gz":
                yield Entry(found.path, bounded.stream(inflating(file, "gz")))
            elif kind == "zip":
                yield from _zip_entries(found.path, file, pattern, bounded)
            else:
                outer = file if kind == "tar" else inflating(file, kind.partition(".")[2])
                yield from _tar_entries(found.path, bounded.stream(outer), pattern)
    except OSError as error:
        raise PipelineError(f"the file cannot be read: {error.strerror or error}", code="TC712") from None


def check_same(found: Found) -> None:
    """Raise PipelineError unless the file is what it was when it was listed."""
    now = look(found.path)
    if now is None:
        raise PipelineError("the file is gone since it was listed", code="TC713")
    if now != found:
        raise PipelineError(
            "the file has changed since it was listed",
            code="TC713",
            hint="move files into place when they are complete",
        )


def _zip_entries(path: str, file: Any, pattern: str, bounded: Bounded) -> Iterator[Entry | tuple[str, PipelineError]]:
    try:
        archive = zipfile.ZipFile(file)
    except CORRUPT as error:
        raise PipelineError(f"the file is no zip archive, or a corrupt one: {_reason(error)}", code="TC714") from None
    with archive:
        for member in archive.infolist():
            if member.is_dir() or not fits(member.filename, pattern):
                continue
            name = f"{path}!/{member.filename}"
            try:
                stream = archive.open(member)
            except CORRUPT as error:
                yield name, PipelineError(f"this member of an archive cannot be opened: {_reason(error)}", code="TC714")
                continue
            with stream:
                yield Entry(name, bounded.stream(_member(stream, member.filename)))


def _tar_entries(path: str, stream: Readable, pattern: str) -> Iterator[Entry]:
    try:
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=2) as archive:  # type: ignore[call-overload]
            for member in archive:
                archive.members = []  # or they would all be kept
                if member.isfile() and fits(member.name, pattern):
                    data = archive.extractfile(member)
                    assert data is not None
                    yield Entry(f"{path}!/{member.name}", _member(data, member.name), sequential=True)
    except CORRUPT as error:
        raise PipelineError(f"the file is no tar archive, or a corrupt one: {_reason(error)}", code="TC714") from None


class _Member:
    """A member of an archive, whose reading fails in one way only."""

    def __init__(self, source: Readable) -> None:
        self._source = source

    def read(self, size: int, /) -> bytes:
        try:
            return self._source.read(size)
        except CORRUPT as error:
            raise PipelineError(f"this member of an archive is corrupt: {_reason(error)}", code="TC714") from None


def _member(source: Any, name: str) -> Readable:
    member = _Member(source)
    return inflating(member, "gz") if kind_of(name) == "gz" else member


def _reason(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
