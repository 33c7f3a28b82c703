"""Documents -> ids: what `Index.match` and its like do, on the native index.

    index.match(document)            one document, a list of ids
    index.match_many(documents)      a batch, one Arrow table
    index.match_batches(documents)   any number of documents, a table at a time
    index.match_part(documents)      lists of ids by document, for callers that pass batches on

Each call sees the subscriptions as they were when it began; of `match_batches` that holds for each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast import _native
from treecast.document import AnyDocument
from treecast.errors import DocumentError
from treecast.index.document_batches import BATCH_DOCUMENTS_MAX, naming_documents, take, threads_for
from treecast.index.document_forms import NativeDocument, as_iterable, as_sequence, natives
from treecast.rejections import Undecided, error_table, warn_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_MATCHES_MAX = 4_000_000
PART_ID_BYTES_MAX = (1 << 31) - 1  # the strings of one Arrow array


@dataclass(frozen=True)
class Part:
    """The matches of the first documents of a batch."""

    matches: pa.ListArray
    """One list of ids per document that was done; empty for a rejected one."""
    rejected: list[tuple[int, DocumentError]]
    """The number of each rejected document and why, in their order."""
    undecided: Undecided
    """What is not known of these documents, by document."""
    nanoseconds: pa.Array | None
    """What each document took, if that was asked for."""


def match_many(
    index: _native.Index, documents: Iterable[AnyDocument], *, threads: int | None, report: bool, file_bytes_max: int
) -> pa.Table | tuple[pa.Table, pa.Table]:
    """See `Index.match_many`."""
    import pyarrow as pa

    sequence = as_sequence(documents, "match_many", "match", file_bytes_max)
    with naming_documents():
        matches = index.match_many(sequence, threads_for(index, sequence, threads), report, 0, 0)
    table = pa.RecordBatchReader.from_stream(matches).read_all()
    if report:
        return table, error_table(matches.rejected, matches.undecided)
    warn_of(matches.undecided, stacklevel=4)
    return table


def match_batches(
    index: _native.Index,
    documents: Iterable[AnyDocument],
    *,
    threads: int | None,
    report: bool,
    matches_max: int,
    file_bytes_max: int,
) -> Iterator[Any]:
    """See `Index.match_batches`."""
    import pyarrow as pa

    source, first = as_iterable(documents, "match_batches", "match"), 0
    waiting: list[NativeDocument] = []
    while True:
        waiting += take(source, BATCH_DOCUMENTS_MAX - len(waiting), file_bytes_max)
        if not waiting:
            return
        with naming_documents():
            matches = index.match_many(waiting, threads_for(index, waiting, threads), report, matches_max, first)
        table = pa.RecordBatchReader.from_stream(matches).read_all()
        if not report:
            warn_of(matches.undecided, stacklevel=3)
        yield (table, error_table(matches.rejected, matches.undecided, first)) if report else table
        first += matches.documents
        del waiting[: matches.documents]


def match_part(
    index: _native.Index, documents: Sequence[AnyDocument], *, report: bool, matches_max: int, timed: bool
) -> Part:
    """See `Index.match_part`."""
    import pyarrow as pa

    matches = index.match_many(natives(documents), 1, report, matches_max, 0, timed, PART_ID_BYTES_MAX)
    undecided: Undecided = matches.undecided
    if undecided and not report:
        number, _, error = undecided[0]
        error.document = number
        raise error
    column = pa.RecordBatchReader.from_stream(matches).read_all().column("subscription")
    ids = pa.concat_arrays([chunk.dictionary_decode() for chunk in column.chunks] or [pa.array([], pa.string())])
    ends = pa.Array.from_buffers(pa.int64(), matches.documents + 1, [None, pa.py_buffer(matches.ends)])
    nanoseconds = None
    if timed:
        nanoseconds = pa.Array.from_buffers(pa.int64(), matches.documents, [None, pa.py_buffer(matches.nanoseconds)])
    return Part(pa.ListArray.from_arrays(ends.cast(pa.int32()), ids), matches.rejected, undecided, nanoseconds)
