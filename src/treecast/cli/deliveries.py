"""`treecast match --render`: payloads beside document and subscription.

    json     {"document": "…", "subscription": "…", "payload": "…"}, one object a line; a payload that is not UTF-8 (a
             whole document in another encoding) is payload_base64 instead
    parquet  columns document and subscription (strings) and payload (binary)
    files    a directory for each subscription, in it a file for each delivery: DIR/sport/0000001-monday.xml

A delivery that is refused is reported, and the rest goes on. Threads render groups of documents; results are written in
the order of the documents, and no more of them are held than the threads have at hand.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from treecast.cli.console import results
from treecast.cli.match_output import escape_json
from treecast.cli.output_file import directory_beside, file_beside
from treecast.inputs import document_files
from treecast.inputs.archives import STDIN
from treecast.names import FILE_NAME_BYTES_MAX, file_name, hashed, text_of

if TYPE_CHECKING:
    from treecast import Index
    from treecast.index import RenderedPart

DOCUMENTS_AT_ONCE = 32
PART_BYTES_MAX = 16 << 20  # begin no further document in a part after so many bytes
ROW_GROUP_BYTES = 32 << 20
ROW_GROUP_ROWS = 1 << 17

Refuse = Callable[[str, str, str], None]
"""Told the document, the subscription and the message of a delivery that was refused."""


class Deliveries(NamedTuple):
    """Of some documents, one after the other; equal payloads of a document have the same number."""

    documents: list[int]
    subscriptions: list[str]
    numbers: list[int]
    payloads: Any


class DeliveryWriter(Protocol):
    """Takes the deliveries of one part after the other; `names` are those of the documents that they number."""

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None: ...
    def close(self) -> None: ...


def render_batch(
    index: Index, batch: document_files.Batch, threads: int, writer: DeliveryWriter, refuse: Refuse
) -> Iterator[tuple[int, RenderedPart]]:
    """Write the deliveries of a batch. Gives its parts, each with the number of its first document."""
    for first, part in rendered(index, batch.documents, threads):
        rows = part.deliveries.values
        documents = pc.add(pc.list_parent_indices(part.deliveries), first).to_pylist()
        ids, numbers = rows.field("subscription").to_pylist(), rows.field("payload").indices.to_pylist()
        if rows.field("code").null_count < len(rows):
            for row, message in enumerate(rows.field("message").to_pylist()):
                if message is not None:
                    refuse(batch.names[documents[row]], ids[row], message)
            kept = [row for row, number in enumerate(numbers) if number is not None]
            documents, ids, numbers = ([column[row] for row in kept] for column in (documents, ids, numbers))
        writer.write(batch.names, Deliveries(documents, ids, numbers, rows.field("payload").dictionary))
        yield first, part


def rendered(index: Index, documents: Sequence[bytes], threads: int) -> Iterator[tuple[int, RenderedPart]]:
    """Parts of all documents, in their order, each with the number of its first document."""

    def render(begin: int, end: int) -> RenderedPart:
        return index.render_part(documents[begin:end], report=True, bytes_max=PART_BYTES_MAX)

    groups = deque(
        (begin, min(begin + DOCUMENTS_AT_ONCE, len(documents))) for begin in range(0, len(documents), DOCUMENTS_AT_ONCE)
    )
    with ThreadPoolExecutor(threads) as pool:
        asked: deque[tuple[int, int, Future[RenderedPart]]] = deque()
        while groups or asked:
            while groups and len(asked) < threads:
                begin, end = groups.popleft()
                asked.append((begin, end, pool.submit(render, begin, end)))
            begin, end, answer = asked.popleft()
            part = answer.result()
            yield begin, part
            begin += len(part.deliveries)
            while begin < end:  # a group with more than a part of payloads
                part = render(begin, end)
                yield begin, part
                begin += len(part.deliveries)


class JsonWriter:
    """One object a line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        last, text = -1, b""
        for document, subscription, number in zip(*deliveries[:3], strict=True):
            if number != last:
                last, text = number, _json_payload(deliveries.payloads[number].as_py())
            name = escape_json(text_of(names[document]))
            start = f'{{"document": "{name}", "subscription": "{escape_json(subscription)}", '
            self._file.writelines((start.encode(), text, b"}\n"))

    def close(self) -> None:
        self._file.flush()


