"""Split large files into records: each becomes a document.

For files like `<dblp>…</dblp>` whose root has more children than fit into memory. A record is every child of the root
(`record="*"`), or the outermost elements of a name, or of several, as spelled in their tags. Its document is UTF-8: the
bytes of the element, with the namespaces of its ancestors declared on its start tag, and with references to `entities`
replaced by their text, so it can be read without them. Attributes of ancestors are not carried over, and what stands
between records is dropped. Memory is bounded by the largest record, or by `record_bytes_max`.

    >>> import io
    >>> file = io.BytesIO(b'<list xmlns:x="urn:x"><x:item>1</x:item><!-- <item/> --><item>2</item></list>')
    >>> for record in records(file):
    ...     print(record.ordinal, record.offset, record.document)
    0 22 b'<x:item xmlns:x="urn:x">1</x:item>'
    1 56 b'<item xmlns:x="urn:x">2</item>'

A file that is cut off or broken gives the records before that place, and then what is wrong:

    >>> for record in records(io.BytesIO(b"<list><item>1</item><item>2</i")):
    ...     print(record.document or record.error)
    b'<item>1</item>'
    TC209 the file ends inside the record that starts at byte 20

`split` gives the same as Arrow batches; `plan` cuts a file into parts that `split` reads independently of each other.
Documents in separate files need none of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from treecast import _native
from treecast.document import EntityTexts, native_entities
from treecast.errors import DocumentError, DocumentLimitError

EVERY_CHILD = "*"
RECORD_BYTES_MAX = 64 << 20
BATCH_BYTES = 4 << 20
READ_BYTES = 1 << 20

ERROR = pa.struct([("code", pa.string()), ("message", pa.string()), ("offset", pa.int64())])
SCHEMA = pa.schema(
    [("document", pa.binary()), ("offset", pa.int64()), ("ordinal", pa.int64()), pa.field("error", ERROR)]
)

_WHOLE_FILE = (1 << 64) - 1
_NAME = re.compile(r"[^\s<>/=\"'*,]+")


@dataclass(frozen=True)
class Record:
    """One record, or why there is none.

    `offset` is where its start tag begins in the file, in bytes; `ordinal` is its number in the file, from 0. Where the
    file itself is broken, `ordinal` is None and `offset` is the place.
    """

    document: bytes | None
    offset: int
    ordinal: int | None
    error: DocumentError | None = None


@dataclass(frozen=True)
class Part:
    """The records of a file that start from `offset` on and before `end`; of the last part, `end` is None."""

    offset: int = 0
    end: int | None = None
    ordinal: int = 0
    state: bytes = b""


@dataclass(frozen=True)
class Rule:
    """What is a record, and what becomes of it. Raises ValueError or TypeError where it is invalid."""

    record: str | Sequence[str] = EVERY_CHILD
    entities: EntityTexts = None
    record_bytes_max: int = RECORD_BYTES_MAX

    def __post_init__(self) -> None:
        for name in self._list_names():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError(f'record must be "*" or the names of elements, not {self.record!r}')
        self.splitter(Part())

    def _list_names(self) -> list[str]:
        names = [self.record] if isinstance(self.record, str) else list(self.record)
        if not names:
            raise ValueError('record must be "*" or the names of elements, not nothing')
        return [] if names == [EVERY_CHILD] else names

    def splitter(self, part: Part) -> _native.RecordSplitter:
        """The native splitter for a part of a file."""
        stop = _WHOLE_FILE if part.end is None else part.end
        entities = native_entities(self.entities)
        return _native.RecordSplitter(self._list_names(), self.record_bytes_max, entities, part.state, stop)

    def planner(self, part_bytes: int) -> _native.RecordPlanner:
        """The native planner for parts of about so many bytes."""
        entities = native_entities(self.entities)
        return _native.RecordPlanner(self._list_names(), self.record_bytes_max, entities, part_bytes)


def plan(file: IO[bytes], rule: Rule, *, part_bytes: int) -> list[Part]:
    """Cut a file into parts of at least `part_bytes`, each beginning with a record; reads it once, keeps nothing.

    Reading all parts gives what reading the whole file gives, in the same order, errors included.
    """
    if part_bytes < 1:
        raise ValueError(f"part_bytes must be at least 1, not {part_bytes}")
    planner = rule.planner(part_bytes)
    while not planner.done and (data := file.read(READ_BYTES)):
        planner.feed(data)
    begins = [(0, 0, b""), *planner.cuts()]
    ends = [*(offset for offset, _, _ in begins[1:]), None]
    return [Part(offset, end, ordinal, state) for (offset, ordinal, state), end in zip(begins, ends, strict=True)]


def split(
    file: IO[bytes], rule: Rule | None = None, *, part: Part | None = None, batch_bytes: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """The records of a file, or of one part of it, in batches of about `batch_bytes` with the columns of `SCHEMA`.

    The file is read from where it stands, or from where the part begins.
    """
    part = part or Part()
    splitter = (rule or Rule()).splitter(part)
    if part.offset:
        file.seek(part.offset)
    while not splitter.done:
        if data := file.read(READ_BYTES):
            splitter.feed(data)
        else:
            splitter.finish()
        # Rows gather over several reads: a batch costs more than a row does.
        yield from _batches(splitter, batch_bytes, flush=not data)
    yield from _batches(splitter, batch_bytes, flush=True)


def records(
    file: IO[bytes],
    *,
    record: str | Sequence[str] = EVERY_CHILD,
    entities: EntityTexts = None,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Iterator[Record]:
    """The records of a file, one by one; where the file or a record is bad, an entry that says so."""
    for batch in split(file, Rule(record, entities, record_bytes_max)):
        for row in batch.to_pylist():
            error = row["error"] and error_of(**row["error"])
            yield Record(row["document"], row["offset"], row["ordinal"], error)


def error_of(code: str, message: str, offset: int) -> DocumentError:
    """The error in a row of the column `error`."""
    kind = DocumentLimitError if code.startswith("TC3") else DocumentError
    return kind(message.removeprefix(f"{code} "), code=code, offset=offset)


def _batches(splitter: _native.RecordSplitter, batch_bytes: int, *, flush: bool) -> Iterator[pa.RecordBatch]:
    while (rows := splitter.take(batch_bytes, flush)) is not None:
        yield _batch(*rows)


def _batch(
    data: bytes, ends: bytes, offsets: bytes, ordinals: bytes, refusals: list[tuple[int, Exception]]
) -> pa.RecordBatch:
    count = len(offsets) // 8
    errors = pa.nulls(count, ERROR)
    ordinal_validity = document_validity = None
    if refusals:
        error_rows: list[dict[str, object] | None] = [None] * count
        validity_bits = bytearray(b"\xff" * (count // 8 + 1))
        for row, error in refusals:
            assert isinstance(error, DocumentError)
            error_rows[row] = {"code": error.code, "message": str(error), "offset": error.offset}
            validity_bits[row >> 3] &= ~(1 << (row & 7))
        errors = pa.array(error_rows, ERROR)
        document_validity = pa.py_buffer(bytes(validity_bits))
        if memoryview(ordinals).cast("q")[count - 1] < 0:  # only the last row can be about the file itself
            last = bytearray(b"\xff" * (count // 8 + 1))
            last[(count - 1) >> 3] &= ~(1 << ((count - 1) & 7))
            ordinal_validity = pa.py_buffer(bytes(last))
    columns = [
        pa.Array.from_buffers(pa.binary(), count, [document_validity, pa.py_buffer(ends), pa.py_buffer(data)]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
        pa.Array.from_buffers(pa.int64(), count, [ordinal_validity, pa.py_buffer(ordinals)]),
        errors,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
