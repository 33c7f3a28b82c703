"""One run of one experiment: its settings, its messages, and how a cell is timed and checked.

A cell is one engine with one set of queries on one set of documents. All engines of a point get the same queries and
documents, in the same process, one after the other. `auto` is always among them, as the reference for the answers and
to show where treecast itself stands. Times are CPU seconds of the fastest pass: a disturbance can only make a pass
slower.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from treecast.experiments.experiment import Row, Sizes
from treecast.index import Index
from treecast.measure import Answers, clock, differences

if TYPE_CHECKING:
    import pyarrow as pa

REFERENCE = "auto"
Value = TypeVar("Value")


@dataclass
class Session:
    """`notes` are for the reader (which inputs were used); `problems` are answers that differ, and fail the run."""

    sizes: Sizes
    data: Path | None = None
    seed: int = 1
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    say: Callable[[str], None] = lambda text: None
    _values: dict[str, Any] = field(default_factory=dict)
    _values_of_run: dict[str, Any] = field(default_factory=dict)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def once(self, key: str, make: Callable[[], Value], *, measured: bool = False) -> Value:
        """Make what several points share, once; what is `measured` is made once in each run."""
        values = self._values_of_run if measured else self._values
        if key not in values:
            values[key] = make()
            gc.freeze()  # it stays: the collector, which runs before every timed call, need not scan it again
        value: Value = values[key]
        return value

    def last(self, kind: str, key: Hashable, make: Callable[[], Value]) -> Value:
        """What was made for this key. Only the value of the last key is kept: it may be large, and points come in
        their order."""
        values = self.once(kind, dict[Hashable, Value])
        if key not in values:
            values.clear()
            values[key] = make()
        return values[key]

    def begin_run(self) -> None:
        """Forget the measurements and keep the inputs."""
        self._values_of_run.clear()

    def rows(
        self,
        engines: Sequence[str],
        queries: Sequence[str],
        documents: Sequence[bytes],
        *,
        ordered: bool = False,
        namespaces: Mapping[str, str] | None = None,
        **labels: Any,
    ) -> list[Row]:
        """A row for each engine, with `labels` in it. An engine that differs from the reference is a problem."""
        table = as_table(queries, ordered)
        rows: list[Row] = []
        expected: Answers | None = None
        for engine in dict.fromkeys([REFERENCE, *engines]):
            self.say(f"{engine}, {len(queries):,} queries")
            index = Index(engine=engine, namespaces=namespaces)
            build = clock(lambda index=index: index.add_many(table))  # type: ignore[misc]
            seconds, matches = self.fastest(index, documents)
            answers = Answers.of_table(matches, len(documents), range(len(queries)))
            if expected is None:
                expected = answers
            else:
                self.compare(engine, queries, expected, answers)
            stats = index.stats()
            rows.append(
                {
                    **labels,
                    "engine": engine,
                    "queries": len(queries),
                    "us": seconds / len(documents) * 1e6,
                    "matches": matches.num_rows / len(documents),
                    "build_s": build.cpu,
                    "states": stats.states,
                    "bytes": stats.bytes,
                    "documents": len(documents),
                }
            )
        return rows

    def fastest_pass(self, action: Callable[[], object]) -> float:
        """CPU seconds of the fastest pass of an action; never 0, so that it can divide."""
        best, seconds_spent = float("inf"), 0.0
        for _ in range(self.sizes.passes):
            seconds = clock(action).cpu
            best, seconds_spent = min(best, seconds), seconds_spent + seconds
            if seconds_spent >= self.sizes.cell_seconds:
                break
        return max(best, 1e-9)

    def fastest(self, index: Index, documents: Sequence[bytes]) -> tuple[float, pa.Table]:
        """CPU seconds of the fastest pass over all documents, and what it found. `auto` has seen the documents before:
        the other engines learn nothing from documents, and learning is not what is measured here."""
        index.match_many(documents if index.engine == REFERENCE else documents[:1], threads=1)
        best, seconds_spent, matches = float("inf"), 0.0, None
        for _ in range(self.sizes.passes):
            answer: list[Any] = []
            seconds = clock(lambda answer=answer: answer.append(index.match_many(documents, threads=1)))  # type: ignore[misc]
            best, seconds_spent, matches = min(best, seconds.cpu), seconds_spent + seconds.cpu, answer[0]
            if seconds_spent >= self.sizes.cell_seconds:
                break
        return best, matches

    def compare(self, engine: str, queries: Sequence[str], expected: Answers, answers: Answers) -> None:
        """Compare every match, not only their number."""
        wrong = differences(expected, answers)
        if wrong:
            document, query = wrong[0]
            self.problems.append(
                f"{engine} and {REFERENCE} disagree on {len(wrong):,} of the matches with {len(queries):,} queries, "
                f"first on document {document} and {queries[query]}"
            )


def as_table(queries: Sequence[str], ordered: bool = False) -> pa.Table:
    """A table for Index.add_many; the id of a query is its number."""
    import pyarrow as pa

    ids = pa.array(range(len(queries)), pa.int64()).cast(pa.string())
    columns = {"id": ids, "query": pa.array(queries, pa.string())}
    if ordered:
        columns["ordered"] = pa.array([True] * len(queries))
    return pa.table(columns)
