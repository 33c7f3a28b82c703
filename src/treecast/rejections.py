"""What a match could not answer: rejected documents and undecided subscriptions.

matches, errors = index.match_many(documents, on_error="report")     # `errors` is made here
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from treecast.errors import DocumentError, DocumentLimitError, UndecidedWarning

if TYPE_CHECKING:
    import pyarrow as pa

UndecidedSubscription: TypeAlias = tuple[int, str, DocumentLimitError]
"""A subscription that needed too much work: the number of the document, the id, and the error that says so."""
Undecided: TypeAlias = list[UndecidedSubscription]


def warn_of(undecided: Undecided, *, stacklevel: int = 3) -> None:
    """Tell the caller of `match` and its like, who is `stacklevel` frames up, what is missing from the answer."""
    if not undecided:
        return
    ids = tuple(dict.fromkeys(id for _, id, _ in undecided))
    documents = len({number for number, _, _ in undecided})
    message = str(undecided[0][2])
    if len(undecided) > 1:
        message += f"\n  so are {len(undecided) - 1} more: {len(ids)} subscriptions, {documents} documents in all"
    warnings.warn(UndecidedWarning(message, ids), stacklevel=stacklevel)


def error_table(
    rejected: Sequence[tuple[int, DocumentError]], undecided: Sequence[UndecidedSubscription] = (), first: int = 0
) -> pa.Table:
    """Bad documents, and subscriptions that are undecided, by document; `first` is added to the document numbers."""
    import pyarrow as pa

    kinds = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string()]
    names = ["document", "code", "message", "offset", "subscription"]
    errors: list[tuple[int, DocumentError, str | None]] = [(number, error, None) for number, error in rejected]
    errors += [(number, error, id) for number, id, error in undecided]
    errors.sort(key=lambda one: one[0])
    rows = [(first + number, error.code, str(error), None if id else error.offset, id) for number, error, id in errors]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
