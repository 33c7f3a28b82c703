"""Documents -> deliveries: what `Index.render` and its like do, on the native index.

    index.render(document)            one document, a list of Delivery
    index.render_many(documents)      a batch, one Arrow table, by several threads if wanted
    index.render_batches(documents)   any number of documents, a table at a time, of bounded size
    index.render_part(documents)      deliveries in lists by document, for callers that pass batches on

Native code answers with columns, which Arrow arrays look into without a copy. Equal payloads of a document are there
once, however many subscribers get them, so the payload column is dictionary-encoded: a document of 50 KB that goes to a
thousand subscribers takes 50 KB and not 50 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from treecast import _native
from treecast.document import AnyDocument, Document
from treecast.errors import DocumentError
from treecast.index.document_batches import BATCH_DOCUMENTS_MAX, naming_documents, take, threads_for
from treecast.index.document_forms import NativeDocument, as_iterable, as_sequence, natives
from treecast.model import DeliveryLimits
from treecast.rejections import error_table

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_PAYLOAD_BYTES_MAX = 64 << 20


class FormCodec(Protocol):
    """What knows the form of documents on a link: `treecast.wire.Codec`."""

    @property
    def is_text(self) -> bool: ...
    def plain(self, bodies: Sequence[bytes]) -> tuple[Sequence[bytes], _native.WireDictionary | None]: ...
    def plain_parcels(
        self, parcels: _native.Parcels
    ) -> tuple[Sequence[bytes] | None, _native.WireDictionary | None]: ...
    def decode_many(self, bodies: Sequence[bytes]) -> Sequence[Document | DocumentError]: ...


@dataclass(frozen=True)
class RenderedPart:
    """The deliveries of the first documents of a batch."""

    deliveries: pa.ListArray
    """One list per document that was done, of structs of subscription, payload, code and message; a refused delivery
    has a code and a message instead of a payload. Payloads are dictionary-encoded: equal ones of a document are in the
    dictionary once, those of a document in one run, in the order in which its deliveries first have them."""
    rejected: list[tuple[int, DocumentError]]
    """The number of each rejected document and why, in their order."""
    nanoseconds: pa.Array
    """What each document took."""


def render_many(
    index: _native.Index,
    documents: Iterable[AnyDocument],
    *,
    threads: int | None,
    report: bool,
    file_bytes_max: int,
    limits: _native.RenderLimits,
) -> pa.Table | tuple[pa.Table, pa.Table]:
    """See `Index.render_many`."""
    sequence = as_sequence(documents, "render_many", "render", file_bytes_max)
    parallel = threads_for(index, sequence, threads)
    with naming_documents():
        _, pieces, runs = _native.render_many(index, sequence, parallel, report, 0, 0, limits)
    table = _table(pieces, runs, 0)
    return (table, error_table(_rejected(pieces))) if report else table


def render_batches(
    index: _native.Index,
    documents: Iterable[AnyDocument],
    *,
    threads: int | None,
    report: bool,
    payload_bytes_max: int,
    file_bytes_max: int,
    limits: _native.RenderLimits,
) -> Iterator[Any]:
    """See `Index.render_batches`."""
    source, first = as_iterable(documents, "render_batches", "render"), 0
    waiting: list[NativeDocument] = []
    while True:
        waiting += take(source, BATCH_DOCUMENTS_MAX - len(waiting), file_bytes_max)
        if not waiting:
            return
        parallel = threads_for(index, waiting, threads)
        with naming_documents():
            count, pieces, runs = _native.render_many(
                index, waiting, parallel, report, payload_bytes_max, first, limits
            )
        table = _table(pieces, runs, first)
        yield (table, error_table(_rejected(pieces), (), first)) if report else table
        first += count
        del waiting[:count]


def render_part(
    index: _native.Index,
    documents: Sequence[AnyDocument],
    *,
    report: bool,
    bytes_max: int,
    share: bool,
    limits: _native.RenderLimits,
) -> RenderedPart:
    """See `Index.render_part`."""
    import pyarrow as pa

    batch = render_columns(index, documents, report=report, bytes_max=bytes_max, share=share, limits=limits)
    ids = _column(batch, pa.string(), batch.deliveries, batch.id_ends, batch.ids)
    rows = pa.StructArray.from_arrays([ids, *_payload_columns(batch)], ["subscription", "payload", "code", "message"])
    ends = _column(batch, pa.int32(), batch.documents + 1, batch.ends)
    nanoseconds = _column(batch, pa.int64(), batch.documents, batch.nanoseconds)
    return RenderedPart(pa.ListArray.from_arrays(ends, rows), batch.rejected, nanoseconds)


def render_columns(
    index: _native.Index,
    documents: Sequence[AnyDocument],
    *,
    report: bool,
    limits: _native.RenderLimits,
    bytes_max: int = BATCH_PAYLOAD_BYTES_MAX,
    share: bool = True,
    texts: _native.Texts = _native.Texts.none,
) -> _native.DeliveryBatch:
    """As `Index.render_part`, as native columns: for callers that hand them to native code again."""
    return _native.render_part(index, natives(documents), report, bytes_max, limits, share, texts)


def render_parcels(
    index: _native.Index,
    codec: FormCodec,
    parcels: _native.Parcels,
    first: int,
    form_limits: _native.Limits,
    limits: _native.RenderLimits,
) -> _native.DeliveryBatch:
    """The same for the documents of a message between brokers, from one of them on, with the texts of those that
    somebody gets. Each is read, unless that was done to route it, and not kept; one that cannot be read is rejected.
    Raises DocumentError for broken compression."""
    plain, dictionary = codec.plain_parcels(parcels)
    return _native.render_parcels(
        *(index, parcels, first, plain, codec.is_text, dictionary),
        *(form_limits, BATCH_PAYLOAD_BYTES_MAX, limits),
    )


class Links(NamedTuple):
    """Where documents go on to: the form of the links, without compression, and who gets which, as of `Index.route`."""

    codec: FormCodec
    targets: _native.Targets
    enough: int
    found: int


Publication = tuple[_native.DeliveryBatch, _native.PublishedForms, list[int]]
"""Deliveries; and by document its form and its targets, which mean nothing where one is rejected. What is for all of
`Links.enough` is for everybody."""


def render_published(
    index: _native.Index,
    texts: Sequence[bytes],
    text_limits: _native.Limits,
    limits: _native.RenderLimits,
    table: _native.Index,
    links: Links,
) -> Publication:
    """As `render_columns`, with the texts of all; besides, each document is written for links, and routed by the index
    `table`. It is read once."""
    _, dictionary = links.codec.plain(())
    return _native.render_published(
        *(index, texts, text_limits, BATCH_PAYLOAD_BYTES_MAX, limits, dictionary),
        *(table, links.targets, links.enough, links.found),
    )


def native_limits(limits: DeliveryLimits) -> _native.RenderLimits:
    return _native.RenderLimits(limits.payload_bytes_max, limits.document_payload_bytes_max, limits.bindings_max)


def delivery_schema() -> pa.Schema:
    """The columns of `render_many`."""
    import pyarrow as pa

    return pa.schema(
        [
            ("document", pa.int64()),
            ("subscription", pa.dictionary(pa.int32(), pa.string())),
            ("payload", pa.dictionary(pa.int64(), pa.large_binary())),
            ("code", pa.string()),
            ("message", pa.string()),
        ]
    )


def _table(pieces: Sequence[_native.DeliveryBatch], runs: Sequence[tuple[int, int, int]], first: int) -> pa.Table:
    """One chunk for each run of deliveries, which says where it lies; `first` is the number of the first document.

    A thread writes all its runs into one piece: most of the cost of small pieces would be memory touched first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    batches = []
    for piece in pieces:
        slots = _column(piece, pa.int32(), piece.deliveries, piece.slots)
        ends = _column(piece, pa.int32(), piece.documents + 1, piece.ends)
        numbers = _column(piece, pa.int64(), piece.documents, piece.numbers)
        parents = pc.list_parent_indices(pa.ListArray.from_arrays(ends, slots))
        ids = _column(piece, pa.string(), piece.subscriptions, piece.subscription_ends, piece.subscription_ids)
        columns = [
            pc.add(numbers.take(parents), first),
            pa.DictionaryArray.from_arrays(slots, ids, safe=False),
            *_payload_columns(piece),
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=delivery_schema()))
    chunks = [batches[piece].slice(begin, end - begin) for piece, begin, end in runs]
    return pa.Table.from_batches(chunks, schema=delivery_schema())


