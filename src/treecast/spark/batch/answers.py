"""Documents and an index -> Arrow arrays, in the form in which Spark's Python workers are to answer.

    arrays = answer(index, documents, None, MATCHES)         # documents: an Arrow array of binary or string

`treecast.spark.batch.answer_form` has the forms. In a report a bad document has one struct, with an error and nothing
else, and so has each subscription that is undecided on a document; where errors are not reported, it raises. Where
accounts are kept, such a document has its matches, one null among them, and the first of these errors. Arrow's lists
and binaries have 32-bit ends, and a task has little memory, so a batch may be answered in several arrays.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from treecast.document import Bytes, arrow_views
from treecast.errors import DocumentError, DocumentLimitError, UndecidedWarning
from treecast.index import Index, Part, RenderedPart
from treecast.names import printable
from treecast.spark.batch.answer_form import DELIVERIES, AnswerForm, error_arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

Errors = dict[int, list[DocumentError]]
"""Those of each row that has some."""

MATCHES_MAX = 1_000_000  # begin no further document in an array after so many
PAYLOAD_BYTES_MAX = 16 << 20  # or after so many bytes of payloads, counted once for each delivery


def answer(
    index: Index,
    documents: pa.Array,
    source_errors: pa.Array | None,
    form: AnswerForm,
    silent_rows: Collection[int] = (),
    names: pa.Array | None = None,
) -> Iterator[pa.Array]:
    """Arrays that together are as long as `documents`; `source_errors` are those that some of these have already.

    The rows in `silent_rows` are answered as the others are, but another row says what is wrong with their documents.
    An error that raises says what its document is called, if there are `names`.
    """
    views: list[Bytes] = arrow_views(documents)
    missing = missing_documents(documents, source_errors)
    for row in missing:
        views[row] = b""  # whatever is there: the source says that it is no document
    if missing and not form.has_errors:
        row, reason = next(iter(missing.items()))
        raise with_advice(reason, form.verb, _name(names, row))

    begin = 0
    while begin < len(views):
        began = time.time_ns()
        try:
            part = _answer_part(index, views[begin:], form)
        except DocumentError as error:
            bad_row = None if error.document is None else begin + error.document
            raise with_advice(error, form.verb, _name(names, bad_row)) from None
        end = begin + len(part.deliveries if isinstance(part, RenderedPart) else part.matches)
        rejected = dict(part.rejected) | {row - begin: missing[row] for row in missing if begin <= row < end}
        errors = {row: [error] for row, error in rejected.items() if row + begin not in silent_rows}
        if isinstance(part, Part):  # each shard reports its own subscriptions
            for row, _, undecided_error in part.undecided:
                errors.setdefault(row, []).append(undecided_error)
        yield _to_array(part, errors, form, views[begin:end], (began, time.time_ns()))
        begin = end


def _answer_part(index: Index, views: list[Bytes], form: AnswerForm) -> Part | RenderedPart:
    """The first documents, as many as one array holds."""
    if form.has_payloads:
        return index.render_part(views, report=form.has_errors, bytes_max=PAYLOAD_BYTES_MAX)
    return index.match_part(views, report=form.has_errors, matches_max=MATCHES_MAX, timed=form.has_accounts)


def _to_array(
    part: Part | RenderedPart, errors: Errors, form: AnswerForm, views: list[Any], times: tuple[int, int]
) -> pa.Array:
    if form.has_accounts:
        accounts = _accounts(part, errors, views, times)
        if isinstance(part, RenderedPart):
            return _struct([*_payloads(part, {}, form), *accounts, _payload_bytes(part)], form)
        return _struct([_matches_or_null(part), *accounts], form)
    if isinstance(part, RenderedPart):
        return _struct(_payloads(part, errors, form), form)
    return _report(part, errors, form) if form.has_errors else part.matches


def _struct(columns: list[pa.Array], form: AnswerForm) -> pa.Array:
    import pyarrow as pa

    return pa.StructArray.from_arrays(columns, fields=list(form.arrow_type))


def missing_documents(documents: pa.Array, source_errors: pa.Array | None) -> dict[int, DocumentError]:
    """The rows that hold no document, with the reason that the source gave, if any."""
    missing: dict[int, DocumentError] = {}
    if documents.null_count:
        for row, valid in enumerate(documents.is_valid().to_pylist()):
            if not valid:
                missing[row] = DocumentError("the document is null", code="TC210", hint="leave such rows out")
    if source_errors is not None and source_errors.null_count < len(source_errors):
        for row, error in enumerate(source_errors.to_pylist()):
            if error is not None:
                missing[row] = DocumentError("", code=error["code"] or "TC210", offset=error["offset"] or 0)
                missing[row].args = (error["message"],)
    return missing


def _name(names: pa.Array | None, row: int | None) -> str:
    """What a document is called; "" where nobody knows."""
    return "" if names is None or row is None else names[row].as_py() or ""


def with_advice(error: DocumentError, verb: str, name: str = "") -> DocumentError:
    """The error, which names the document and says how the others go on."""
    advice = f'{verb}(…, on_error="report") gives bad documents a row of their own and goes on'
    text, line_end, rest = str(error).partition("\n")
    if name:
        text += f", in {printable(name)}"
    error.args = (f"{text}{line_end}{rest}; {advice}" if error.hint else f"{text}\n  hint: {advice}",)
    return error


def error_row(error: DocumentError) -> dict[str, Any]:
    """The error as a struct of Spark."""
    offset = None if error.code == UndecidedWarning.code else error.offset  # that is no place in the document
    return {"code": error.code, "message": str(error), "offset": offset}


def _insert_first(lists: pa.ListArray, values_by_row: dict[int, list[Any]]) -> pa.ListArray:
    """More values in the lists of some rows, before those that are there."""
    import pyarrow as pa

    if not values_by_row:
        return lists
    rows, places = lists.values, lists.offsets.to_pylist()
    pieces, copied, shift = [], 0, 0
    for row in range(len(lists)):
        begin = places[row]
        places[row] += shift
        if row in values_by_row:
            pieces += [rows[copied:begin], pa.array(values_by_row[row], rows.type)]
            copied, shift = begin, shift + len(values_by_row[row])
    places[-1] += shift
    pieces.append(rows[copied:])
    return pa.ListArray.from_arrays(pa.array(places, pa.int32()), pa.concat_arrays(pieces))


def _error_rows(errors: Errors) -> dict[int, list[Any]]:
    """Structs with an error and nothing else."""
    return {row: [{"error": error_row(error)} for error in several] for row, several in errors.items()}


def _report(part: Part, errors: Errors, form: AnswerForm) -> pa.Array:
    import pyarrow as pa

    ids = part.matches.values
    fields = list(form.arrow_type.value_type)
    rows = pa.StructArray.from_arrays([ids, pa.nulls(len(ids), error_arrow_type())], fields=fields)
    return _insert_first(pa.ListArray.from_arrays(part.matches.offsets, rows), _error_rows(errors))


def _payloads(part: RenderedPart, errors: Errors, form: AnswerForm) -> list[pa.Array]:
    """Two columns: the deliveries of each document, and its different payloads."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, ends = part.deliveries.values, part.deliveries.offsets
    if not form.has_errors:
        _check_refused(rows)
    # Payloads are numbered over all documents, in the order in which deliveries first have them: those of a document
    # end after the highest number so far.
    numbers = rows.field("payload").indices
    highest = pa.concat_arrays([pa.array([-1], pa.int64()), pc.cumulative_max(pc.fill_null(numbers, -1))])
    payload_ends = pc.add(highest.take(ends), 1)
    first = payload_ends.take(pc.list_parent_indices(part.deliveries))
    columns = [rows.field("subscription"), pc.subtract(numbers, first).cast(pa.int32())]
    if form.has_errors:
        columns.append(_refusals(rows))
    fields = list(form.arrow_type.field("deliveries").type.value_type)
    deliveries = pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(columns, fields=fields))

    different = rows.field("payload").dictionary.cast(pa.binary())
    payloads = pa.ListArray.from_arrays(payload_ends.cast(pa.int32()), different)
    return [_insert_first(deliveries, _error_rows(errors)), payloads]


