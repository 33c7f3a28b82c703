"""Where generated documents and queries go.

Documents: a directory of files 0001.xml, 0002.xml, …; a zip archive of the same; one XML file whose root has them all
as children, which is written as it comes, so it may be larger than memory; or standard output, for one document.
Queries: CSV with a header `id,query`, JSON lines, or bare lines. Where queries use prefixes, CSV and JSON carry the
namespaces, as `treecast match` reads them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from treecast.cli.console import results
from treecast.cli.output_file import directory_beside, file_beside

NAME_DIGITS_MIN = 4
RECORD_ROOT = b"documents"
LINES_AT_ONCE = 10_000
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # always the same, so that equal documents make equal archives
_PREFIX = re.compile(r"(?<![\w.-])([^\W\d][\w.-]*):(?=[\w*])")


class DocumentSink(Protocol):
    """Takes one document after the other; numbers begin with 1."""

    def write(self, number: int, document: bytes) -> None: ...


class DirectorySink:
    def __init__(self, directory: Path, digits: int) -> None:
        self._directory, self._digits = directory, digits

    def write(self, number: int, document: bytes) -> None:
        (self._directory / f"{number:0{self._digits}}.xml").write_bytes(document)


class ZipSink:
    def __init__(self, archive: zipfile.ZipFile, digits: int) -> None:
        self._archive, self._digits = archive, digits

    def write(self, number: int, document: bytes) -> None:
        entry = zipfile.ZipInfo(f"{number:0{self._digits}}.xml", ZIP_TIME)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        self._archive.writestr(entry, document)


class StreamSink:
    """Documents one after the other; `bare` leaves out their XML declarations."""

    def __init__(self, file: BinaryIO, *, bare: bool) -> None:
        self._file, self._bare = file, bare

    def write(self, number: int, document: bytes) -> None:
        self._file.write(document[document.index(b"?>\n") + 3 :] if self._bare else document)


@contextlib.contextmanager
def open_documents(output: str | None, record_file: str | None, count: int) -> Iterator[DocumentSink]:
    """The place that the options name; it appears under its name when all documents are there."""
    digits = max(NAME_DIGITS_MIN, len(str(count)))
    if record_file is not None:
        with file_beside(record_file) as file:
            file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<' + RECORD_ROOT + b">\n")
            yield StreamSink(file, bare=True)
            file.write(b"</" + RECORD_ROOT + b">\n")
    elif output is None:
        yield StreamSink(results("xml"), bare=False)
    elif output.lower().endswith(".zip"):
        with file_beside(output) as file, zipfile.ZipFile(file, "w") as archive:
            yield ZipSink(archive, digits)
    else:
        with directory_beside(output) as directory:
            yield DirectorySink(directory, digits)


def write_queries(queries: Iterable[str], form: str, output: str | None, namespaces: Mapping[str, str]) -> int:
    """Write them with ids q1, q2, …; how many there were."""
    if output is None:
        return _write(results(form), queries, form, namespaces)
    with file_beside(output) as file:
        return _write(file, queries, form, namespaces)


def _write(file: BinaryIO, queries: Iterable[str], form: str, namespaces: Mapping[str, str]) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        number = 0
        if form == "csv":
            writer = csv.writer(text, lineterminator="\n")
            bound = _in_csv(namespaces)
            writer.writerow(["id", "query", "namespaces"] if namespaces else ["id", "query"])
            for number, query in enumerate(queries, 1):
                if namespaces:
                    writer.writerow((f"q{number}", query, bound if _PREFIX.search(query) else ""))
                else:
                    writer.writerow((f"q{number}", query))
        else:
            for number, query in enumerate(queries, 1):
                text.write(query if form == "lines" else _in_json(number, query, namespaces))
                text.write("\n")
        text.flush()
        return number
    finally:
        # The stream below belongs to the caller; a failed flush is reported by what was being done.
        with contextlib.suppress(OSError, ValueError):
            text.detach()


def _in_csv(namespaces: Mapping[str, str]) -> str:
    return " ".join(f"{prefix}={uri}" for prefix, uri in namespaces.items())


def _in_json(number: int, query: str, namespaces: Mapping[str, str]) -> str:
    row: dict[str, object] = {"id": f"q{number}", "query": query}
    if namespaces and _PREFIX.search(query):
        row["namespaces"] = dict(namespaces)
    return json.dumps(row, ensure_ascii=False)
