"""What is inside a file: itself, what was compressed, or the members of an archive, as streams of a bounded size.

    for entry in entries(file, pattern="*", ratio_max=250):
        entry.name, entry.stream.read(65536)         # "a.zip!/x/y.xml"

This is the one place that opens documents. Archives (zip, tar, and compressed tar) are known by their names; what is
compressed (gzip, bzip2, xz, zstd) by its name or its first bytes, in archives by its name. Archives in archives are
not opened.

Everything is decompressed piece by piece (`treecast.inputs.inflate`, which has the bounds). What is corrupt, or grows
to more than `ratio_max` times the size of the file (and more than 64 MiB), raises PipelineError from `read`, after all
that could be read; the other members of a zip archive still come, those of a tar archive as far as it can be followed.
Memory: one piece, and for zip its directory.

Codes: TC712 a file that cannot be opened or read, TC713 one that has changed since it was listed, TC714 what is
corrupt, TC715 what unpacks to too much.
"""

from __future__ import annotations

import copy
import errno
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from treecast.errors import PipelineError
from treecast.inputs.inflate import (
    CORRUPT,
    PIECE_BYTES,
    RATIO_MAX,
    SIGNATURE_BYTES_MAX,
    TAR_HEADER_BYTES_MAX,
    Budget,
    PrefixedStream,
    Readable,
    compression_of,
    inflating,
    inflating_member,
    reason,
)
from treecast.inputs.listing import COMPRESSIONS, EVERY_FILE, SIZE_UNKNOWN, ListedFile, fits, kind_of, look
from treecast.inputs.locations import LOCAL, Storage, open_file

STDIN = "-"
"""The name by which standard input goes."""
_HINTS = {
    errno.ENOENT: "check the name",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "ask for read permission, or run as a user who has it",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
}


@dataclass(frozen=True)
class Entry:
    """A document or record file: what it is called, and how to read it, once, before the next is asked for."""

    name: str
    stream: Readable


@dataclass
class ReadProgress:
    """How much of some files has been read, by the position in each as it lies on disk."""

    total_bytes: int | None
    """None where a size is unknown, such as that of a pipe."""
    _done_bytes: int = 0
    _handle: BinaryIO | None = None
    _size: int = 0

    def begin(self, handle: BinaryIO, size: int) -> None:
        """The next file is open; the one before has been read."""
        self._done_bytes += self._size
        self._handle, self._size = handle, size

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where it is unknown."""
        if self.total_bytes is None:
            return None
        position = self._size
        if self._handle is not None:
            with suppress(ValueError):  # it is closed: all of it has been read
                position = min(self._handle.tell(), self._size)
        return min(1.0, (self._done_bytes + position) / max(1, self.total_bytes))


def entries(
    file: ListedFile,
    *,
    pattern: str = EVERY_FILE,
    ratio_max: int = RATIO_MAX,
    progress: ReadProgress | None = None,
    storage: Storage = LOCAL,
) -> Iterator[Entry | tuple[str, PipelineError]]:
    """What is in the file; of a member that cannot be opened, its name and why. Raises PipelineError for the file."""
    kind = kind_of(file.path)
    check_unchanged(file, storage)
    try:
        with open_file(file.path, storage) as handle:
            # The length of a pipe is unknown. What comes out of it is bounded by the size of a document.
            size = sys.maxsize if file.bytes == SIZE_UNKNOWN else file.bytes
            budget = Budget(size, ratio_max)
            if progress is not None:
                progress.begin(handle, size)
            if kind == "zip":
                yield from _zip_entries(file.path, handle, pattern, budget)
                return
            stream = _File(handle)
            if kind == "plain":
                yield Entry(file.path, _uncompress(stream, budget))
            elif kind in COMPRESSIONS.values():
                yield Entry(file.path, budget.stream(inflating(stream, kind)))
            else:
                outer = stream if kind == "tar" else inflating(stream, kind.partition(".")[2])
                # What holes of sparse members and gzip in members add is counted separately, within the same bounds.
                yield from _tar_entries(file.path, budget.stream(outer), pattern, Budget(size, ratio_max))
    except OSError as error:
        raise unreadable(error) from None


def standard_input(progress: ReadProgress | None = None) -> Entry:
    """Standard input as a document or a record file, uncompressed if need be."""
    if progress is not None:
        progress.begin(sys.stdin.buffer, max(0, standard_input_bytes()))
    return Entry(STDIN, _uncompress(_File(sys.stdin.buffer), Budget(sys.maxsize, RATIO_MAX)))


def standard_input_bytes() -> int:
    """The size of standard input where that is a file, else SIZE_UNKNOWN."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or no file of the system
        return SIZE_UNKNOWN
    return status.st_size if stat.S_ISREG(status.st_mode) else SIZE_UNKNOWN