def _payload_columns(batch: _native.DeliveryBatch) -> list[pa.Array]:
    """Payload, code and message of each delivery: no payload where it was refused, no code and message otherwise."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = batch.deliveries
    payloads = _column(batch, pa.large_binary(), batch.different, batch.payload_ends, batch.bytes)
    numbers = _column(batch, pa.int64(), count, batch.payloads)
    refusals = batch.refusals
    if not refusals:
        nothing = pa.nulls(count, pa.string())
        return [pa.DictionaryArray.from_arrays(numbers, payloads, safe=False), nothing, nothing]

    # A number less than 0 is that of a refusal: -1 is the first, -2 the second.
    is_refused = pc.less(numbers, 0)
    missing = pa.scalar(None, pa.int64())
    which = pc.if_else(is_refused, pc.subtract(-1, numbers), missing)
    positions = pc.if_else(is_refused, missing, numbers)
    codes = pa.array([error.code for error in refusals], pa.string())
    messages = pa.array([str(error) for error in refusals], pa.string())
    return [pa.DictionaryArray.from_arrays(positions, payloads, safe=False), codes.take(which), messages.take(which)]


def _column(batch: _native.DeliveryBatch, kind: pa.DataType, length: int, *places: tuple[int, int]) -> pa.Array:
    """An array that looks into the batch, and keeps it alive."""
    import pyarrow as pa

    buffers = [pa.foreign_buffer(*place, base=batch) if place[1] else pa.py_buffer(b"") for place in places]
    return pa.Array.from_buffers(kind, length, [None, *buffers])


def _rejected(pieces: Sequence[_native.DeliveryBatch]) -> list[tuple[int, DocumentError]]:
    return sorted((rejection for piece in pieces for rejection in piece.rejected), key=lambda one: one[0])
