"""How the results of a verb are kept and ended: lines of text at once, Parquet in row groups.

A writer is closed when all went well, and abandoned when not:

    with closing(LineFile(file)) as lines:
        ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol, TypeVar

import pyarrow as pa


class Endable(Protocol):
    def close(self) -> None: ...
    def abandon(self) -> None: ...


Writer = TypeVar("Writer", bound=Endable)


@contextlib.contextmanager
def closing(writer: Writer) -> Iterator[Writer]:
    """The writer, closed at the end; abandoned if something goes wrong."""
    try:
        yield writer
        writer.close()
    except BaseException:
        writer.abandon()
        raise


class LineFile:
    """A file of lines. They are written at once, so there is nothing to abandon."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def close(self) -> None:
        self._file.flush()

    def abandon(self) -> None:
        """Nothing is kept back."""


class ParquetFile:
    """A file of row groups. Tables wait until there are enough of them: a row group of a few rows hardly compresses."""

    def __init__(self, file: BinaryIO, schema: Any, rows_max: int) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._rows_max = rows_max
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        self._waiting: list[Any] = []

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        """What is written goes nowhere: the file is gone. pyarrow would try to end it, and say that it cannot."""
        self._writer.is_open = False

    def _keep(self, columns: list[Any]) -> int:
        """Let rows wait; the answer is how many bytes they take."""
        table = pa.Table.from_arrays(columns, schema=self._schema)
        if table.num_rows:
            self._waiting.append(table)
        return int(table.nbytes)

    def _flush(self) -> None:
        """Write what waits as one row group."""
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=self._rows_max)
        self._waiting = []