def is_compressed(path: str, storage: Storage = LOCAL) -> bool:
    """Whether a file begins as compressed ones do; False where it cannot be read."""
    try:
        with open_file(path, storage) as handle:
            return compression_of(handle.read(SIGNATURE_BYTES_MAX)) is not None
    except OSError:
        return False


def unreadable(error: OSError) -> PipelineError:
    """The error for a file that the system does not let us read."""
    hint = _HINTS.get(error.errno or 0, "check the file and the disk it is on")
    return PipelineError(f"the file cannot be read: {error.strerror or error}", code="TC712", hint=hint)


def check_unchanged(file: ListedFile, storage: Storage = LOCAL) -> None:
    """Raise PipelineError unless the file is what it was when it was listed."""
    if file.bytes == SIZE_UNKNOWN:
        return
    now = look(file.path, storage)
    if now is None:
        raise PipelineError("the file is gone since it was listed", code="TC713")
    if now != file:
        raise PipelineError(
            "the file has changed since it was listed",
            code="TC713",
            hint="move files into place when they are complete",
        )


def _uncompress(stream: _File, budget: Budget) -> Readable:
    """What is in a file whose name says nothing of compression."""
    head = stream.read(SIGNATURE_BYTES_MAX)
    whole = PrefixedStream(head, stream)
    kind = compression_of(head)
    return whole if kind is None else budget.stream(inflating(whole, kind))


class _File:
    """A file that raises only PipelineError when it is read."""

    def __init__(self, handle: Readable) -> None:
        self._handle = handle

    def read(self, size: int, /) -> bytes:
        try:
            return self._handle.read(size)
        except OSError as error:
            raise unreadable(error) from None


def _zip_entries(path: str, file: Any, pattern: str, budget: Budget) -> Iterator[Entry | tuple[str, PipelineError]]:
    try:
        archive = zipfile.ZipFile(file)
    except CORRUPT as error:
        raise PipelineError(f"the file is no zip archive, or a corrupt one: {reason(error)}", code="TC714") from None
    with archive:
        for member in archive.infolist():
            if member.is_dir() or not fits(member.filename, pattern):
                continue
            name = f"{path}!/{member.filename}"
            if budget.is_spent:
                yield name, _not_read()
                return
            try:
                raw = archive.open(_as_stored(member))
                stream: Readable = _ZipMember(inflating_member(raw, member.compress_type), member)
            except CORRUPT as error:
                yield name, PipelineError(f"this member of an archive cannot be opened: {reason(error)}", code="TC714")
                continue
            with raw:
                inner = _inner(_Member(stream), member.filename)
                yield Entry(name, budget.stream(inner, member.compress_size))


def _inner(member: _Member, name: str) -> Readable:
    """What is in a member: its name says whether it is compressed again."""
    kind = kind_of(name)
    return inflating(member, kind) if kind in COMPRESSIONS.values() else member


def _not_read() -> PipelineError:
    message = "the file unpacks to far too much: this member and those after it are not read"
    return PipelineError(message, code="TC715", hint="raise ratio_max if that is right")


