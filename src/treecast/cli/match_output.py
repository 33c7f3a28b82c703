"""Matches as lines of TSV or JSON, or as Parquet.

Results can be a hundred thousand ids a document, so no Python code runs per match.

    TSV      document<TAB>subscription; tab, newline, carriage return and backslash inside are written \\t \\n \\r \\\\
    JSON     {"document": "…", "subscription": "…"}, one object a line
    Parquet  columns document and subscription, both strings
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from treecast import _native
from treecast.cli.console import results
from treecast.cli.output_file import file_beside
from treecast.cli.result_file import LineFile, ParquetFile, closing
from treecast.names import text_of

TEXT_BYTES_MAX = 1 << 30  # of one column; 32-bit offsets end at twice as much
ROW_GROUP_ROWS = 1 << 19
PIECE_BYTES = 128 << 10  # of text, written at once: so few that the system copies them out of the caches of a core

TSV_SPECIAL = "[\t\n\r\\\\]"
TSV_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
JSON_SPECIAL = '[\\x00-\\x1f"\\\\]'


def _escape_tsv(value: str) -> str:
    return re.sub(TSV_SPECIAL, lambda character: TSV_ESCAPES[character.group()], value)


def escape_json(value: str) -> str:
    """The text between the quotes of a JSON string."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


# characters to escape, how, and the text before the document, between the two, and after the subscription
TEXT_FORMS = {
    "tsv": (TSV_SPECIAL, _escape_tsv, "", "\t", "\n"),
    "json": (JSON_SPECIAL, escape_json, '{"document": "', '", "subscription": "', '"}\n'),
}


class MatchWriter(Protocol):
    """Takes the matches of one batch after the other; `names` are those of the documents that its rows number."""

    def write(self, names: Sequence[str], matches: Any) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


class TextWriter(LineFile):
    """TSV or JSON lines, a line for each match.

    A line is the part that names the document and the part that names the subscription. Both are made once, not once
    per match, and put together natively.
    """

    def __init__(self, file: BinaryIO, form: str) -> None:
        super().__init__(file)
        self._special, self._escape, self._before, self._between, self._after = TEXT_FORMS[form]
        self._dictionary: Any = None
        self._line_ends: Any = None

    def write(self, names: Sequence[str], matches: Any) -> None:
        starts = pa.array(
            [self._before + self._escape(text_of(name)) + self._between for name in names], pa.large_string()
        )
        for dictionary, batches in _by_dictionary(matches):
            line_ends = self._make_line_ends(dictionary)
            pieces = [(_address(b["document"]), _address(b["subscription"].indices), b.num_rows) for b in batches]
            _native.write_lines(pieces, _column(starts), _column(line_ends), PIECE_BYTES, self._file.write)

    def _make_line_ends(self, dictionary: Any) -> Any:
        """The dictionary is all ids of the index and hardly ever changes from batch to batch: this is done once."""
        if self._dictionary is None or _place(self._dictionary) != _place(dictionary):
            ids = dictionary
            if pc.any(pc.match_substring_regex(ids, self._special)).as_py():
                ids = pa.array([self._escape(text) for text in ids.to_pylist()], ids.type)
            self._dictionary, self._line_ends = dictionary, _followed_by(ids, self._after)
        return self._line_ends


class ParquetWriter(ParquetFile):
    """One file of row groups that are large enough to compress well, however small the batches are."""

    def __init__(self, file: BinaryIO) -> None:
        schema = pa.schema([("document", pa.string()), ("subscription", pa.string())])
        super().__init__(file, schema, 2 * ROW_GROUP_ROWS)
        self._rows = self._bytes = 0

    def write(self, names: Sequence[str], matches: Any) -> None:
        documents = _names(names)
        for batch in matches.combine_chunks().to_batches():
            longest = max(_longest(documents), _longest(batch["subscription"].dictionary))
            for piece in _pieces(batch, ROW_GROUP_ROWS, longest):
                self._rows += piece.num_rows
                self._bytes += self._keep([documents.take(piece["document"]), piece["subscription"].cast(pa.string())])
                if self._rows >= ROW_GROUP_ROWS or self._bytes >= TEXT_BYTES_MAX:
                    self._flush()
                    self._rows = self._bytes = 0


@contextlib.contextmanager
def open_writer(form: str, path: str | None) -> Iterator[MatchWriter]:
    """A writer to `path`, or to stdout.

    A file appears under its name only when all went well; a device or pipe is written to directly.
    """
    if path is None:
        with closing(_writer(results(form), form)) as writer:
            yield writer
        return
    with file_beside(path) as file, closing(_writer(file, form)) as writer:
        yield writer


def _writer(file: BinaryIO, form: str) -> MatchWriter:
    return ParquetWriter(file) if form == "parquet" else TextWriter(file, form)


def _by_dictionary(matches: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Record batches that have the same ids, which are mostly all; the matches of a document are in one."""
    batches = [batch for batch in matches.to_batches() if batch.num_rows]
    for _, group in itertools.groupby(batches, lambda batch: _place(batch["subscription"].dictionary)):
        same = list(group)
        yield same[0]["subscription"].dictionary, same


def _pieces(batch: Any, rows_max: int, bytes_a_row: int) -> Iterator[Any]:
    """Slices with so few rows that their text keeps to TEXT_BYTES_MAX, if no row has more than so many bytes."""
    rows = max(1, min(rows_max, TEXT_BYTES_MAX // max(1, bytes_a_row)))
    return (batch.slice(begin, rows) for begin in range(0, batch.num_rows, rows))


def _followed_by(texts: Any, after: str) -> Any:
    """Each of the texts followed by `after`; with 64-bit offsets where all together may need them."""
    wide = (_longest(texts) + len(after)) * len(texts) > TEXT_BYTES_MAX
    kind = pa.large_string() if wide else texts.type
    return pc.binary_join_element_wise(texts.cast(kind), pa.scalar(after, kind), pa.scalar("", kind))


def _longest(texts: Any) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _place(array: Any) -> tuple[int, int, int]:
    """Equal for arrays of the same memory."""
    return len(array), array.offset, array.buffers()[-1].address


def _address(numbers: Any) -> int:
    """Of the first number of a column without nulls."""
    assert numbers.null_count == 0
    return int(numbers.buffers()[1].address + numbers.offset * numbers.type.bit_width // 8)


def _column(texts: Any) -> tuple[int, int, int, bool]:
    """Addresses of offsets and bytes, how many strings there are, and whether the offsets have 64 bits."""
    wide = texts.type == pa.large_string()
    _, offsets, data = texts.buffers()
    return offsets.address + texts.offset * (8 if wide else 4), data.address if data else 0, len(texts), wide


def _names(names: Sequence[str]) -> Any:
    return pa.array([text_of(name) for name in names], pa.string())
