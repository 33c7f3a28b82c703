"""What a run has measured so far, on disk: a run that was cut off goes on where it stopped.

A line for each point, written as soon as the point is measured. The first line says which run it is; another
run, of other sizes or another seed, starts over. What a crash has left half-written at the end is left out.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dht-load.partial"
    >>> journal = Journal(path, {"seed": 1})
    >>> journal.add(0, {"queries": 10}, [{"queries": 10, "us": 0.5}], ["a note"])
    >>> again = Journal(path, {"seed": 1})
    >>> again.rows(0, {"queries": 10}), again.notes
    ([{'queries': 10, 'us': 0.5}], ['a note'])
    >>> print(Journal(path, {"seed": 2}).rows(0, {"queries": 10}))
    None
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treecast.experiments.experiment import Point, Row


class Journal:
    """The points of one run. If an experiment measures everything several times, these are counted from 0 up."""

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, list[Row]] = {}
        self.notes: list[str] = []
        """Of the points that are there already, for the reader."""
        self.problems: list[str] = []
        # As it is read again: JSON has no tuples.
        head = json.loads(json.dumps(run))
        lines = self._read()
        if lines and lines[0] == head:
            for line in lines[1:]:
                self._take(line)
        self._write([head, *lines[1:]] if self._rows else [head])

    def _read(self) -> list[Any]:
        try:
            texts = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        lines = []
        for text in texts:
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
        return lines

    def _take(self, line: dict[str, Any]) -> None:
        self._rows[_name_of(line["run"], line["point"])] = line["rows"]
        self.notes += [note for note in line["notes"] if note not in self.notes]
        self.problems += line["problems"]

    def _write(self, lines: Sequence[Any]) -> None:
        """Anew, without what is broken or of another run."""
        self._path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, run: int, point: Point) -> list[Row] | None:
        """The rows of a point that was measured, or None."""
        return self._rows.get(_name_of(run, point))

    def add(
        self, run: int, point: Point, rows: list[Row], notes: Sequence[str] = (), problems: Sequence[str] = ()
    ) -> None:
        self._rows[_name_of(run, point)] = rows
        line = {"run": run, "point": dict(point), "rows": rows, "notes": list(notes), "problems": list(problems)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _name_of(run: int, point: Point) -> str:
    """Points are known by what they are, not by their order."""
    return json.dumps([run, dict(point)], sort_keys=True)
