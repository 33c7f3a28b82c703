"""Payloads as files: what the tasks of `treecast.spark.batch.sinks.write_payloads` do.

A file appears under its name with all of its bytes or not at all, and nothing is ever overwritten (`treecast.durable`).
So a task that Spark repeats finds its files and leaves them. A name that is taken by other bytes is an error.

Codes: TC719 payloads that cannot be written as files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast import durable
from treecast.catalog.delivery_ids import file_id
from treecast.errors import PipelineError
from treecast.spark.internals import one_sentence_errors

if TYPE_CHECKING:
    import pyarrow as pa

COUNT_TYPE = "files long, present long, bytes long"
# What Spark escapes in the names of directories of partitions, so that it finds the names again.
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def directory_name(value: str) -> str:
    """The directory for a value of `directory`, as Spark names it."""
    return "directory=" + _ESCAPED.sub(lambda character: f"%{ord(character[0]):02X}", value)


def file_name(subscription: str, key: Sequence[str | int | None], suffix: str = ".xml") -> str:
    """The file of a delivery: its id, made of its subscription and the key of its document."""
    return file_id(subscription, key) + suffix


def write(
    batches: Iterator[pa.RecordBatch], path: str, key: Sequence[str], of_batch: tuple[str | int, ...], suffix: str
) -> Iterator[pa.RecordBatch]:
    """Write the payloads of a task; the answer is one row with counts.

    `of_batch` distinguishes the batches of a stream: documents of two batches may have the same key.
    """
    import pyarrow as pa

    counts = {"files": 0, "present": 0, "bytes": 0}
    with one_sentence_errors():
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("directory", "subscription", *key)]
            payloads = batch.column("payload")
            for row, (directory, subscription, *values) in enumerate(zip(*columns, strict=True)):
                place = Path(path, directory_name(directory), file_name(subscription, [*of_batch, *values], suffix))
                payload = payloads[row].as_buffer()
                new = _write_once(place, b"" if payload is None else payload)
                counts["files" if new else "present"] += 1
                counts["bytes"] += 0 if payload is None else payload.size
    yield pa.RecordBatch.from_pydict({name: pa.array([count], pa.int64()) for name, count in counts.items()})


def _write_once(place: Path, payload: Any) -> bool:
    """Whether it was written; False where the same is there already."""
    if place.exists():
        return _check_same(place, payload)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return durable.write_new(place, payload) or _check_same(place, payload)
    except OSError as error:
        raise PipelineError(
            f"{place} cannot be written: {error.strerror or error}",
            code="TC719",
            hint="name a directory that all executors can write to",
        ) from None


def _check_same(place: Path, payload: Any) -> bool:
    if place.stat().st_size == len(payload) and place.read_bytes() == bytes(payload):
        return False
    raise PipelineError(
        f"{place} holds another payload",
        code="TC719",
        hint="choose key columns that identify a document, or another directory",
    )
