"""Compressed bytes into plain ones, piece by piece, and never more of them than a file of its size may hold.

    budget = Budget(file_bytes=2_410, ratio_max=RATIO_MAX)
    stream = budget.stream(inflating(file, "gz"))
    stream.read(65536)                               # PipelineError TC714: corrupt; TC715: it grows too large

What the header of an archive says about sizes is not believed: every bound is on what comes out. Each decompressor is
asked for so many bytes at a time, which bounds its output, and those whose memory depends on their input are given a
limit of memory. All bounds are here, and in docs/guide/files.md.
"""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from treecast.errors import PipelineError

PIECE_BYTES = 32 << 10
"""What is inflated at a time."""
RATIO_MAX = 250
"""A file may unpack to so many times its size …"""
RATIO_FREE_BYTES = 64 << 20
"""… or to so many bytes, whichever is more."""
LZMA_MEMORY_BYTES_MAX = 256 << 20
"""What the LZMA decompressor may use; `xz -9` needs 65 MiB."""
ZSTD_MEMORY_BYTES_MAX = 128 << 20
"""The largest window that the zstd library accepts by default; `zstd -19` needs 8 MiB."""
TAR_HEADER_BYTES_MAX = 1 << 20
"""Of all that stands before a member of a tar archive: long names and extended attributes."""

SIGNATURES = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
}
"""The first bytes of what is compressed; no XML begins with any of them."""
SIGNATURE_BYTES_MAX = max(map(len, SIGNATURES))