def _as_stored(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The member as one that is not compressed, so that zipfile gives its raw bytes.

    What zipfile inflates itself is not bounded: it hands bzip2 and LZMA a piece and takes whatever comes out.
    """
    plain_member = copy.copy(member)
    plain_member.compress_type = zipfile.ZIP_STORED
    plain_member.file_size = member.compress_size
    del plain_member.CRC
    return plain_member


class _ZipMember:
    """A member of a zip archive, held to the size and the checksum that the archive states for it."""

    def __init__(self, source: Readable, member: zipfile.ZipInfo) -> None:
        self._source = source
        self._bytes_left = member.file_size
        self._expected = member.CRC
        self._checksum = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._checksum = zlib.crc32(data, self._checksum)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise zipfile.BadZipFile("it is longer than the archive says")
        if not data and size:
            if self._bytes_left:
                raise EOFError("it ends too soon")
            if self._checksum != self._expected:
                raise zipfile.BadZipFile("its checksum is wrong")
        return data


def _tar_entries(
    path: str, stream: Readable, pattern: str, budget: Budget
) -> Iterator[Entry | tuple[str, PipelineError]]:
    source = _TarSource(stream)
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=2) as archive:  # type: ignore[call-overload]
            while (member := archive.next()) is not None:
                archive.members = []  # or they would all be kept
                source.headers_end()
                if member.isfile() and fits(member.name, pattern):
                    name = f"{path}!/{member.name}"
                    if budget.is_spent:
                        yield name, _not_read()
                        return
                    data = _Member(archive.extractfile(member))
                    inner = _inner(data, member.name)
                    yield Entry(name, budget.stream(inner, archive.offset - member.offset_data))
                    if data.has_failed:
                        return
                _skip_rest(archive)
                source.headers_begin(archive)
    except CORRUPT as error:
        raise PipelineError(f"the file is no tar archive, or a corrupt one: {reason(error)}", code="TC714") from None


def _skip_rest(archive: tarfile.TarFile) -> None:
    """Skip the data of the current member. tarfile itself would never end if the archive is shorter than it states."""
    file: Any = archive.fileobj
    while (bytes_left := archive.offset - file.tell()) > 0:
        if not file.read(min(bytes_left, PIECE_BYTES)):
            raise tarfile.ReadError("it ends too soon")


class _TarSource:
    """The bytes of a tar archive; of headers, which tarfile reads as a whole, no more than a member may have."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._bytes_left: int | None = TAR_HEADER_BYTES_MAX

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        if self._bytes_left is not None:
            self._bytes_left -= len(data)
            if self._bytes_left < 0:
                raise _too_long_headers()
        return data

    def headers_begin(self, archive: tarfile.TarFile) -> None:
        """Count from here on. Headers for the whole archive stay with it, and count as well."""
        header_bytes = sum(len(name) + len(value) for name, value in archive.pax_headers.items())
        if header_bytes > TAR_HEADER_BYTES_MAX:
            raise _too_long_headers()
        self._bytes_left = TAR_HEADER_BYTES_MAX

    def headers_end(self) -> None:
        """What comes is data."""
        self._bytes_left = None


def _too_long_headers() -> PipelineError:
    message = f"the headers before a member of an archive are longer than {TAR_HEADER_BYTES_MAX} bytes"
    return PipelineError(message, code="TC715")


class _Member:
    """A member of an archive that raises only PipelineError when it is read."""

    def __init__(self, source: Any) -> None:
        self._source: Readable = source
        self.has_failed = False

    def read(self, size: int, /) -> bytes:
        try:
            return self._source.read(size)
        except PipelineError:
            self.has_failed = True
            raise
        except CORRUPT as error:
            self.has_failed = True
            raise PipelineError(f"this member of an archive is corrupt: {reason(error)}", code="TC714") from None
