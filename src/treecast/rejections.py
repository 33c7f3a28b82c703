"""What a match could not answer: rejected documents and undecided subscriptions.

matches, errors = index.match_many(documents, on_error="report")     # `errors` is made here
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

from treecast.errors import DocumentLimitError, UndecidedWarning

if TYPE_CHECKING:
    import pyarrow as pa

Undecided: TypeAlias = list[tuple[int, str, DocumentLimitError]]
"""Subscriptions that needed too much work: the number of the document, the id, and the error."""


def warn_of(undecided: Undecided) -> None:
    """Warn the caller of `match` and similar calls that the answer is incomplete."""
    if not undecided:
        return
    ids = tuple(dict.fromkeys(id for _, id, _ in undecided))
    documents = len({number for number, _, _ in undecided})
    message = str(undecided[0][2])
    if len(undecided) > 1:
        message += f"\n  so are {len(undecided) - 1} more: {len(ids)} subscriptions, {documents} documents in all"
    warnings.warn(UndecidedWarning(message, ids), stacklevel=3)


def error_table(matches: Any, first: int) -> pa.Table:
    """A table of rejected documents and undecided subscriptions, in the order of the documents."""
    import pyarrow as pa

    kinds = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string()]
    names = ["document", "code", "message", "offset", "subscription"]
    errors = [(number, error, None) for number, error in matches.rejected]
    errors += [(number, error, id) for number, id, error in matches.undecided]
    errors.sort(key=lambda one: one[0])
    rows = [(first + number, error.code, str(error), None if id else error.offset, id) for number, error, id in errors]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