# Everything that zipfile, tarfile and the decompressors raise for bytes that are not theirs.
CORRUPT = (
    *(EOFError, OSError, RuntimeError, NotImplementedError, ValueError, KeyError, IndexError, OverflowError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)


class Readable(Protocol):
    """What is needed of a stream."""

    def read(self, size: int, /) -> bytes: ...


class Budget:
    """How much may still come out of a file, over all its members.

    A member that takes all that is left is refused. The members after it are still read, each up to the ratio of
    its own bytes, and all of them together up to the ratio of the file. So one bomb does not hide other documents, and
    many bombs cost no more than twice what one does.
    """

    def __init__(self, file_bytes: int, ratio_max: int) -> None:
        self._ratio_max = ratio_max
        self._bytes_left = max(file_bytes * ratio_max, RATIO_FREE_BYTES)
        self._member_bytes_left = file_bytes * ratio_max
        self._share: int | None = None

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be read of the file."""
        return self._bytes_left < 0 and self._member_bytes_left < 0

    def stream(self, source: Readable, packed_bytes: int = 0) -> Readable:
        """The stream of a member that has so many bytes in the file; the one before it is done with."""
        self._share = packed_bytes * self._ratio_max if self._bytes_left < 0 else None
        return _CountedStream(source, self)

    def take(self, count: int) -> None:
        """Raise PipelineError (TC715) where so many bytes are too many."""
        if self._share is None:
            self._bytes_left -= count
            over = self._bytes_left < 0
        else:
            self._share -= count
            self._member_bytes_left -= count
            over = self._share < 0 or self._member_bytes_left < 0
        if over:
            message = f"the file unpacks to more than {self._ratio_max} times its size"
            raise PipelineError(message, code="TC715", hint="raise ratio_max if that is right")


class _CountedStream:
    def __init__(self, source: Readable, budget: Budget) -> None:
        self._source = source
        self._budget = budget

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._budget.take(len(data))
        return data


class Inflating:
    """What a compressed stream holds; several in a row are read as one, as gzip and its like do.

    `one` ends after the first, and takes the end of the source for its end: members of zip archives say their sizes
    elsewhere. `head` is put before what the source gives.
    """

    def __init__(self, source: Readable, make: Callable[[], Any], *, one: bool = False, head: bytes = b"") -> None:
        self._source = source
        self._make = make
        self._one = one
        self._inner = make()
        self._input = head
        self._has_started = self._has_ended = False
        self._error: PipelineError | None = None

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        bytes_wanted = size
        while bytes_wanted > 0 and not self._has_ended and self._error is None:
            try:
                data = self._step(min(bytes_wanted, PIECE_BYTES))
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                self._error = _refusal(error)
                break
            parts.append(data)
            bytes_wanted -= len(data)
        if self._error is not None and not any(parts):  # what could be read comes first
            raise self._error
        return b"".join(parts)

    def _step(self, size: int) -> bytes:
        needs_input = getattr(self._inner, "needs_input", True)  # zlib hands back what it did not take
        if needs_input and not self._input:
            self._input = self._source.read(PIECE_BYTES)
            if not self._input:
                if self._one:
                    self._has_ended = True
                    return b""
                raise EOFError("it ends too soon" if self._has_started else "it is empty")
        self._has_started = True
        data: bytes = self._inner.decompress(self._input, size)
        self._input = getattr(self._inner, "unconsumed_tail", b"")
        if self._inner.eof:
            rest = b"" if self._one else self._inner.unused_data or self._source.read(PIECE_BYTES)
            self._has_ended = not rest.strip(b"\0")  # tapes pad with zeros
            if not self._has_ended:
                self._inner, self._input = self._make(), rest
        return data


class InflatingZstd:
    """What a stream of zstd frames holds. Arrow has the decompressor, and works on streams."""

    def __init__(self, source: Readable) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(_ArrowSource(source), mode="r"), "zstd")
        self._error: PipelineError | None = None

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        bytes_wanted = size
        while bytes_wanted > 0 and self._error is None:
            try:
                data = self._stream.read(min(bytes_wanted, PIECE_BYTES))
            except PipelineError as error:
                self._error = error
            except (OSError, EOFError, ValueError) as error:
                self._error = _refusal(error)
            else:
                if not data:
                    break
                parts.append(data)
                bytes_wanted -= len(data)
        if self._error is not None and not parts:  # what could be read comes first
            raise self._error
        return b"".join(parts)


class _ArrowSource:
    """As much of a file as Arrow asks for. What is empty is cut off: Arrow would take it for a stream of nothing."""

    closed = False

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._has_started = False

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        if not data and not self._has_started:
            raise EOFError("it is empty")
        self._has_started = True
        return data

    def close(self) -> None:
        """The file is closed by whoever opened it."""


class PrefixedStream:
    """A stream with bytes that were already taken from it put back in front."""

    def __init__(self, head: bytes, source: Readable) -> None:
        self._head = head
        self._source = source

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._source.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


def compression_of(head: bytes) -> str | None:
    """How a file that begins so is compressed; None where it is not."""
    return next((kind for signature, kind in SIGNATURES.items() if head.startswith(signature)), None)


def inflating(source: Readable, kind: str) -> Readable:
    """The plain stream of a "gz", "bz2", "xz" or "zst" stream."""
    if kind == "zst":
        return InflatingZstd(source)
    makers: dict[str, Callable[[], Any]] = {
        "gz": lambda: zlib.decompressobj(wbits=31),
        "bz2": bz2.BZ2Decompressor,
        "xz": lambda: lzma.LZMADecompressor(memlimit=LZMA_MEMORY_BYTES_MAX),
    }
    return Inflating(source, makers[kind])


def inflating_member(source: Readable, method: int) -> Readable:
    """The plain stream of the raw bytes of a member of a zip archive. Raises NotImplementedError for other methods."""
    if method == zipfile.ZIP_STORED:
        return source
    if method == zipfile.ZIP_DEFLATED:
        return Inflating(source, lambda: zlib.decompressobj(wbits=-15), one=True)
    if method == zipfile.ZIP_BZIP2:
        return Inflating(source, bz2.BZ2Decompressor, one=True)
    if method == zipfile.ZIP_LZMA:
        # Two bytes of version, two of the size of the properties, five properties. In front of a size that is not known
        # these are the header of an .lzma file, for which there is a limit of memory; raw streams have none.
        properties = source.read(9)
        if len(properties) < 9 or properties[2:4] != b"\x05\x00":
            raise ValueError("its LZMA properties make no sense")
        head = properties[4:] + b"\xff" * 8
        return Inflating(
            source,
            lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=LZMA_MEMORY_BYTES_MAX),
            one=True,
            head=head,
        )
    raise NotImplementedError(f"its compression method ({method}) is not known here")


def reason(error: BaseException) -> str:
    """What an error says, in one line that is not too long."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _refusal(error: Exception) -> PipelineError:
    limit = None
    if isinstance(error, lzma.LZMAError) and "limit" in str(error):
        limit, advice = LZMA_MEMORY_BYTES_MAX, "xz -6"
    elif "too much memory" in str(error):  # as zstd says it
        limit, advice = ZSTD_MEMORY_BYTES_MAX, "zstd -19"
    if limit is not None:
        message = f"the compressed data needs more than {limit >> 20} MiB of memory to unpack"
        return PipelineError(message, code="TC715", hint=f"compress it with a smaller dictionary, such as {advice}")
    hint = "fetch the file again, or compress it again"
    return PipelineError(f"the compressed data is corrupt: {reason(error)}", code="TC714", hint=hint)
