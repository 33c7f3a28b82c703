"""How calls on many documents share the work: in how many threads, and how much at a time.

`threads_for` decides by how much there is to do, `take` cuts a batch off an iterable that may never end. For callers
in this package; users see `Index.match_many` and its like. Which forms documents come in is in `document_forms`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from treecast import _native
from treecast.arguments import check_integer
from treecast.document import AnyDocument, native_document
from treecast.errors import DocumentError
from treecast.index.document_forms import NativeDocument

BATCH_DOCUMENTS_MAX = 4096
BATCH_BYTES_MAX = 32 << 20
THREADS_MAX = 1024

# Starting a thread and joining its results takes about 0.1 ms of CPU time, so each gets at least five times as much to
# do. What a document takes is estimated, within a factor of two for the populations of bench/: 1 ns for each byte, and
# 0.25 ns for each subscription.
THREAD_WORK_NS_MIN = 500_000
SUBSCRIPTIONS_PER_NS = 4
DEFAULT_THREADS_MAX = 16


def is_report(on_error: str) -> bool:
    """Whether bad documents are to be reported, rather than raised."""
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", got {on_error!r}')
    return on_error == "report"


def check_threads(threads: int | None) -> int | None:
    """The number of threads, None for as many as help; raises if it is invalid."""
    return None if threads is None else check_integer("threads", threads, 1, THREADS_MAX)


def threads_for(index: _native.Index, documents: Sequence[NativeDocument], threads: int | None) -> int:
    """The number that the caller wants; without one, as many as help: a small batch is matched fastest by one."""
    if threads is not None:
        return threads
    if len(documents) < 2:
        return 1
    most = min(usable_cpus(), DEFAULT_THREADS_MAX, len(documents))
    work_ns = _bytes(documents) + len(documents) * (index.size() // SUBSCRIPTIONS_PER_NS)
    return max(1, min(most, work_ns // THREAD_WORK_NS_MIN))


@contextmanager
def naming_documents() -> Iterator[None]:
    """Let the error of a bad document say which one it is; nothing to do where errors are reported."""
    try:
        yield
    except DocumentError as error:
        error.name_document()
        raise


def usable_cpus() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take(source: Iterator[AnyDocument], count: int, file_bytes_max: int) -> list[NativeDocument]:
    """Up to `count` documents, and no more bytes than a batch may hold beyond the first."""
    documents: list[NativeDocument] = []
    size = 0
    for document in islice(source, count):
        native = native_document(document, file_bytes_max)
        documents.append(native)
        size += native.size if isinstance(native, _native.Document) else len(native)
        if size >= BATCH_BYTES_MAX:
            break
    return documents


def _bytes(documents: Sequence[NativeDocument]) -> int:
    try:
        return sum(one.size if isinstance(one, _native.Document) else len(one) for one in documents)
    except TypeError:  # something else is among them; native code says where it comes to it
        return 0
