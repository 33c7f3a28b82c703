"""Files as the tasks of a job: small ones packed together, large record files cut; and what each task reads.

    tasks = make(list_files(["/data"]), options)     # on the driver: lists of files, or parts of one
    for batch in read(tasks[0], options): ...        # on an executor: Arrow batches of `SCHEMA`

A task costs some 66 ms whatever it does, so small files go many to a task. A record file larger than a task is cut at
records (`treecast.inputs.records.plan`), which reads it once, at about the speed of the disk; several files at a time.
What is in a file is read by `treecast.inputs.document_files`, as everywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from treecast.errors import TreecastError
from treecast.inputs.archives import is_compressed
from treecast.inputs.document_files import RecordRows, WholeDocument, read_file
from treecast.inputs.listing import ListedFile, kind_of
from treecast.inputs.locations import open_file
from treecast.inputs.records import BATCH_BYTES, ERROR, Part, Rule, plan
from treecast.names import text_of
from treecast.spark.sources.source_options import Options

TYPE = "document binary, file string, offset long, ordinal long, error struct<code:string,message:string,offset:long>"
SCHEMA = pa.schema(
    [
        ("document", pa.binary()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("ordinal", pa.int64()),
        pa.field("error", ERROR),
    ]
)
PART = "part"
PARTS_TYPE = f"{PART} binary"
FILES_MAX = 10_000  # of one task
ROWS_MAX = 10_000  # of one batch
PACKED_GROWTH = 5  # compressed files take so many times their size


@dataclass(frozen=True)
class Piece:
    """A file, or one part of it."""

    file: ListedFile
    part: Part | None = None


class Task(InputPartition):
    """What one task reads, in this order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)

    def to_bytes(self) -> bytes:
        """A form that travels as a row."""
        rows = []
        for piece in self.pieces:
            part = piece.part
            cut = None if part is None else (part.offset, part.end, part.ordinal, part.state.hex())
            rows.append((piece.file.path, piece.file.bytes, piece.file.mtime_ns, cut))
        return json.dumps(rows).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Task:
        """What `to_bytes` gave."""
        pieces = []
        for path, size, mtime_ns, cut in json.loads(data):
            part = None
            if cut is not None:
                offset, end, ordinal, state = cut
                part = Part(offset, end, ordinal, bytes.fromhex(state))
            pieces.append(Piece(ListedFile(path, size, mtime_ns), part))
        return cls(pieces)


def make(listed: Iterable[ListedFile], options: Options) -> list[Task]:
    """The tasks for these files. Record files that are larger than a task are read once here, to cut them."""
    files = list(listed)
    rule = options.rule()
    large: dict[ListedFile, list[Part]] = {}
    if rule is not None:
        large_files = [file for file in files if file.bytes > options.partition_bytes and _is_plain(file, options)]
        with ThreadPoolExecutor(max(1, min(len(large_files), os.cpu_count() or 1))) as pool:
            parts = pool.map(lambda file: _plan_parts(file, rule, options), large_files)
            large = dict(zip(large_files, parts, strict=True))
    tasks: list[Task] = []
    pieces: list[Piece] = []
    weight = 0
    for file in files:
        if file in large:
            tasks += [Task([Piece(file, part)]) for part in large[file]]
            continue
        file_weight = file.bytes * (1 if kind_of(file.path) in ("plain", "tar") else PACKED_GROWTH)
        if pieces and (weight + file_weight > options.partition_bytes or len(pieces) >= FILES_MAX):
            tasks.append(Task(pieces))
            pieces, weight = [], 0
        pieces.append(Piece(file))
        weight += file_weight
    return [*tasks, Task(pieces)] if pieces else tasks


def _is_plain(file: ListedFile, options: Options) -> bool:
    return kind_of(file.path) == "plain" and not is_compressed(file.path, options.storage_secrets)


def _plan_parts(file: ListedFile, rule: Rule, options: Options) -> list[Part]:
    try:
        with open_file(file.path, options.storage_secrets) as stream:
            return plan(stream, rule, part_bytes=options.partition_bytes)
    except OSError:
        return [Part()]  # the task will say why


def source_rows(task: Task, options: Options) -> Iterator[pa.RecordBatch]:
    """What the data source gives for a task: its documents, or itself."""
    if options.parts:
        yield pa.RecordBatch.from_pydict({PART: pa.array([task.to_bytes()], pa.binary())})
        return
    yield from read(task, options)


def read(task: Task, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of a task. What cannot be read is a row, and the rest goes on."""
    settings = options.read_settings()
    rows = Rows()
    for piece in task.pieces:
        for item in read_file(piece.file, settings, piece.part):
            if isinstance(item, RecordRows):
                yield from rows.add_records(item.name, item.batch)
            elif isinstance(item, WholeDocument):
                rows.add(item.name, item.data)
            else:
                rows.refuse(item.name, item.error, item.offset)
            if rows.full:
                yield from rows.flush()
    yield from rows.flush()


class Rows:
    """Gathers rows until they make a batch worth sending."""

    def __init__(self) -> None:
        self._documents: list[bytes | None] = []
        self._files: list[str] = []
        self._offsets: list[int] = []
        self._ordinals: list[int | None] = []
        self._errors: list[dict[str, object] | None] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._count = 0

    @property
    def full(self) -> bool:
        """Whether there is a batch's worth."""
        return self._bytes >= BATCH_BYTES or self._count >= ROWS_MAX

    def add(self, file: str, document: bytes | None, error: dict[str, object] | None = None, offset: int = 0) -> None:
        """A whole document, or why there is none."""
        file = text_of(file)
        self._documents.append(document)
        self._files.append(file)
        self._offsets.append(offset)
        self._ordinals.append(0 if error is None else None)
        self._errors.append(error)
        self._bytes += len(document or b"") + len(file) + 32
        self._count += 1

    def refuse(self, file: str, error: TreecastError, offset: int = 0) -> None:
        """A row that says why a file cannot be read (further)."""
        self.add(file, None, {"code": error.code, "message": text_of(str(error)), "offset": offset}, offset)

    def add_records(self, file: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The records of a batch; gives batches whenever there are enough rows."""
        self._gather()
        name = pa.repeat(pa.scalar(text_of(file)), batch.num_rows)
        columns = [batch.column("document"), name, *(batch.column(i) for i in (1, 2, 3))]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        self._bytes += batch.nbytes
        self._count += batch.num_rows
        if self.full:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """All that was gathered."""
        self._gather()
        batches, self._batches = self._batches, []
        self._bytes = self._count = 0
        yield from _merge(batches)

    def _gather(self) -> None:
        if self._documents:
            columns: list[Iterable[object]] = [
                self._documents,
                self._files,
                self._offsets,
                self._ordinals,
                self._errors,
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
            self._documents, self._files, self._offsets, self._ordinals, self._errors = [], [], [], [], []


def _merge(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One batch of several small ones."""
    if len(batches) <= 1:
        yield from batches
        return
    yield from pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()