def _json_payload(payload: bytes) -> bytes:
    try:
        return f'"payload": "{escape_json(payload.decode())}"'.encode()
    except UnicodeDecodeError:
        return b'"payload_base64": "' + base64.b64encode(payload) + b'"'


class ParquetWriter:
    """One file; its row groups are of a size that fits into memory, whatever the size of payloads."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow.parquet as pq

        self._schema = pa.schema([("document", pa.string()), ("subscription", pa.string()), ("payload", pa.binary())])
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        documents = [text_of(name) for name in names]
        sizes = pc.binary_length(deliveries.payloads).to_pylist()
        begin = 0
        for row, number in enumerate(deliveries.numbers):
            self._bytes += sizes[number]
            self._rows += 1
            if self._bytes >= ROW_GROUP_BYTES or self._rows >= ROW_GROUP_ROWS:
                self._keep(documents, deliveries, begin, row + 1)
                self._flush()
                begin = row + 1
        self._keep(documents, deliveries, begin, len(deliveries.numbers))

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _keep(self, names: Sequence[str], deliveries: Deliveries, begin: int, end: int) -> None:
        columns = [
            pa.array([names[document] for document in deliveries.documents[begin:end]], pa.string()),
            pa.array(deliveries.subscriptions[begin:end], pa.string()),
            deliveries.payloads.take(pa.array(deliveries.numbers[begin:end], pa.int64())).cast(pa.binary()),
        ]
        self._waiting.append(pa.Table.from_arrays(columns, schema=self._schema))

    def _flush(self) -> None:
        table = pa.concat_tables(self._waiting) if self._waiting else None
        if table is not None and table.num_rows:
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0


class FileWriter:
    """A directory for each subscription; documents are numbered in the order in which they were given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: dict[str, Path] = {}
        self._names: Sequence[str] = ()
        self._done = 0  # documents of the batches before

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        if names is not self._names:
            self._done += len(self._names)
            self._names = names
        for document, subscription, number in zip(*deliveries[:3], strict=True):
            directory = self._made.get(subscription) or self._make(subscription)
            name = file_of(self._done + document + 1, names[document])
            with (directory / name).open("xb") as file:
                file.write(deliveries.payloads[number].as_buffer())

    def _make(self, subscription: str) -> Path:
        directory = self._directory / file_name(subscription)
        try:
            directory.mkdir()
        except FileExistsError:  # of an id that differs in case, where the file system does not tell that apart
            directory = self._directory / hashed(subscription)
            directory.mkdir()
        self._made[subscription] = directory
        return directory

    def close(self) -> None:
        """Files are complete as they are written."""


def file_of(number: int, document: str) -> str:
    """The name of the file for a delivery of a document."""
    base = "stdin" if document == STDIN else os.path.basename(document)  # noqa: PTH119
    for suffix in (".gz", ".xml"):
        base = base.removesuffix(suffix)
    return f"{number:07d}-{os.fsdecode(os.fsencode(base)[:FILE_NAME_BYTES_MAX])}.xml"


@contextlib.contextmanager
def open_writer(form: str, path: str | None) -> Iterator[DeliveryWriter]:
    """A writer to `path`, which appears only when all went well, or to stdout."""
    writer: DeliveryWriter
    if path is None:
        writer = JsonWriter(results("json"))
        yield writer
        writer.close()
    elif form == "files":
        with directory_beside(path) as directory:
            yield FileWriter(directory)
    else:
        with file_beside(path) as file:
            writer = JsonWriter(file) if form == "json" else ParquetWriter(file)
            yield writer
            writer.close()