def _check_refused(rows: pa.StructArray) -> None:
    """Raise the first refusal of a delivery, with the name of its subscription."""
    codes = rows.field("code")
    if codes.null_count == len(codes):
        return
    row = codes.is_valid().index(True).as_py()
    code, message = codes[row].as_py(), rows.field("message")[row].as_py()
    first, line_end, rest = message.partition("\n")
    kind = DocumentLimitError if code.startswith("TC3") else DocumentError
    error = kind("", code=code, hint=rest)
    error.args = (f"{first}, for the subscription {rows.field('subscription')[row].as_py()!r}{line_end}{rest}",)
    raise with_advice(error, DELIVERIES.verb, "")


def _refusals(rows: pa.StructArray) -> pa.Array:
    """The errors of deliveries that were refused; null for the others."""
    import pyarrow as pa

    codes = rows.field("code")
    columns = [codes, rows.field("message"), pa.nulls(len(rows), pa.int64())]
    return pa.StructArray.from_arrays(columns, fields=list(error_arrow_type()), mask=codes.is_null())


# -- accounts


def _matches_or_null(part: Part) -> pa.Array:
    """The ids of each document; a null before them where a subscription is undecided."""
    return _insert_first(part.matches, {row: [None] for row, _, _ in part.undecided})


def _payload_bytes(part: RenderedPart) -> pa.Array:
    """What the deliveries of each document come to, a payload counted once for each of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    payloads = part.deliveries.values.field("payload")
    sizes = pc.fill_null(pc.binary_length(payloads.dictionary).take(payloads.indices), 0)
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes.cast(pa.int64()))])
    sums_at_ends = sums.take(part.deliveries.offsets)
    return pc.subtract(sums_at_ends[1:], sums_at_ends[:-1])


def _accounts(part: Part | RenderedPart, errors: Errors, views: list[Any], times: tuple[int, int]) -> list[pa.Array]:
    """Columns: the first error of each document, the time that it took, its size, and when its part began and ended."""
    import pyarrow as pa

    first: list[Any] = [None] * len(views)
    for row, several in errors.items():
        first[row] = error_row(several[0])
    ends = [pa.repeat(pa.scalar(at, pa.int64()), len(views)) for at in times]
    sizes = pa.array([len(view) for view in views], pa.int64())
    return [pa.array(first, error_arrow_type()), part.nanoseconds, sizes, *ends]
