"""What `treecast bench` reads from files: a directory of documents, a file of queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from treecast.errors import DocumentError, QueryError, TreecastError
from treecast.inputs.document_files import ReadSettings, documents
from treecast.inputs.subscriptions import read_subscriptions

Note = Callable[[str], None]


def read_documents(directory: Path, count: int, note: Note) -> list[bytes]:
    """The first `count` documents of the directory that treecast accepts; the others are counted in a note."""
    from treecast.document import Limits, read

    accepted: list[bytes] = []
    refused: list[str] = []

    def refuse(name: str, error: TreecastError) -> None:
        refused.append(f"{name}: {str(error).splitlines()[0]}")

    limits = Limits()
    for name, document in documents([str(directory)], ReadSettings(), refuse):
        if len(accepted) == count:
            note(f"only the first {count:,} documents are taken (--documents)")
            break
        try:
            read(document, limits=limits)
            accepted.append(document)
        except DocumentError as error:
            refuse(name, error)
    if not accepted:
        why = refused[0] if refused else "it is empty"
        raise DocumentError(
            f"{directory}: no document to measure with: {why}", code="TC292", hint="name another directory"
        )
    if refused:
        note(f"{len(refused):,} documents are refused and left out, the first: {refused[0]}")
    return accepted


def queries_of_file(path: str, note: Note) -> tuple[list[str], dict[str, str]]:
    """Distinct queries in their order, and the prefixes that they use. Ordered patterns, which no peer knows, are left
    out, with a note."""
    queries: dict[str, None] = {}
    namespaces: dict[str, str] = {}
    ordered = 0
    for row in read_subscriptions(path, note=note).to_pylist():
        if row.get("ordered"):
            ordered += 1
            continue
        queries[row["query"]] = None
        for prefix, uri in dict(row.get("namespaces") or {}).items():
            if namespaces.setdefault(prefix, uri) != uri:
                message = f"{path}: the prefix {prefix!r} is bound to different namespaces"
                raise QueryError(
                    message, code="TC193", hint="measure them separately: all queries of a run share their prefixes"
                )
    if ordered:
        note(f"{ordered:,} ordered patterns are left out")
    if not queries:
        raise QueryError(f"{path}: no query to measure", code="TC192", hint="give a file with queries")
    note(f"queries: {len(queries):,} distinct ones of {Path(path).name}")
    return list(queries), namespaces
