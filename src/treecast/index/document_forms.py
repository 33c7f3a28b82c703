"""Documents in the forms they come in as Python objects: sequences, columns, tables, DataFrames.

    as_sequence(frame, "match_many", "match")       # Arrow, pandas, polars, DuckDB: its column `document`
    as_iterable(reader, "match_batches", "match")   # the same, or anything that gives one document after the other

Binary columns hold the bytes of documents. Columns of strings are taken as well: a string is UTF-8, whatever encoding
a document declares. A null is an empty document, which is refused like any other bad one. pandas, polars and DuckDB are
recognised without being imported. Subscriptions have a module of their own, `subscription_forms`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from treecast import _native
from treecast.arguments import kind_of
from treecast.document import FILE_BYTES_MAX, AnyDocument, Bytes, Document, arrow_views, is_lxml, native_document

FORMS = "a list of documents, an Arrow array or table, or a Series or DataFrame of pandas or polars"

NativeDocument = Bytes | _native.Document


def natives(documents: Iterable[AnyDocument], bytes_max: int = FILE_BYTES_MAX) -> list[NativeDocument]:
    """The documents in the form that native code takes; files longer than `bytes_max` are not read to their end."""
    return [native_document(document, bytes_max) for document in documents]


def as_sequence(documents: Any, caller: str, single: str, bytes_max: int) -> Sequence[NativeDocument]:
    """The documents of a call of `caller`, whose twin for one document is `single`."""
    if type(documents) is list:
        return natives(documents, bytes_max)
    _refuse_single(documents, caller, single)
    column = column_of(documents, caller)
    if column is not None:
        return arrow_views(column)
    return natives(_items(documents, caller, single), bytes_max)


def as_iterable(documents: Any, caller: str, single: str) -> Iterator[AnyDocument]:
    """As `as_sequence`, read only as far as needed: what gives batches of Arrow gives them one by one."""
    _refuse_single(documents, caller, single)
    if hasattr(documents, "read_next_batch"):  # Arrow's stream of batches
        return (view for batch in documents for view in arrow_views(column_of(batch, caller)))
    column = column_of(documents, caller)
    return iter(_items(documents, caller, single) if column is None else arrow_views(column))


def column_of(documents: Any, caller: str) -> Any:
    """The documents as an Arrow array or chunked array; None where they are neither a table nor a column."""
    import pyarrow as pa

    if isinstance(documents, (pa.Array, pa.ChunkedArray)):
        return documents
    library = type(documents).__module__.partition(".")[0]
    if library == "polars" and hasattr(documents, "collect"):
        raise TypeError(f"{caller} takes rows, and a LazyFrame has none yet: call its collect() first")
    if library == "pyspark":
        raise TypeError(
            f"{caller} takes documents that are here; for a DataFrame of Spark there is treecast.spark.match"
        )
    try:
        if library == "pandas":
            return pa.array(_pandas_column(documents, caller), from_pandas=True)
        if isinstance(documents, (pa.Table, pa.RecordBatch)):
            return documents.column(_name_of(documents.schema.names, caller))
        if hasattr(documents, "__arrow_c_stream__"):
            return _stream_column(documents, caller)
        if hasattr(documents, "to_table"):  # a dataset of Arrow
            return column_of(documents.to_table(), caller)
    except pa.ArrowException as error:
        raise TypeError(f"{caller} cannot read documents in this {kind_of(documents)}: {error}") from None
    return None


def _stream_column(documents: Any, caller: str) -> Any:
    """What any other library exports: a table (polars, DuckDB), or a single column (a Series of polars)."""
    import pyarrow as pa

    if hasattr(documents, "columns") or hasattr(documents, "schema"):
        return column_of(pa.table(documents), caller)
    return pa.chunked_array(documents)


def _pandas_column(documents: Any, caller: str) -> Any:
    """A Series as it is; of a DataFrame its column of documents."""
    return documents[_name_of(list(documents.columns), caller)] if hasattr(documents, "columns") else documents


def _name_of(names: Sequence[Any], caller: str) -> Any:
    """The column `document`; the only column, if it has another name."""
    if "document" not in names and len(names) != 1:
        raise TypeError(
            f"{caller} takes a table with a column named document; this one has {', '.join(map(str, names)) or 'none'}"
        )
    return "document" if "document" in names else names[0]


def _refuse_single(documents: Any, caller: str, single: str) -> None:
    if isinstance(documents, (bytes, bytearray, memoryview, str, Document)):
        raise _single(caller, single)


def _single(caller: str, single: str) -> TypeError:
    return TypeError(f"{caller} takes a sequence of documents; for a single one use {single}()")


def _items(documents: Any, caller: str, single: str) -> Iterable[AnyDocument]:
    if hasattr(documents, "read") or isinstance(documents, os.PathLike) or is_lxml(documents):
        raise _single(caller, single)  # lines of a file and children of an element are no documents
    if not isinstance(documents, Iterable):
        raise TypeError(f"{caller} takes {FORMS}, not {kind_of(documents)}")
    return documents
