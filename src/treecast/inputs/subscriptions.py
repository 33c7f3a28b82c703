"""Subscriptions from files and objects: one function for the command line, for jobs, for Spark and for programs.

    table = read_subscriptions("subscriptions.csv")  # or .json, .jsonl, .parquet, .txt, .tcx, .sch, a directory
    table = read_subscriptions(frame)                # Arrow, pandas, polars, Spark; pairs, dicts, Subscriptions
    index = index_of(["a.csv", "b.parquet"])         # several, as one index

The answer is an Arrow table, which `Index.add_many` takes. The format of a file is inferred from its suffix; where that
says nothing, a saved index and a Parquet file are known by their first bytes, and a directory is one of Parquet.

Use `Index.add_many` alone for what is in memory already.

Codes: TC190 a file that cannot be read, TC191 one that is not what its format says, TC194 a format that cannot be
inferred; those of `treecast.index.subscription_forms` for objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from treecast.errors import QueryError
from treecast.index import Index
from treecast.index.subscription_forms import FIELDS, from_items, items_table, table_of
from treecast.inputs import subscription_files
from treecast.inputs.subscription_files import FORMAT_OF_SUFFIX, STDIN
from treecast.model import Deliver, Subscription

if TYPE_CHECKING:
    import pyarrow as pa

SAVED = "tcx"
"""The format of a saved index."""
SCHEMATRON = "schematron"
"""Rules, each of them a subscription to what breaks it."""
FORMATS = (*subscription_files.FORMATS, SAVED, SCHEMATRON)
_SIGNATURES = {b"TREECAST": SAVED, b"PAR1": "parquet"}

Note = Callable[[str], None]


def _ignore(message: str) -> None:
    """Drop the message."""


def read_subscriptions(source: Any, *, format: str | None = None, note: Note = _ignore) -> pa.Table:
    """The subscriptions of a file or an object, as a table with the columns that `Index.add_many` takes.

    `format` is one of FORMATS, for a file whose name does not say it; `note` gets a message about ignored columns.
    Raises QueryError, which names the file and the place in it.
    """
    if is_path(source):
        path = os.fspath(source)
        format = format or infer_format(path)
        if format == SCHEMATRON:
            from treecast.inputs.schematron import read_rules

            return read_rules(path).table()
        if format != SAVED:
            return subscription_files.read(path, format, note)
        return load_saved(path).subscriptions()
    if isinstance(source, Index):
        return source.subscriptions()
    table = table_of(source)
    return items_table(from_items(source)) if table is None else table


def index_of(
    sources: Sequence[Any],
    *,
    format: str | None = None,
    note: Note = _ignore,
    namespaces: Mapping[str, str] | None = None,
    **settings: Any,
) -> Index:
    """An index of all sources; `settings` are those of `Index`.

    A single saved index is loaded, with its own settings unless others are given. If there are other sources, or
    namespaces are given, its subscriptions are added like theirs.
    """
    if len(sources) == 1 and not namespaces and is_saved(sources[0], format):
        return load_saved(sources[0], **settings)
    index = Index(namespaces=namespaces, **settings)
    index.add_many(join([read_subscriptions(source, format=format, note=note) for source in sources]))
    return index


def join(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of several, so that all refusals are found, and clashes between sources too."""
    import pyarrow as pa

    if not tables:
        return pa.table({name: pa.array([], pa.string()) for name in FIELDS[:2]})
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def from_queries(queries: Iterable[str], *, deliver: Deliver = "document") -> pa.Table:
    """Queries without ids: each is its own id, and one given twice counts once."""
    return items_table([Subscription(query, query, deliver=deliver) for query in dict.fromkeys(queries)])


def is_path(source: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Whether the source is the name of a file, not what a file holds."""
    return isinstance(source, (str, os.PathLike))


def is_saved(source: Any, format: str | None = None) -> TypeGuard[str | Path]:
    """Whether the source is the path of a saved index."""
    return is_path(source) and (format or infer_format(os.fspath(source))) == SAVED


def infer_format(path: str) -> str:
    """The format of a file, by its suffix or by what it is. Raises QueryError (TC194)."""
    suffix = Path(path).suffix.lower()
    format = {f".{SAVED}": SAVED, ".sch": SCHEMATRON}.get(suffix, FORMAT_OF_SUFFIX.get(suffix))
    if format is None and path != STDIN:
        format = "parquet" if Path(path).is_dir() else _format_by_content(path, suffix)
    if format is None:
        name = "standard input" if path == STDIN else path
        suffixes = ", ".join([*FORMAT_OF_SUFFIX, f".{SAVED}", ".sch"])
        hint = f"call the file {suffixes}, or say which format it has: {', '.join(FORMATS)}"
        raise QueryError(f"cannot infer the format of {name}", code="TC194", hint=hint)
    return format


def load_saved(path: Any, **settings: Any) -> Index:
    """A saved index. Raises QueryError (TC190) where it cannot be read, SnapshotError where it is damaged."""
    try:
        return Index.load(os.fspath(path), **settings)
    except OSError as error:
        raise subscription_files.unreadable(os.fspath(path), error) from None


def _format_by_content(path: str, suffix: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            head = file.read(max(map(len, _SIGNATURES)))
    except (OSError, ValueError) as error:
        if suffix or not isinstance(error, OSError):
            return None
        raise subscription_files.unreadable(path, error) from None  # this was not known before reading it
    return next((format for signature, format in _SIGNATURES.items() if head.startswith(signature)), None)
