"""Paths -> documents: one after the other, or a batch at a time.

    settings = ReadSettings(document_bytes_max=16 << 20)
    for batch in batches(["docs/", "more.zip", "-"], settings, report=print):
        print(batch.names, batch.documents)

A path is a file, a directory, a pattern (`treecast.inputs.listing` says which files these mean), or `-` for standard
input. What is compressed is unpacked, of archives each member is a document, called "a.zip!/x/y.xml"
(`treecast.inputs.archives`). With a record rule, files are split into records, called "dblp.xml#0" and so on
(`treecast.inputs.records`).

Use `batches` where names and bytes are wanted, `read_file` where a file is to become rows of a table (Spark does),
`read_document` for one document, and `read_record` for one record. Memory: one batch. No document is read further than
one byte past its limit, and no archive or record file is ever held as a whole.

Codes: TC301 a document that is too long, TC710 a path that names no file; TC712 to TC715 as in
`treecast.inputs.archives`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, cast

from treecast.document import Limits
from treecast.errors import DocumentError, DocumentLimitError, PipelineError, TreecastError
from treecast.inputs.archives import (
    STDIN,
    Entry,
    ReadProgress,
    check_unchanged,
    entries,
    standard_input,
    standard_input_bytes,
    unreadable,
)
from treecast.inputs.inflate import RATIO_MAX, Readable
from treecast.inputs.listing import EVERY_FILE, SIZE_UNKNOWN, ListedFile, list_files, look
from treecast.inputs.locations import LOCAL, Storage, open_file

if TYPE_CHECKING:
    import pyarrow as pa

    from treecast.inputs.records import Part, Rule

BATCH_BYTES_MAX = 16 << 20
BATCH_DOCUMENTS_MAX = 1_000
READ_BYTES = 1 << 20
MEMBER = "!/"
"""Between the name of an archive and that of a member."""

Report = Callable[[str, TreecastError], None]
"""Takes the name of what cannot be read, and why."""


@dataclass(frozen=True)
class ReadSettings:
    """What is read, and how much of it."""

    pattern: str = EVERY_FILE
    """Chooses by name from directories and archives."""
    rule: Rule | None = None
    """How files are split into records; None where each is one document."""
    document_bytes_max: int = Limits.document_bytes_max
    ratio_max: int = RATIO_MAX
    """A file may unpack to so many times its size."""
    storage: Storage = LOCAL
    """How files elsewhere are reached."""


@dataclass(frozen=True)
class WholeDocument:
    """A file or a member of an archive."""

    name: str
    data: bytes


@dataclass(frozen=True)
class RecordRows:
    """Records of a file, with the columns of `treecast.inputs.records.SCHEMA`."""

    name: str
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Refusal:
    """What cannot be read, or not further than `offset`."""

    name: str
    error: TreecastError
    offset: int = 0


@dataclass
class Batch:
    """Documents that could be read, with the names they go by in results and messages."""

    names: list[str] = field(default_factory=list)
    documents: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, name: str, document: bytes) -> None:
        """One more."""
        self.names.append(name)
        self.documents.append(document)
        self.size_bytes += len(document)

    @property
    def is_full(self) -> bool:
        """Whether it has what a batch may hold."""
        return self.size_bytes >= BATCH_BYTES_MAX or len(self.documents) >= BATCH_DOCUMENTS_MAX


def batches(
    paths: Sequence[str], settings: ReadSettings, report: Report, progress: ReadProgress | None = None
) -> Iterator[Batch]:
    """All documents, in order; what cannot be read goes to `report` instead."""
    batch = Batch()
    for name, document in documents(paths, settings, report, progress):
        batch.add(name, document)
        if batch.is_full:
            yield batch
            batch = Batch()
    if batch.documents:
        yield batch


def documents(
    paths: Sequence[str], settings: ReadSettings, report: Report, progress: ReadProgress | None = None
) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all documents, in order; what cannot be read goes to `report` instead."""
    for source in _sources(paths, settings, report):
        if source is None:
            items = _read_entry(standard_input(progress), settings)
        else:
            items = read_file(source, settings, progress=progress)
        for item in items:
            if isinstance(item, WholeDocument):
                yield item.name, item.data
            elif isinstance(item, Refusal):
                report(item.name, item.error)
            else:
                yield from _named_records(item, report)


def progress_of(paths: Sequence[str], settings: ReadSettings) -> ReadProgress:
    """What `batches` and `documents` tell how much of these files they have read. It looks at the size of each."""
    total = 0
    for source in _sources(paths, settings, lambda name, error: None):
        size = standard_input_bytes() if source is None else source.bytes
        if size == SIZE_UNKNOWN:
            return ReadProgress(None)
        total += size
    return ReadProgress(total)


def read_document(name: str, settings: ReadSettings) -> bytes:
    """The one document of this name, as `documents` gives it: also a member of an archive. Raises TreecastError."""
    member = None
    file = None if name == STDIN else look(name, settings.storage)
    if name != STDIN and file is None and MEMBER in name:
        path, _, member = name.partition(MEMBER)
        file = look(path, settings.storage)
        # The names of members may hold stars.
        settings = replace(settings, pattern=EVERY_FILE)
    if name == STDIN:
        items = _read_entry(standard_input(), settings)
    else:
        items = read_file(file or ListedFile(name, SIZE_UNKNOWN, 0), settings)
    matches: list[WholeDocument] = []
    for item in items:
        if member is not None and item.name != name:
            continue
        if isinstance(item, Refusal):
            raise item.error
        assert isinstance(item, WholeDocument)
        matches.append(item)
        if len(matches) > 1 and member is None:
            hint = f"name one of them: {matches[0].name}"
            raise PipelineError("the file holds several documents", code="TC710", hint=hint)
    if not matches:
        message = "the archive has no member of this name" if member is not None else "the archive holds no document"
        raise PipelineError(message, code="TC710", hint="look into the archive for what it holds")
    return matches[0].data


