"""Documents for native code, and the settings that all calls on many documents share.

Native code takes a sequence at a time, of buffers and of documents that have been read. `as_sequence` makes one of a
caller's documents, `take` cuts one off an iterable that may never end. For callers in this package; users see
`Index.match_many` and its like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from treecast import _native
from treecast.document import AnyDocument, Bytes, Document, arrow_views, native_document

BATCH_DOCUMENTS_MAX = 4096
BATCH_BYTES_MAX = 32 << 20
THREADS_MAX = 1024

NativeDocument = Bytes | _native.Document


def is_report(on_error: str) -> bool:
    """Whether bad documents are to be reported, rather than raised."""
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", got {on_error!r}')
    return on_error == "report"


def check_threads(threads: int) -> int:
    """The number of threads; raises if it is invalid."""
    if not 1 <= threads <= THREADS_MAX:
        raise ValueError(f"threads must be 1-{THREADS_MAX}, got {threads}")
    return threads


def as_sequence(documents: Sequence[AnyDocument], caller: str, single: str) -> Sequence[NativeDocument]:
    """The documents of a call of `caller`, whose twin for one document is `single`."""
    if isinstance(documents, (bytes, bytearray, memoryview, str, Document)):
        raise TypeError(f"{caller} takes a sequence of documents; for a single one use {single}()")
    if hasattr(documents, "column_names") or hasattr(documents, "columns"):
        documents = _document_column(documents, caller)
    if hasattr(documents, "to_arrow"):  # a column of polars
        documents = documents.to_arrow()
    if hasattr(documents, "to_pylist"):
        return arrow_views(documents)
    return natives(documents)


def _document_column(table: Any, caller: str) -> Any:
    """The column `document` of a table of Arrow, pandas or polars; the only column, if it has another name."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    if "document" not in names and len(names) != 1:
        raise TypeError(
            f"{caller} takes a table with a column named document; this one has {', '.join(map(str, names))}"
        )
    return table["document" if "document" in names else names[0]]


def natives(documents: Iterable[AnyDocument]) -> list[NativeDocument]:
    """The documents in the form that native code takes."""
    return [native_document(document) for document in documents]


def take(source: Iterator[AnyDocument], count: int) -> list[NativeDocument]:
    """Up to `count` documents, and no more bytes than a batch may hold beyond the first."""
    taken: list[NativeDocument] = []
    size = 0
    for document in islice(source, count):
        taken.append(native_document(document))
        size += document.size_bytes if isinstance(document, Document) else len(document)
        if size >= BATCH_BYTES_MAX:
            break
    return taken
