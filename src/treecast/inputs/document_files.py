"""Arguments -> names of documents -> bytes, a batch at a time.

An argument is a file, a directory (searched for *.xml and *.xml.gz, names sorted), a pattern that the shell left
alone, or `-` for standard input. Nothing is held but one batch, and no document is read or inflated further than one
byte past the size limit, where the index refuses it.

Codes: TC290 a document that cannot be read, TC291 damaged gzip data.
"""

from __future__ import annotations

import errno
import glob
import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from treecast.errors import DocumentError

STDIN = "-"
SUFFIXES = (".xml", ".xml.gz")
BATCH_BYTES_MAX = 16 << 20
BATCH_DOCUMENTS_MAX = 1_000
GZIP_MAGIC = b"\x1f\x8b"

ReportBad = Callable[[str, DocumentError], None]


@dataclass
class Batch:
    """Documents that could be read, with the names they go by in results and messages."""

    names: list[str] = field(default_factory=list)
    documents: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


def batches(arguments: Sequence[str], document_bytes_max: int, report: ReportBad) -> Iterator[Batch]:
    """All documents, in order; those that cannot be read go to `report` instead."""
    batch = Batch()
    for name in find(arguments, report):
        try:
            data = read(name, document_bytes_max)
        except DocumentError as error:
            report(name, error)
            continue
        batch.names.append(name)
        batch.documents.append(data)
        batch.size_bytes += len(data)
        if batch.size_bytes >= BATCH_BYTES_MAX or len(batch.documents) >= BATCH_DOCUMENTS_MAX:
            yield batch
            batch = Batch()
    if batch.documents:
        yield batch


def find(arguments: Sequence[str], report: ReportBad) -> Iterator[str]:
    """The name of every document that the arguments mean. What means none goes to `report`."""
    for argument in arguments:
        if argument == STDIN:
            yield argument
        elif os.path.isdir(argument):  # noqa: PTH112 (names are kept as given: Path would drop a leading ./)
            yield from _find_in(argument, report)
        elif glob.has_magic(argument) and not os.path.lexists(argument):
            yield from _expand(argument, report)
        else:
            yield argument


def count(arguments: Sequence[str]) -> int:
    """How many documents `find` will name."""
    return sum(1 for _ in find(arguments, lambda name, error: None))


def _expand(pattern: str, report: ReportBad) -> Iterator[str]:
    names = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not names:
        report(pattern, _unreadable("no file matches this pattern", "check the directory; quote no pattern twice"))
    for name in names:
        if os.path.isdir(name):  # noqa: PTH112
            yield from _find_in(name, report)
        else:
            yield name


def _find_in(directory: str, report: ReportBad) -> Iterator[str]:
    found = 0
    for name in _walk(directory, report):
        found += 1
        yield name
    if not found:
        hint = "it is searched for *.xml and *.xml.gz; name files that are called otherwise"
        report(directory, _unreadable("no document in this directory", hint))


def _walk(directory: str, report: ReportBad) -> Iterator[str]:
    """Files first, then sub-directories, each sorted by name; links to directories may form circles and are left."""
    waiting = [directory]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            report(here, _from_os_error(error))
            continue
        below = [entry for entry in listed if entry.is_dir(follow_symlinks=False)]
        waiting += [entry.path for entry in reversed(below)]
        for entry in listed:
            if entry.name.endswith(SUFFIXES) and _is_file(entry):
                yield entry.path


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A file, or a link to one. A link that cannot be followed counts as one, too: reading it says what is wrong."""
    try:
        return entry.is_file() or (entry.is_symlink() and not entry.is_dir())
    except OSError:
        return True


def read(name: str, document_bytes_max: int) -> bytes:
    """The document, inflated if it is gzipped; of one that is too long only so much that the index sees it is."""
    try:
        if name == STDIN:
            return _read_stream(sys.stdin.buffer, document_bytes_max + 1)
        with Path(name).open("rb") as file:
            return _read_stream(file, document_bytes_max + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        message = f"damaged gzip data: {error}"
        raise DocumentError(message, code="TC291", hint="fetch the file again, or test it with gzip -t") from None
    except OSError as error:
        raise _from_os_error(error) from None
    except ValueError:  # a NUL in the name
        raise _unreadable("no file can have this name", "check the name") from None


def _read_stream(stream: BinaryIO, wanted: int) -> bytes:
    head = stream.read(len(GZIP_MAGIC))
    if head == GZIP_MAGIC:
        with gzip.GzipFile(fileobj=cast(BinaryIO, _Rewound(head, stream)), mode="rb") as inflated:
            return inflated.read(wanted)
    return head + stream.read(max(0, wanted - len(head)))


class _Rewound:
    """A stream with the bytes that were already taken from it put back in front; enough of a file for gzip."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._rest.read(size)
        if size < 0:
            head, self._head = self._head, b""
            return head + self._rest.read()
        taken, self._head = self._head[:size], self._head[size:]
        return taken


def _from_os_error(error: OSError) -> DocumentError:
    hints = {
        errno.ENOENT: "check the name",
        errno.EISDIR: "name a file in it",
        errno.EACCES: "ask for read permission, or run as a user who has it",
        errno.EMFILE: "raise the limit on open files (ulimit -n)",
    }
    hint = hints.get(error.errno or 0, "check the file and the disk it is on")
    return _unreadable(error.strerror or str(error), hint)


def _unreadable(message: str, hint: str) -> DocumentError:
    return DocumentError(f"cannot be read: {message}", code="TC290", hint=hint)
