"""All cells of a workload: every engine and peer at every number of queries, its answers compared with those of `auto`.

`auto` always runs, as the reference for the answers; its row is shown if it was requested. Each cell runs in a process
of its own, so a failure in it becomes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from treecast.measure.answers import Answers, differences
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.peers import PEERS
from treecast.measure.process import inputs_directory, run

REFERENCE = "auto"
EXAMPLES_MAX = 3

Watch = Callable[[int, int, str], None]
"""(cells done, cells in all, what comes next)"""


@dataclass(frozen=True)
class Plan:
    """What to measure. `sizes` are numbers of queries: each uses that many from the beginning of the inputs."""

    workload: str
    inputs: Inputs
    sizes: Sequence[int]
    engines: Sequence[str]
    peers: Sequence[str]
    effort: Effort

    @property
    def names(self) -> list[str]:
        """Engines and peers, each once, the reference first if it is among them."""
        names = list(dict.fromkeys([*self.engines, *self.peers]))
        if any(PEERS[name].on_spark for name in self.peers) and "spark-treecast" not in names:
            names.append("spark-treecast")
        return sorted(names, key=lambda name: name != REFERENCE)


@dataclass(frozen=True)
class Row:
    """A cell, and where its answers differ from those of the reference."""

    workload: str
    cell: Cell
    peer: bool
    wrong: int = 0
    """How many pairs of document and query."""
    examples: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Something that must not happen: a wrong answer or a crash."""
        return self.wrong > 0 or self.cell.broken


def measure_all(plan: Plan, watch: Watch = lambda cells_done, total, name: None) -> Iterator[Row]:
    """The rows, size by size, as they come."""
    names = plan.names
    total, cells_done = len(names) * len(plan.sizes), 0
    with inputs_directory(plan.inputs) as directory:
        for size in plan.sizes:
            expected: Answers | None = None
            if REFERENCE not in names:
                watch(cells_done, total, f"{REFERENCE}, {size:,} queries, for its answers")
                reference, expected = run(REFERENCE, directory, plan.effort, queries=size)
                if expected is None:
                    yield _row(plan, reference, None, None)
            for name in names:
                watch(cells_done, total, f"{name}, {size:,} queries")
                cell, answers = run(name, directory, plan.effort, queries=size)
                expected = answers if name == REFERENCE else expected
                cells_done += 1
                yield _row(plan, cell, expected, answers)
    watch(cells_done, total, "")


def _row(plan: Plan, cell: Cell, expected: Answers | None, answers: Answers | None) -> Row:
    wrong = differences(expected, answers) if expected is not None and answers is not None else []
    examples = [f"document {document}, {plan.inputs.queries[query]}" for document, query in wrong[:EXAMPLES_MAX]]
    return Row(plan.workload, cell, cell.engine in PEERS, len(wrong), tuple(examples))


def cell_of(rows: Sequence[Row], name: str, queries: int) -> Cell | None:
    """The cell of that name at this number of queries, if it has figures."""
    cells = [row.cell for row in rows if (row.cell.engine, row.cell.queries) == (name, queries)]
    return cells[0] if cells and not cells[0].failure else None
