"""`treecast render` and `treecast match --render`: payloads with document and subscription.

    json     {"document": "…", "subscription": "…", "payload": "…"}, one object a line; a payload that is not UTF-8 (a
             whole document in another encoding) is payload_base64 instead
    parquet  columns document and subscription (strings) and payload (binary)
    payload  the payloads alone, each ended by a line feed
    files    a directory for each subscription, in it a file for each delivery: DIR/sport/0000001-monday.xml

A refused delivery is reported, and the rest goes on. Results are written in the order of the documents, a table
of `Index.render_batches` at a time, so that no more than one of them is held.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from treecast.cli.console import results
from treecast.cli.match_output import escape_json
from treecast.cli.output_file import directory_beside, file_beside
from treecast.cli.result_file import LineFile, ParquetFile, closing
from treecast.inputs import document_files
from treecast.inputs.archives import STDIN
from treecast.names import FILE_NAME_BYTES_MAX, file_name, hashed, text_of

if TYPE_CHECKING:
    from treecast import Index

TABLE_PAYLOAD_BYTES_MAX = 16 << 20
ROW_GROUP_BYTES = 32 << 20
ROW_GROUP_ROWS = 1 << 17

Refuse = Callable[[str, str, str], None]
"""Takes the document, the subscription and the message of a refused delivery."""


class Deliveries(NamedTuple):
    """Of some documents, one after the other; equal payloads of a document have the same number."""

    documents: list[int]
    subscriptions: list[str]
    numbers: list[int]
    payloads: Any


class DeliveryWriter(Protocol):
    """Takes the deliveries of one table after the other; `names` are those of the documents that they number."""

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


class BatchProgress(NamedTuple):
    """The result of some more documents of a batch."""

    deliveries: int
    """That were written."""
    errors: list[tuple[int, str]]
    """The number of each document that was refused, and why."""


def render_batch(
    index: Index, batch: document_files.Batch, threads: int, writer: DeliveryWriter, refuse: Refuse
) -> Iterator[BatchProgress]:
    """Write the deliveries of a batch, a table at a time."""
    tables = index.render_batches(
        batch.documents, threads=threads, on_error="report", payload_bytes_max=TABLE_PAYLOAD_BYTES_MAX
    )
    for table, errors in tables:
        count = sum(_write(rows, batch.names, writer, refuse) for rows in table.to_batches())
        yield BatchProgress(
            count, list(zip(errors["document"].to_pylist(), errors["message"].to_pylist(), strict=True))
        )


def _write(rows: Any, names: Sequence[str], writer: DeliveryWriter, refuse: Refuse) -> int:
    """Write the deliveries of one chunk of a table, and report refused ones; the answer is how many were written."""
    if rows["code"].null_count < len(rows):
        refusals = rows.filter(pc.is_valid(rows["code"]))
        columns = (refusals[name].to_pylist() for name in ("document", "subscription", "message"))
        for document, subscription, message in zip(*columns, strict=True):
            refuse(names[document], subscription, message)
        rows = rows.filter(pc.is_null(rows["code"]))
    documents, subscriptions = rows["document"].to_pylist(), rows["subscription"].to_pylist()
    payloads = rows["payload"]
    writer.write(names, Deliveries(documents, subscriptions, payloads.indices.to_pylist(), payloads.dictionary))
    return len(rows)


class JsonWriter(LineFile):
    """One object a line."""

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        last, text = -1, b""
        for document, subscription, number in zip(*deliveries[:3], strict=True):
            if number != last:
                last, text = number, _json_payload(deliveries.payloads[number].as_py())
            name = escape_json(text_of(names[document]))
            start = f'{{"document": "{name}", "subscription": "{escape_json(subscription)}", '
            self._file.writelines((start.encode(), text, b"}\n"))


class PayloadWriter(LineFile):
    """The payloads alone, each ended by a line feed."""

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        for number in deliveries.numbers:
            payload = deliveries.payloads[number].as_py()
            self._file.write(payload if payload.endswith(b"\n") else payload + b"\n")


def _json_payload(payload: bytes) -> bytes:
    try:
        return f'"payload": "{escape_json(payload.decode())}"'.encode()
    except UnicodeDecodeError:
        return b'"payload_base64": "' + base64.b64encode(payload) + b'"'


class ParquetWriter(ParquetFile):
    """One file; its row groups are of a size that fits into memory, whatever the size of payloads."""

    def __init__(self, file: BinaryIO) -> None:
        schema = pa.schema([("document", pa.string()), ("subscription", pa.string()), ("payload", pa.binary())])
        super().__init__(file, schema, ROW_GROUP_ROWS)
        self._rows = self._bytes = 0

    def write(self, names: Sequence[str], deliveries: Deliveries) -> None:
        documents = [text_of(name) for name in names]
        numbers = pa.array(deliveries.numbers, pa.int64())
        sizes = pc.binary_length(deliveries.payloads).take(numbers).to_pylist()
        begin = 0
        for row, size in enumerate(sizes):
            self._bytes += size
            self._rows += 1
            if self._bytes >= ROW_GROUP_BYTES or self._rows >= ROW_GROUP_ROWS:
                self._keep_rows(documents, deliveries, begin, row + 1)
                self._flush()
                self._rows = self._bytes = 0
                begin = row + 1
        self._keep_rows(documents, deliveries, begin, len(deliveries.numbers))

    def _keep_rows(self, names: Sequence[str], deliveries: Deliveries, begin: int, end: int) -> None:
        columns = [
            pa.array([names[document] for document in deliveries.documents[begin:end]], pa.string()),
            pa.array(deliveries.subscriptions[begin:end], pa.string()),
            deliveries.payloads.take(pa.array(deliveries.numbers[begin:end], pa.int64())).cast(pa.binary()),
        ]
        self._keep(columns)


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
        except FileExistsError:  # of an id that differs in case only, on a file system that ignores case
            directory = self._directory / hashed(subscription)
            directory.mkdir()
        self._made[subscription] = directory
        return directory

    def close(self) -> None:
        """Files are complete as they are written."""

    def abandon(self) -> None:
        """The directory goes as a whole."""


def file_of(number: int, document: str) -> str:
    """The name of the file for a delivery of a document."""
    base = "stdin" if document == STDIN else os.path.basename(document)  # noqa: PTH119
    for suffix in (".gz", ".xml"):
        base = base.removesuffix(suffix)
    return f"{number:07d}-{os.fsdecode(os.fsencode(base)[:FILE_NAME_BYTES_MAX])}.xml"


@contextlib.contextmanager
def open_writer(form: str, path: str | None) -> Iterator[DeliveryWriter]:
    """A writer to `path`, which appears only when all went well, or to stdout."""
    if path is None:
        kind = "payload" if form == "payload" else "json"
        with closing(FILE_WRITERS[kind](results("text" if kind == "payload" else "json"))) as writer:
            yield writer
    elif form == "files":
        with directory_beside(path) as directory:
            yield FileWriter(directory)
    else:
        with file_beside(path) as file, closing(FILE_WRITERS[form](file)) as writer:
            yield writer


FILE_WRITERS: dict[str, Callable[[BinaryIO], DeliveryWriter]] = {
    "json": JsonWriter,
    "parquet": ParquetWriter,
    "payload": PayloadWriter,
}