def read_record(name: str, settings: ReadSettings) -> bytes:
    """The one record of this name, such as "dblp.xml#17", as `documents` gives it; the first where there is no number.

    It reads the file as far as that. Raises TreecastError.
    """
    file, sign, number = name.rpartition("#")
    if not (sign and file and number.isascii() and number.isdigit()):
        file, name = name, f"{name}#0"
    archive = file.partition(MEMBER)[0]
    failures: list[TreecastError] = []

    def report(place: str, error: TreecastError) -> None:
        if place in (name, file, archive):
            failures.append(error)

    for record_name, data in documents(
        [file if look(file, settings.storage) or file == STDIN else archive], settings, report
    ):
        if record_name == name:
            return data
        if failures:
            break
    if failures:
        raise failures[0]
    raise PipelineError(f"the file has no record {name.rpartition('#')[2]}", code="TC710", hint="records count from 0")


def read_file(
    file: ListedFile, settings: ReadSettings, part: Part | None = None, progress: ReadProgress | None = None
) -> Iterator[WholeDocument | RecordRows | Refusal]:
    """What is in a file, or in one part of a record file. What cannot be read is an item, and the rest goes on."""
    try:
        if part is not None:
            yield from _read_part(file, settings, part)
            return
        entries_of_file = entries(
            file, pattern=settings.pattern, ratio_max=settings.ratio_max, progress=progress, storage=settings.storage
        )
        for entry in entries_of_file:
            if isinstance(entry, tuple):
                yield Refusal(*entry)
            else:
                yield from _read_entry(entry, settings, file)
    except PipelineError as error:
        yield Refusal(file.path, error, part.offset if part else 0)


def _sources(paths: Sequence[str], settings: ReadSettings, report: Report) -> Iterator[ListedFile | None]:
    """The files that the paths mean; None is standard input."""
    listed_paths: set[str] | None = set() if len(paths) > 1 else None
    for path in paths:
        if path == STDIN:
            yield None
        else:
            yield from list_files([path], settings.pattern, report, listed_paths, settings.storage)


def _read_entry(
    entry: Entry, settings: ReadSettings, file: ListedFile | None = None
) -> Iterator[WholeDocument | RecordRows | Refusal]:
    if settings.rule is not None:
        yield from _read_records(entry, settings.rule)
        if file is not None:
            check_unchanged(file, settings.storage)
        return
    try:
        data = _read_all(entry.stream, settings.document_bytes_max)
        if file is not None:
            check_unchanged(file, settings.storage)
    except (PipelineError, DocumentError) as error:
        yield Refusal(entry.name, error)
    else:
        yield WholeDocument(entry.name, data)


def _read_all(stream: Readable, limit: int) -> bytes:
    parts: list[bytes] = []
    bytes_left = limit + 1
    while bytes_left > 0 and (data := stream.read(min(bytes_left, READ_BYTES))):
        parts.append(data)
        bytes_left -= len(data)
    if bytes_left <= 0:
        message = f"the document is longer than {limit} bytes, the limit document_bytes_max"
        raise DocumentLimitError(message, code="TC301", hint="raise document_bytes_max")
    return b"".join(parts)


def _read_part(file: ListedFile, settings: ReadSettings, part: Part) -> Iterator[RecordRows]:
    from treecast.inputs.records import split

    check_unchanged(file, settings.storage)
    try:
        with open_file(file.path, settings.storage) as handle:
            for batch in split(handle, settings.rule, part=part):
                yield RecordRows(file.path, batch)
    except OSError as error:
        raise unreadable(error) from None
    check_unchanged(file, settings.storage)


def _read_records(entry: Entry, rule: Rule) -> Iterator[RecordRows | Refusal]:
    from treecast.inputs.records import split

    stream = _UntilFailure(entry.stream)
    for batch in split(cast(IO[bytes], stream), rule):
        if stream.error is not None:  # the splitter saw the end of a file that only breaks off here
            batch = batch.slice(0, batch.num_rows - (1 if _is_about_file(batch) else 0))
        yield RecordRows(entry.name, batch)
    if stream.error is not None:
        yield Refusal(entry.name, stream.error, stream.bytes_read)


def _is_about_file(batch: pa.RecordBatch) -> bool:
    return batch.num_rows > 0 and not batch.column("ordinal")[batch.num_rows - 1].is_valid


def _named_records(rows: RecordRows, report: Report) -> Iterator[tuple[str, bytes]]:
    from treecast.inputs.records import error_of

    for row in rows.batch.to_pylist():
        name = rows.name if row["ordinal"] is None else f"{rows.name}#{row['ordinal']}"
        if row["error"] is None:
            yield name, row["document"]
        else:
            report(name, error_of(**row["error"]))


class _UntilFailure:
    """A stream that ends where it cannot be read further, and remembers why."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.error: PipelineError | None = None
        self.bytes_read = 0

    def read(self, size: int, /) -> bytes:
        try:
            data = self._stream.read(size)
        except PipelineError as error:
            self.error = error
            return b""
        self.bytes_read += len(data)
        return data
