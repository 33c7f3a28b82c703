"""Documents and an index -> Arrow arrays, in the forms in which Spark's Python workers answer.

    lists            a list of ids per document; a bad document raises
    report           a list of structs of subscription and error
    profile          a struct of matches, error, nanoseconds and bytes
    payloads         a struct of deliveries (subscription, number) and payloads, which the numbers count; each different
                     payload of the document is there once; a bad document and a refused delivery raise
    payload report   the same, with an error beside the number
    payload profile  the same, and error, nanoseconds and bytes of the document; payload_bytes count a payload for each
                     delivery

In a report a bad document has one struct, with an error and nothing else, and so has each subscription that is
undecided on a document; where errors are not reported, it raises. In a profile such a document has its matches, one
null among them, and the first of these errors. Arrow's lists and binaries have 32-bit ends,
and a task has little memory, so a batch may be answered in several arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from treecast.document import Bytes, arrow_views
from treecast.errors import DocumentError, DocumentLimitError, UndecidedWarning
from treecast.index import Index, Part, RenderedPart

if TYPE_CHECKING:
    import pyarrow as pa

Errors = dict[int, list[DocumentError]]
"""Those of each row that has some."""

MATCHES_MAX = 1_000_000  # begin no further document in an array after so many
PAYLOAD_BYTES_MAX = 16 << 20  # or after so many bytes of payloads, counted once for each delivery


def answers(
    index: Index, documents: pa.Array, errors: pa.Array | None, form: str, silent: Collection[int] = ()
) -> Iterator[pa.Array]:
    """Arrays that together are as long as `documents`; `errors` are those that some of these have already.

    The rows in `silent` are answered as the others are, but another row tells what is wrong with their documents.
    """
    views: list[Bytes] = arrow_views(documents)
    missing = lacking(documents, errors)
    for row in missing:
        views[row] = b""  # whatever is there: the source says that it is no document
    raises = form in ("lists", "payloads")
    if raises and missing:
        raise _with_advice(next(iter(missing.values())), form)
    begin = 0
    while begin < len(views):
        part: Part | RenderedPart
        try:
            if "payload" in form:
                part = index.render_part(views[begin:], report=not raises, bytes_max=PAYLOAD_BYTES_MAX)
            else:
                part = index.match_part(
                    views[begin:], report=not raises, matches_max=MATCHES_MAX, timed=form == "profile"
                )
        except DocumentError as error:
            raise _with_advice(error, form) from None
        end = begin + len(part.deliveries if isinstance(part, RenderedPart) else part.matches)
        rejected = dict(part.rejected) | {row - begin: missing[row] for row in missing if begin <= row < end}
        errors_of = {row: [error] for row, error in rejected.items() if row + begin not in silent}
        if isinstance(part, Part):  # each shard tells of its own subscriptions
            for row, _, undecided in part.undecided:
                errors_of.setdefault(row, []).append(undecided)
        yield _in_form(part, errors_of, form, views[begin:end])
        begin = end


def _in_form(part: Part | RenderedPart, errors: Errors, form: str, views: list[Any]) -> pa.Array:
    if isinstance(part, RenderedPart) and form == "payload profile":
        return _payload_profile(part, errors, views)
    if isinstance(part, RenderedPart):
        return _payloads(part, errors, reports=form == "payload report")
    if form == "lists":
        return part.matches
    return _report(part, errors) if form == "report" else _profile(part, errors, views)


def lacking(documents: pa.Array, errors: pa.Array | None) -> dict[int, DocumentError]:
    """The rows that hold no document, with the reason that the source gave, if any."""
    found: dict[int, DocumentError] = {}
    if documents.null_count:
        for row, valid in enumerate(documents.is_valid().to_pylist()):
            if not valid:
                found[row] = DocumentError("the document is null", code="TC210", hint="leave such rows out")
    if errors is not None and errors.null_count < len(errors):
        for row, error in enumerate(errors.to_pylist()):
            if error is not None:
                found[row] = DocumentError("", code=error["code"] or "TC210", offset=error["offset"] or 0)
                found[row].args = (error["message"],)
    return found


def _with_advice(error: DocumentError, form: str) -> DocumentError:
    verb = "render" if "payload" in form else "match"
    advice = f'{verb}(…, on_error="report") gives bad documents a row of their own and goes on'
    error.args = (f"{error}\n  hint: {advice}" if not error.hint else f"{error}; {advice}",)
    return error


def _error_type() -> pa.DataType:
    import pyarrow as pa

    return pa.struct([("code", pa.string()), ("message", pa.string()), ("offset", pa.int64())])


def _error_row(error: DocumentError) -> dict[str, Any]:
    offset = None if error.code == UndecidedWarning.code else error.offset  # that is no place in the document
    return {"code": error.code, "message": str(error), "offset": offset}


def _with_errors(lists: pa.ListArray, added: dict[int, list[Any]]) -> pa.ListArray:
    """More values in the lists of some rows, before those that are there."""
    import pyarrow as pa

    if not added:
        return lists
    rows, places = lists.values, lists.offsets.to_pylist()
    pieces, done, shift = [], 0, 0
    for row in range(len(lists)):
        begin = places[row]
        places[row] += shift
        if row in added:
            pieces += [rows[done:begin], pa.array(added[row], rows.type)]
            done, shift = begin, shift + len(added[row])
    places[-1] += shift
    pieces.append(rows[done:])
    return pa.ListArray.from_arrays(pa.array(places, pa.int32()), pa.concat_arrays(pieces))


def _error_rows(errors: Errors) -> dict[int, list[Any]]:
    """Structs with an error and nothing else."""
    return {row: [{"error": _error_row(error)} for error in several] for row, several in errors.items()}


def _report(part: Part, errors: Errors) -> pa.Array:
    import pyarrow as pa

    ids = part.matches.values
    rows = pa.StructArray.from_arrays([ids, pa.nulls(len(ids), _error_type())], ["subscription", "error"])
    return _with_errors(pa.ListArray.from_arrays(part.matches.offsets, rows), _error_rows(errors))


def _payloads(part: RenderedPart, errors: Errors, *, reports: bool) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, ends = part.deliveries.values, part.deliveries.offsets
    if not reports:
        _check_refused(rows)
    # Payloads are numbered over all documents, in the order in which deliveries first have them: those of a document
    # end behind the highest number so far.
    numbers = rows.field("payload").indices
    highest = pa.concat_arrays([pa.array([-1], pa.int64()), pc.cumulative_max(pc.fill_null(numbers, -1))])
    payload_ends = pc.add(highest.take(ends), 1)
    first = payload_ends.take(pc.list_parent_indices(part.deliveries))
    columns = [rows.field("subscription"), pc.subtract(numbers, first).cast(pa.int32())]
    names = ["subscription", "number"]
    if reports:
        columns, names = [*columns, _refusals(rows)], [*names, "error"]
    deliveries = pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(columns, names))
    different = rows.field("payload").dictionary.cast(pa.binary())
    payloads = pa.ListArray.from_arrays(payload_ends.cast(pa.int32()), different)
    return pa.StructArray.from_arrays(
        [_with_errors(deliveries, _error_rows(errors)), payloads], ["deliveries", "payloads"]
    )


def _check_refused(rows: pa.StructArray) -> None:
    """Raise the first refusal of a delivery, saying whose it is."""
    codes = rows.field("code")
    if codes.null_count == len(codes):
        return
    row = codes.is_valid().index(True).as_py()
    code, message = codes[row].as_py(), rows.field("message")[row].as_py()
    first, line_end, rest = message.partition("\n")
    kind = DocumentLimitError if code.startswith("TC3") else DocumentError
    error = kind("", code=code, hint=rest)
    error.args = (f"{first}, for the subscription {rows.field('subscription')[row].as_py()!r}{line_end}{rest}",)
    raise _with_advice(error, "payloads")


def _refusals(rows: pa.StructArray) -> pa.Array:
    """The errors of deliveries that were refused; null for the others."""
    import pyarrow as pa

    codes = rows.field("code")
    columns = [codes, rows.field("message"), pa.nulls(len(rows), pa.int64())]
    return pa.StructArray.from_arrays(columns, fields=list(_error_type()), mask=codes.is_null())


def _profile(part: Part, errors: Errors, views: list[Any]) -> pa.Array:
    """Structs: the ids, the error if there is one, what the document took and how large it is."""
    import pyarrow as pa

    unknown: dict[int, list[Any]] = {row: [None] for row, _, _ in part.undecided}
    columns = [_with_errors(part.matches, unknown), *_accounts(part, errors, views)]
    return pa.StructArray.from_arrays(columns, ["matches", *_ACCOUNTS])


def _payload_profile(part: RenderedPart, errors: Errors, views: list[Any]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    payloads = part.deliveries.values.field("payload")
    sizes = pc.fill_null(pc.binary_length(payloads.dictionary).take(payloads.indices), 0)
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes.cast(pa.int64()))])
    upto = sums.take(part.deliveries.offsets)
    given = _payloads(part, {}, reports=True)
    columns = [*given.flatten(), *_accounts(part, errors, views), pc.subtract(upto[1:], upto[:-1])]
    return pa.StructArray.from_arrays(columns, ["deliveries", "payloads", *_ACCOUNTS, "payload_bytes"])


_ACCOUNTS = ("error", "nanoseconds", "bytes")


def _accounts(part: Part | RenderedPart, errors: Errors, views: list[Any]) -> list[pa.Array]:
    import pyarrow as pa

    first: list[Any] = [None] * len(views)
    for row, several in errors.items():
        first[row] = _error_row(several[0])
    sizes = pa.array([len(view) for view in views], pa.int64())
    return [pa.array(first, _error_type()), part.nanoseconds, sizes]
